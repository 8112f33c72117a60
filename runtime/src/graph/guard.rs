//! What a guard's slot says about the thread that waits for it.

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
