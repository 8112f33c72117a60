//! Where work stealing keeps the tasks whose priority is not 0.

use super::ReadyTask;
use super::central::Heap;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// Tasks of one rank, urgent or deferred, with a length that is read without the lock: most
/// programs have none.
pub(crate) struct Ranked {
    len: AtomicU32,
    heap: Mutex<Heap>,
}

impl Ranked {
    pub(crate) fn new() -> Self {
        Ranked { len: AtomicU32::new(0), heap: Mutex::new(Heap::default()) }
    }

    pub(crate) fn push(&self, task: ReadyTask) {
        let mut heap = lock(&self.heap);
        heap.push(task);
        self.len.store(heap.len() as u32, Ordering::Relaxed);
    }

    /// Whether there seems to be none; whoever made one ready before it fenced is seen.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<u32> {
        if self.is_empty() { None } else { self.pop_locked() }
    }

    #[cold]
    fn pop_locked(&self) -> Option<u32> {
        let mut heap = lock(&self.heap);
        let task = heap.pop();
        self.len.store(heap.len() as u32, Ordering::Relaxed);
        task.map(|task| task.slot)
    }
}
