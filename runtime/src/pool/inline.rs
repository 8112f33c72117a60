//! A runtime without workers: whoever submits runs.
#![allow(unsafe_code, reason = "reads the facts of ready tasks as their owner")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Context;
use crate::runtime::Inner;

impl Inner {
    /// Without workers: runs ready tasks on this thread, in program order, until none is left.
    /// Not inside a body.
    pub(crate) fn run_inline(&self) {
        let mut context = self.main_context();
        let mut ready = BinaryHeap::new();
        loop {
            self.collect_ready(&context, &mut ready);
            let Some(Reverse((_, slot))) = ready.pop() else { break };
            if let Some(next) = self.execute(slot, &mut context) {
                context.queue.push(next);
            }
        }
        context.flush(self);
        drop(context);
        self.notify_ended();
    }

    fn collect_ready(&self, context: &Context, into: &mut BinaryHeap<Reverse<(u64, u32)>>) {
        let submitted = std::iter::from_fn(|| self.submitted_ready.steal().success());
        let released = std::iter::from_fn(|| context.queue.pop());
        into.extend(submitted.chain(released).map(|slot| {
            // SAFETY: the task was taken from a queue, so this thread owns its cell.
            let meta = unsafe { self.meta(self.table.slot(slot)) };
            Reverse((meta.sequence, slot))
        }));
    }
}
