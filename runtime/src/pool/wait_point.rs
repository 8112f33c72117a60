//! Where threads wait for a condition that tasks bring about.
//!
//! A waiter enters itself, fences, then checks the condition before each time that it parks. A
//! notifier first makes the condition true, then calls [`WaitPoint::notify`], which fences and
//! looks for entries. As in [`sleep`](super::sleep), one of the two sees the other: the waiter
//! the condition, or the notifier the waiter, and unparks it.

use super::roster::Roster;
use crate::sync::{Ordering, fence};

pub(crate) struct WaitPoint {
    waiters: Roster,
}

impl WaitPoint {
    pub(crate) fn new() -> Self {
        WaitPoint { waiters: Roster::new() }
    }

    /// The calling thread is unparked by each notification from now on. Returns what
    /// [`leave`](Self::leave) wants.
    pub(crate) fn enter(&self) -> u64 {
        let ticket = self.waiters.enter();
        fence(Ordering::SeqCst);
        ticket
    }

    pub(crate) fn leave(&self, ticket: u64) {
        self.waiters.leave(ticket);
    }

    /// Whether anybody seems to wait; exact only after a fence. A notifier that asks here first
    /// may miss the waiter, so it has to [`notify`](Self::notify) all the same before it rests.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Lets waiters check their condition.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.has_waiters() {
            self.waiters.unpark_all();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{AtomicU32, park};
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
            let ticket = shared.0.enter();
            while shared.1.load(Ordering::Acquire) != 2 {
                park();
            }
            shared.0.leave(ticket);
            for worker in workers {
                worker.join().expect("worker");
            }
        });
    }

    /// Whoever ends tasks looks for waiters without a fence after each, and notifies before it
    /// rests.
    #[test]
    fn loom_a_notification_before_resting_reaches_whom_the_looks_missed() {
        loom::model(|| {
            let shared = Arc::new((WaitPoint::new(), AtomicU32::new(0)));
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    for ended in 1..=2 {
                        shared.1.store(ended, Ordering::Release);
                        if shared.0.has_waiters() {
                            shared.0.notify();
                        }
                    }
                    shared.0.notify();
                })
            };
            let ticket = shared.0.enter();
            while shared.1.load(Ordering::Acquire) != 2 {
                park();
            }
            shared.0.leave(ticket);
            worker.join().expect("worker");
        });
    }
}
