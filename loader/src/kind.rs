//! The four batch loaders by name.

use std::fmt;
use std::str::FromStr;

/// When a [`Loader`](crate::Loader) submits the tasks that load a batch, and what it waits for
/// before memory is used again. The stream of batches is the same for each.
///
/// The crate's documentation has a timeline for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoaderKind {
    /// One slot: waits until the last batch is used up, then loads the next.
    Naive,
    /// Two slots: loads one batch ahead, but waits until the last batch is used up before its
    /// memory takes the one after the next.
    Prefetch,
    /// Two slots in turn: loads a batch when it is needed, and waits only while the last but
    /// one is in use.
    Double,
    /// A ring of slots: loads one batch ahead, and memory comes back when its last task ends;
    /// waits only while the whole ring is in use.
    Advanced,
}

impl LoaderKind {
    /// Every kind, from the one with the most waits to the one with the fewest.
    pub const ALL: [LoaderKind; 4] =
        [LoaderKind::Naive, LoaderKind::Prefetch, LoaderKind::Double, LoaderKind::Advanced];

    /// Its name: `naive`, `prefetch`, `double` or `advanced`.
    pub fn name(self) -> &'static str {
        match self {
            LoaderKind::Naive => "naive",
            LoaderKind::Prefetch => "prefetch",
            LoaderKind::Double => "double",
            LoaderKind::Advanced => "advanced",
        }
    }
}

impl fmt::Display for LoaderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LoaderKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        LoaderKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind { name: name.to_owned() })
    }
}

/// A name that is no loader's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown loader {name:?}: it is one of naive, prefetch, double, advanced")]
pub struct UnknownKind {
    /// The name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for kind in LoaderKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "Naive\n".parse::<LoaderKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"unknown loader "Naive\n": it is one of naive, prefetch, double, advanced"#
        );
        assert_eq!(format!("{:>9}|", LoaderKind::Double), "   double|");
    }
}
