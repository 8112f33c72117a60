//! The runtime: the handle that users hold, and behind it [what all threads share](Inner).

mod inner;

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

pub(crate) use inner::{Inner, Settings, next_id};

use crate::access::{Access, Handles};
use crate::error::SubmitError;
use crate::pool;
use crate::statistics::Statistics;
use crate::submit::TaskBuilder;
use crate::sync::Ordering;
use crate::task::{Outcome, TaskId};
use crate::topology::Topology;
use crate::trace::{MarkKind, Trace};
use crate::watchdog::Patrolling;

/// The pool's threads; dropping it ends them.
struct Pool {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        let threads = Mutex::new(threads);
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
