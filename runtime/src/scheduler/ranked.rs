//! Where work stealing keeps the tasks whose priority is not 0.

use super::ReadyTask;
use super::central::ByPriority;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// Tasks of one rank, urgent or deferred, with a length that is read without the lock: most
/// programs have none.
pub(crate) struct Ranked {
    len: AtomicU32,
    tasks: Mutex<ByPriority>,
}

impl Ranked {
    pub(crate) fn new() -> Self {
        Ranked { len: AtomicU32::new(0), tasks: Mutex::new(ByPriority::default()) }
    }

    pub(crate) fn push(&self, task: ReadyTask) {
        let mut tasks = lock(&self.tasks);
        tasks.push(task);
        self.len.store(tasks.len() as u32, Ordering::Relaxed);
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
        let mut tasks = lock(&self.tasks);
        let task = tasks.pop();
        self.len.store(tasks.len() as u32, Ordering::Relaxed);
        task.map(|task| task.slot)
    }
}
