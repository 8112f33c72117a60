//! Counters of the processor and of the kernel, one set per thread.
//!
//! A set is opened on the thread it counts ([`Counters::open_on_worker`], which the runtime
//! calls as each worker starts) and is switched and read by the main thread. It has two
//! groups: what the processor counts in user mode (cycles, instructions, last-level cache loads
//! and stores with their misses) and what the kernel counts (task clock, page faults, context
//! switches). The second works on machines whose processor shows no counters, as most virtual
//! machines.
//!
//! Invariants: every event has a [`Reading`](crate::reading::Reading), so a count that is
//! missing carries a reason; a ratio is taken only of two counts of one group; a sum over
//! workers exists only if each worker was counted.

mod counts;
mod event;
mod group;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

pub use counts::{Count, Counts};
pub use event::Event;
use group::{EventSet, PerfGroup, System};
use serde::{Deserialize, Serialize};

/// Descriptors that one thread's sets take at most: each event alone, with a group leader.
const DESCRIPTORS_PER_THREAD: u64 = 2 * (Event::HARDWARE.len() + Event::SOFTWARE.len()) as u64;
/// Descriptors kept for everything else: files, pipes, the terminal.
const DESCRIPTORS_KEPT: u64 = 64;

/// Counts of a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterReport {
    /// Name and counts of each thread, workers first, the main thread last unless it is one of
    /// them.
    pub threads: Vec<(String, Counts)>,
    /// The sum over the threads that run tasks: the workers, or the main thread where there are
    /// none.
    pub workers: Counts,
}

/// The counters of a run: cheap to clone, one shared state.
#[derive(Clone, Debug)]
pub struct Counters {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// One slot per worker.
    workers: Mutex<Vec<Option<ThreadSets>>>,
    main: Mutex<Option<ThreadSets>>,
    main_thread: ThreadId,
    /// Whether worker 0 is the main thread.
    main_works: AtomicBool,
    /// Why no set is opened at all.
    refused: Option<String>,
}

#[derive(Debug)]
struct ThreadSets {
    hardware: EventSet<PerfGroup>,
    software: EventSet<PerfGroup>,
    /// Why the sets could not be switched on.
    failed: Option<String>,
}

impl ThreadSets {
    fn open() -> Self {
        ThreadSets {
            hardware: EventSet::open(&mut System, &Event::HARDWARE),
            software: EventSet::open(&mut System, &Event::SOFTWARE),
            failed: None,
        }
    }

    fn enable(&mut self, on: bool) {
        let result = self.hardware.enable(on).and_then(|()| self.software.enable(on));
        if let Err(error) = result {
            self.failed.get_or_insert(format!("switching the counters: {error}"));
        }
    }

    fn read(&mut self) -> Counts {
        if let Some(reason) = &self.failed {
            return Counts::unavailable(reason);
        }
        let mut counts = Counts::default();
        self.hardware.read(0, &mut counts);
        self.software.read(100, &mut counts);
        counts
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked while it opened its set leaves the slot empty, which is valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    /// Counters for `workers` worker threads and the calling thread.
    ///
    /// Raises the soft limit of open files towards the hard one when the sets need it; where
    /// that is not enough, no set is opened and the reports say so.
    pub fn new(workers: usize) -> Self {
        let needed = (workers as u64 + 1) * DESCRIPTORS_PER_THREAD + DESCRIPTORS_KEPT;
        let limit = crate::machine::raise_open_files(needed);
        let refused = (limit < needed).then(|| {
            format!("counters of {workers} workers need {needed} open files, the limit is {limit}")
        });
        let main = refused.is_none().then(ThreadSets::open);
        let shared = Shared {
            workers: Mutex::new((0..workers).map(|_| None).collect()),
            main: Mutex::new(main),
            main_thread: std::thread::current().id(),
            main_works: AtomicBool::new(false),
            refused,
        };
        Counters { shared: Arc::new(shared) }
    }

    /// Opens the set of worker `index`; to be called on that worker's thread. A worker that is
    /// the main thread has that one's set.
    pub fn open_on_worker(&self, index: usize) {
        if std::thread::current().id() == self.shared.main_thread {
            self.shared.main_works.store(true, Ordering::Relaxed);
            return;
        }
        if self.shared.refused.is_some() {
            return;
        }
        let sets = ThreadSets::open();
        if let Some(slot) = lock(&self.shared.workers).get_mut(index) {
            *slot = Some(sets);
        }
    }

    /// Starts the period. Every worker must have opened its set by now.
    pub fn start(&self) {
        let mut slots = lock(&self.shared.workers);
        let mut main = lock(&self.shared.main);
        slots.iter_mut().flatten().chain(main.iter_mut()).for_each(|sets| sets.enable(true));
    }

    /// Ends the period and reads every set.
    pub fn stop(&self) -> CounterReport {
        let mut slots = lock(&self.shared.workers);
        let mut main = lock(&self.shared.main);
        slots.iter_mut().flatten().chain(main.iter_mut()).for_each(|sets| sets.enable(false));

        let refused = self.shared.refused.as_deref();
        let read = |sets: &mut Option<ThreadSets>| match sets {
            Some(sets) => sets.read(),
            None => Counts::unavailable(refused.unwrap_or("the thread opened no counters")),
        };
        let mut threads: Vec<(String, Counts)> = slots
            .iter_mut()
            .enumerate()
            .map(|(index, sets)| (format!("worker {index}"), read(sets)))
            .collect();
        let main = ("main".to_owned(), read(&mut main));
        if self.shared.main_works.load(Ordering::Relaxed) {
            threads[0] = ("worker 0 and main".to_owned(), main.1);
            return CounterReport { workers: Counts::sum(&threads), threads };
        }
        let workers = match threads.is_empty() {
            true => Counts::sum(std::slice::from_ref(&main)),
            false => Counts::sum(&threads),
        };
        threads.push(main);
        CounterReport { threads, workers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spends processor time, so that a task clock has something to count.
    fn work() -> u64 {
        (0..2_000_000_u64).fold(1, |a, b| std::hint::black_box(a.wrapping_mul(31) ^ b))
    }

    #[test]
    fn every_event_of_every_thread_has_a_reading_or_a_reason() {
        let counters = Counters::new(2);
        let [open, start, done] = [(); 3].map(|()| std::sync::Barrier::new(3));
        let report = std::thread::scope(|scope| {
            for index in 0..2 {
                let (counters, open, start, done) = (counters.clone(), &open, &start, &done);
                scope.spawn(move || {
                    counters.open_on_worker(index);
                    open.wait();
                    start.wait();
                    work();
                    done.wait();
                });
            }
            open.wait();
            counters.start();
            start.wait();
            work();
            done.wait();
            counters.stop()
        });
        assert_eq!(report.threads.len(), 3);
        for (name, counts) in &report.threads {
            for event in Event::HARDWARE.into_iter().chain(Event::SOFTWARE) {
                let reading = counts.reading(event);
                match reading.value() {
                    Some(_) => assert_ne!(reading.share(), 0.0),
                    None => assert!(!reading.reason().unwrap_or_default().is_empty(), "{name}"),
                }
            }
            // Where the system lets the task clock be counted, each thread has spent time.
            if let Some(clock) = counts.reading(Event::TaskClock).value() {
                assert!(clock > 0, "{name}");
            }
        }
    }

    #[test]
    fn too_few_descriptors_are_a_reason() {
        let report = Counters::new(10_000_000).refused();
        assert!(report.expect("refused").contains("open files"));
    }

    impl Counters {
        fn refused(&self) -> Option<String> {
            self.shared.refused.clone()
        }
    }
}
