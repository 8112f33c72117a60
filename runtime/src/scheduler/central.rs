//! Schedulers with one queue for all workers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ReadyTask, Scheduler};

fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

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

/// Tasks by priority, then by age.
#[derive(Debug, Default)]
pub(super) struct Heap {
    heap: BinaryHeap<Entry>,
    pushed: u64,
}

/// In the order in which they leave: by priority, then by the order in which they came.
#[derive(Debug)]
struct Entry {
    order: (i16, Reverse<u64>),
    task: ReadyTask,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl Heap {
    pub(super) fn push(&mut self, task: ReadyTask) {
        let order = (task.priority, Reverse(self.pushed));
        self.pushed += 1;
        self.heap.push(Entry { order, task });
    }

    pub(super) fn pop(&mut self) -> Option<ReadyTask> {
        self.heap.pop().map(|entry| entry.task)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// One queue, highest priority first, oldest first among equals.
#[derive(Debug, Default)]
pub struct Priority {
    heap: Mutex<Heap>,
}

impl Scheduler for Priority {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        lock(&self.heap).push(task);
    }

    fn pop(&self, _worker: usize) -> Option<ReadyTask> {
        lock(&self.heap).pop()
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
