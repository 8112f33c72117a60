//! Replays that have been submitted.

use std::sync::Arc;
use std::time::Duration;

use super::instance::Instance;
use crate::error::WaitError;
use crate::runtime::Runtime;
use crate::task::REQUEST;
use crate::wait::deadline;

/// A replay that has been submitted: to wait for it, or to cancel it.
#[derive(Clone)]
pub struct Replay {
    pub(super) runtime: Runtime,
    pub(super) name: ReplayName,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("ended", &self.has_ended()).finish_non_exhaustive()
    }
}

impl Replay {
    /// Whether all its tasks have ended: well, badly, or cancelled. What they did is then visible
    /// to the caller.
    pub fn has_ended(&self) -> bool {
        self.name.has_ended()
    }

    /// Waits until all its tasks have ended, and for nothing else.
    ///
    /// # Errors
    /// When one of them failed or was cancelled (which the next [`Runtime::wait`] reports all the
    /// same; here it is known until the graph is replayed again); when waiting could never end, as
    /// for [`Runtime::wait`].
    #[track_caller]
    pub fn wait(&self) -> Result<(), WaitError> {
        self.runtime.inner().wait_for_replay(&self.name, "Replay::wait", None)
    }

    /// [`wait`](Self::wait), but not longer than `timeout`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let deadline = deadline(timeout);
        self.runtime.inner().wait_for_replay(&self.name, "Replay::wait_timeout", deadline)
    }

    /// Cancels those of its tasks that have not started; see [`Runtime::cancel`].
    pub fn cancel(&self) {
        // Under the lock no instance gets a new replay.
        let _submitter = self.runtime.inner().submitter();
        if !self.has_ended() {
            self.name.instance.request_cancel(REQUEST);
        }
    }
}

/// One replay, within its runtime.
#[derive(Clone)]
pub(crate) struct ReplayName {
    pub(super) instance: Arc<Instance>,
    pub(super) round: u64,
}

impl ReplayName {
    /// Whether all its tasks have ended. If so, their effects are visible.
    pub(crate) fn has_ended(&self) -> bool {
        self.instance.has_ended(self.round)
    }

    /// The first failure in it, as far as it is still known.
    pub(crate) fn blame(&self) -> Option<u32> {
        self.instance.blame(self.round)
    }
}
