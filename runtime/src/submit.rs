//! Submission: naming a task, drawing its edges, queueing it when it is ready.
#![allow(unsafe_code, reason = "fills task cells as their owner")]

use std::ops::Range;
use std::panic::Location;

use crossbeam_deque::Worker;
use smallvec::SmallVec;

use crate::access::Access;
use crate::claims::{Claim, Claims};
use crate::error::SubmitError;
use crate::graph::{Allocation, HandleTable, TaskRef};
use crate::pool::{Patience, holds, in_task_body};
use crate::runtime::{Inner, Runtime};
use crate::statistics::SubmittedKinds;
use crate::sync::Ordering;
use crate::task::{Failures, Job, Label, Meta, Outcome, TaskId};
use crate::trace::Cause;

/// For how many handles of a task the predecessors' slots are fetched while it is filled in.
const PREFETCHED: usize = 4;

/// What the submission lock protects.
pub(crate) struct Submitter {
    pub(crate) handles: HandleTable,
    pub(crate) failures: Failures,
    pub(crate) kinds: SubmittedKinds,
    allocation: Allocation,
    /// Handles to be taken back once no task is unfinished.
    pub(crate) retired: Vec<Range<u32>>,
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
            retired: Vec::new(),
            queue,
        }
    }

    /// Takes retired handles back, unless tasks that use them may be unfinished.
    pub(crate) fn release_retired(&mut self, inner: &Inner) {
        if !self.retired.is_empty() && inner.is_drained() {
            self.retired.drain(..).for_each(|handles| self.handles.release(handles));
        }
    }

    pub(crate) fn push(&mut self, slot: u32) {
        self.queue.push(slot);
    }

    /// Remembers that an ended (or ending) task left no valid data.
    pub(crate) fn spoil(&mut self, task: TaskRef, failure: u32) {
        self.failures.spoil(task, failure);
        self.failures.prune(self.handles.len(), self.handles.writers());
    }

    /// Draws the edges of `task`, then publishes it; true when it is ready at once. The slot's
    /// cell must be filled by then.
    pub(crate) fn publish(&mut self, inner: &Inner, task: TaskRef, claims: &[Claim]) -> bool {
        let slot = inner.table.slot(task.slot());
        let mut edges = 0;
        let (table, allocation, failures) = (&inner.table, &mut self.allocation, &self.failures);
        for (handle, mode) in claims.iter().flat_map(|claim| claim.handles()) {
            let has_ended = |t| table.has_ended(t);
            self.handles.claim(handle, mode, task, has_ended, |need| {
                let linked = table.link(need.task, task, need.order_only, &mut edges, allocation);
                if !linked
                    && !need.order_only
                    && let Some(failure) = failures.spoilt_by(need.task)
                {
                    slot.cancel(failure);
                }
            });
        }
        slot.publish(edges)
    }

    /// Whether a guard with these claims would have to wait, and one of the guards that the
    /// calling thread holds is, or may be, in the way of that.
    pub(crate) fn would_block_itself(&self, inner: &Inner, claims: &[Claim]) -> bool {
        if !holds(inner.id, |_| true) {
            return false;
        }
        let mut needs: SmallVec<[u32; 8]> = SmallVec::new();
        for (handle, mode) in claims.iter().flat_map(|claim| claim.handles()) {
            self.handles.preview(handle, mode, |task| {
                if !inner.table.has_ended(task) {
                    needs.push(task.slot());
                }
            });
        }
        let in_the_way = |held| needs.contains(&held) || inner.table.slot(held).has_successors();
        !needs.is_empty() && holds(inner.id, in_the_way)
    }

    /// Takes a slot for a task or guard.
    pub(crate) fn allocate(&mut self, inner: &Inner, guard: bool) -> Option<TaskRef> {
        let task = inner.table.allocate(&mut self.allocation)?;
        inner.table.slot(task.slot()).set_guard(guard);
        Some(task)
    }
}

/// A task that is being described; [`spawn`](TaskBuilder::spawn) submits it.
#[derive(Debug)]
#[must_use = "a task is submitted by `spawn`"]
pub struct TaskBuilder<'a> {
    runtime: &'a Runtime,
    name: &'static str,
    label: Label,
    location: &'static Location<'static>,
}

impl<'a> TaskBuilder<'a> {
    pub(crate) fn new(
        runtime: &'a Runtime,
        name: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        TaskBuilder { runtime, name, label: Label::default(), location }
    }

    /// The batch that the task works for, counted over the whole run.
    pub fn batch(mut self, batch: u32) -> Self {
        self.label.batch = Some(batch);
        self
    }

    /// The layer that the task works for.
    pub fn layer(mut self, layer: u16) -> Self {
        self.label.layer = Some(layer);
        self
    }

    /// The shard of the batch that the task works on.
    pub fn shard(mut self, shard: u16) -> Self {
        self.label.shard = Some(shard);
        self
    }

    /// Submits the task; see [`Runtime::spawn`].
    ///
    /// # Errors
    /// See [`Runtime::spawn`].
    pub fn spawn<A, F, R>(self, access: A, body: F) -> Result<TaskId, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> R + Send + 'static,
        R: Outcome,
    {
        let TaskBuilder { runtime, name, label, location } = self;
        let inner = runtime.inner();
        inner.wait_for_room();
        let mut claims: SmallVec<[Claim; 8]> = SmallVec::new();
        let claim = Claims::collect(name, inner.id, access, &mut claims)?;
        let job = Job::<A, F>::new(claim, body);
        let id = inner.submit(Meta { name, location, label, sequence: 0 }, &claims, job)?;
        if inner.workers() == 0 && !in_task_body() {
            inner.run_inline();
        }
        Ok(id)
    }
}

impl Inner {
    fn submit<A, F, R>(
        &self,
        mut meta: Meta,
        claims: &[Claim],
        job: Job<A, F>,
    ) -> Result<TaskId, SubmitError>
    where
        A: Access,
        F: for<'d> FnOnce(A::Data<'d>) -> R + Send + 'static,
        R: Outcome,
    {
        let mut submitter = self.submitter();
        for (handle, mode) in claims.iter().flat_map(|claim| claim.handles()).take(PREFETCHED) {
            submitter.handles.foresee(handle, mode, |task| self.table.prefetch(task));
        }
        let Some(task) = submitter.allocate(self, false) else {
            drop(submitter);
            job.abandon();
            return Err(SubmitError::TooManyTasks { task: meta.name });
        };
        // Written under the lock only.
        let sequence = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(sequence + 1, Ordering::Release);
        meta.sequence = sequence;
        if self.totals.clock.is_waiting() {
            self.recorder.starved(self.totals.clock.feed(self.recorder.now()));
        }
        let slot = self.table.slot(task.slot());
        let timed = self.takes_times();
        if timed {
            slot.set_kind(submitter.kinds.note(&self.recorder, meta.name, claims));
        }
        // SAFETY: the slot was just allocated, so this thread owns its cell, which is empty.
        unsafe { slot.cell.fill(meta, job) };
        let ready = submitter.publish(self, task, claims);
        if ready {
            if timed {
                self.note_ready_now(task.slot());
            }
            submitter.push(task.slot());
            drop(submitter);
            self.sleep.wake(1);
        }
        Ok(TaskId { task, sequence })
    }

    /// Waits while the submission window is full. A body, or a thread that holds acquired data,
    /// may exceed the window: what would make room could be waiting for it.
    #[inline]
    fn wait_for_room(&self) {
        // Relaxed: a bound that is out of date is too low.
        let submitted = self.submitted.load(Ordering::Relaxed);
        if submitted >= self.room.load(Ordering::Relaxed) {
            self.make_room();
        }
    }

    #[cold]
    fn make_room(&self) {
        let full = || {
            let room = self.finished() + self.window_size;
            self.room.store(room, Ordering::Relaxed);
            self.submitted.load(Ordering::Relaxed) >= room
        };
        if self.workers() == 0 || !full() || in_task_body() || holds(self.id, |_| true) {
            return;
        }
        self.record_wait(Cause::Window, Cause::Window.label(), || {
            self.wait_at(&self.window, Patience::Throughput, || self.window_has_room());
        });
    }

    /// Whether a quarter of the window is free: then a waiting submitter goes on.
    pub(crate) fn window_has_room(&self) -> bool {
        let finished = self.finished();
        let submitted = self.submitted.load(Ordering::Acquire);
        submitted - finished <= self.window_size - self.window_size.div_ceil(4)
    }
}
