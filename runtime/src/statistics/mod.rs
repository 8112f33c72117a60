//! Running totals: what workers did, why they were idle, and for what the main thread waited.

mod causes;
mod display;
mod durations;
mod kinds;
mod lane;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use causes::CauseClock;
pub(crate) use causes::Starved;
pub use durations::Durations;
pub use kinds::KindStatistics;
pub(crate) use kinds::{KindWriter, LaneKinds, SubmittedKinds};
pub(crate) use lane::LaneTotals;

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
