//! Running totals: what workers did, why they were idle, and for what the main thread waited.

mod causes;
mod display;
mod durations;
mod kinds;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

pub(crate) use causes::Starved;
use causes::{CauseClock, CauseTimes};
pub use durations::Durations;
pub use kinds::KindStatistics;
pub(crate) use kinds::{KindWriter, LaneKinds, SubmittedKinds};

use crate::trace::Cause;

/// Totals since the runtime was built; subtract two readings with [`Statistics::since`].
///
/// Workers count a task when it ends; idle intervals in progress are counted up to the reading.
/// So a reading is exact while nothing runs, for example after
/// [`Runtime::wait`](crate::Runtime::wait); a worker that is about to go idle by then may still
/// have to note that.
///
/// Displayed, a reading is a table of the workers and one of the kinds of tasks:
///
/// ```
/// use millrace_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(2).build()?;
/// for _ in 0..100 {
///     rt.spawn("count", (), |()| ())?;
/// }
/// rt.wait()?;
/// let statistics = rt.statistics();
/// let count = &statistics.kinds["count"];
/// assert_eq!(count.body.count(), 100);
/// println!("a body took {} ns in the median, 99% at most {} ns, and waited for {} ns",
///     count.body.median_ns(), count.body.p99_ns(), count.delay.mean_ns());
/// println!("{statistics}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// When the reading was taken: nanoseconds since the runtime was built.
    pub at_ns: u64,
    /// Whether timing is on ([`Builder::timing`](crate::Builder::timing)). If not, times are
    /// those of tasks and idle intervals that fell into traces (of all, if there is a watchdog),
    /// and scheduling time is not told.
    pub timed: bool,
    /// One entry per worker.
    pub workers: Vec<WorkerStatistics>,
    /// Tasks run by other threads (all of them, with 0 workers).
    pub inline: WorkerStatistics,
    /// What threads outside the pool waited for: cause and name (`arena batch`, ...), how
    /// often and how long.
    pub waits: BTreeMap<(Cause, String), WaitTotal>,
    /// Totals per kind of task, by its name: over all workers and other threads.
    pub kinds: BTreeMap<String, KindStatistics>,
    /// Tasks submitted.
    pub submitted: u64,
}

/// Totals of one worker. Its time is spent in bodies, idle, or scheduling: the three add up to
/// the time since the runtime was built ([`Statistics::at_ns`]). A body in progress counts as
/// scheduling until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatistics {
    /// Bodies run.
    pub tasks: u64,
    /// Tasks that were dropped because one that they depend on failed.
    pub cancelled: u64,
    /// Time in bodies, in nanoseconds. 0 when timing is off.
    pub busy_ns: u64,
    /// The rest: time neither in bodies nor idle, in nanoseconds. The worker took a task, ended
    /// one, or lost its core to another thread. 0 when timing is off, and for threads that are
    /// no workers.
    pub scheduling_ns: u64,
    /// Time without a ready task, by cause, in nanoseconds. 0 when timing is off.
    pub idle_ns: BTreeMap<Cause, u64>,
    /// The part of the idle time in which the thread was awake and looked for tasks, in
    /// nanoseconds: the processor time that looking costs, at most, for the thread offers its
    /// core to others meanwhile.
    ///
    /// Idle time is looking, sleeping, or ([`Cause::MainBusy`]) being away:
    /// `looking_ns + sleeping_ns + idle_ns[&Cause::MainBusy]` is
    /// [`idle_total_ns`](Self::idle_total_ns).
    pub looking_ns: u64,
    /// The part of the idle time in which the thread slept, in nanoseconds.
    pub sleeping_ns: u64,
    /// How often it fell asleep. Counted without timing, too.
    pub sleeps: u64,
    /// How often it woke up: as often, or once less while it sleeps. Counted without timing, too.
    pub wakeups: u64,
}

impl WorkerStatistics {
    /// Idle time over all causes, in nanoseconds.
    pub fn idle_total_ns(&self) -> u64 {
        self.idle_ns.values().sum()
    }

    /// Takes the idle time that is neither sleeping nor being away as looking.
    fn with_looking(self) -> Self {
        let away = self.idle_ns.get(&Cause::MainBusy).copied().unwrap_or(0);
        let present = self.idle_total_ns() - away;
        // A sleep that ended since the time of the reading was taken counts as a whole.
        let sleeping_ns = self.sleeping_ns.min(present);
        WorkerStatistics { looking_ns: present - sleeping_ns, sleeping_ns, ..self }
    }

    /// Takes what is left of `elapsed_ns` as scheduling time.
    fn with_scheduling(self, elapsed_ns: u64) -> Self {
        let known = self.busy_ns + self.idle_total_ns();
        WorkerStatistics { scheduling_ns: elapsed_ns.saturating_sub(known), ..self }
    }

    fn since(&self, earlier: &Self) -> Self {
        let since = WorkerStatistics {
            tasks: self.tasks - earlier.tasks,
            cancelled: self.cancelled - earlier.cancelled,
            busy_ns: self.busy_ns - earlier.busy_ns,
            scheduling_ns: 0,
            idle_ns: self
                .idle_ns
                .iter()
                .map(|(cause, ns)| {
                    // The causes of an interval in progress may be seen to move a little later.
                    let earlier = earlier.idle_ns.get(cause).copied().unwrap_or(0);
                    (*cause, ns.saturating_sub(earlier))
                })
                .collect(),
            looking_ns: 0,
            // As above: the end of a sleep in progress may turn out to lie a little earlier.
            sleeping_ns: self.sleeping_ns.saturating_sub(earlier.sleeping_ns),
            sleeps: self.sleeps - earlier.sleeps,
            wakeups: self.wakeups - earlier.wakeups,
        };
        since.with_looking()
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
        let elapsed = self.at_ns - earlier.at_ns;
        let workers = self.workers.iter().zip(&earlier.workers).map(|(now, then)| {
            let since = now.since(then);
            if self.timed { since.with_scheduling(elapsed) } else { since }
        });
        Statistics {
            at_ns: elapsed,
            timed: self.timed,
            workers: workers.collect(),
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
            kinds: kinds::since(&self.kinds, &earlier.kinds),
            submitted: self.submitted - earlier.submitted,
        }
    }

    /// Time that threads outside the pool waited for `cause`, in nanoseconds.
    pub fn wait_ns(&self, cause: Cause) -> u64 {
        self.waits.iter().filter(|((c, _), _)| *c == cause).map(|(_, total)| total.ns).sum()
    }
}

/// Totals of one lane; written by its thread alone, read by anyone.
#[derive(Default)]
pub(crate) struct LaneTotals {
    tasks: AtomicU64,
    cancelled: AtomicU64,
    busy: AtomicU64,
    idle: Mutex<IdleTotals>,
    pub(crate) kinds: LaneKinds,
}

#[derive(Default)]
struct IdleTotals {
    times: CauseTimes,
    since: Option<Interval>,
    /// How long the thread slept, within idle intervals.
    sleeping: u64,
    asleep_since: Option<u64>,
    sleeps: u64,
    wakeups: u64,
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

    /// The time asleep, including the sleep in progress up to `now`.
    fn sleeping_until(&self, now: u64) -> u64 {
        self.sleeping + self.asleep_since.map_or(0, |since| now.saturating_sub(since))
    }
}

fn add(total: &AtomicU64, value: u64) {
    // One writer, so no read-modify-write is needed.
    total.store(total.load(Ordering::Relaxed) + value, Ordering::Relaxed);
}

impl LaneTotals {
    #[inline]
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

    /// The thread falls asleep, at the time `now` if it is known.
    pub(crate) fn falls_asleep(&self, now: Option<u64>) {
        let mut idle = self.idle_totals();
        idle.sleeps += 1;
        idle.asleep_since = now;
    }

    /// The thread has woken up, at the time `now` if it is known.
    pub(crate) fn woke_up(&self, now: Option<u64>) {
        let mut idle = self.idle_totals();
        idle.wakeups += 1;
        if let Some(now) = now {
            idle.sleeping = idle.sleeping_until(now);
        }
        idle.asleep_since = None;
    }

    /// When the idle interval in progress began, and its cause, if that is known already.
    pub(crate) fn idle_since(&self) -> Option<(u64, Cause)> {
        let since = self.idle_totals().since?;
        Some((since.start, since.cause.unwrap_or_default()))
    }

    pub(crate) fn read(&self, now: u64, clock: &CauseClock) -> WorkerStatistics {
        let idle = self.idle_totals();
        let load = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let read = WorkerStatistics {
            tasks: load(&self.tasks),
            cancelled: load(&self.cancelled),
            busy_ns: load(&self.busy),
            scheduling_ns: 0,
            idle_ns: Cause::ALL.into_iter().zip(idle.until(now, clock)).collect(),
            looking_ns: 0,
            sleeping_ns: idle.sleeping_until(now),
            sleeps: idle.sleeps,
            wakeups: idle.wakeups,
        };
        read.with_looking()
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

    /// The totals at the time `at_ns`. Per kind, `names` are the names by number and `bytes` what
    /// the submitted tasks declared.
    pub(crate) fn read(
        &self,
        at_ns: u64,
        timed: bool,
        submitted: u64,
        names: &[String],
        bytes: &[u64],
    ) -> Statistics {
        let (inline, workers) = self.lanes.split_last().expect("one lane at least");
        let worker = |lane: &CachePadded<LaneTotals>| {
            let totals = lane.read(at_ns, &self.clock);
            if timed { totals.with_scheduling(at_ns) } else { totals }
        };
        Statistics {
            at_ns,
            timed,
            workers: workers.iter().map(worker).collect(),
            inline: inline.read(at_ns, &self.clock),
            waits: self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            kinds: kinds::read(names, self.lanes.iter().map(|lane| &lane.kinds), bytes),
            submitted,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_starves_from_its_beginning() {
        let clock = CauseClock::default();
        for cause in [Cause::Window, Cause::Memory] {
            clock.begin(cause, 3, 100);
            assert_eq!(clock.end(150), Some(Starved { cause, name: 3, start: 100, end: 150 }));
        }
        clock.begin(Cause::Drain, 3, 100);
        assert_eq!(clock.end(150), None);
    }

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

    #[test]
    fn news_of_starvation_from_before_the_wait_count_from_its_beginning() {
        let clock = CauseClock::default();
        clock.begin(Cause::Drain, 1, 100);
        clock.starve(40);
        assert_eq!(clock.read(130).iter().sum::<u64>(), 30);
        assert_eq!(clock.feed(140).map(|starved| (starved.start, starved.end)), Some((100, 140)));
        clock.starve(120);
        assert_eq!(clock.end(150).map(|starved| (starved.start, starved.end)), Some((140, 150)));
        assert_eq!(clock.read(200).iter().sum::<u64>(), 50);
    }

    #[test]
    fn idle_time_is_looking_sleeping_or_being_away() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        let parts = |now| {
            let read = totals.read(now, &clock);
            let away = read.idle_ns[&Cause::MainBusy];
            assert_eq!(read.looking_ns + read.sleeping_ns + away, read.idle_total_ns());
            (read.looking_ns, read.sleeping_ns, away, read.sleeps, read.wakeups)
        };
        totals.idle_begin(100, &clock);
        assert_eq!(parts(130), (30, 0, 0, 0, 0));
        totals.falls_asleep(Some(140));
        assert_eq!(parts(150), (40, 10, 0, 1, 0));
        totals.woke_up(Some(190));
        assert_eq!(parts(200), (50, 50, 0, 1, 1));
        totals.falls_asleep(Some(205));
        totals.woke_up(Some(210));
        totals.idle_end(220, &clock);
        assert_eq!(parts(300), (65, 55, 0, 2, 2));
        totals.away_begin(300, Cause::MainBusy);
        assert_eq!(parts(330), (65, 55, 30, 2, 2));

        let earlier = totals.read(330, &clock);
        totals.idle_end(340, &clock);
        totals.idle_begin(350, &clock);
        totals.falls_asleep(Some(351));
        let since = totals.read(360, &clock).since(&earlier);
        assert_eq!((since.looking_ns, since.sleeping_ns), (1, 9));
        assert_eq!((since.idle_ns[&Cause::MainBusy], since.sleeps, since.wakeups), (10, 1, 0));
    }

    #[test]
    fn sleeps_are_counted_without_the_time() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        totals.falls_asleep(None);
        totals.woke_up(None);
        totals.falls_asleep(None);
        let read = totals.read(1000, &clock);
        assert_eq!((read.sleeps, read.wakeups), (2, 1));
        assert_eq!((read.looking_ns, read.sleeping_ns, read.idle_total_ns()), (0, 0, 0));
    }
}
