//! Cancelling tasks that have not started.

use crate::runtime::Runtime;
use crate::task::{REQUEST, TaskId};

impl Runtime {
    /// Cancels a task that has not started: its body is dropped without being run, and so are
    /// those of the tasks that depend on it. A task that has started, or ended, is left alone.
    ///
    /// Does not wait. The waits that follow return [`WaitError::Cancelled`] if a task was
    /// dropped.
    ///
    /// ```
    /// # use millrace_runtime::{Runtime, WaitError};
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let (let_go, gate) = std::sync::mpsc::channel();
    /// let first = rt.spawn("first", (), move |()| gate.recv().unwrap())?;
    /// let second = rt.task("second").after(first).spawn((), |()| println!("never printed"))?;
    /// rt.cancel(second);
    /// let_go.send(())?;
    /// assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`WaitError::Cancelled`]: crate::WaitError::Cancelled
    pub fn cancel(&self, task: TaskId) {
        let inner = self.inner();
        // Under the lock no slot gets a new task.
        let _submitter = inner.submitter();
        if task.runtime == inner.id && !inner.table.has_ended(task.task) {
            inner.table.slot(task.task.slot()).request_cancel(REQUEST);
        }
    }

    /// Cancels every task that was submitted before and has not started; see
    /// [`cancel`](Self::cancel). Takes time in proportion to the tasks that were ever
    /// unfinished at once.
    pub fn cancel_all(&self) {
        let inner = self.inner();
        let submitter = inner.submitter();
        submitter.unfinished(inner, |slot| slot.request_cancel(REQUEST));
        submitter.instances.iter().for_each(|replay| replay.request_cancel(REQUEST));
    }
}
