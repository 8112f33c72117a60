//! Cancelling tasks that have not started.

use crate::runtime::Runtime;
use crate::task::{Label, REQUEST, TaskId};

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
        self.cancel_label(Label::default());
    }

    /// Cancels the tasks with a label that were submitted before and have not started: those
    /// whose labels have every number that `label` has; see [`cancel`](Self::cancel) and
    /// [`cancel_all`](Self::cancel_all).
    ///
    /// ```
    /// # use millrace_runtime::{Label, Runtime, WaitError};
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let (let_go, gate) = std::sync::mpsc::channel();
    /// rt.task("first").batch(0).spawn((), move |()| gate.recv().unwrap())?;
    /// rt.task("second").batch(1).spawn((), |()| println!("never printed"))?;
    /// rt.task("third").batch(2).spawn((), |()| println!("printed"))?;
    /// rt.cancel_label(Label::batch(1));
    /// let_go.send(())?;
    /// rt.wait_for_label(Label::batch(2))?;
    /// assert!(matches!(rt.wait_for_label(Label::batch(1)), Err(WaitError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_label(&self, label: Label) {
        let inner = self.inner();
        let submitter = inner.submitter();
        submitter.unfinished(inner, label, |_, slot| slot.request_cancel(REQUEST));
        let replays = submitter.instances.iter();
        replays.for_each(|replay| replay.request_cancel_of(inner, label, REQUEST));
    }
}
