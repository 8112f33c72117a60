//! What all threads of a runtime share.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64 as StdAtomicU64};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};

use crossbeam_deque::{Stealer, Worker};
use crossbeam_utils::CachePadded;

use crate::graph::SlotTable;
use crate::memory::MemoryWindow;
use crate::pool::{Commuting, Context, Shared, Sleep, WaitPoint};
use crate::scheduler::Schedule;
use crate::statistics::Totals;
use crate::submit::Submitter;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, asymmetric, fence, lock, try_lock};
use crate::topology::Topology;
use crate::trace::{Keep, Recorder};
use crate::watchdog::Watch;

/// What a [`Builder`](crate::Builder) has decided.
pub(crate) struct Settings {
    pub(crate) workers: usize,
    /// Whether worker 0 is a thread that waits.
    pub(crate) helps: bool,
    pub(crate) window: u64,
    /// In bytes.
    pub(crate) memory_window: Option<u64>,
    pub(crate) timing: bool,
    pub(crate) schedule: Schedule,
    pub(crate) trace_capacity: usize,
    pub(crate) trace_keep: Keep,
    pub(crate) topology: Topology,
    /// Whether there is a watchdog.
    pub(crate) watched: bool,
}

/// What all threads of a runtime share.
pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) table: SlotTable,
    submitter: CachePadded<Mutex<Submitter>>,
    /// Tasks submitted; written under the submission lock.
    pub(crate) submitted: CachePadded<AtomicU64>,
    /// Tasks may be submitted up to this number without a look at the window.
    pub(crate) room: CachePadded<AtomicU64>,
    /// Tasks started and ended, per worker, and by all other threads in the last entry.
    progress: Vec<CachePadded<Progress>>,
    /// Ready tasks from outside the pool.
    pub(crate) submitted_ready: Stealer<u32>,
    /// The workers' ready tasks.
    pub(crate) stealers: Vec<Stealer<u32>>,
    /// Who runs, and who waits, of the tasks that commute.
    pub(crate) commuting: Commuting,
    /// Ready tasks that are in none of those queues.
    pub(crate) ready: Shared,
    pub(crate) sleep: Sleep,
    /// Where threads wait until nothing is unfinished.
    pub(crate) drained: WaitPoint,
    /// Where threads wait for what the owners of handles do at the end of tasks.
    pub(crate) external: WaitPoint,
    /// Where submitters wait for room in the window.
    pub(crate) window: WaitPoint,
    pub(crate) window_size: u64,
    /// The bound on the bytes that unfinished tasks declare, if there is one.
    pub(crate) memory: Option<Box<MemoryWindow>>,
    /// Where threads wait for guards.
    pub(crate) guards: WaitPoint,
    /// Whether there are failures or cancellations that no wait has reported.
    pub(crate) unreported: AtomicBool,
    /// Whether a task ever failed or was cancelled.
    pub(crate) failed: AtomicBool,
    pub(crate) recorder: Recorder,
    pub(crate) totals: Totals,
    /// Whether times are taken in any case, and whether that is for the statistics.
    pub(crate) times: bool,
    pub(crate) timing: bool,
    /// What threads note for the watchdog, if there is one.
    pub(crate) watch: Option<Box<Watch>>,
    /// Worker 0, if it is whichever thread outside the pool waits.
    pub(crate) helper: Option<StdMutex<Context>>,
    /// The context of threads that run tasks inline, which write the main lane.
    main: StdMutex<Context>,
    quit: AtomicBool,
    pub(crate) topology: Topology,
}

/// How many tasks the threads of a lane have started and ended. One writer at a time.
struct Progress {
    started: AtomicU64,
    finished: AtomicU64,
}

impl Progress {
    fn new() -> Self {
        Progress { started: AtomicU64::new(0), finished: AtomicU64::new(0) }
    }
}

/// More tasks than a thread can have started without others seeing that.
const UNTOLD: u64 = 64;

static NEXT_ID: StdAtomicU64 = StdAtomicU64::new(1);

/// A number that no other runtime or recording of this process has.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl Inner {
    /// What the threads share, and the contexts of the pool's threads.
    pub(crate) fn new(settings: Settings) -> (Self, Vec<Context>) {
        let Settings { workers, helps, window, timing, schedule, .. } = settings;
        asymmetric::prepare();
        // Without workers, each task ends before the next is submitted, or nobody may wait.
        let memory = settings.memory_window.filter(|_| workers > 0);
        let memory = memory.map(|bytes| Box::new(MemoryWindow::new(bytes, workers)));
        let (recorder, mut writers) =
            Recorder::new(workers, settings.trace_capacity, settings.trace_keep);
        let main = Context::new(workers, writers.remove(0), Worker::new_fifo());
        let mut contexts: Vec<Context> = writers
            .into_iter()
            .enumerate()
            .map(|(worker, writer)| Context::new(worker, writer, Worker::new_fifo()))
            .collect();
        let stealers = contexts.iter().map(|context| context.queue.stealer()).collect();
        let helper = helps.then(|| StdMutex::new(contexts.remove(0)));
        let queue = Worker::new_fifo();
        let inner = Inner {
            id: next_id(),
            table: SlotTable::new(),
            submitted: CachePadded::default(),
            room: CachePadded::new(AtomicU64::new(window)),
            progress: (0..=workers).map(|_| Progress::new().into()).collect(),
            submitted_ready: queue.stealer(),
            submitter: CachePadded::new(Mutex::new(Submitter::new(queue))),
            stealers,
            commuting: Commuting::new(),
            ready: Shared::new(schedule.scheduler),
            sleep: Sleep::new(),
            drained: WaitPoint::new(),
            external: WaitPoint::new(),
            window: WaitPoint::new(),
            window_size: window,
            memory,
            guards: WaitPoint::new(),
            unreported: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            recorder,
            totals: Totals::new(workers),
            times: timing || settings.watched,
            timing,
            watch: settings.watched.then(|| Box::new(Watch::new(workers))),
            helper,
            main: StdMutex::new(main),
            quit: AtomicBool::new(false),
            topology: settings.topology,
        };
        if helps {
            inner.go_away(0);
        }
        (inner, contexts)
    }

    #[inline]
    pub(crate) fn submitter(&self) -> MutexGuard<'_, Submitter> {
        lock(&self.submitter)
    }

    /// The same, if nobody has it.
    pub(crate) fn try_submitter(&self) -> Option<MutexGuard<'_, Submitter>> {
        try_lock(&self.submitter)
    }

    pub(crate) fn workers(&self) -> usize {
        self.stealers.len()
    }

    /// Tasks ended so far; exact when nothing runs, else a lower bound.
    pub(crate) fn finished(&self) -> u64 {
        self.progress.iter().map(|lane| lane.finished.load(Ordering::Acquire)).sum()
    }

    /// Tasks started so far; a lower bound.
    pub(crate) fn started(&self) -> u64 {
        self.progress.iter().map(|lane| lane.started.load(Ordering::Relaxed)).sum()
    }

    /// Counts tasks as ended; `lane` is the thread's own, or the last one with its lock held.
    #[inline]
    pub(crate) fn count_finished(&self, lane: usize, tasks: u64) {
        let count = &self.progress[lane].finished;
        count.store(count.load(Ordering::Relaxed) + tasks, Ordering::Release);
    }

    /// Lets a submitter go on that waits for room in the window, if there is enough.
    #[inline]
    pub(crate) fn notify_window(&self) {
        if self.window.has_waiters() && self.window_has_room() {
            self.window.notify();
        }
    }

    /// Counts a task as started, as above.
    #[inline]
    pub(crate) fn count_started(&self, lane: usize) {
        let count = &self.progress[lane].started;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if self.totals.clock.is_waiting() && self.takes_times() {
            self.note_starvation();
        }
    }

    /// If a thread waits and every submitted task has been started, workers starve from now on.
    ///
    /// Called by whoever starts a task or goes idle, and when a wait begins; one of them is the
    /// last, and sees the others' counts.
    pub(crate) fn note_starvation(&self) {
        let submitted = || self.submitted.load(Ordering::Acquire);
        // Far from the last one, the counts that other threads are about to tell do not matter.
        if self.started() + self.progress.len() as u64 * UNTOLD < submitted() {
            return;
        }
        fence(Ordering::SeqCst);
        if self.started() == submitted() {
            self.totals.clock.starve(self.recorder.now());
        }
    }

    /// Takes handles back as soon as no task is unfinished.
    pub(crate) fn release_when_drained(&self, handles: Range<u32>) {
        let mut submitter = self.submitter();
        submitter.retired.push(handles);
        submitter.release_retired(self);
    }

    /// Whether every submitted task has ended.
    pub(crate) fn is_drained(&self) -> bool {
        // In this order: the sum is at most the number ended by the time of the second load,
        // which is at most the number submitted by then. Equal means that none was unfinished.
        let finished = self.finished();
        finished == self.submitted.load(Ordering::Acquire)
    }

    /// Lets threads that wait for the ends of tasks look at their conditions. Every thread that
    /// has ended tasks calls this before it rests: after each task it does not fence, so it may
    /// have missed a waiter.
    pub(crate) fn notify_ended(&self) {
        self.drained.notify();
        self.window.notify();
        if let Some(memory) = &self.memory {
            memory.point.notify();
        }
    }

    pub(crate) fn request_quit(&self) {
        self.quit.store(true, Ordering::SeqCst);
        if let Some(scheduler) = &self.ready.scheduler
            && self.helper.is_some()
        {
            scheduler.leaves(0);
        }
    }

    /// Whether the runtime stops once nothing is left to run.
    pub(crate) fn quits(&self) -> bool {
        self.quit.load(Ordering::SeqCst)
    }

    /// Whether the runtime stops and nothing is left to run.
    pub(crate) fn may_quit(&self) -> bool {
        self.quits() && self.is_drained()
    }

    /// The context of threads outside the pool.
    pub(crate) fn main_context(&self) -> StdMutexGuard<'_, Context> {
        self.main.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
