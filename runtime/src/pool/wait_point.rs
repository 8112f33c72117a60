//! Where threads wait for a condition that tasks bring about.
//!
//! A waiter enters itself, fences, then checks the condition before each time that it parks. A
//! notifier first makes the condition true, then calls [`WaitPoint::notify`], which fences and
//! looks for entries. As in [`sleep`](super::sleep), one of the two sees the other: the waiter
//! the condition, or the notifier the waiter, and unparks it.

use super::roster::Roster;
use crate::sync::{Ordering, fence, park};

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
        self.waiters.enter()
    }

    pub(crate) fn leave(&self, ticket: u64) {
        self.waiters.leave(ticket);
    }

    /// Parks until `condition` holds; the thread has entered itself.
    pub(crate) fn park_until(condition: impl Fn() -> bool) {
        while !condition() {
            park();
        }
    }

    /// Whether anybody seems to wait; exact only after a fence.
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
    use crate::sync::AtomicU32;
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
            WaitPoint::park_until(|| shared.1.load(Ordering::Acquire) == 2);
            shared.0.leave(ticket);
            for worker in workers {
                worker.join().expect("worker");
            }
        });
    }
}
