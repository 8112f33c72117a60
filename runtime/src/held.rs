//! Acquired data: a thread outside the pool takes part in the task order.
#![allow(unsafe_code, reason = "borrows data that the guard was granted")]

use std::marker::PhantomData;

use smallvec::SmallVec;

use crate::access::Access;
use crate::claims::{Claim, Claims};
use crate::error::{SubmitError, WaitError};
use crate::pool::{Patience, hold, in_task_body, release};
use crate::runtime::{Inner, Runtime};
use crate::trace::Cause;

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
    fn drop(&mut self) {
        self.claim = None;
        let inner = self.runtime.inner();
        release(inner.id, self.slot);
        inner.end_guard(self.slot, None);
    }
}

impl Runtime {
    /// Acquires data for the calling thread: waits until the tasks that conflict with `access`
    /// have ended, and only for them.
    ///
    /// # Errors
    /// When the access is refused, when a task failed that was to write the data, or when
    /// waiting could never end (inside a body, or while this thread holds acquired data that
    /// tasks wait for, or that conflicts with `access`).
    pub fn acquire<A: Access>(&self, access: A) -> Result<Held<A>, WaitError> {
        let inner = self.inner();
        let call = "acquire";
        if in_task_body() {
            return Err(WaitError::InsideTask { call });
        }
        let mut claims: SmallVec<[Claim; 8]> = SmallVec::new();
        let claim = Claims::collect(call, inner.id, access, &mut claims)?;
        let mut submitter = inner.submitter();
        if submitter.would_block_itself(inner, &claims) {
            return Err(WaitError::HoldsGuard { call });
        }
        let Some(task) = submitter.allocate(inner, true) else {
            return Err(SubmitError::TooManyTasks { task: call }.into());
        };
        let slot = task.slot();
        let ready = submitter.publish(inner, task, &claims);
        drop(submitter);
        if !ready {
            inner.record_wait(Cause::Acquire, Cause::Acquire.label(), || {
                let granted = || !inner.table.slot(slot).is_pending();
                inner.wait_at(&inner.guards, Patience::Eager, granted);
            });
        }
        if let Some(index) = inner.table.slot(slot).cancelled_by() {
            let failure = {
                let mut submitter = inner.submitter();
                submitter.spoil(task, index);
                submitter.failures.get(index)
            };
            drop(claim);
            inner.end_guard(slot, Some(index));
            return Err(WaitError::Spoilt { failure });
        }
        hold(inner.id, slot);
        Ok(Held { runtime: self.clone(), slot, claim: Some(claim), thread: PhantomData })
    }
}

impl Inner {
    /// Ends a ready guard and lets go what waits for it.
    pub(crate) fn end_guard(&self, slot: u32, failure: Option<u32>) {
        let mut ready: SmallVec<[u32; 8]> = SmallVec::new();
        self.table.end(slot, failure, |successor| ready.push(successor));
        self.table.free(&[slot]);
        for successor in ready.into_iter().rev() {
            if self.table.slot(successor).is_guard() {
                self.guards.notify();
            } else {
                self.note_ready(successor, self.time_if_taken());
                self.submitter().push(successor);
                self.sleep.wake(1);
            }
        }
        if self.workers() == 0 && !in_task_body() {
            self.run_inline();
        }
    }
}
