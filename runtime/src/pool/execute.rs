//! Running a task and releasing what depends on it.
#![allow(unsafe_code, reason = "calls into task cells as their owner")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_deque::Worker;
use smallvec::SmallVec;

use super::idle::Spin;
use super::local::{has_children, inside_body};
use crate::graph::{Join, Slot};
use crate::replay::Uncounted;
use crate::runtime::Inner;
use crate::statistics::{KindWriter, LaneTotals};
use crate::task::{BodyError, Meta, TaskFailure};
use crate::trace::{LaneWriter, NameCache};

/// Ended slots that a thread keeps before it gives them back in one go.
const FREE_BATCH: usize = 32;

/// What an executing thread carries from task to task.
pub(crate) struct Context {
    /// Number of the worker, or one past the last for threads that run tasks inline.
    pub(crate) lane: usize,
    pub(crate) writer: LaneWriter,
    /// Ready tasks of this thread; others steal from it.
    pub(crate) queue: Worker<u32>,
    pub(crate) spin: Spin,
    pub(super) names: NameCache,
    pub(super) kinds: KindWriter,
    /// Slots of ended tasks, not yet given back.
    freed: Vec<u32>,
    /// Successors that became ready, to be queued.
    pub(crate) ready: Vec<u32>,
    /// Recorded tasks that have ended and are not counted yet.
    pub(crate) uncounted: Uncounted,
}

impl Context {
    pub(crate) fn new(lane: usize, writer: LaneWriter, queue: Worker<u32>) -> Self {
        let (names, kinds) = (NameCache::default(), KindWriter::default());
        let (freed, ready) = (Vec::new(), Vec::new());
        let (spin, uncounted) = (Spin::new(), Uncounted::new());
        Context { lane, writer, queue, spin, names, kinds, freed, ready, uncounted }
    }

    #[inline]
    fn free(&mut self, inner: &Inner, slot: u32) {
        self.freed.push(slot);
        if self.freed.len() >= FREE_BATCH {
            self.flush(inner);
        }
    }

    /// Gives all ended slots back, and counts what has ended.
    #[cold]
    pub(crate) fn flush(&mut self, inner: &Inner) {
        self.count_ended(inner);
        if !self.freed.is_empty() {
            inner.table.free(&self.freed);
            self.freed.clear();
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}

fn error_text(error: &(dyn std::error::Error + Send + Sync)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Runs `f`; a panic becomes its message. The payload's own drop may panic, too.
#[inline]
pub(crate) fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(told)
}

/// The message of a panic.
#[cold]
fn told(payload: Box<dyn Any + Send>) -> String {
    let message = panic_message(&*payload);
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    message
}

/// Successors that the end of a task lets go. They come last submitted first; the first
/// submitted runs next.
pub(crate) struct Released<'a> {
    inner: &'a Inner,
    time: u64,
    next: Option<u32>,
    ready: &'a mut Vec<u32>,
    abandoned: Vec<u32>,
    /// The lane of the thread.
    lane: usize,
}

impl<'a> Released<'a> {
    #[inline]
    pub(crate) fn new(inner: &'a Inner, lane: usize, time: u64, ready: &'a mut Vec<u32>) -> Self {
        Released { inner, time, next: None, ready, abandoned: Vec::new(), lane }
    }

    #[inline]
    pub(crate) fn add(&mut self, successor: u32, its: &Slot) {
        if its.is_guard() {
            // A join is nobody's but who releases it.
            if its.join().is_some() || self.inner.grant(successor) {
                self.abandoned.push(successor);
            }
            return;
        }
        self.inner.note_ready(its, self.time);
        if let Some(later) = self.next.replace(successor) {
            self.ready.push(later);
        }
    }

    /// Ends the guards that nobody waits for any more, and tasks whose children have all ended;
    /// returns the task to run next.
    #[inline]
    pub(crate) fn finish(self) -> Option<u32> {
        // By value: what never leaves its registers is not moved to memory.
        if self.abandoned.is_empty() { self.next } else { self.end_abandoned() }
    }

    #[cold]
    fn end_abandoned(mut self) -> Option<u32> {
        let mut guards = SmallVec::new();
        // The end of a parent may be that of a last child.
        while let Some(guard) = self.abandoned.pop() {
            match self.inner.close_join(guard) {
                None => guards.push(guard),
                Some(Join { parent, failure }) => self.end_parent(parent, failure),
            }
        }
        self.inner.end_guards(guards);
        self.next
    }

    fn end_parent(&mut self, parent: u32, failure: Option<u32>) {
        let inner = self.inner;
        let bytes = inner.memory.as_ref().map(|memory| memory.bytes_of(parent));
        inner.table.end(parent, failure, |successor, its| self.add(successor, its));
        inner.table.free(&[parent]);
        if let (Some(memory), Some(bytes)) = (&inner.memory, bytes) {
            memory.leave(self.lane, bytes);
        }
        inner.count_finished(self.lane, 1);
        inner.notify_window();
    }
}

impl Inner {
    /// Runs the ready task in `slot` and ends it; returns a successor to run next.
    #[inline]
    pub(crate) fn execute(&self, slot: u32, context: &mut Context) -> Option<u32> {
        let its = self.table.slot(slot);
        if its.is_plain() {
            return self.execute_plain(slot, its, context);
        }
        if its.commutes() {
            return self.execute_commuting(slot, context);
        }
        self.count_started(context.lane);
        self.execute_node(slot, context)
    }

    /// The same for a task that is not a recorded one, and commutes on nothing, or holds the
    /// handles on which it commutes.
    pub(super) fn execute_plain(
        &self,
        slot: u32,
        its: &Slot,
        context: &mut Context,
    ) -> Option<u32> {
        self.count_started(context.lane);
        if !context.uncounted.is_empty() {
            context.count_ended(self);
        }
        let (failure, end) = match its.cancelled_by() {
            Some(failure) => {
                self.discard(slot, failure, context);
                (Some(failure), self.time_if_taken())
            }
            None => self.run_body(slot, its, context),
        };
        drop_claim(its);
        let failure = match has_children() {
            false => failure,
            // Else whoever ends the last of them ends this task.
            true => self.join_children(slot, failure)?,
        };
        // Read now: once the task has ended, the slot may have another.
        let bytes = self.memory.as_ref().map(|memory| memory.bytes_of(slot));
        let mut released = Released::new(self, context.lane, end, &mut context.ready);
        self.table.end_at(its, failure, |successor, its| released.add(successor, its));
        let next = released.finish();
        context.free(self, slot);
        let next = self.go_on(next, context);
        if let (Some(memory), Some(bytes)) = (&self.memory, bytes) {
            memory.leave(context.lane, bytes);
        }
        self.count_finished(context.lane, 1);
        self.notify_window();
        next
    }

    /// Queues the tasks that an end has let go, except for `next` if this thread may run it next.
    #[inline(always)]
    pub(crate) fn go_on(&self, next: Option<u32>, context: &mut Context) -> Option<u32> {
        let may = next.is_none_or(|next| self.ready.may_run_next(self.table.slot(next)));
        if may && context.ready.is_empty() {
            return next;
        }
        context.ready.extend(next.filter(|_| !may));
        self.queue_ready(context);
        next.filter(|_| may)
    }

    fn queue_ready(&self, context: &mut Context) {
        let count = context.ready.len();
        let (queue, worker) = (&context.queue, Some(context.lane));
        context.ready.drain(..).rev().for_each(|slot| self.enqueue(slot, queue, worker));
        self.wake_for(count);
    }

    /// Runs the body of the task in `slot`, which is `its`; returns its failure, if it failed, and
    /// when it ended, or 0 if no times are taken.
    #[inline(always)]
    pub(crate) fn run_body(
        &self,
        slot: u32,
        its: &Slot,
        context: &mut Context,
    ) -> (Option<u32>, u64) {
        let cell = &its.cell;
        let timed = self.takes_times();
        let start = if timed { self.body_begins(slot, context.lane) } else { 0 };
        // SAFETY: the task is ready and was taken from a queue once, so this thread owns the
        // cell; the body has not run.
        let result = inside_body(self.id, slot, || guarded(|| unsafe { cell.run() }));
        // SAFETY: still the owner.
        let end = if timed { unsafe { self.body_ended(slot, start, context) } } else { 0 };
        self.totals(context.lane).task(end.saturating_sub(start));
        match result {
            Ok(Ok(())) => (None, end),
            // SAFETY: still the owner.
            Ok(Err(error)) => (Some(unsafe { self.body_failed(slot, Ok(error)) }), end),
            // SAFETY: still the owner.
            Err(message) => (Some(unsafe { self.body_failed(slot, Err(message)) }), end),
        }
    }

    /// The body of the task in `slot` has returned an error or panicked; returns the failure.
    ///
    /// # Safety
    /// The calling thread owns the cell of the slot.
    #[cold]
    unsafe fn body_failed(&self, slot: u32, what: Result<BodyError, String>) -> u32 {
        let (panicked, message) = match what {
            Ok(error) => (false, error_text(&*error)),
            Err(message) => (true, message),
        };
        // SAFETY: the caller's promise.
        let meta = unsafe { self.meta(self.table.slot(slot)) };
        self.fail(slot, meta, panicked, message)
    }

    /// Records a failure before the task counts as ended: whoever is submitted later and finds
    /// it ended also finds that it failed.
    pub(crate) fn fail(&self, slot: u32, meta: Meta, panicked: bool, message: String) -> u32 {
        let failure = TaskFailure::new(meta, panicked, message);
        let mut submitter = self.submitter();
        let index = submitter.change_failures(self, |failures| failures.add(failure));
        submitter.spoil(self, self.table.current(slot), Some(meta.label), index);
        index
    }

    pub(crate) fn discard(&self, slot: u32, failure: u32, context: &Context) {
        let cell = &self.table.slot(slot).cell;
        // SAFETY: the task is ready and was taken from a queue once, so this thread owns the
        // cell; the body has not been consumed.
        let dropped = guarded(|| unsafe { cell.discard() });
        self.totals(context.lane).cancelled();
        // SAFETY: still the owner.
        let meta = unsafe { self.meta(self.table.slot(slot)) };
        let mut submitter = self.submitter();
        submitter.spoil(self, self.table.current(slot), Some(meta.label), failure);
        submitter.change_failures(self, |failures| {
            failures.count_cancelled(failure);
            if let Err(message) = dropped {
                let message = format!("dropping its body: {message}");
                failures.add(TaskFailure::new(meta, true, message));
            }
        });
    }

    #[inline]
    pub(crate) fn totals(&self, lane: usize) -> &LaneTotals {
        &self.totals.lanes[lane]
    }
}

/// Drops what is left of a task whose body has been consumed; by the thread that ends the task.
#[inline(always)]
fn drop_claim(its: &Slot) {
    // SAFETY: the thread that ends the task owns the cell.
    if !unsafe { its.cell.is_clear() } {
        clear_claim(its);
    }
}

fn clear_claim(its: &Slot) {
    // SAFETY: as above; the body was consumed.
    let cleared = guarded(|| unsafe { its.cell.clear() });
    debug_assert!(cleared.is_ok(), "the drop of a claim panicked");
}
