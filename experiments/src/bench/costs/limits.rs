//! What the machine lets nobody pass.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread::{self, Thread};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::rows::{Cost, CostRow, Measured};
use super::{Sitting, per_call};
use crate::bench::rows::median;

/// Round trips of one repetition between two threads: awake, and asleep.
const TRIPS: (u64, u64) = (2000, 50);

/// The machine's limits, in nanoseconds.
#[derive(Debug)]
pub(super) struct Limits {
    /// An atomic addition to a line of the core's own.
    pub(super) atomic: f64,
    /// A cache line from one core to another.
    pub(super) line: f64,
    /// All that were measured.
    samples: [Vec<f64>; 6],
}

impl Limits {
    pub(super) fn measure(sitting: &Sitting) -> Self {
        let short = sitting.short();
        let samples = [
            atomic(short),
            full_fence(short),
            transfer(short),
            allocation(short),
            clock(short),
            wake_up(if sitting.quick { 3 } else { 25 }),
        ];
        let [atomic, _, line, ..] = samples.each_ref().map(|samples| median(samples).0);
        Limits { atomic, line, samples }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = CostRow> {
        let names = [
            ("limit.atomic", "atomic addition, own cache line"),
            ("limit.fence", "store and full fence"),
            ("limit.line", "cache line to another core, one way"),
            ("limit.allocation", "allocation of 128 B, and back"),
            ("limit.clock", "reading of the system's clock"),
            ("limit.wake_up", "wake-up of a sleeping thread, one way"),
        ];
        names.into_iter().zip(&self.samples).map(|((name, what), values)| {
            Cost::time(name, what).row(&Measured { values: values.clone(), others: None })
        })
    }
}

fn atomic(repetitions: usize) -> Vec<f64> {
    let place = AtomicU64::new(0);
    always(repetitions, 10_000, || _ = black_box(&place).fetch_add(1, Ordering::Relaxed))
}

fn full_fence(repetitions: usize) -> Vec<f64> {
    let place = AtomicU64::new(0);
    always(repetitions, 10_000, || {
        black_box(&place).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    })
}

fn allocation(repetitions: usize) -> Vec<f64> {
    always(repetitions, 10_000, || drop(black_box(Box::new([0u64; 16]))))
}

fn clock(repetitions: usize) -> Vec<f64> {
    always(repetitions, 10_000, || _ = black_box(Instant::now()))
}

fn always(repetitions: usize, calls: u32, mut call: impl FnMut()) -> Vec<f64> {
    let times = per_call(repetitions, calls, |_| {
        call();
        Ok::<(), std::convert::Infallible>(())
    });
    times.unwrap_or_else(|never| match never {})
}

/// Two threads that answer one another, each on a core of its own, if there are two.
fn transfer(repetitions: usize) -> Vec<f64> {
    let line = AtomicU64::new(0);
    ping_pong(
        &line,
        repetitions,
        TRIPS.0,
        |_| (),
        |until| {
            while line.load(Ordering::Acquire) != until {
                spin_loop();
            }
        },
    )
}

/// The same, but each sleeps until it is woken.
fn wake_up(repetitions: usize) -> Vec<f64> {
    let line = AtomicU64::new(0);
    ping_pong(&line, repetitions, TRIPS.1, Thread::unpark, |until| {
        while line.load(Ordering::Acquire) != until {
            thread::park();
        }
    })
}

/// Nanoseconds of one way, of each repetition.
fn ping_pong(
    line: &AtomicU64,
    repetitions: usize,
    trips: u64,
    tell: impl Fn(&Thread) + Sync,
    until: impl Fn(u64) + Sync,
) -> Vec<f64> {
    let rounds = (repetitions as u64 + 1) * trips;
    let main = thread::current();
    let allowed = sched_getaffinity(None).ok();
    let [first, second] = two_cores(allowed.as_ref());
    keep_on(first);
    let times = thread::scope(|scope| {
        let (tell, until) = (&tell, &until);
        let other = scope.spawn(move || {
            keep_on(second);
            for round in 0..rounds {
                until(2 * round + 1);
                line.store(2 * round + 2, Ordering::Release);
                tell(&main);
            }
        });
        let mut round = 0;
        let mut repetition = || {
            let start = Instant::now();
            for _ in 0..trips {
                line.store(2 * round + 1, Ordering::Release);
                tell(other.thread());
                until(2 * round + 2);
                round += 1;
            }
            start.elapsed().as_nanos() as f64 / (2 * trips) as f64
        };
        // The first waits for the other thread to start.
        repetition();
        (0..repetitions).map(|_| repetition()).collect()
    });
    keep_on(allowed);
    times
}

/// Two of the cores that the process may use, each alone; none if there are no two.
fn two_cores(allowed: Option<&CpuSet>) -> [Option<CpuSet>; 2] {
    let cores = |core: &usize| allowed.is_some_and(|allowed| allowed.is_set(*core));
    let mut cores = (0..CpuSet::MAX_CPU).filter(cores).map(|core| {
        let mut alone = CpuSet::new();
        alone.set(core);
        alone
    });
    match (cores.next(), cores.next()) {
        (Some(first), Some(second)) => [Some(first), Some(second)],
        _ => [None, None],
    }
}

/// Keeps the calling thread on these cores. Where the system refuses, it stays where it may be.
fn keep_on(cores: Option<CpuSet>) {
    let _ = cores.map(|cores| sched_setaffinity(None, &cores));
}
