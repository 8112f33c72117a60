//! Running recorded tasks. Their ends are counted a thread's batch at a time, so that threads do
//! not pass one counter around.
#![allow(unsafe_code, reason = "looks into task cells as their owner")]

use std::ptr;

use super::instance::{Instance, NodeJob};
use crate::graph::Slot;
use crate::pool::{Context, Released};
use crate::runtime::Inner;
use crate::task::Meta;

/// How many ends a thread may keep to itself.
const COUNTED_AT: u32 = 64;

/// Tasks of one instance that a thread has ended, and not counted yet.
///
/// # Invariant
/// While `count` is not 0 the instance is busy, for these are among what it waits for.
pub(crate) struct Uncounted {
    instance: *const Instance,
    count: u32,
}

// SAFETY: instances are shared between threads.
unsafe impl Send for Uncounted {}

impl Uncounted {
    pub(crate) const fn new() -> Self {
        Uncounted { instance: ptr::null(), count: 0 }
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
        // SAFETY: one of its tasks has not ended, so it is busy.
        let instance = unsafe { &*instance };
        let facts = its.node();
        its.rearm(facts.predecessors);
        let (failure, end) = match its.cancelled_by().or_else(|| instance.cancelled_by()) {
            Some(failure) => {
                its.forget_cancel();
                self.discard(slot, failure, context);
                (Some(failure), self.time_if_taken())
            }
            None => self.run_body(slot, context),
        };
        if let Some(failure) = failure {
            instance.add_blame(failure);
        }
        let mut released = Released::new(self, context.lane, end, &mut context.ready);
        if its.is_named() {
            self.table.end(slot, failure, |successor, its| released.add(successor, its));
        }
        // The list that `end` walks gives the last submitted successor first; so does this.
        for edge in instance.edges(facts).rev() {
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
        if !ptr::eq(context.uncounted.instance, instance) {
            context.count_ended(self);
            context.uncounted.instance = instance;
        }
        context.uncounted.count += 1;
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
        unsafe { &*instance }.edges(its.node()).for_each(|edge| each(edge.slot()));
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
    /// Counts the recorded tasks that this thread has ended.
    pub(crate) fn count_ended(&mut self, inner: &Inner) {
        let count = std::mem::take(&mut self.uncounted.count);
        if count > 0 {
            // SAFETY: see the invariant.
            unsafe { &*self.uncounted.instance }.ended(inner, self.lane, count);
            inner.count_finished(self.lane, u64::from(count));
            inner.notify_window();
        }
    }
}
