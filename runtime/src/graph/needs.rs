//! What a task that is being submitted has to wait for.

use super::TaskRef;

/// A predecessor that a claim needs to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The task to wait for.
    pub(crate) task: TaskRef,
    /// Whether only the order matters, not what it wrote.
    pub(crate) order_only: bool,
}

/// What a task that is being submitted has to wait for.
#[derive(Debug, Default)]
pub(crate) struct Needs(Vec<Need>);

/// So many needs are compared with a further one; most tasks have fewer.
const COMPARED: usize = 8;

impl Needs {
    /// Adds a need, unless that task is among the last ones already: tasks often read and write
    /// what one task has left.
    #[inline]
    pub(crate) fn add(&mut self, need: Need) {
        let last = self.0.len().saturating_sub(COMPARED);
        for known in &mut self.0[last..] {
            if known.task == need.task {
                known.order_only &= need.order_only;
                return;
            }
        }
        self.0.push(need);
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Takes all of them out.
    #[inline]
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Need> + '_ {
        self.0.drain(..)
    }
}
