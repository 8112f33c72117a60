//! Random programs against a model, and a stress of the real thing on several threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_arena::{Arena, ArenaError, Backing, Buffer};
use millrace_runtime::{Runtime, SubmitError};
use proptest::prelude::*;

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    /// Adds to a buffer, whichever generation it is from.
    Add(usize, u64),
    /// Copies one buffer to another of the same step, if both have elements.
    Copy(usize, usize),
    /// Compares a buffer with the model.
    Look(usize),
    Next,
    Reset,
    Recycle,
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..1000usize;
    prop_oneof![
        4 => (0..3000usize).prop_map(Step::Alloc),
        6 => (any.clone(), 1..100u64).prop_map(|(b, v)| Step::Add(b, v)),
        3 => (any.clone(), any.clone()).prop_map(|(a, b)| Step::Copy(a, b)),
        2 => any.prop_map(Step::Look),
        2 => Just(Step::Next),
        1 => Just(Step::Reset),
        1 => Just(Step::Recycle),
    ]
}

/// What the model knows of a buffer.
struct Known {
    buffer: Buffer<u64>,
    /// Which turn of the ring it belongs to.
    turn: usize,
    /// Its elements, all alike.
    value: u64,
}

struct Model {
    rt: Runtime,
    arena: Arena,
    limit: usize,
    buffers: Vec<Known>,
    turn: usize,
    ended: bool,
    used: usize,
}

impl Model {
    fn is_fresh(&self, known: &Known) -> bool {
        known.turn == self.turn && !self.ended
    }

    /// One of the last buffers: some of them fresh, some stale.
    fn pick(&self, index: usize) -> Option<usize> {
        let back = index.checked_rem(self.buffers.len().min(8))?;
        Some(self.buffers.len() - 1 - back)
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Alloc(len) => self.alloc(len),
            Step::Add(index, value) => {
                let Some(index) = self.pick(index) else { return };
                let fresh = self.is_fresh(&self.buffers[index]);
                let known = &mut self.buffers[index];
                let result = self.rt.spawn("add", known.buffer.write(), move |x| {
                    x.iter_mut().for_each(|x| *x = x.wrapping_add(value));
                });
                check(result, fresh);
                if fresh {
                    known.value = known.value.wrapping_add(value);
                }
            }
            Step::Copy(from, to) => {
                let (Some(from), Some(to)) = (self.pick(from), self.pick(to)) else { return };
                if from == to {
                    return;
                }
                let (a, b) = (&self.buffers[from], &self.buffers[to]);
                let fresh = self.is_fresh(a) && self.is_fresh(b);
                let empty = a.buffer.is_empty();
                let access = (a.buffer.read(), b.buffer.write());
                let result = self.rt.spawn("copy", access, |(from, to)| {
                    if let Some(value) = from.first() {
                        to.fill(*value);
                    }
                });
                check(result, fresh);
                if fresh && !empty {
                    self.buffers[to].value = self.buffers[from].value;
                }
            }
            Step::Look(index) => {
                let Some(index) = self.pick(index) else { return };
                let known = &self.buffers[index];
                match known.buffer.acquire() {
                    Ok(data) => {
                        assert!(self.is_fresh(known));
                        assert!(data.iter().all(|x| *x == known.value));
                    }
                    Err(_) => assert!(!self.is_fresh(known)),
                }
            }
            Step::Next => self.turned(|arena| arena.next()),
            Step::Reset => self.turned(|arena| arena.reset()),
            Step::Recycle => {
                self.arena.recycle();
                self.ended = true;
            }
        }
    }

    fn turned(&mut self, turn: impl Fn(&Arena) -> Result<(), ArenaError>) {
        turn(&self.arena).unwrap();
        self.turn += 1;
        self.ended = false;
        self.used = 0;
    }

    fn alloc(&mut self, len: usize) {
        let bytes = (len * 8).next_multiple_of(64);
        match self.arena.alloc::<u64>(len) {
            Ok(buffer) => {
                assert!(!self.ended);
                self.used += bytes;
                let value = self.buffers.len() as u64;
                let clear = move |x: &mut [u64]| x.fill(value);
                self.rt.spawn("clear", buffer.overwrite(), clear).unwrap();
                self.buffers.push(Known { buffer, turn: self.turn, value });
            }
            Err(ArenaError::Ended { .. }) => assert!(self.ended),
            Err(ArenaError::Limit { used, limit, largest, .. }) => {
                assert!(used <= limit && largest < bytes);
                let alone = self.arena.depth() == 1;
                assert!(!alone || self.used + bytes > self.limit, "refused without need");
            }
            Err(error) => panic!("{error}"),
        }
        let statistics = self.arena.statistics();
        assert!(statistics.held <= self.limit);
        assert!(statistics.high_water <= statistics.held);
    }
}

fn check<T>(result: Result<T, SubmitError>, fresh: bool) {
    match result {
        Ok(_) => assert!(fresh, "a stale buffer was accepted"),
        Err(SubmitError::Stale { held, current, .. }) => assert!(!fresh && held < current),
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn random_programs_behave_like_the_model(
        steps in prop::collection::vec(step(), 1..120),
        workers in 0..4usize,
        depth in 1..4usize,
        mapped: bool,
    ) {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let limit = 120_000 * depth;
        let backing = if mapped { Backing::Mapped } else { Backing::Bump };
        let arena =
            Arena::builder(&rt, "model").depth(depth).limit(limit).backing(backing).build();
        let buffers = Vec::new();
        let mut model =
            Model { rt, arena, limit, buffers, turn: 0, ended: false, used: 0 };
        for step in &steps {
            model.run(step);
        }
        model.rt.wait().unwrap();
    }
}

/// Four threads submit to arenas of their own and share one more; every task checks that the
/// memory it was granted has what its predecessor left.
#[test]
fn four_threads_of_generations() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let rt = Runtime::builder().workers(4).build().unwrap();
    let shared = Arena::new(&rt, "shared");
    let total = shared.alloc::<u64>(1).unwrap();
    rt.spawn("clear", total.overwrite(), |total| total[0] = 0).unwrap();
    let bad = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (rt, bad) = (&rt, &bad);
            scope.spawn(move || {
                let arena = Arena::builder(rt, "stress").depth(1 + thread as usize % 3).build();
                for round in 0..rounds {
                    let value = thread << 32 | round;
                    let x = arena.alloc_sharded::<u64>(64, 8, 4).unwrap();
                    let y = arena.alloc::<u64>(512).unwrap();
                    for i in 0..4 {
                        rt.spawn("fill", x.shard(i).overwrite(), move |x| x.fill(value)).unwrap();
                    }
                    let bad = bad.clone();
                    let copy = (x.whole().read(), y.overwrite());
                    rt.spawn("copy", copy, |(x, y)| y.copy_from_slice(x)).unwrap();
                    rt.spawn("check", (y.read(), total.write()), move |(y, total)| {
                        if y.iter().any(|y| *y != value) {
                            bad.fetch_add(1, Ordering::Relaxed);
                        }
                        total[0] += y.len() as u64;
                    })
                    .unwrap();
                    match round % 5 {
                        0 => arena.reset().unwrap(),
                        1 => {
                            arena.recycle();
                            arena.next().unwrap();
                        }
                        _ => arena.next().unwrap(),
                    }
                    assert!(rt.spawn("late", y.read(), |_| ()).is_err());
                }
                assert!(arena.statistics().chunks <= arena.depth());
            });
        }
    });
    assert_eq!(total.acquire().unwrap()[0], 4 * rounds * 512);
    assert_eq!(bad.load(Ordering::Relaxed), 0);
    rt.wait().unwrap();
}
