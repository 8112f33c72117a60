//! Running recorded tasks.
//!
//! # Counting their ends
//! All threads that run tasks of a replay would pass its counter of unfinished tasks around. So a
//! thread keeps a batch of ends to itself ([`Uncounted`]), and tells them at the latest
//! * before it runs the body of a task that is not of that replay,
//! * before it looks whether what it waits for has come about, and
//! * before it rests.
//!
//! What it keeps to itself is told only after the task that it runs, if that is one of the same
//! replay; but then the replay has not ended anyway.
//!
//! The runtime's count of ended tasks, which is the thread's own, has all of them but the last:
//! that one is counted there when the batch has been told, or before the replay's next body. So
//! whoever waits for room in the window is not held up, and who waits until nothing is unfinished
//! goes on only when every replay has ended.
#![allow(unsafe_code, reason = "looks into task cells as their owner")]

use std::ptr;

use super::instance::{Instance, NodeJob};
use crate::graph::Slot;
use crate::pool::{Context, Released};
use crate::runtime::Inner;
use crate::task::Meta;

/// Successors that are fetched before a body runs.
const FETCHED: usize = 2;

/// How many ends a thread may keep to itself.
const COUNTED_AT: u32 = 64;

/// Tasks of one instance that a thread has ended, and not counted yet.
///
/// # Invariant
/// While `count` is not 0 the instance is busy, for these are among what it waits for.
pub(crate) struct Uncounted {
    instance: *const Instance,
    count: u32,
    /// How many of them are not in the lane's number of ended tasks either: the last one, or,
    /// while the next one runs, none.
    untold: u32,
}

// SAFETY: instances are shared between threads.
unsafe impl Send for Uncounted {}

impl Uncounted {
    pub(crate) const fn new() -> Self {
        Uncounted { instance: ptr::null(), count: 0, untold: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Inner {
    /// Runs the recorded task in `slot` and ends it; returns a successor to run next.
    pub(crate) fn execute_node(&self, slot: u32, context: &mut Context) -> Option<u32> {
        let its = self.table.slot(slot);
        // SAFETY: the task is ready and was taken from a queue once, so this thread owns the
        // cell, which `Instance::fill` has filled.
        let instance = unsafe { its.cell.repeated::<NodeJob>() }.instance;
        context.count_before(self, instance);
        // SAFETY: one of its tasks has not ended, so it is busy.
        let instance = unsafe { &*instance };
        let facts = its.node();
        // Whoever runs next; the body runs meanwhile.
        instance.edges(&facts).take(FETCHED).for_each(|edge| self.table.prefetch_slot(edge.slot()));
        its.rearm(facts.predecessors);
        let (failure, end) = match its.cancelled_by().or_else(|| instance.cancelled_by()) {
            Some(failure) => {
                its.forget_cancel();
                self.discard(slot, failure, context);
                (Some(failure), self.time_if_taken())
            }
            None => self.run_body(slot, its, context),
        };
        if let Some(failure) = failure {
            instance.add_blame(failure);
        }
        let mut released = Released::new(self, context.lane, end, &mut context.ready);
        if its.is_named() {
            self.table.end(slot, failure, |successor, its| released.add(successor, its));
        }
        // The list that `end` walks gives the last submitted successor first; so does this.
        for edge in instance.edges(&facts).rev() {
            let target = self.table.slot(edge.slot());
            if let Some(failure) = failure
                && !edge.order_only()
            {
                target.cancel(failure);
            }
            if edge.alone() || target.settle(1) {
                released.add(edge.slot(), target);
            }
        }
        let next = released.finish();
        let next = self.go_on(next, context);
        context.uncounted.instance = instance;
        context.uncounted.count += 1;
        context.uncounted.untold = 1;
        if context.uncounted.count >= COUNTED_AT {
            context.count_ended(self);
        }
        next
    }

    /// Calls `each` for the slots of the recorded tasks that wait for the one in `slot`.
    ///
    /// # Safety
    /// The slot is that of a recorded task that is submitted and does not end meanwhile.
    pub(crate) unsafe fn recorded_successors(&self, slot: u32, mut each: impl FnMut(u32)) {
        let its = self.table.slot(slot);
        // SAFETY: `Instance::fill` has filled the cell, and nobody writes it before all tasks of the
        // replay have ended.
        let instance = unsafe { its.cell.repeated::<NodeJob>() }.instance;
        // SAFETY: one of its tasks has not ended, so it is busy.
        unsafe { &*instance }.edges(&its.node()).for_each(|edge| each(edge.slot()));
    }

    /// The facts about the task in `slot`.
    ///
    /// # Safety
    /// The caller owns the cell and it is described.
    pub(crate) unsafe fn meta(&self, slot: &Slot) -> Meta {
        // SAFETY: the caller's promise.
        let meta = unsafe { slot.cell.meta() };
        if !slot.is_node() {
            return meta;
        }
        // SAFETY: as above; `Instance::fill` has filled it.
        let instance = unsafe { slot.cell.repeated::<NodeJob>() }.instance;
        // SAFETY: who owns the cell of a recorded task has been given it by a replay that is
        // under way.
        unsafe { &*instance }.complete(meta)
    }
}

impl Context {
    /// Counts what has to be counted before a task of `instance` is run.
    #[inline]
    fn count_before(&mut self, inner: &Inner, instance: *const Instance) {
        if self.uncounted.is_empty() {
            return;
        }
        if ptr::eq(self.uncounted.instance, instance) {
            self.tell(inner);
        } else {
            self.count_ended(inner);
        }
    }

    /// Counts the recorded tasks that this thread has ended.
    pub(crate) fn count_ended(&mut self, inner: &Inner) {
        let count = std::mem::take(&mut self.uncounted.count);
        if count > 0 {
            // SAFETY: see the invariant.
            unsafe { Instance::ended(self.uncounted.instance, inner, self.lane, count) };
            self.tell(inner);
        }
    }

    /// Counts the last of them in the lane's number.
    #[inline]
    fn tell(&mut self, inner: &Inner) {
        inner.count_finished(self.lane, std::mem::take(&mut self.uncounted.untold).into());
        inner.notify_window();
    }
}
