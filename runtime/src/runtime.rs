//! The runtime: what all threads share, and the handle that users hold.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64 as StdAtomicU64};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_deque::{Stealer, Worker};
use crossbeam_utils::CachePadded;

use crate::access::{Access, Handles};
use crate::error::SubmitError;
use crate::graph::SlotTable;
use crate::memory::MemoryWindow;
use crate::pool::{self, Commuting, Context, Shared, Sleep, WaitPoint};
use crate::scheduler::Schedule;
use crate::statistics::{Statistics, Totals};
use crate::submit::{Submitter, TaskBuilder};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, asymmetric, fence, lock, try_lock};
use crate::task::{Outcome, TaskId};
use crate::topology::Topology;
use crate::trace::{Keep, MarkKind, Recorder, Trace};
use crate::watchdog::{Patrolling, Watch};

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

/// The pool's threads; dropping it ends them.
struct Pool {
    inner: Arc<Inner>,
    threads: StdMutex<Vec<JoinHandle<()>>>,
    /// Dropped after the workers have ended: until then they may stall.
    _watchdog: Option<Patrolling>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        pool::stop(&self.inner, std::mem::take(threads));
    }
}

/// A task runtime: a worker pool, and the graph of the tasks submitted to it.
///
/// Cheap to clone; all clones are one runtime. Dropping the last clone waits until every task
/// has ended, then ends the workers (when a task's body drops it, the workers end by
/// themselves later). Failures that were not reported by then are lost.
#[derive(Clone)]
pub struct Runtime {
    pool: Arc<Pool>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("id", &self.id())
            .field("topology", &format_args!("{}", self.topology()))
            .finish_non_exhaustive()
    }
}

impl Runtime {
    pub(crate) fn from_parts(
        inner: Arc<Inner>,
        threads: Vec<JoinHandle<()>>,
        watchdog: Option<Patrolling>,
    ) -> Self {
        let threads = StdMutex::new(threads);
        Runtime { pool: Arc::new(Pool { inner, threads, _watchdog: watchdog }) }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.pool.inner
    }

    /// Describes a runtime to be built.
    pub fn builder() -> crate::Builder {
        crate::Builder::new()
    }

    /// A number that no other runtime of this process has.
    pub fn id(&self) -> u64 {
        self.inner().id
    }

    /// Number of worker threads; with 0, tasks run inside `spawn`.
    pub fn workers(&self) -> usize {
        self.inner().workers()
    }

    /// Where the number of workers comes from, and which CPUs they are pinned to.
    pub fn topology(&self) -> &Topology {
        &self.inner().topology
    }

    /// Submits a task. `body` is handed the data that `access` declares, once every task that
    /// it depends on has ended: a reader waits for the last writer, a writer for the last
    /// writer and all readers since, in submission order. [`Mode`](crate::Mode) has the rest.
    ///
    /// The call waits while the submission window is full
    /// ([`Builder::window`](crate::Builder::window),
    /// [`Builder::memory_window`](crate::Builder::memory_window)), unless it is made inside a body
    /// or while the thread holds acquired data. `name` names the task's kind in traces and errors.
    ///
    /// A panic in `body`, or an error that it returns, ends the task; tasks that read what it
    /// was to write are cancelled, all others go on, and the next wait reports it.
    ///
    /// # Errors
    /// When the same data is declared twice with a write among the two, or when the data is
    /// stale or belongs to another runtime. Nothing was submitted then.
    #[track_caller]
    #[inline]
    pub fn spawn<A, F, R>(
        &self,
        name: &'static str,
        access: A,
        body: F,
    ) -> Result<TaskId, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> R + Send + 'static,
        R: Outcome,
    {
        TaskBuilder::new(self, name, Location::caller()).spawn(access, body)
    }

    /// Submits a task that the one whose body makes the call waits for, without holding a worker:
    /// short for [`TaskBuilder::child`].
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn); outside of bodies, and when the task would wait for the one
    /// that is to wait for it.
    #[track_caller]
    pub fn spawn_child<A, F, R>(
        &self,
        name: &'static str,
        access: A,
        body: F,
    ) -> Result<TaskId, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> R + Send + 'static,
        R: Outcome,
    {
        TaskBuilder::new(self, name, Location::caller()).child().spawn(access, body)
    }

    /// Describes a task with labels; see [`TaskBuilder`].
    #[track_caller]
    #[inline]
    pub fn task(&self, name: &'static str) -> TaskBuilder<'_> {
        TaskBuilder::new(self, name, Location::caller())
    }

    /// A block of `count` handles without memory, for whatever else tasks have to be ordered by;
    /// `None` when 2^32 handles are in use.
    pub fn handles(&self, count: u32) -> Option<Handles> {
        Some(Handles::new(self.clone(), self.register_handles(count)?))
    }

    /// Hands out `count` consecutive data handles, or `None` when 2^32 are in use.
    pub fn register_handles(&self, count: u32) -> Option<Range<u32>> {
        let mut submitter = self.inner().submitter();
        submitter.release_retired(self.inner());
        submitter.handles.register(count)
    }

    /// Takes handles back. No task that claimed them may be unfinished: their next owner's
    /// tasks would not wait for it.
    pub fn release_handles(&self, handles: Range<u32>) {
        self.inner().submitter().release(self.inner(), handles);
    }

    /// Tasks that ran otherwise than their [placement](crate::scheduler::Placement) says: on another
    /// worker, out of their turn, or without a place between such that have one. 0 without a
    /// placement.
    pub fn displaced_tasks(&self) -> u64 {
        self.inner().ready.scheduler.as_ref().map_or(0, |scheduler| scheduler.displaced())
    }

    /// Starts recording a trace; what was recorded before and not taken is dropped.
    pub fn trace_start(&self) {
        self.inner().recorder.start();
    }

    /// Stops recording.
    pub fn trace_stop(&self) {
        self.inner().recorder.stop();
    }

    /// Takes what was recorded since the start, or since the last call, as a document with the
    /// given title and facts. Tasks that are still running are not in it; a worker that is still
    /// idle is, up to the stop, if recording has stopped.
    pub fn trace_take(&self, title: impl Into<String>, meta: BTreeMap<String, String>) -> Trace {
        let inner = self.inner();
        let idle: Vec<_> =
            (0..inner.workers()).map(|worker| inner.totals(worker).idle_since()).collect();
        inner.recorder.take(title.into(), meta, &idle)
    }

    /// Marks in the trace that a batch begins.
    pub fn mark_batch(&self, batch: u32) {
        self.inner().recorder.mark(MarkKind::Batch, batch);
    }

    /// Marks in the trace that an epoch begins.
    pub fn mark_epoch(&self, epoch: u32) {
        self.inner().recorder.mark(MarkKind::Epoch, epoch);
    }

    /// Nanoseconds since the runtime was built, on the clock of its traces and statistics: a
    /// reading takes 10 to 15 ns where the processor's own counter can be trusted.
    ///
    /// Two readings of one thread never go back; readings of different threads may differ by
    /// some tens of nanoseconds from the order of events.
    ///
    /// ```
    /// # let rt = millrace_runtime::Runtime::builder().workers(1).build()?;
    /// let start = rt.now_ns();
    /// rt.spawn("task", (), |()| ())?;
    /// rt.wait()?;
    /// println!("one task took {} ns", rt.now_ns() - start);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.inner().recorder.now()
    }

    /// Reads the running totals. No thread that runs tasks waits for that; a submission may, for
    /// as long as it takes to copy one number per kind of task.
    pub fn statistics(&self) -> Statistics {
        let inner = self.inner();
        let submitter = inner.submitter();
        let (submitted, bytes) = (inner.submitted.load(Ordering::Acquire), submitter.kinds.bytes());
        drop(submitter);
        let (now, names) = (inner.recorder.now(), inner.recorder.names());
        inner.totals.read(now, inner.timing, submitted, &names, &bytes)
    }
}
