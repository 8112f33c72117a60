//! Where threads outside the pool wait for a condition that workers bring about.
//!
//! A waiter announces itself, fences, then checks the condition under the lock before each
//! wait. A notifier first makes the condition true, then calls [`WaitPoint::notify`], which
//! fences and looks for announcements. As in [`sleep`](super::sleep), one of the two sees the
//! other: the waiter the condition, or the notifier the waiter (and then the lock orders them).

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock};

pub(crate) struct WaitPoint {
    waiters: AtomicU32,
    lock: Mutex<()>,
    notified: Condvar,
}

impl WaitPoint {
    pub(crate) fn new() -> Self {
        WaitPoint { waiters: AtomicU32::new(0), lock: Mutex::new(()), notified: Condvar::new() }
    }

    /// Waits until `condition` holds.
    pub(crate) fn wait(&self, mut condition: impl FnMut() -> bool) {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut guard = lock(&self.lock);
        while !condition() {
            guard = self.notified.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether anybody seems to wait; exact only after a fence.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Lets waiters check their condition.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.has_waiters() {
            drop(lock(&self.lock));
            self.notified.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn loom_a_waiter_sees_the_last_completion() {
        loom::model(|| {
            let shared = Arc::new((WaitPoint::new(), AtomicU32::new(0)));
            let workers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.1.fetch_add(1, Ordering::Release);
                        shared.0.notify();
                    })
                })
                .collect();
            shared.0.wait(|| shared.1.load(Ordering::Acquire) == 2);
            for worker in workers {
                worker.join().expect("worker");
            }
        });
    }
}
