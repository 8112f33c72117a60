//! Names of tasks. A runtime wants names that live for ever; there is one per kind of layer and
//! direction, made once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What a task of one layer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Forward,
    Backward,
    /// What one shard contributes to a whole batch.
    Part,
    /// What the parts of all shards come to.
    Total,
}

/// The name of a task of one layer, such as `conv2d.forward`.
pub(crate) fn of(kind: &'static str, direction: Direction) -> &'static str {
    static NAMES: Mutex<Option<HashMap<(&str, Direction), &str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    names.entry((kind, direction)).or_insert_with(|| {
        let direction = match direction {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
            Direction::Part => "part",
            Direction::Total => "total",
        };
        format!("{kind}.{direction}").leak()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_once() {
        let name = of("convolution", Direction::Backward);
        assert_eq!(name, "convolution.backward");
        assert!(std::ptr::eq(name, of("convolution", Direction::Backward)));
        assert_eq!(of("convolution", Direction::Forward), "convolution.forward");
    }
}
