//! A waiting thread that runs tasks: worker 0.
//!
//! While the program runs, worker 0 is away. When a thread outside the pool waits, it takes
//! worker 0's part, unless another one has it already, and gives it back once its condition
//! holds. So nothing has to be woken when the condition comes about, and no core is left to a
//! thread that only waits.

use std::sync::{MutexGuard, TryLockError};

use super::idle::{find, holds_soon, idle};
use super::{Context, WaitPoint};
use crate::runtime::Inner;
use crate::sync::{Deadline, has_passed, park_until};
use crate::trace::Cause;

/// After how many tasks a helping thread looks at the condition for which it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// After each: somebody goes on as soon as it holds.
    Eager,
    /// After many: it is costly to look at, and cannot hold for long before it is seen.
    Throughput,
}

impl Patience {
    fn tasks(self) -> u32 {
        match self {
            Patience::Eager => 1,
            Patience::Throughput => 64,
        }
    }
}

impl Inner {
    /// Waits until `condition` holds, and runs tasks meanwhile if it may. Whoever makes it hold
    /// notifies `point`; so does a thread that ceases to be worker 0, then this one takes its
    /// part. False if the condition did not hold at the deadline.
    pub(crate) fn wait_at(
        &self,
        point: &WaitPoint,
        patience: Patience,
        deadline: Deadline,
        condition: impl Fn() -> bool,
    ) -> bool {
        let stop = || condition() || has_passed(deadline) || self.unblock(&condition);
        // A thread that runs tasks looks by itself, so it enters the point when it has none to run:
        // as long as nobody is there, those that end tasks have nobody to tell.
        let mut ticket = None;
        let mut fresh = true;
        while !stop() {
            if let Some(context) = self.worker_0() {
                let enter = || ticket = ticket.or_else(|| Some(point.enter()));
                self.help(context, patience, deadline, stop, enter);
            } else if fresh && holds_soon(stop) {
                break;
            } else if ticket.is_none() {
                // Who enters looks once more.
                ticket = Some(point.enter());
            } else {
                park_until(deadline);
            }
            fresh = false;
        }
        ticket.into_iter().for_each(|ticket| point.leave(ticket));
        deadline.is_none() || condition()
    }

    /// If a scheduler keeps back all ready tasks, has it hand one out, unless the calling thread's
    /// wait `is_over`: then it may submit what the scheduler waits for. Whoever goes idle lets
    /// waiting threads look here. Returns false.
    pub(super) fn unblock(&self, is_over: impl Fn() -> bool) -> bool {
        if let Some(scheduler) = &self.ready.scheduler
            && scheduler.is_stuck()
            && !is_over()
        {
            scheduler.go_on();
            self.sleep.wake(usize::MAX);
        }
        false
    }

    /// Worker 0, if a waiting thread may be it and none is.
    fn worker_0(&self) -> Option<MutexGuard<'_, Context>> {
        match self.helper.as_ref()?.try_lock() {
            Ok(context) => Some(context),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs tasks until `condition` holds; calls `rests` before it looks idly.
    fn help(
        &self,
        mut guard: MutexGuard<'_, Context>,
        patience: Patience,
        deadline: Deadline,
        condition: impl Fn() -> bool,
        mut rests: impl FnMut(),
    ) {
        let context = &mut *guard;
        context.spin.has_been_away();
        self.come_back(context);
        let mut unseen = 0;
        let mut holds = condition();
        while !holds {
            let found = find(self, context).or_else(|| {
                rests();
                idle(self, context, deadline, &condition)
            });
            let Some(slot) = found else { break };
            let mut next = Some(slot);
            while let Some(slot) = next {
                next = self.execute(slot, context);
                unseen += 1;
                if unseen >= patience.tasks() {
                    unseen = 0;
                    // It may be the end of a replay whose last tasks this thread ended.
                    context.count_ended(self);
                    holds = condition();
                    if holds {
                        next.into_iter().for_each(|slot| context.queue.push(slot));
                        break;
                    }
                }
            }
            // Before this thread looks elsewhere, which takes time.
            holds = holds || context.queue.is_empty() && condition();
        }
        context.flush(self);
        self.go_away(context.lane);
        // What is left is for the others: the tasks, the news that tasks have ended, which a
        // worker tells when it goes idle, and its place.
        let left = context.queue.len();
        drop(guard);
        if left > 0 {
            self.sleep.wake(left);
        }
        self.notify_ended();
        self.guards.notify();
        self.external.notify();
    }

    /// Worker 0 has been away since the last help.
    fn come_back(&self, context: &mut Context) {
        if self.takes_times() {
            let end = self.recorder.now();
            let start = self.totals(context.lane).idle_end(end, &self.totals.clock);
            if let Some(start) = start
                && self.recorder.covers(start)
            {
                context.record_away(self, start, end);
            }
        }
    }

    /// Worker 0 is away from now on: its thread runs the program.
    pub(crate) fn go_away(&self, worker: usize) {
        if self.takes_times() {
            self.totals(worker).away_begin(self.recorder.now(), Cause::MainBusy);
        }
    }
}
