//! What a guard's slot says about who waits for it: a thread, or the end of a task.

use super::slot::{GUARD, JOIN, Slot};
use crate::sync::Ordering;

/// What happens to a guard that had to wait. One thread makes it ready, one gives up or not;
/// the second to mark it owns it.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum GuardMark {
    /// Its last predecessor has ended.
    Granted = 2,
    /// Whoever waited for it has gone.
    Abandoned = 4,
}

/// The marks that a guard had at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardMarks(pub(super) u32);

impl GuardMarks {
    pub(crate) fn has(self, mark: GuardMark) -> bool {
        self.0 & mark as u32 != 0
    }
}

/// Whom a join stands for: the task whose end waits for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Its slot.
    pub(crate) parent: u32,
    /// The failure of its own body, as an index.
    pub(crate) failure: Option<u32>,
}

impl Slot {
    /// Says that the slot stands for the end of a task with children; only while it is being
    /// submitted.
    pub(crate) fn set_join(&self, join: Join) {
        let failure = join.failure.map_or(0, |failure| u64::from(failure) + 1);
        self.ready.store(u64::from(join.parent) | failure << 32, Ordering::Relaxed);
        self.facts.store(GUARD | JOIN, Ordering::Relaxed);
    }

    /// Whom the slot stands for, if it is a join.
    pub(crate) fn join(&self) -> Option<Join> {
        if self.facts.load(Ordering::Relaxed) & (GUARD | JOIN) != GUARD | JOIN {
            return None;
        }
        let bits = self.ready.load(Ordering::Relaxed);
        let failure = (bits >> 32).checked_sub(1).map(|failure| failure as u32);
        Some(Join { parent: bits as u32, failure })
    }
}
