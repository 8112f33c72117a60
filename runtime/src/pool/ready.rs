//! Ready tasks: where they wait for a worker.
//!
//! With work stealing each thread has a queue of its own, and tasks whose priority is not 0 are
//! kept apart. Any other scheduler keeps them all.
#![allow(unsafe_code, reason = "reads the facts of ready tasks as their owner")]

use crossbeam_deque::Worker;

use crate::graph::Slot;
use crate::runtime::Inner;
use crate::scheduler::{Ranked, ReadyTask, Scheduler};

/// The ready tasks that are in no thread's own queue.
pub(crate) struct Shared {
    /// Keeps all ready tasks, unless work is stolen.
    pub(crate) scheduler: Option<Box<dyn Scheduler>>,
    /// Of priority above 0.
    pub(crate) urgent: Ranked,
    /// Of priority below 0.
    pub(crate) deferred: Ranked,
}

impl Shared {
    pub(crate) fn new(scheduler: Option<Box<dyn Scheduler>>) -> Self {
        Shared { scheduler, urgent: Ranked::new(), deferred: Ranked::new() }
    }

    /// Whether ready tasks may be kept from workers that ask for one.
    pub(crate) fn keeps_back(&self) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| !scheduler.any_worker())
    }

    /// Whether it keeps back all there are, and none runs.
    pub(crate) fn is_stuck(&self) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_stuck())
    }

    /// Whether a thread that has made `slot` ready may run it next, past all others.
    #[inline]
    pub(crate) fn may_run_next(&self, slot: &Slot) -> bool {
        self.scheduler.is_none() && slot.priority() == 0 && self.urgent.is_empty()
    }
}

impl Inner {
    /// Queues a task that the calling thread has made ready, which is `worker` or outside the
    /// pool; `queue` is its own. The caller wakes workers ([`wake_for`](Self::wake_for)).
    #[inline]
    pub(crate) fn enqueue(&self, index: u32, queue: &Worker<u32>, worker: Option<usize>) {
        let slot = self.table.slot(index);
        if self.ready.scheduler.is_none() && slot.priority() == 0 {
            queue.push(index);
        } else {
            self.enqueue_elsewhere(index, worker);
        }
    }

    #[cold]
    fn enqueue_elsewhere(&self, index: u32, worker: Option<usize>) {
        let slot = self.table.slot(index);
        let priority = slot.priority();
        let task = |sequence| ReadyTask { slot: index, priority, sequence };
        match &self.ready.scheduler {
            Some(scheduler) => {
                // SAFETY: the calling thread made the task ready, so it owns the cell until the
                // scheduler hands the task out.
                let meta = unsafe { self.meta(slot) };
                scheduler.push(task(meta.sequence), worker);
            }
            None if priority > 0 => self.ready.urgent.push(task(0)),
            None => self.ready.deferred.push(task(0)),
        }
    }

    /// Wakes sleeping workers for `count` tasks that were queued.
    #[inline]
    pub(crate) fn wake_for(&self, count: usize) {
        self.sleep.wake(if self.ready.keeps_back() { usize::MAX } else { count });
    }
}
