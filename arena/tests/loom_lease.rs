//! Every interleaving of the lease protocol, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p millrace-arena --release --test loom_lease`
//!
//! The modules under test are the crate's own sources, included by path, so that nothing has
//! to be public for the sake of this test. The memory of a slot is a loom cell that tracks
//! accesses: a use after reclaiming, or a write that races with a read, fails the model.
#![cfg(loom)]
#![allow(unsafe_code, reason = "loom's tracked cell hands out raw pointers")]
#![allow(dead_code, reason = "each model uses a part of the included modules")]
#![allow(missing_docs, reason = "a test")]

#[path = "../src/gate.rs"]
mod gate;
#[path = "../src/lease.rs"]
mod lease;
#[path = "../src/sync.rs"]
mod sync;

use gate::{Gate, Reclaim};
use lease::State;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;

/// The bytes of a slot: what tasks touch without a lock, and what reclaiming overwrites.
type Bytes = Arc<UnsafeCell<u32>>;

/// The owner's side of a slot's memory.
struct Memory {
    bytes: Bytes,
    reclaimed: Arc<AtomicUsize>,
    abandoned: bool,
}

impl Reclaim for Memory {
    /// `true` once, when an abandoned slot gives its memory up.
    type Left = bool;

    fn reclaim(&mut self) -> bool {
        // SAFETY: the protocol under test promises that nobody else is inside; loom checks it.
        self.bytes.with_mut(|bytes| unsafe { *bytes = u32::MAX });
        self.reclaimed.fetch_add(1, Ordering::Relaxed);
        std::mem::take(&mut self.abandoned)
    }
}

struct Model {
    gate: Gate<Memory>,
    bytes: Bytes,
    reclaimed: Arc<AtomicUsize>,
}

impl Model {
    fn new() -> Arc<Model> {
        let bytes = Arc::new(UnsafeCell::new(0));
        let reclaimed = Arc::new(AtomicUsize::new(0));
        let memory =
            Memory { bytes: bytes.clone(), reclaimed: reclaimed.clone(), abandoned: false };
        Arc::new(Model { gate: Gate::new(1, memory), bytes, reclaimed })
    }

    fn read(&self) -> u32 {
        // SAFETY: a lease is held by the caller; loom checks that this suffices.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn write(&self, value: u32) {
        // SAFETY: a lease is held and no other task touches the cell; loom checks it.
        self.bytes.with_mut(|bytes| unsafe { *bytes = value });
    }

    fn reclaimed(&self) -> usize {
        self.reclaimed.load(Ordering::Relaxed)
    }
}

/// Looks until no generation of `gate` is closed.
fn wait(gate: &Gate<Memory>) -> State {
    loop {
        match gate.state() {
            State::Closed(_) => thread::yield_now(),
            state => return state,
        }
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn readers_and_close_reclaim_exactly_once_and_after_the_last_use() {
    check(|| {
        let model = Model::new();
        // Leased at submission, by the owner; used and released on the workers.
        model.gate.lease(1).unwrap();
        model.gate.lease(1).unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    assert_eq!(model.read(), 0, "the memory of a leased generation is intact");
                    model.gate.release();
                })
            })
            .collect();
        model.gate.close(1);
        assert!(model.gate.lease(1).is_err(), "closed in program order, whatever still runs");
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(model.reclaimed(), 1);
        assert_eq!(model.gate.state(), State::Open(2));
    });
}

#[test]
fn a_late_submission_is_either_leased_in_time_or_refused() {
    check(|| {
        let model = Model::new();
        let late = {
            let model = model.clone();
            thread::spawn(move || {
                if model.gate.lease(1).is_ok() {
                    assert_eq!(model.read(), 0);
                    model.gate.release();
                }
            })
        };
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                if model.gate.lease(1).is_ok() {
                    assert_eq!(model.read(), 0);
                    model.gate.release();
                }
            })
        };
        model.gate.close(1);
        late.join().unwrap();
        other.join().unwrap();
        assert_eq!(model.reclaimed(), 1, "refused submissions must not reclaim again");
    });
}

#[test]
fn the_next_generation_sees_the_reclaimed_memory() {
    check(|| {
        let model = Model::new();
        model.gate.lease(1).unwrap();
        let worker = {
            let model = model.clone();
            thread::spawn(move || {
                model.write(7);
                model.gate.release();
            })
        };
        model.gate.close(1);
        // The next generation is used as soon as its number is visible, without the lock.
        while model.gate.lease(2).is_err() {
            thread::yield_now();
        }
        assert_eq!(model.read(), u32::MAX, "the poison is ordered before the next use");
        model.write(8);
        model.gate.release();
        worker.join().unwrap();
        assert_eq!(model.reclaimed(), 1);
    });
}

#[test]
fn whoever_is_last_reclaims() {
    check(|| {
        let model = Model::new();
        model.gate.lease(1).unwrap();
        model.gate.lease(1).unwrap();
        for _ in 0..2 {
            let model = model.clone();
            thread::spawn(move || {
                model.gate.release();
            });
        }
        model.gate.close(1);
        assert_eq!(wait(&model.gate), State::Open(2));
        assert_eq!(model.reclaimed(), 1);
    });
}

#[test]
fn an_abandoned_slot_gives_its_memory_up_exactly_once_and_not_under_a_task() {
    check(|| {
        let model = Model::new();
        let given_up = Arc::new(AtomicUsize::new(0));
        // The task of the generation before is still at its end when the owner goes on.
        model.gate.lease(1).unwrap();
        let task = {
            let (model, given_up) = (model.clone(), given_up.clone());
            thread::spawn(move || {
                model.write(3);
                if model.gate.release() == Some(true) {
                    given_up.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let mut left = model.gate.close(1);
        if model.gate.state() == State::Open(2) {
            // The owner has gone on already: a second task, then it leaves.
            model.gate.lease(2).unwrap();
            left = model.gate.abandon(|memory| memory.abandoned = true);
            assert_ne!(left, Some(true), "a task still uses it");
            model.write(4);
            left = model.gate.release();
        } else if left.is_none() {
            left = model.gate.abandon(|memory| memory.abandoned = true);
        }
        if left == Some(true) {
            given_up.fetch_add(1, Ordering::Relaxed);
        }
        task.join().unwrap();
        assert_eq!(given_up.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_slots_do_not_wait_for_each_other() {
    check(|| {
        let (first, second) = (Model::new(), Model::new());
        first.gate.lease(1).unwrap();
        second.gate.lease(1).unwrap();
        let worker = {
            let (first, second) = (first.clone(), second.clone());
            thread::spawn(move || {
                // The younger slot ends before the older one.
                second.gate.release();
                first.gate.release();
            })
        };
        first.gate.close(1);
        second.gate.close(1);
        assert_eq!(wait(&second.gate), State::Open(2));
        assert_eq!(wait(&first.gate), State::Open(2));
        worker.join().unwrap();
    });
}

/// The variant that adds first and undoes the addition when it turns out to be refused.
#[test]
#[should_panic(expected = "reclaimed twice")]
fn add_then_undo_reclaims_twice() {
    const CLOSED: u64 = 1 << 31;
    check(|| {
        let word = Arc::new(AtomicU64::new(1));
        let reclaimed = Arc::new(AtomicUsize::new(0));
        let release = |word: &AtomicU64, reclaimed: &AtomicUsize| {
            if word.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
                reclaimed.fetch_add(1, Ordering::Relaxed);
            }
        };
        let late = {
            let (word, reclaimed) = (word.clone(), reclaimed.clone());
            thread::spawn(move || {
                // Refused or not, the addition is taken back by the same release.
                word.fetch_add(1, Ordering::Acquire);
                release(&word, &reclaimed);
            })
        };
        word.fetch_or(CLOSED, Ordering::AcqRel);
        release(&word, &reclaimed);
        late.join().unwrap();
        assert!(reclaimed.load(Ordering::Relaxed) < 2, "reclaimed twice");
    });
}
