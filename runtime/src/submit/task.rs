//! Tasks that are described and submitted.
#![allow(unsafe_code, reason = "fills task cells as their owner")]

use std::convert::Infallible;
use std::error::Error;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use crate::access::Access;
use crate::claims::Claims;
use crate::error::SubmitError;
use crate::graph::{Need, TaskRef};
use crate::pool::{add_child, in_task_body};
use crate::runtime::{Inner, Runtime};
use crate::submit::Submitter;
use crate::sync::lock_plain;
use crate::task::{Job, Label, Outcome, PackedMeta, TaskCell, TaskHandle, TaskId};

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
        let (mut job, mut sequence) = (Some(Job::<A, F>::new(claim, body)), 0);
        let meta = PackedMeta::new(name, location, label);
        let order = Order { meta, priority, after: &after, child, claims: &claims };
        let mut fill = |cell: &TaskCell| {
            if let Some(job) = job.take() {
                // SAFETY: the slot was just allocated, so this thread owns its cell, which is empty.
                unsafe { cell.fill(job) };
            }
        };
        let submitted = inner.submit(&order, &mut fill, &mut sequence);
        if let Some(job) = job {
            job.abandon();
            inner.memory.iter().for_each(|memory| memory.withdraw(claims.bytes()));
        }
        let task = submitted.map_err(|error| *error)?;
        Ok(TaskId { task, sequence, runtime: inner.id })
    }
}

/// All that is submitted, but for the body.
struct Order<'a> {
    /// Without the place in submission order.
    meta: PackedMeta,
    priority: i16,
    after: &'a [TaskId],
    child: bool,
    claims: &'a Claims,
}

impl Order<'_> {
    /// Whether nothing is to be noted about the task but what each task has.
    #[inline]
    fn is_plain(&self, inner: &Inner) -> bool {
        let alone = !self.child && self.claims.commuting().is_none();
        alone && inner.memory.is_none() && !inner.takes_times()
    }
}

impl Inner {
    /// Takes a slot, has `fill` put the body in, draws the edges and lets the task go; its place in
    /// submission order goes into `sequence`. If there is no slot, or the task is refused, `fill` is
    /// not called.
    // The result fits into registers: a larger one would be copied from memory before it is all
    // written there.
    #[inline]
    fn submit(
        &self,
        order: &Order<'_>,
        fill: &mut dyn FnMut(&TaskCell),
        sequence: &mut u64,
    ) -> Result<TaskRef, Box<SubmitError>> {
        // Most tasks are plain, and that half is short.
        match order.is_plain(self) {
            true => self.submit_as::<true>(order, fill, sequence),
            false => self.submit_as::<false>(order, fill, sequence),
        }
    }

    #[inline(never)]
    fn submit_as<const PLAIN: bool>(
        &self,
        order: &Order<'_>,
        fill: &mut dyn FnMut(&TaskCell),
        sequence: &mut u64,
    ) -> Result<TaskRef, Box<SubmitError>> {
        let Order { meta, after, claims, .. } = order;
        let mut submitter = self.submitter();
        let entangled = match !PLAIN && order.child {
            false => None,
            true => Some(submitter.check_child(self, meta.name(), claims.list(), after)?),
        };
        let (task, slot) = submitter.allocate(self).ok_or_else(|| too_many(meta.name()))?;
        entangled.into_iter().for_each(|entangled| add_child(task, entangled));
        let after = after.iter().map(|before| Need { task: before.task, order_only: false });
        submitter.gather(self, task, claims.list(), after);
        *sequence = submitter.count_submitted(self, 1);
        // Without workers the order is that of the program.
        let priority = if self.workers() == 0 { 0 } else { order.priority };
        slot.set_task(priority, None);
        if !PLAIN {
            self.note_more(&mut submitter, task, order, priority);
        }
        // SAFETY: the slot was just allocated, so this thread, which holds the lock, owns its cell.
        unsafe { slot.cell.describe(meta, *sequence) };
        fill(&slot.cell);
        let ready = submitter.publish(self, task, slot);
        if ready {
            if !PLAIN {
                self.note_ready(slot, self.time_if_taken());
            }
            submitter.push(self, task.slot());
        }
        drop(submitter);
        self.submitted_some(ready.into());
        Ok(task)
    }

    /// Notes about a task that is being submitted what most tasks do not have.
    fn note_more(
        &self,
        submitter: &mut Submitter,
        task: TaskRef,
        order: &Order<'_>,
        priority: i16,
    ) {
        let (name, claims, slot) = (order.meta.name(), order.claims, self.table.slot(task.slot()));
        if self.takes_times() {
            let kind = submitter.kinds.note(&self.recorder, name, claims.bytes());
            slot.set_task(priority, Some(kind));
        }
        if let Some(handles) = claims.commuting() {
            slot.set_commutes();
            self.commuting.enrol(task.slot(), handles);
        }
        if let Some(memory) = &self.memory {
            memory.note(task.slot(), claims.bytes());
        }
    }

    /// Tasks have been submitted while a thread waits.
    #[cold]
    pub(super) fn feed(&self) {
        self.recorder.starved(self.totals.clock.feed(self.recorder.now()));
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

#[cold]
fn too_many(task: &'static str) -> Box<SubmitError> {
    Box::new(SubmitError::TooManyTasks { task })
}
