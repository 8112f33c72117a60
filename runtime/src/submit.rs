//! Submission: naming a task, drawing its edges, queueing it when it is ready.
#![allow(unsafe_code, reason = "fills task cells as their owner")]

use std::convert::Infallible;
use std::error::Error;
use std::ops::Range;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use crossbeam_deque::Worker;
use smallvec::SmallVec;

use crate::access::{Access, Handle};
use crate::claims::{Claim, Claims};
use crate::error::SubmitError;
use crate::graph::{Allocation, Crossing, HandleTable, Need, Slot, TaskRef};
use crate::pool::{add_child, holds, in_task_body};
use crate::replay::{Entered, Instance};
use crate::runtime::{Inner, Runtime};
use crate::statistics::SubmittedKinds;
use crate::sync::{MutexGuard, Ordering, lock_plain};
use crate::task::{Failures, Job, Label, Meta, Outcome, TaskHandle, TaskId};

/// For how many handles of a task the predecessors' slots are fetched while it is filled in.
const PREFETCHED: usize = 4;

/// What the submission lock protects.
pub(crate) struct Submitter {
    pub(crate) handles: HandleTable,
    failures: Failures,
    pub(crate) kinds: SubmittedKinds,
    allocation: Allocation,
    /// Joins of parents that have a child which waits for others than its siblings.
    pub(crate) entangled: Vec<TaskRef>,
    /// Handles to be taken back once no task is unfinished.
    pub(crate) retired: Vec<Range<u32>>,
    /// Places of replays, of all recorded graphs.
    pub(crate) instances: Vec<Arc<Instance>>,
    /// Ready tasks that threads outside the pool submitted; workers steal from it.
    queue: Worker<u32>,
}

impl Submitter {
    pub(crate) fn new(queue: Worker<u32>) -> Self {
        Submitter {
            handles: HandleTable::new(),
            failures: Failures::default(),
            kinds: SubmittedKinds::default(),
            allocation: Allocation::new(),
            entangled: Vec::new(),
            retired: Vec::new(),
            instances: Vec::new(),
            queue,
        }
    }

    /// Takes retired handles back, unless tasks that use them may be unfinished.
    pub(crate) fn release_retired(&mut self, inner: &Inner) {
        if !self.retired.is_empty() && inner.is_drained() {
            self.retired.drain(..).for_each(|handles| self.handles.release(handles));
        }
    }

    /// Queues a task that this thread has made ready; the caller wakes a worker.
    pub(crate) fn push(&mut self, inner: &Inner, slot: u32) {
        inner.enqueue(slot, &self.queue, None);
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Changes what is known of failures; whether a wait has to report some is known without the
    /// lock afterwards.
    pub(crate) fn change_failures<R>(
        &mut self,
        inner: &Inner,
        change: impl FnOnce(&mut Failures) -> R,
    ) -> R {
        let result = change(&mut self.failures);
        inner.unreported.store(self.failures.unreported(), Ordering::Relaxed);
        result
    }

    /// Remembers that an ended (or ending) task left no valid data.
    pub(crate) fn spoil(&mut self, inner: &Inner, task: TaskRef, label: Option<Label>, blame: u32) {
        inner.failed.store(true, Ordering::Relaxed);
        self.failures.spoil(task, label, blame);
        self.failures.prune(self.handles.len(), self.handles.writers());
    }

    /// Draws the edges of `task`, from what its claims and `explicit` need, then publishes it;
    /// true when it is ready at once. The slot's cell must be filled by then.
    pub(crate) fn publish(
        &mut self,
        inner: &Inner,
        task: TaskRef,
        claims: &[Claim],
        explicit: impl IntoIterator<Item = Need>,
    ) -> bool {
        let slot = inner.table.slot(task.slot());
        let mut edges = 0;
        let (table, allocation, failures) = (&inner.table, &mut self.allocation, &self.failures);
        let mut draw = |need: Need| {
            let linked = table.link(need.task, task, need.order_only, &mut edges, allocation);
            if !linked
                && !need.order_only
                && let Some(failure) = failures.spoilt_by(need.task)
            {
                slot.cancel(failure);
            }
        };
        let needless = |task| table.has_ended(task) && failures.spoilt_by(task).is_none();
        for (handle, mode) in claims.iter().flat_map(|claim| claim.handles()) {
            self.handles.claim(handle, mode, task, needless, &mut draw);
        }
        explicit.into_iter().for_each(draw);
        slot.publish(edges)
    }

    /// Counts tasks as submitted; returns the place of the first in submission order.
    #[inline]
    pub(crate) fn count_submitted(&mut self, inner: &Inner, tasks: u64) -> u64 {
        // Written under the lock only.
        let sequence = inner.submitted.load(Ordering::Relaxed);
        inner.submitted.store(sequence + tasks, Ordering::Release);
        if inner.totals.clock.is_waiting() {
            inner.recorder.starved(inner.totals.clock.feed(inner.recorder.now()));
        }
        sequence
    }

    /// Draws the edges of a replay that come from how it uses `handle`.
    pub(crate) fn cross(
        &mut self,
        inner: &Inner,
        handle: Handle,
        crossing: &Crossing,
        name: impl Fn(u32) -> TaskRef,
        entered: &mut Entered,
    ) {
        let (table, allocation, failures) = (&inner.table, &mut self.allocation, &self.failures);
        let has_ended = |task| table.has_ended(task);
        self.handles.cross(handle, crossing, &name, has_ended, |task, need| {
            let linked = !has_ended(need.task) && {
                let mut made = entered.edges(task);
                let linked = table.link_node(need, name(task), &mut made, allocation);
                entered.set_edges(task, made);
                linked
            };
            if !linked
                && !need.order_only
                && let Some(failure) = failures.spoilt_by(need.task)
            {
                table.slot(name(task).slot()).cancel(failure);
            }
        });
    }

    /// Calls `each` for every unfinished task that `wanted` covers.
    pub(crate) fn unfinished(
        &self,
        inner: &Inner,
        wanted: Label,
        mut each: impl FnMut(TaskRef, &Slot),
    ) {
        let all = wanted == Label::default();
        inner.table.unfinished(&self.allocation, |task, slot| {
            // SAFETY: who has the submitter holds the submission lock, and the slots of submitted
            // tasks are described.
            if all || wanted.covers(unsafe { slot.cell.meta() }.label) {
                each(task, slot);
            }
        });
    }

    /// Calls `each` for every unfinished task and every guard that stands for a thread, but for
    /// recorded tasks, with what is known about it.
    pub(crate) fn survey(&self, inner: &Inner, mut each: impl FnMut(u32, &Slot, Meta)) {
        inner.table.live(&self.allocation, |task, slot| {
            if slot.join().is_none() {
                // SAFETY: who has the submitter holds the submission lock, and the slots of
                // submitted tasks and of threads' guards are described.
                each(task.slot(), slot, unsafe { slot.cell.meta() });
            }
        });
    }

    /// Calls `each` for the slots of tasks whose bodies have ended, and of the joins behind their
    /// children.
    pub(crate) fn joins(&self, inner: &Inner, mut each: impl FnMut(u32, u32)) {
        inner.table.live(&self.allocation, |task, slot| {
            slot.join().iter().for_each(|join| each(join.parent, task.slot()));
        });
    }

    /// Whether a guard with these claims would have to wait.
    pub(crate) fn would_wait(&self, inner: &Inner, claims: &[Claim]) -> bool {
        let mut waits = false;
        self.unfinished_needs(inner, claims, |_| waits = true);
        waits
    }

    /// Calls `each` for the unfinished tasks that these claims would have to wait for.
    pub(crate) fn unfinished_needs(
        &self,
        inner: &Inner,
        claims: &[Claim],
        mut each: impl FnMut(TaskRef),
    ) {
        for (handle, mode) in claims.iter().flat_map(|claim| claim.handles()) {
            self.handles.preview(handle, mode, |task| {
                if !inner.table.has_ended(task) {
                    each(task);
                }
            });
        }
    }

    /// Whether a guard with these claims would have to wait, and one of the guards that the
    /// calling thread holds is, or may be, in the way of that.
    pub(crate) fn would_block_itself(&self, inner: &Inner, claims: &[Claim]) -> bool {
        if !holds(inner.id, |_| true) {
            return false;
        }
        let mut needs: SmallVec<[u32; 8]> = SmallVec::new();
        self.unfinished_needs(inner, claims, |task| needs.push(task.slot()));
        let in_the_way = |held| needs.contains(&held) || inner.table.slot(held).has_successors();
        !needs.is_empty() && holds(inner.id, in_the_way)
    }

    /// Takes a slot for a task or guard.
    pub(crate) fn allocate(&mut self, inner: &Inner) -> Option<TaskRef> {
        inner.table.allocate(&mut self.allocation)
    }
}

/// A task that is being described; [`spawn`](TaskBuilder::spawn) submits it.
#[derive(Debug)]
#[must_use = "a task is submitted by `spawn`"]
pub struct TaskBuilder<'a> {
    runtime: &'a Runtime,
    name: &'static str,
    label: Label,
    priority: i16,
    after: Vec<TaskId>,
    child: bool,
    location: &'static Location<'static>,
}

impl<'a> TaskBuilder<'a> {
    #[inline]
    pub(crate) fn new(
        runtime: &'a Runtime,
        name: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        let (label, after) = (Label::default(), Vec::new());
        TaskBuilder { runtime, name, label, priority: 0, after, child: false, location }
    }

    /// The batch that the task works for, counted over the whole run. Its tasks can be waited for
    /// ([`Runtime::wait_for_label`]) and cancelled ([`Runtime::cancel_label`]).
    #[inline]
    pub fn batch(mut self, batch: u32) -> Self {
        self.label.batch = Some(batch);
        self
    }

    /// The layer that the task works for.
    #[inline]
    pub fn layer(mut self, layer: u16) -> Self {
        self.label.layer = Some(layer);
        self
    }

    /// The shard of the batch that the task works on.
    #[inline]
    pub fn shard(mut self, shard: u16) -> Self {
        self.label.shard = Some(shard);
        self
    }

    /// The task's priority, 0 if not given. How far it is respected depends on the
    /// [scheduler](crate::scheduler); by default tasks above 0 go before all others, highest
    /// first, and tasks below 0 after them.
    #[inline]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// The task runs after `task` has ended, whatever the data says, and depends on it: if that
    /// one fails or is cancelled, so is this one. May be called several times.
    ///
    /// ```
    /// # let rt = millrace_runtime::Runtime::builder().workers(2).build()?;
    /// let open = rt.spawn("open the valve", (), |()| ())?;
    /// let fill = rt.task("fill").after(open).spawn((), |()| ())?;
    /// rt.wait_for(fill)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Names of failed tasks are remembered for as long as they wrote a handle last, and at
    /// least until 65,536 further ones have failed or been cancelled; one that is forgotten
    /// counts as ended.
    pub fn after(mut self, task: TaskId) -> Self {
        self.after.push(task);
        self
    }

    /// The task is a child of the one whose body makes this call: that one, its *parent*, ends only
    /// once this task has, and so have its children. Whatever waits for the parent waits for them:
    /// tasks that use its data or come [`after`](Self::after) it, [`Runtime::wait_for`]. The body of
    /// the parent goes on, and no worker waits; what is to be done when the children have ended is
    /// done by a child more, that uses their data or comes after them.
    ///
    /// If a child fails or is cancelled, so does its parent: what depends on that is cancelled, too.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use millrace_runtime::{Runtime, SubmitError};
    ///
    /// /// Adds up a range, in halves.
    /// fn add(rt: &Runtime, range: std::ops::Range<u64>, sum: &Arc<AtomicU64>) -> Result<(), SubmitError> {
    ///     let length = range.end - range.start;
    ///     if length <= 1000 {
    ///         sum.fetch_add(range.sum(), Ordering::Relaxed);
    ///         return Ok(());
    ///     }
    ///     let middle = range.start + length / 2;
    ///     for half in [range.start..middle, middle..range.end] {
    ///         let (inner, sum) = (rt.clone(), sum.clone());
    ///         rt.task("add").child().spawn((), move |()| add(&inner, half, &sum))?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let (inner, sum) = (rt.clone(), Arc::new(AtomicU64::new(0)));
    /// let total = sum.clone();
    /// let whole = rt.spawn("add", (), move |()| add(&inner, 0..1_000_000, &sum))?;
    /// rt.wait_for(whole)?;
    /// assert_eq!(total.load(Ordering::Relaxed), 499_999_500_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A child must not wait for its parent's end. If it would at once, since it conflicts with the
    /// parent's own accesses or comes after it, [`spawn`](Self::spawn) refuses it. If it waits for a
    /// task that does (other threads may submit such), the parent fails, ends without its children,
    /// and they run afterwards.
    pub fn child(mut self) -> Self {
        self.child = true;
        self
    }

    /// Submits a task whose body returns a value.
    ///
    /// ```
    /// # let rt = millrace_runtime::Runtime::builder().workers(2).build()?;
    /// let sum = rt.task("sum").spawn_value((), |()| (1..=100).sum::<u32>())?;
    /// assert_eq!(sum.wait()?, 5050);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Runtime::spawn`].
    pub fn spawn_value<A, F, T>(self, access: A, body: F) -> Result<TaskHandle<T>, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let body = move |data: A::Data<'_>| Ok::<T, Infallible>(body(data));
        self.try_spawn_value(access, body)
    }

    /// Submits a task whose body returns a value or an error; an error ends the task like a
    /// panic does, and cancels what depends on it.
    ///
    /// # Errors
    /// See [`Runtime::spawn`].
    pub fn try_spawn_value<A, F, T, E>(
        self,
        access: A,
        body: F,
    ) -> Result<TaskHandle<T>, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let runtime = self.runtime.clone();
        let value = Arc::new(Mutex::new(None));
        let place = value.clone();
        let id = self.spawn(access, move |data: A::Data<'_>| {
            let value = body(data)?;
            *lock_plain(&place) = Some(value);
            Ok::<(), E>(())
        })?;
        Ok(TaskHandle::new(runtime, id, value))
    }

    /// Submits the task; see [`Runtime::spawn`].
    ///
    /// # Errors
    /// See [`Runtime::spawn`].
    #[inline]
    pub fn spawn<A, F, R>(self, access: A, body: F) -> Result<TaskId, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> R + Send + 'static,
        R: Outcome,
    {
        let TaskBuilder { runtime, name, label, priority, after, child, location } = self;
        let inner = runtime.inner();
        if after.iter().any(|task| task.runtime != inner.id) {
            let owner = "a task that it comes after".to_owned();
            return Err(SubmitError::WrongRuntime { task: name, owner });
        }
        inner.wait_for_room();
        let mut claims = Claims::new(name, inner.id);
        let claim = claims.collect(access)?;
        inner.wait_for_memory(claims.bytes());
        let job = Job::<A, F>::new(claim, body);
        let after = &after;
        let order = Order { name, location, label, priority, after, child, claims: &claims };
        let submission = match inner.begin(&order) {
            Ok(submission) => submission,
            Err(error) => {
                job.abandon();
                inner.memory.iter().for_each(|memory| memory.withdraw(claims.bytes()));
                return Err(error);
            }
        };
        // SAFETY: the slot was just allocated, so this thread owns its cell, which is empty.
        unsafe { inner.table.slot(submission.task.slot()).cell.fill(job) };
        Ok(inner.finish(submission, &order))
    }
}

/// All that is submitted, but for the body.
struct Order<'a> {
    name: &'static str,
    location: &'static Location<'static>,
    label: Label,
    priority: i16,
    after: &'a [TaskId],
    child: bool,
    claims: &'a Claims,
}

/// A task that has a slot, under the submission lock; its body has to be filled in.
struct Submission<'a> {
    submitter: MutexGuard<'a, Submitter>,
    task: TaskRef,
    sequence: u64,
}

impl Inner {
    /// Takes a slot and writes the facts of the task into it.
    fn begin(&self, order: &Order<'_>) -> Result<Submission<'_>, SubmitError> {
        let Order { name, location, label, .. } = *order;
        let mut submitter = self.submitter();
        let entangled = match order.child {
            false => None,
            true => Some(submitter.check_child(self, name, order.claims.list(), order.after)?),
        };
        let handles = order.claims.list().iter().flat_map(|claim| claim.handles());
        for (handle, mode) in handles.take(PREFETCHED) {
            submitter.handles.foresee(handle, mode, |task| self.table.prefetch(task));
        }
        let task = submitter.allocate(self).ok_or(SubmitError::TooManyTasks { task: name })?;
        entangled.into_iter().for_each(|entangled| add_child(task, entangled));
        let sequence = submitter.count_submitted(self, 1);
        let kind = self
            .takes_times()
            .then(|| submitter.kinds.note(&self.recorder, name, order.claims.bytes()));
        // Without workers the order is that of the program.
        let priority = if self.workers() == 0 { 0 } else { order.priority };
        let slot = self.table.slot(task.slot());
        slot.set_task(priority, kind);
        if let Some(handles) = order.claims.commuting() {
            slot.set_commutes();
            self.commuting.enrol(task.slot(), handles);
        }
        if let Some(memory) = &self.memory {
            memory.note(task.slot(), order.claims.bytes());
        }
        // SAFETY: the slot was just allocated, so this thread, which holds the lock, owns its cell.
        unsafe { slot.cell.describe(Meta { name, location, label, sequence }) };
        Ok(Submission { submitter, task, sequence })
    }

    /// Draws the edges and lets the task go.
    fn finish(&self, submission: Submission<'_>, order: &Order<'_>) -> TaskId {
        let Submission { mut submitter, task, sequence } = submission;
        let after = order.after.iter().map(|before| Need { task: before.task, order_only: false });
        let ready = submitter.publish(self, task, order.claims.list(), after);
        if ready {
            self.note_ready(self.table.slot(task.slot()), self.time_if_taken());
            submitter.push(self, task.slot());
        }
        drop(submitter);
        self.submitted_some(ready.into());
        TaskId { task, sequence, runtime: self.id }
    }

    /// Tasks have been submitted, of which `ready` are queued.
    #[inline]
    pub(crate) fn submitted_some(&self, ready: usize) {
        if ready > 0 {
            self.wake_for(ready);
        }
        if self.workers() == 0 && !in_task_body() {
            self.run_inline();
        }
    }
}
