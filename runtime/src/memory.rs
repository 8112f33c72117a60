//! The memory window: a bound on the bytes that unfinished tasks declare.
//!
//! # The protocol
//! `entered` is the sum over all tasks that were let in, `left` that over those of them that have
//! ended, kept per worker so that each counter has one writer. What is in use is the difference.
//!
//! * A submitter reads `left`, then `entered`, and if its task fits adds the bytes to `entered` by
//!   compare-exchange with the value that it read. `left` only grows, so what is in use after the
//!   exchange is at most what it computed: the bound holds however many submit at once. The sum
//!   over `left` is kept in `seen`, which may be out of date, and then is too low.
//! * A worker adds to `left` once a task has ended, so that no task that somebody may still find
//!   unfinished is left out of the sum.
//! * A submitter that finds no room takes a number, and waits until it is its `turn` and there is
//!   room. While anybody waits, others get in line: tasks of few bytes cannot keep one of many
//!   waiting forever.
//! * A task of more bytes than the bound fits while nothing is in use. So there is room for
//!   anybody at the latest when every task has ended.
//!
//! Waiters and notifiers meet at a [`WaitPoint`], whose protocol holds here as for the other
//! window: whoever ends tasks looks for waiters after each without a fence, and notifies before
//! it rests.

use crossbeam_utils::CachePadded;

use crate::graph::{Edge, Segments, page};
use crate::pool::WaitPoint;
use crate::sync::{AtomicU64, Ordering};

/// Entries of a page (8 KiB).
const SLOTS: u32 = page(1 << 10);

/// The memory window of a runtime that has one.
pub(crate) struct MemoryWindow {
    bound: u64,
    gate: CachePadded<Gate>,
    left: Vec<CachePadded<AtomicU64>>,
    /// The bytes of the task in each slot; written under the submission lock.
    of_slot: Segments<AtomicU64, SLOTS>,
    /// Where submitters wait for room.
    pub(crate) point: WaitPoint,
}

/// What submitters write.
#[derive(Default)]
struct Gate {
    entered: AtomicU64,
    /// A sum over `left`.
    seen: AtomicU64,
    /// Numbers taken by submitters that wait, and the number of the one that goes on next.
    queued: AtomicU64,
    turn: AtomicU64,
}

impl MemoryWindow {
    pub(crate) fn new(bound: u64, workers: usize) -> Self {
        MemoryWindow {
            bound,
            gate: CachePadded::default(),
            left: (0..workers).map(|_| CachePadded::default()).collect(),
            of_slot: Segments::new(Edge::MAX_SLOTS),
            point: WaitPoint::new(),
        }
    }

    fn left(&self) -> u64 {
        let lanes = self.left.iter().map(|lane| lane.load(Ordering::Acquire));
        let left = lanes.fold(0, u64::wrapping_add);
        self.gate.seen.store(left, Ordering::Release);
        left
    }

    /// Whether that many bytes more fit.
    fn fits(&self, bytes: u64, in_use: u64) -> bool {
        // A body may have exceeded the bound. Tasks without memory need no room.
        bytes == 0 || in_use == 0 || bytes <= self.bound.saturating_sub(in_use)
    }

    /// Lets a task in if it fits and nobody waits.
    pub(crate) fn enter_at_once(&self, bytes: u64) -> bool {
        let nobody_waits =
            || self.gate.turn.load(Ordering::Relaxed) == self.gate.queued.load(Ordering::Relaxed);
        bytes == 0
            || nobody_waits()
                && (self.enter_if(bytes, self.gate.seen.load(Ordering::Acquire))
                    || self.enter(bytes))
    }

    /// Lets a task in if it fits.
    pub(crate) fn enter(&self, bytes: u64) -> bool {
        self.enter_if(bytes, self.left())
    }

    fn enter_if(&self, bytes: u64, left: u64) -> bool {
        let mut entered = self.gate.entered.load(Ordering::Acquire);
        while self.fits(bytes, entered.wrapping_sub(left)) {
            let new = entered.wrapping_add(bytes);
            let (done, seen) = (Ordering::AcqRel, Ordering::Acquire);
            match self.gate.entered.compare_exchange_weak(entered, new, done, seen) {
                Ok(_) => return true,
                Err(now) => entered = now,
            }
        }
        false
    }

    /// Lets a task in, whether it fits or not.
    pub(crate) fn exceed(&self, bytes: u64) {
        self.gate.entered.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes back that a task was let in which then was not submitted.
    #[cold]
    pub(crate) fn withdraw(&self, bytes: u64) {
        self.gate.entered.fetch_sub(bytes, Ordering::AcqRel);
        self.point.notify();
    }

    /// A place in the line of those that wait.
    pub(crate) fn queue(&self) -> u64 {
        self.gate.queued.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the submitter with that number goes on next.
    pub(crate) fn is_turn(&self, number: u64) -> bool {
        self.gate.turn.load(Ordering::Acquire) == number
    }

    /// The submitter whose turn it was has gone on.
    pub(crate) fn next_turn(&self) {
        self.gate.turn.fetch_add(1, Ordering::Release);
        self.point.notify();
    }

    /// Whether a task with so many bytes fits.
    pub(crate) fn has_just_room_for(&self, bytes: u64) -> bool {
        self.fits(bytes, self.in_use())
    }

    fn in_use(&self) -> u64 {
        let left = self.left();
        self.gate.entered.load(Ordering::Acquire).wrapping_sub(left)
    }

    /// Whether a waiting submitter of a task with so many bytes goes on: they fit, and a quarter
    /// of the window is free, so that small tasks are not let in one by one.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let in_use = self.in_use();
        self.fits(bytes, in_use) && self.is_roomy(in_use)
    }

    fn is_roomy(&self, in_use: u64) -> bool {
        in_use <= self.bound - self.bound.div_ceil(4)
    }

    /// Notes the bytes of the task in `slot`; under the submission lock, before it is published.
    pub(crate) fn note(&self, slot: u32, bytes: u64) {
        self.of_slot.grow(slot, || AtomicU64::new(0));
        self.of_slot.get(slot).store(bytes, Ordering::Relaxed);
    }

    /// The bytes of the task in `slot`, for the thread that ends it, before it does.
    pub(crate) fn bytes_of(&self, slot: u32) -> u64 {
        self.of_slot.get(slot).load(Ordering::Relaxed)
    }

    /// A task with so many bytes was ended by `worker`, which is the calling thread.
    pub(crate) fn leave(&self, worker: usize, bytes: u64) {
        let left = &self.left[worker];
        left.store(left.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Release);
        if self.point.has_waiters() {
            let left = self.left();
            if self.is_roomy(self.gate.entered.load(Ordering::Acquire).wrapping_sub(left)) {
                self.point.notify();
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::park;
    use loom::sync::Arc;
    use loom::thread;

    /// Submits a task of two bytes and runs it.
    fn submit_and_run(window: &MemoryWindow, inside: &AtomicU64, worker: usize) {
        if !window.enter_at_once(2) {
            let number = window.queue();
            let ticket = window.point.enter();
            while !(window.is_turn(number) && window.has_room_for(2) && window.enter(2)) {
                park();
            }
            window.point.leave(ticket);
            window.next_turn();
        }
        assert_eq!(inside.fetch_add(2, Ordering::Relaxed), 0, "the bound holds");
        inside.fetch_sub(2, Ordering::Relaxed);
        window.leave(worker, 2);
        // Before it rests.
        window.point.notify();
    }

    /// Two tasks do not fit at once: the second submitter must see that the first has left.
    #[test]
    fn loom_the_memory_bound_holds_and_everybody_gets_in() {
        loom::model(|| {
            let shared = Arc::new((MemoryWindow::new(3, 2), AtomicU64::new(0)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || submit_and_run(&shared.0, &shared.1, 1))
            };
            submit_and_run(&shared.0, &shared.1, 0);
            other.join().expect("the other submitter");
        });
    }
}
