//! Running totals: what workers did, why they were idle, and for what the main thread waited.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::trace::Cause;

/// Totals since the runtime was built; subtract two readings with [`Statistics::since`].
///
/// Workers count a task when it ends; idle intervals in progress are counted up to the reading.
/// So a reading is exact while nothing runs, for example after
/// [`Runtime::wait`](crate::Runtime::wait).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// When the reading was taken: nanoseconds since the runtime was built.
    pub at_ns: u64,
    /// One entry per worker.
    pub workers: Vec<WorkerStatistics>,
    /// Tasks run by other threads (all of them, with 0 workers).
    pub inline: WorkerStatistics,
    /// What threads outside the pool waited for: cause and name (`arena batch`, ...), how
    /// often and how long.
    pub waits: BTreeMap<(Cause, String), WaitTotal>,
    /// Tasks submitted.
    pub submitted: u64,
}

/// Totals of one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatistics {
    /// Bodies run.
    pub tasks: u64,
    /// Tasks that were dropped because one that they depend on failed.
    pub cancelled: u64,
    /// Time in bodies, in nanoseconds. 0 when timing is off.
    pub busy_ns: u64,
    /// Time without a ready task, by cause, in nanoseconds. 0 when timing is off.
    pub idle_ns: BTreeMap<Cause, u64>,
}

impl WorkerStatistics {
    /// Idle time over all causes, in nanoseconds.
    pub fn idle_total_ns(&self) -> u64 {
        self.idle_ns.values().sum()
    }

    fn since(&self, earlier: &Self) -> Self {
        WorkerStatistics {
            tasks: self.tasks - earlier.tasks,
            cancelled: self.cancelled - earlier.cancelled,
            busy_ns: self.busy_ns - earlier.busy_ns,
            idle_ns: self
                .idle_ns
                .iter()
                .map(|(cause, ns)| (*cause, ns - earlier.idle_ns.get(cause).copied().unwrap_or(0)))
                .collect(),
        }
    }
}

/// How often and how long threads outside the pool waited for one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTotal {
    /// Waits, counted when they begin.
    pub count: u64,
    /// Nanoseconds, counted when a wait ends.
    pub ns: u64,
}

impl Statistics {
    /// What happened between an earlier reading of the same runtime and this one. `at_ns`
    /// becomes the time between them.
    ///
    /// # Panics
    /// When `earlier` is later, or of a runtime with another number of workers.
    pub fn since(&self, earlier: &Self) -> Self {
        assert_eq!(self.workers.len(), earlier.workers.len(), "readings of different runtimes");
        let workers = self.workers.iter().zip(&earlier.workers);
        Statistics {
            at_ns: self.at_ns - earlier.at_ns,
            workers: workers.map(|(now, then)| now.since(then)).collect(),
            inline: self.inline.since(&earlier.inline),
            waits: self
                .waits
                .iter()
                .map(|(key, now)| {
                    let then = earlier.waits.get(key).copied().unwrap_or_default();
                    let total = WaitTotal { count: now.count - then.count, ns: now.ns - then.ns };
                    (key.clone(), total)
                })
                .filter(|(_, total)| *total != WaitTotal::default())
                .collect(),
            submitted: self.submitted - earlier.submitted,
        }
    }

    /// Time that threads outside the pool waited for `cause`, in nanoseconds.
    pub fn wait_ns(&self, cause: Cause) -> u64 {
        self.waits.iter().filter(|((c, _), _)| *c == cause).map(|(_, total)| total.ns).sum()
    }
}

/// Nanoseconds per cause, in the order of [`Cause::ALL`].
pub(crate) type CauseTimes = [u64; Cause::ALL.len()];

/// For how long, so far, workers were starved by each cause for which the main thread waited.
///
/// A wait *starves* the workers from the moment when every submitted task has been started:
/// until then, an idle worker lacks a ready task because of dependencies, not because of the
/// wait. (A full window starves from its beginning: only the window keeps further tasks out.)
///
/// A worker reads the clock when an idle interval begins and when it ends: the difference is
/// how that interval divides among the causes, and the rest is for want of a ready task.
#[derive(Default)]
pub(crate) struct CauseClock {
    waiting: AtomicBool,
    state: Mutex<CauseClockState>,
}

#[derive(Default)]
struct CauseClockState {
    times: CauseTimes,
    /// Waits in progress; the first one counts.
    depth: u32,
    current: Option<Waiting>,
    starved_since: Option<u64>,
}

/// A wait in progress: its cause, and the name that it has in a trace.
#[derive(Clone, Copy)]
struct Waiting {
    cause: Cause,
    name: u32,
}

/// An interval in which a wait starved the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    pub(crate) cause: Cause,
    pub(crate) name: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl CauseClockState {
    fn feed(&mut self, now: u64) -> Option<Starved> {
        let Waiting { cause, name } = self.current?;
        let start = self.starved_since.take()?;
        if let Some(index) = cause.index() {
            self.times[index] += now.saturating_sub(start);
        }
        Some(Starved { cause, name, start, end: now.max(start) })
    }
}

impl CauseClock {
    fn state(&self) -> MutexGuard<'_, CauseClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread waits. Exact only after a fence.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, cause: Cause, name: u32, now: u64) {
        let mut state = self.state();
        state.depth += 1;
        if state.depth == 1 {
            state.current = Some(Waiting { cause, name });
            state.starved_since = (cause == Cause::Window).then_some(now);
            self.waiting.store(true, Ordering::Relaxed);
        }
    }

    /// Every submitted task has been started: if a thread waits, workers starve from now on.
    pub(crate) fn starve(&self, now: u64) {
        let mut state = self.state();
        if state.current.is_some() {
            state.starved_since.get_or_insert(now);
        }
    }

    /// A task was submitted during a wait: workers starve no longer.
    pub(crate) fn feed(&self, now: u64) -> Option<Starved> {
        self.state().feed(now)
    }

    pub(crate) fn end(&self, now: u64) -> Option<Starved> {
        let mut state = self.state();
        state.depth -= 1;
        if state.depth > 0 {
            return None;
        }
        self.waiting.store(false, Ordering::Relaxed);
        let starved = state.feed(now);
        state.current = None;
        starved
    }

    pub(crate) fn read(&self, now: u64) -> CauseTimes {
        let state = self.state();
        let mut times = state.times;
        if let (Some(waiting), Some(since)) = (state.current, state.starved_since)
            && let Some(index) = waiting.cause.index()
        {
            times[index] += now.saturating_sub(since);
        }
        times
    }
}

/// Totals of one lane; written by its thread alone, read by anyone.
#[derive(Default)]
pub(crate) struct LaneTotals {
    tasks: AtomicU64,
    cancelled: AtomicU64,
    busy: AtomicU64,
    idle: Mutex<IdleTotals>,
}

#[derive(Default)]
struct IdleTotals {
    times: CauseTimes,
    since: Option<Interval>,
}

/// An idle interval in progress.
#[derive(Clone, Copy)]
struct Interval {
    start: u64,
    /// What the main thread had waited for by then.
    before: CauseTimes,
    /// The cause, where it is known already.
    cause: Option<Cause>,
}

impl IdleTotals {
    /// Counts an idle interval of `ns`, of which `waits` per cause overlap the main thread's.
    fn count(times: &mut CauseTimes, ns: u64, waits: CauseTimes) {
        let mut rest = ns;
        for ((total, cause), wait) in times.iter_mut().zip(Cause::ALL).zip(waits) {
            let share = if cause == Cause::NoReadyTask { rest } else { wait.min(rest) };
            *total += share;
            rest -= share;
        }
    }

    /// The totals, including the interval in progress up to `now`.
    fn until(&self, now: u64, clock: &CauseClock) -> CauseTimes {
        let mut times = self.times;
        if let Some(Interval { start, before, cause }) = self.since {
            let ns = now.saturating_sub(start);
            if let Some(index) = cause.and_then(Cause::index) {
                times[index] += ns;
            } else {
                let after = clock.read(now);
                let waits = std::array::from_fn(|i| after[i].saturating_sub(before[i]));
                Self::count(&mut times, ns, waits);
            }
        }
        times
    }
}

fn add(total: &AtomicU64, value: u64) {
    // One writer, so no read-modify-write is needed.
    total.store(total.load(Ordering::Relaxed) + value, Ordering::Relaxed);
}

impl LaneTotals {
    pub(crate) fn task(&self, ns: u64) {
        add(&self.tasks, 1);
        add(&self.busy, ns);
    }

    pub(crate) fn cancelled(&self) {
        add(&self.cancelled, 1);
    }

    fn idle_totals(&self) -> MutexGuard<'_, IdleTotals> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle interval begins.
    pub(crate) fn idle_begin(&self, now: u64, clock: &CauseClock) {
        let before = clock.read(now);
        self.idle_totals().since = Some(Interval { start: now, before, cause: None });
    }

    /// An idle interval begins whose cause is known.
    pub(crate) fn away_begin(&self, now: u64, cause: Cause) {
        let before = CauseTimes::default();
        self.idle_totals().since = Some(Interval { start: now, before, cause: Some(cause) });
    }

    /// The idle interval ends; returns when it began.
    pub(crate) fn idle_end(&self, now: u64, clock: &CauseClock) -> Option<u64> {
        let mut idle = self.idle_totals();
        idle.times = idle.until(now, clock);
        idle.since.take().map(|interval| interval.start)
    }

    /// When the idle interval in progress began, and its cause, if that is known already.
    pub(crate) fn idle_since(&self) -> Option<(u64, Cause)> {
        let since = self.idle_totals().since?;
        Some((since.start, since.cause.unwrap_or_default()))
    }

    pub(crate) fn read(&self, now: u64, clock: &CauseClock) -> WorkerStatistics {
        let idle = self.idle_totals().until(now, clock);
        let load = |total: &AtomicU64| total.load(Ordering::Relaxed);
        WorkerStatistics {
            tasks: load(&self.tasks),
            cancelled: load(&self.cancelled),
            busy_ns: load(&self.busy),
            idle_ns: Cause::ALL.into_iter().zip(idle).collect(),
        }
    }
}

/// Everything that is counted.
pub(crate) struct Totals {
    /// Workers first; the last entry is for all other threads, whose writers hold a lock.
    pub(crate) lanes: Vec<CachePadded<LaneTotals>>,
    pub(crate) waits: Mutex<BTreeMap<(Cause, String), WaitTotal>>,
    pub(crate) clock: CauseClock,
}

impl Totals {
    pub(crate) fn new(workers: usize) -> Self {
        Totals {
            lanes: (0..=workers).map(|_| CachePadded::default()).collect(),
            waits: Mutex::default(),
            clock: CauseClock::default(),
        }
    }

    fn wait_total(&self, cause: Cause, name: &str, change: impl FnOnce(&mut WaitTotal)) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        change(waits.entry((cause, name.to_owned())).or_default());
    }

    pub(crate) fn wait_begins(&self, cause: Cause, name: &str) {
        self.wait_total(cause, name, |total| total.count += 1);
    }

    pub(crate) fn wait_ends(&self, cause: Cause, name: &str, ns: u64) {
        self.wait_total(cause, name, |total| total.ns += ns);
    }

    pub(crate) fn read(&self, at_ns: u64, submitted: u64) -> Statistics {
        let (inline, workers) = self.lanes.split_last().expect("one lane at least");
        Statistics {
            at_ns,
            workers: workers.iter().map(|lane| lane.read(at_ns, &self.clock)).collect(),
            inline: inline.read(at_ns, &self.clock),
            waits: self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            submitted,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_idle_interval_divides_among_the_causes() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        clock.begin(Cause::Barrier, 4, 100);
        totals.idle_begin(120, &clock);
        // Until here there were tasks that had not been started.
        clock.starve(150);
        clock.starve(155);
        clock.begin(Cause::Acquire, 5, 160);
        assert_eq!(clock.end(170), None);
        let starved = Starved { cause: Cause::Barrier, name: 4, start: 150, end: 180 };
        assert_eq!(clock.feed(180), Some(starved), "a body has submitted a task");
        assert_eq!(clock.end(200), None);
        clock.starve(205);
        clock.begin(Cause::Window, 6, 220);
        // The interval in progress counts up to the reading, and once.
        let half = totals.read(210, &clock).idle_ns;
        assert_eq!((half[&Cause::Barrier], half[&Cause::NoReadyTask]), (30, 60));
        assert_eq!(totals.idle_end(250, &clock), Some(120));
        let idle = totals.read(300, &clock).idle_ns;
        assert_eq!(idle[&Cause::Barrier], 30);
        assert_eq!(idle[&Cause::Window], 30);
        assert_eq!(idle[&Cause::NoReadyTask], 70);
        assert_eq!(idle.values().sum::<u64>(), 130);
    }
}
