//! How idle workers sleep and are woken.
//!
//! # The protocol
//! `sleepers` counts workers that have announced that they are about to sleep and that nobody
//! has claimed yet; `tokens` (under the lock) counts wake-ups that were claimed but not consumed.
//!
//! * A worker that found nothing: announces itself (`sleepers` + 1), fences, looks once more.
//!   If it still finds nothing, it waits for a token. If it finds something, it withdraws its
//!   announcement; when a waker was faster, a token is on its way and is consumed instead.
//! * Whoever makes work available: publishes it, fences, and when `sleepers` is above zero
//!   claims one (`sleepers` - 1) and adds a token.
//!
//! *No lost wake-up*: both sides write, fence (`SeqCst`), then read the other's word. In the
//! total order of the fences one comes first; the later side sees what the earlier one wrote.
//! So either the worker's second look finds the work, or the waker sees the announcement.
//! *No surplus*: announcements and tokens together equal the workers between announcing and
//! leaving, so a token never waits for a worker that does not come.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence, lock};

pub(crate) struct Sleep {
    sleepers: AtomicU32,
    tokens: Mutex<u32>,
    woken: Condvar,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Sleep { sleepers: AtomicU32::new(0), tokens: Mutex::new(0), woken: Condvar::new() }
    }

    /// Sleeps until woken, unless `look_again` finds a reason to stay awake.
    pub(crate) fn sleep<T>(&self, look_again: impl FnOnce() -> Option<T>) -> Option<T> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = look_again();
        if found.is_none() || !self.claim() {
            self.take_token();
        }
        found
    }

    /// Wakes one sleeping worker, if there is one.
    #[inline]
    pub(crate) fn wake_one(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_claimed();
        }
    }

    /// Wakes every sleeping worker.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        while self.wake_claimed() {}
    }

    #[cold]
    fn wake_claimed(&self) -> bool {
        let claimed = self.claim();
        if claimed {
            *lock(&self.tokens) += 1;
            self.woken.notify_one();
        }
        claimed
    }

    /// Takes one announcement, if there is one.
    fn claim(&self) -> bool {
        let mut seen = self.sleepers.load(Ordering::Relaxed);
        while seen != 0 {
            match self.sleepers.compare_exchange_weak(
                seen,
                seen - 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    fn take_token(&self) {
        let mut tokens = lock(&self.tokens);
        while *tokens == 0 {
            tokens = self.woken.wait(tokens).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *tokens -= 1;
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// Sleepers must all come back, whatever the interleaving: loom reports a deadlock if not.
    fn workers_and_waker(workers: usize) {
        loom::model(move || {
            let sleep = Arc::new(Sleep::new());
            let work = Arc::new(AtomicBool::new(false));
            let handles: Vec<_> = (0..workers)
                .map(|_| {
                    let (sleep, work) = (sleep.clone(), work.clone());
                    thread::spawn(move || {
                        while !work.load(Ordering::Relaxed) {
                            sleep.sleep(|| work.load(Ordering::Relaxed).then_some(()));
                        }
                    })
                })
                .collect();
            work.store(true, Ordering::Relaxed);
            for _ in 0..workers {
                sleep.wake_one();
            }
            for handle in handles {
                handle.join().expect("worker");
            }
            assert_eq!(*lock(&sleep.tokens), 0);
            assert_eq!(sleep.sleepers.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn loom_one_worker_never_misses_a_wake_up() {
        workers_and_waker(1);
    }

    #[test]
    fn loom_two_workers_never_miss_a_wake_up() {
        workers_and_waker(2);
    }
}
