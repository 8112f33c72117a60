//! Schedulers with one queue for all workers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use super::{ReadyTask, Scheduler};
use crate::sync::lock_plain as lock;

/// One queue, oldest ready task first.
#[derive(Debug, Default)]
pub struct Fifo {
    queue: Mutex<VecDeque<ReadyTask>>,
}

impl Scheduler for Fifo {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        lock(&self.queue).push_back(task);
    }

    fn pop(&self, _worker: usize) -> Option<ReadyTask> {
        lock(&self.queue).pop_front()
    }
}

/// Tasks in the order in which they leave: by priority, highest first, then by age.
#[derive(Debug, Default)]
pub(crate) struct ByPriority {
    tasks: BTreeMap<(Reverse<i16>, u64), ReadyTask>,
    pushed: u64,
}

impl ByPriority {
    pub(crate) fn push(&mut self, task: ReadyTask) {
        self.tasks.insert((Reverse(task.priority), self.pushed), task);
        self.pushed += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<ReadyTask> {
        self.tasks.pop_first().map(|(_, task)| task)
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }
}

/// One queue, highest priority first, oldest first among equals.
#[derive(Debug, Default)]
pub struct Priority {
    tasks: Mutex<ByPriority>,
}

impl Scheduler for Priority {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        lock(&self.tasks).push(task);
    }

    fn pop(&self, _worker: usize) -> Option<ReadyTask> {
        lock(&self.tasks).pop()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn priority_then_age(priorities in prop::collection::vec(-3i16..3, 0..60)) {
            let queue = Priority::default();
            for (slot, &priority) in priorities.iter().enumerate() {
                queue.push(ReadyTask { slot: slot as u32, priority, sequence: 0 }, None);
            }
            let mut expected: Vec<_> = priorities.iter().copied().enumerate().collect();
            // A stable sort: equals stay in order.
            expected.sort_by_key(|(_, priority)| Reverse(*priority));
            for (slot, priority) in expected {
                let task = ReadyTask { slot: slot as u32, priority, sequence: 0 };
                prop_assert_eq!(queue.pop(0), Some(task));
            }
            prop_assert_eq!(queue.pop(0), None);
        }
    }

    #[test]
    fn fifo_keeps_the_order() {
        let queue = Fifo::default();
        let task = |slot| ReadyTask { slot, priority: slot as i16, sequence: 0 };
        (0..5).for_each(|slot| queue.push(task(slot), None));
        assert!((0..5).all(|slot| queue.pop(1) == Some(task(slot))));
        assert_eq!(queue.pop(0), None);
    }
}
