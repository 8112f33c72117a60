//! Tasks whose bodies return a value.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::TaskId;
use crate::error::WaitError;
use crate::runtime::Runtime;
use crate::sync::lock_plain;
use crate::wait::deadline;

/// Where a body leaves its value.
pub(crate) type Value<T> = Arc<Mutex<Option<T>>>;

/// A submitted task that returns a value: [`TaskBuilder::spawn_value`].
///
/// Dropping it does not cancel the task; the value is dropped when it comes.
///
/// [`TaskBuilder::spawn_value`]: crate::TaskBuilder::spawn_value
pub struct TaskHandle<T> {
    runtime: Runtime,
    id: TaskId,
    value: Value<T>,
}

impl<T> std::fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<T> TaskHandle<T> {
    pub(crate) fn new(runtime: Runtime, id: TaskId, value: Value<T>) -> Self {
        TaskHandle { runtime, id, value }
    }

    /// The task, for [`TaskBuilder::after`](crate::TaskBuilder::after) and the like.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Whether the task has ended, well or badly.
    pub fn has_ended(&self) -> bool {
        self.runtime.has_ended(self.id)
    }

    /// Waits for the task, and for nothing else, and takes its value.
    ///
    /// # Errors
    /// When the task failed or was cancelled, and as for [`Runtime::wait_for`].
    #[track_caller]
    pub fn wait(self) -> Result<T, WaitError> {
        let call = "TaskHandle::wait";
        self.runtime.inner().wait_for(call, self.id, None)?;
        self.take()
    }

    /// [`wait`](Self::wait), but not longer than `timeout`. The handle stays, for another try.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`wait`](Self::wait); [`WaitError::Taken`] if the
    /// value was taken before.
    #[track_caller]
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, WaitError> {
        let call = "TaskHandle::wait_timeout";
        self.runtime.inner().wait_for(call, self.id, deadline(timeout))?;
        self.take()
    }

    fn take(&self) -> Result<T, WaitError> {
        lock_plain(&self.value).take().ok_or(WaitError::Taken)
    }
}
