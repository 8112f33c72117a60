//! Waiting: for everything, for one task, for those of a label, for what owners of handles do;
//! with and without a limit in time.

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use crate::error::WaitError;
use crate::graph::TaskRef;
use crate::pool::{Patience, Reason, holds, in_task_body};
use crate::replay::ReplayName;
use crate::runtime::{Inner, Runtime};
use crate::sync::{Deadline, Ordering};
use crate::task::{Failures, Label, TaskId};
use crate::trace::Cause;
use crate::watchdog::Call;

/// When a wait of that length ends; a time beyond the clock's range is no limit.
pub(crate) fn deadline(timeout: Duration) -> Deadline {
    Instant::now().checked_add(timeout)
}

impl Inner {
    /// Refuses to wait where waiting could never end.
    fn may_wait(&self, call: &'static str) -> Result<(), WaitError> {
        if in_task_body() {
            return Err(WaitError::InsideTask { call });
        }
        // Under the lock: a guard without successors is not in the way of any task submitted
        // before, and what is submitted later is not waited for.
        let _submitter = self.submitter();
        if holds(self.id, |slot| self.table.slot(slot).has_successors()) {
            return Err(WaitError::HoldsGuard { call });
        }
        Ok(())
    }

    fn report(&self) -> Result<(), WaitError> {
        self.submitter().change_failures(self, Failures::report)
    }

    #[track_caller]
    fn wait(&self, call: &'static str, deadline: Deadline) -> Result<(), WaitError> {
        // Nothing to wait for: neither a body nor a held guard can be in the way.
        if !self.is_drained() {
            self.may_wait(call)?;
            let reason = Reason::from(Cause::Drain).calling(Call::here(call));
            let drained = self.record_wait(reason, || {
                let patience =
                    if deadline.is_some() { Patience::Eager } else { Patience::Throughput };
                self.wait_at(&self.drained, patience, deadline, || self.is_drained())
            });
            if !drained {
                return Err(WaitError::TimedOut { call });
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), WaitError> {
        // Relaxed: who ended the tasks that were waited for wrote it before.
        if self.unreported.load(Ordering::Relaxed) { self.report() } else { Ok(()) }
    }

    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        call: &'static str,
        task: TaskId,
        deadline: Deadline,
    ) -> Result<(), WaitError> {
        if task.runtime != self.id {
            return Err(WaitError::WrongRuntime { call });
        }
        if !self.table.has_ended(task.task) {
            self.may_wait(call)?;
            let guard = self.submitter().guard(self, call, &[], [task.task])?;
            let reason = Reason::from(Cause::Acquire).calling(Call::here(call));
            if !self.pass_guard(&guard, reason, deadline) {
                return Err(WaitError::TimedOut { call });
            }
        }
        self.blame([task.task], None)
    }

    #[track_caller]
    pub(crate) fn wait_for_replay(
        &self,
        replay: &ReplayName,
        call: &'static str,
        deadline: Deadline,
    ) -> Result<(), WaitError> {
        if !replay.has_ended() {
            self.may_wait(call)?;
            let reason = Reason::from(Cause::Drain).calling(Call::here(call));
            if !self.pass_replays(&[replay], reason, deadline) {
                return Err(WaitError::TimedOut { call });
            }
        }
        self.blame([], replay.blame())
    }

    /// Waits until replays have ended; false if not all had at the deadline.
    fn pass_replays(
        &self,
        replays: &[impl Borrow<ReplayName>],
        reason: Reason<'_>,
        deadline: Deadline,
    ) -> bool {
        let ended = || replays.iter().all(|replay| replay.borrow().has_ended());
        self.record_wait(reason, || self.wait_at(&self.external, Patience::Eager, deadline, ended))
    }

    #[track_caller]
    fn wait_for_label(
        &self,
        call: &'static str,
        label: Label,
        deadline: Deadline,
    ) -> Result<(), WaitError> {
        let mut tasks = Vec::new();
        let submitter = self.submitter();
        submitter.unfinished(self, label, |task, _| tasks.push(task));
        let replays: Vec<_> = submitter.replays(label).collect();
        let earlier = submitter.failures().unreported_of(label);
        drop(submitter);
        let call_here = Some(Call::here(call));
        let reason =
            Reason { cause: Cause::Drain, name: "tasks of a label", label, call: call_here };
        if !replays.is_empty() {
            self.may_wait(call)?;
            if !self.pass_replays(&replays, reason, deadline) {
                return Err(WaitError::TimedOut { call });
            }
        }
        if !tasks.is_empty() {
            self.may_wait(call)?;
            // Those that have ended by now need no edge.
            let guard = self.submitter().guard(self, call, &[], tasks.iter().copied())?;
            if !self.pass_guard(&guard, reason, deadline) {
                return Err(WaitError::TimedOut { call });
            }
        }
        let blames = replays.iter().filter_map(ReplayName::blame);
        self.blame(tasks, earlier.into_iter().chain(blames))
    }

    /// Why ended tasks did not do what they should have done; `others` are to blame, too.
    fn blame(
        &self,
        tasks: impl IntoIterator<Item = TaskRef>,
        others: impl IntoIterator<Item = u32>,
    ) -> Result<(), WaitError> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let submitter = self.submitter();
        let failures = submitter.failures();
        let blames = tasks.into_iter().filter_map(|task| failures.spoilt_by(task));
        match failures.foremost(blames.chain(others)) {
            None => Ok(()),
            Some(blame) => Err(failures.spoilt(blame)),
        }
    }
}

impl Runtime {
    /// Waits until no submitted task is unfinished.
    ///
    /// # Errors
    /// When tasks failed or were cancelled since the last report; when waiting could never end
    /// (inside a body, or while this thread holds acquired data that tasks wait for).
    #[track_caller]
    pub fn wait(&self) -> Result<(), WaitError> {
        self.inner().wait("wait", None)
    }

    /// [`wait`](Self::wait), but not longer than `timeout` (unless this thread helps, and a body
    /// that it runs takes longer).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millrace_runtime::{Runtime, WaitError};
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let (let_go, gate) = std::sync::mpsc::channel();
    /// rt.spawn("blocked", (), move |()| gate.recv().unwrap())?;
    /// let result = rt.wait_timeout(Duration::from_millis(1));
    /// assert!(matches!(result, Err(WaitError::TimedOut { .. })));
    /// let_go.send(())?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.inner().wait("wait_timeout", deadline(timeout))
    }

    /// Waits until one task has ended, and for nothing else.
    ///
    /// # Errors
    /// When the task failed or was cancelled (which the next [`wait`](Self::wait) reports all
    /// the same); when waiting could never end, as for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_for(&self, task: TaskId) -> Result<(), WaitError> {
        self.inner().wait_for("wait_for", task, None)
    }

    /// [`wait_for`](Self::wait_for), but not longer than `timeout`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`wait_for`](Self::wait_for).
    #[track_caller]
    pub fn wait_for_timeout(&self, task: TaskId, timeout: Duration) -> Result<(), WaitError> {
        self.inner().wait_for("wait_for_timeout", task, deadline(timeout))
    }

    /// Waits until the tasks with a label that were submitted before have ended, and for nothing
    /// else: those whose labels have every number that `label` has. Takes time in proportion to
    /// the tasks that were ever unfinished at once.
    ///
    /// ```
    /// # use millrace_runtime::{Label, Runtime};
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let (let_go, gate) = std::sync::mpsc::channel();
    /// for batch in 0..2 {
    ///     for shard in 0..4 {
    ///         rt.task("forward").batch(batch).shard(shard).spawn((), |()| ())?;
    ///     }
    /// }
    /// rt.task("blocked").batch(1).spawn((), move |()| gate.recv().unwrap())?;
    /// rt.wait_for_label(Label::batch(0))?;
    /// rt.wait_for_label(Label { shard: Some(3), ..Label::batch(1) })?;
    /// let_go.send(())?;
    /// rt.wait_for_label(Label::batch(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When one of these tasks failed or was cancelled (which the next [`wait`](Self::wait)
    /// reports all the same) since the last [`wait`](Self::wait) that reported; when waiting
    /// could never end, as for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_for_label(&self, label: Label) -> Result<(), WaitError> {
        self.inner().wait_for_label("wait_for_label", label, None)
    }

    /// [`wait_for_label`](Self::wait_for_label), but not longer than `timeout`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`wait_for_label`](Self::wait_for_label).
    #[track_caller]
    pub fn wait_for_label_timeout(&self, label: Label, timeout: Duration) -> Result<(), WaitError> {
        self.inner().wait_for_label("wait_for_label_timeout", label, deadline(timeout))
    }

    /// Whether a task has ended: well, badly, or cancelled. What it did is then visible to the
    /// caller.
    pub fn has_ended(&self, task: TaskId) -> bool {
        task.runtime == self.id() && self.inner().table.has_ended(task.task)
    }

    /// Reports failures and cancellations that no wait has reported yet, without waiting.
    ///
    /// # Errors
    /// When there are such.
    pub fn check(&self) -> Result<(), WaitError> {
        self.inner().check()
    }

    /// Waits until `condition` holds, which tasks of this runtime bring about, and records that
    /// under `cause` and `name`. For the owners of data handles: whoever makes the condition
    /// hold calls [`notify_waiters`](Self::notify_waiters) afterwards.
    ///
    /// `call` is what the user called, for errors.
    ///
    /// # Errors
    /// Without waiting, when waiting could never end (inside a body, or while this thread holds
    /// acquired data that tasks wait for).
    #[track_caller]
    pub fn wait_until(
        &self,
        call: &'static str,
        cause: Cause,
        name: &str,
        condition: impl Fn() -> bool,
    ) -> Result<(), WaitError> {
        let inner = self.inner();
        inner.may_wait(call)?;
        let call = Some(Call::here(call));
        let reason = Reason { cause, name, label: Label::default(), call };
        inner.record_wait(reason, || {
            inner.wait_at(&inner.external, Patience::Eager, None, condition)
        });
        Ok(())
    }

    /// Lets threads inside [`wait_until`](Self::wait_until) look at their conditions.
    pub fn notify_waiters(&self) {
        self.inner().external.notify();
    }
}
