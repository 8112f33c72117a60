//! How idle threads sleep and are woken.
//!
//! # The protocol
//! `sleepers` lists the threads that have announced that they are about to sleep and that nobody
//! has woken yet.
//!
//! * A thread that found nothing to do announces itself (enters the list), fences, and looks
//!   once more. If it still finds nothing, it parks until it is no longer in the list, and looks
//!   again after each time that it is unparked for another reason. If it finds something, it
//!   withdraws; when a waker was faster, that wake-up was meant for other work, and is passed on.
//! * Whoever makes work available publishes it, fences, and when `sleepers` is not empty takes
//!   the youngest entry off the list and unparks its thread.
//!
//! *No lost wake-up*: both sides write, fence ([`asymmetric`]: wakers pass often, sleepers
//! seldom), then read the other's word. In the total order of the fences one comes first; the later
//! side sees what the earlier one wrote.
//! So either the thread's second look finds the work, or the waker sees the announcement. A
//! thread that waits for a condition besides work (a [`WaitPoint`](super::WaitPoint)) has entered
//! itself there before, and the same argument holds for that condition.
//! *No wake-up wasted*: a thread that leaves with something else than what it was woken for
//! wakes the next one.

use super::roster::Roster;
use crate::sync::{Deadline, asymmetric, park_until};

pub(crate) struct Sleep {
    sleepers: Roster,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Sleep { sleepers: Roster::new() }
    }

    /// Sleeps until woken, or until `look` finds a reason to stay awake. `look` is called before
    /// sleeping and whenever the thread is unparked by somebody else, or the deadline passes.
    pub(crate) fn sleep<T>(
        &self,
        deadline: Deadline,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let ticket = self.sleepers.enter();
        asymmetric::heavy();
        loop {
            if let found @ Some(_) = look() {
                if !self.sleepers.leave(ticket) {
                    self.wake(1);
                }
                return found;
            }
            park_until(deadline);
            if !self.sleepers.has(ticket) {
                return None;
            }
        }
    }

    /// Wakes sleeping threads, at most `count`.
    #[inline]
    pub(crate) fn wake(&self, count: usize) {
        asymmetric::light();
        if !self.sleepers.is_empty() {
            self.sleepers.take(count);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::pool::WaitPoint;
    use crate::sync::{AtomicU32, Ordering};
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
                            sleep.sleep(None, || work.load(Ordering::Relaxed).then_some(()));
                        }
                    })
                })
                .collect();
            work.store(true, Ordering::Relaxed);
            for _ in 0..workers {
                sleep.wake(1);
            }
            for handle in handles {
                handle.join().expect("worker");
            }
            assert!(sleep.sleepers.is_empty());
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

    /// A thread sleeps for work and for a condition; whoever makes the condition true also makes
    /// work. The work is done by somebody, and the condition is seen.
    #[test]
    fn loom_a_helper_leaves_no_work_behind() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let point = Arc::new(WaitPoint::new());
            let work = Arc::new(AtomicU32::new(0));
            let done = Arc::new(AtomicBool::new(false));
            let take = |work: &AtomicU32| {
                work.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            let worker = {
                let (sleep, work) = (sleep.clone(), work.clone());
                thread::spawn(move || {
                    // Ends once the only piece of work is taken, by whomever.
                    while work.load(Ordering::Relaxed) != 2 {
                        let look =
                            || (take(&work) || work.load(Ordering::Relaxed) == 2).then_some(());
                        sleep.sleep(None, look);
                    }
                })
            };
            let maker = {
                let (sleep, point, work, done) =
                    (sleep.clone(), point.clone(), work.clone(), done.clone());
                thread::spawn(move || {
                    work.store(1, Ordering::Release);
                    sleep.wake(1);
                    done.store(true, Ordering::Release);
                    point.notify();
                })
            };
            let ticket = point.enter();
            // Work first, then the condition, as the real thread does.
            let look = || {
                if take(&work) { Some(true) } else { done.load(Ordering::Acquire).then_some(false) }
            };
            while look().or_else(|| sleep.sleep(None, look)) != Some(false) {}
            point.leave(ticket);
            maker.join().expect("maker");
            // The worker must end: if the work was done here, by this wake-up; if it was left,
            // somebody must have seen to it that the worker is awake.
            if work.load(Ordering::Acquire) == 2 {
                sleep.wake(1);
            }
            worker.join().expect("worker");
        });
    }
}
