//! Acquired data: a thread outside the pool takes part in the task order.
#![allow(unsafe_code, reason = "borrows data that the guard was granted, describes guards")]

use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use smallvec::SmallVec;

use crate::access::Access;
use crate::claims::{Claim, Claims};
use crate::error::{SubmitError, WaitError};
use crate::graph::{GuardMark, Need, TaskRef};
use crate::pool::{Patience, Reason, hold, in_task_body, release};
use crate::runtime::{Inner, Runtime};
use crate::submit::Submitter;
use crate::sync::{Deadline, Ordering};
use crate::task::{Label, PackedMeta};
use crate::trace::Cause;
use crate::wait::deadline;
use crate::watchdog::Call;

/// Data that the calling thread has acquired, in program order: tasks submitted before are done
/// with it, conflicting tasks submitted while it is held wait until it is dropped.
///
/// It stays on the thread that acquired it.
pub struct Held<A: Access> {
    runtime: Runtime,
    slot: u32,
    claim: Option<A::Claim>,
    /// Not `Send`: the thread remembers what it holds, so that it never waits for itself.
    thread: PhantomData<*const ()>,
}

impl<A: Access> std::fmt::Debug for Held<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl<A: Access> Held<A> {
    /// The data, as a task's body would get it.
    pub fn data(&mut self) -> A::Data<'_> {
        let claim = self.claim.as_mut().expect("present until the drop");
        // SAFETY: `acquire` returned after the guard became ready, so every handle is granted
        // until `drop` ends the guard; the exclusive borrow of `self` keeps this the only loan.
        unsafe { A::data(claim) }
    }
}

impl<A: Access> Drop for Held<A> {
    #[inline]
    fn drop(&mut self) {
        self.claim = None;
        let inner = self.runtime.inner();
        release(inner.id, self.slot);
        inner.end_guard(self.slot);
    }
}

impl Runtime {
    /// Acquires data for the calling thread: waits until the tasks that conflict with `access`
    /// have ended, and only for them.
    ///
    /// # Errors
    /// When the access is refused, when a task failed or was cancelled that was to write the
    /// data, or when waiting could never end (inside a body, or while this thread holds acquired
    /// data that tasks wait for, or that conflicts with `access`).
    // Where it is called, what it returns need not be copied.
    #[inline]
    #[track_caller]
    pub fn acquire<A: Access>(&self, access: A) -> Result<Held<A>, WaitError> {
        self.acquire_until("acquire", access, None)
    }

    /// [`acquire`](Self::acquire), but waits no longer than `timeout`. Tasks that were submitted
    /// meanwhile and conflict with `access` are not held up by a try that was given up.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], and as for [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_timeout<A: Access>(
        &self,
        access: A,
        timeout: Duration,
    ) -> Result<Held<A>, WaitError> {
        self.acquire_until("acquire_timeout", access, deadline(timeout))
    }

    /// Acquires data if that needs no wait; else `None`, and nothing has happened.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire), except that it may be called while this thread holds
    /// data that conflicts: that gives `None`.
    #[track_caller]
    pub fn try_acquire<A: Access>(&self, access: A) -> Result<Option<Held<A>>, WaitError> {
        let wanted = self.guard("try_acquire", access, |submitter, inner, claims| {
            submitter.would_wait(inner, claims)
        })?;
        wanted.map(|(guard, claim)| self.hold(guard, claim)).transpose()
    }

    #[inline]
    #[track_caller]
    fn acquire_until<A: Access>(
        &self,
        call: &'static str,
        access: A,
        deadline: Deadline,
    ) -> Result<Held<A>, WaitError> {
        let wanted = self.guard(call, access, |submitter, inner, claims| {
            submitter.would_block_itself(inner, claims)
        })?;
        let (guard, claim) = wanted.ok_or(WaitError::HoldsGuard { call })?;
        let reason = Reason::from(Cause::Acquire).calling(Call::here(call));
        if !self.inner().wait_for_guard(&guard, reason, deadline) {
            return Err(WaitError::TimedOut { call });
        }
        self.hold(guard, claim)
    }

    /// Submits a guard for `access`; `None` if `refuse` says so.
    #[track_caller]
    #[inline(always)]
    fn guard<A: Access>(
        &self,
        call: &'static str,
        access: A,
        refuse: impl FnOnce(&mut Submitter, &Inner, &[Claim]) -> bool,
    ) -> Result<Option<(Guard, A::Claim)>, WaitError> {
        let inner = self.inner();
        if in_task_body() {
            return Err(WaitError::InsideTask { call });
        }
        let mut claims = Claims::new(call, inner.id);
        let claim = claims.collect(access)?;
        claims.order_all();
        let mut submitter = inner.submitter();
        if refuse(&mut submitter, inner, claims.list()) {
            return Ok(None);
        }
        let guard = submitter.guard(inner, call, claims.list(), [])?;
        Ok(Some((guard, claim)))
    }

    /// Takes what a granted guard stands for, unless it was never made.
    #[inline(always)]
    fn hold<A: Access>(&self, guard: Guard, claim: A::Claim) -> Result<Held<A>, WaitError> {
        let inner = self.inner();
        let slot = guard.task.slot();
        if let Some(blame) = inner.table.slot(slot).cancelled_by() {
            let error = inner.submitter().failures().spoilt(blame);
            drop(claim);
            inner.end_guard(slot);
            return Err(error);
        }
        hold(inner.id, slot);
        Ok(Held { runtime: self.clone(), slot, claim: Some(claim), thread: PhantomData })
    }
}

/// A submitted guard: a task without a body that stands for the calling thread.
#[derive(Debug)]
pub(crate) struct Guard {
    task: TaskRef,
    /// Nothing was in its way. If not, it is the thread's once it is
    /// [granted](GuardMark::Granted).
    ready: bool,
}

impl Submitter {
    /// Submits a guard with these claims, behind the ends of some tasks more.
    #[track_caller]
    #[inline]
    pub(crate) fn guard(
        &mut self,
        inner: &Inner,
        call: &'static str,
        claims: &[Claim],
        after: impl IntoIterator<Item = TaskRef>,
    ) -> Result<Guard, SubmitError> {
        let (task, slot) = self.allocate(inner).ok_or(SubmitError::TooManyTasks { task: call })?;
        slot.set_guard();
        let (location, label) = (Location::caller(), Label::default());
        let sequence = inner.submitted.load(Ordering::Relaxed);
        // SAFETY: the slot was just allocated, so this thread, which holds the lock, owns its cell.
        unsafe { slot.cell.describe(&PackedMeta::new(call, location, label), sequence) };
        let needs = after.into_iter().map(|task| Need { task, order_only: true });
        self.gather(inner, task, claims, needs);
        let ready = self.publish(inner, task, slot);
        Ok(Guard { task, ready })
    }
}

impl Inner {
    /// Waits until a guard is granted. False if it was not at the deadline: then it is no longer
    /// the caller's.
    #[inline]
    fn wait_for_guard(&self, guard: &Guard, reason: Reason<'_>, deadline: Deadline) -> bool {
        guard.ready || self.wait_for_grant(guard, reason, deadline)
    }

    fn wait_for_grant(&self, guard: &Guard, reason: Reason<'_>, deadline: Deadline) -> bool {
        let slot = self.table.slot(guard.task.slot());
        self.record_wait(reason, || {
            let granted = || slot.guard_marks().has(GuardMark::Granted);
            self.wait_at(&self.guards, Patience::Eager, deadline, granted)
                || slot.mark_guard(GuardMark::Abandoned).has(GuardMark::Granted)
        })
    }

    /// Waits until a guard is granted, and ends it; false if it was not at the deadline.
    pub(crate) fn pass_guard(&self, guard: &Guard, reason: Reason<'_>, deadline: Deadline) -> bool {
        let granted = self.wait_for_guard(guard, reason, deadline);
        if granted {
            self.end_guard(guard.task.slot());
        }
        granted
    }

    /// The last predecessor of a guard has ended: it is the waiting thread's, or if that one has
    /// gone, it ends here. Returns whether it has to.
    pub(crate) fn grant(&self, guard: u32) -> bool {
        // The last touch: the thread may end the guard, and its slot be used again.
        let abandoned =
            self.table.slot(guard).mark_guard(GuardMark::Granted).has(GuardMark::Abandoned);
        if !abandoned {
            self.guards.notify();
        }
        abandoned
    }

    /// Ends a granted guard and lets go what waits for it.
    #[inline]
    pub(crate) fn end_guard(&self, guard: u32) {
        let abandoned = self.end_one_guard(guard);
        if !abandoned.is_empty() {
            self.end_guards(abandoned);
        }
        if self.workers() == 0 && !in_task_body() {
            self.run_inline();
        }
    }

    /// Ends granted guards, and all abandoned ones that this lets go.
    pub(crate) fn end_guards(&self, mut guards: SmallVec<[u32; 8]>) {
        while let Some(guard) = guards.pop() {
            guards.extend(self.end_one_guard(guard));
        }
    }

    /// Ends a granted guard; returns those that this lets go and nobody waits for any more.
    fn end_one_guard(&self, guard: u32) -> SmallVec<[u32; 8]> {
        let slot = self.table.slot(guard);
        let blame = slot.cancelled_by();
        if let Some(blame) = blame {
            self.submitter().spoil(self, self.table.current(guard), None, blame);
        }
        let mut ready = SmallVec::new();
        self.table.end_at(slot, blame, |successor, _| ready.push(successor));
        self.free_guard(guard);
        if ready.is_empty() { SmallVec::new() } else { self.let_go(&ready) }
    }

    /// Gives back the slot of a guard that has ended; for the next one, if nobody submits just now:
    /// whoever acquires often and runs little then always has the same.
    fn free_guard(&self, guard: u32) {
        match self.try_submitter() {
            Some(mut submitter) => submitter.free(guard),
            None => self.table.free(&[guard]),
        }
    }

    /// Queues the tasks among `ready`, which the end of a guard has let go, and grants the guards;
    /// returns those that nobody waits for any more.
    fn let_go(&self, ready: &SmallVec<[u32; 8]>) -> SmallVec<[u32; 8]> {
        let mut abandoned = SmallVec::new();
        for &successor in ready.iter().rev() {
            let its = self.table.slot(successor);
            if !its.is_guard() {
                self.note_ready(its, self.time_if_taken());
                self.submitter().push(self, successor);
                self.wake_for(1);
            } else if self.grant(successor) {
                abandoned.push(successor);
            }
        }
        abandoned
    }
}
