//! Running a task and releasing what depends on it.
#![allow(unsafe_code, reason = "calls into task cells as their owner")]

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::LocalState;
use crate::runtime::Inner;
use crate::statistics::LaneTotals;
use crate::sync::Ordering;
use crate::task::{Label, Meta, TaskFailure};
use crate::trace::{Cause, LaneWriter, RawSpan, SpanKind};

/// Ended slots that a thread keeps before it gives them back in one go.
const FREE_BATCH: u32 = 32;

/// What an executing thread carries from task to task.
pub(crate) struct Context {
    lane: usize,
    pub(crate) writer: LaneWriter,
    names: HashMap<(usize, usize), u32>,
    /// Ended slots, linked; `(first, last, count)`.
    freed: Option<(u32, u32, u32)>,
    /// Successors that became ready, to be queued.
    ready: Vec<u32>,
}

impl Context {
    pub(crate) fn new(lane: usize, writer: LaneWriter) -> Self {
        Context { lane, writer, names: HashMap::new(), freed: None, ready: Vec::new() }
    }

    fn name(&mut self, inner: &Inner, name: &'static str) -> u32 {
        // A static string is the same name wherever it is found at the same address.
        let key = (name.as_ptr() as usize, name.len());
        *self.names.entry(key).or_insert_with(|| inner.recorder.intern(name))
    }

    fn free(&mut self, inner: &Inner, slot: u32) {
        let (first, last, count) = match self.freed {
            None => (slot, slot, 1),
            Some((first, last, count)) => {
                let link = inner.table.slot(slot).next_free();
                link.store(first + 1, Ordering::Relaxed);
                (slot, last, count + 1)
            }
        };
        self.freed = Some((first, last, count));
        if count >= FREE_BATCH {
            self.flush(inner);
        }
    }

    /// Gives all ended slots back.
    pub(crate) fn flush(&mut self, inner: &Inner) {
        if let Some((first, last, _)) = self.freed.take() {
            inner.table.free(first, last);
        }
    }

    pub(crate) fn record_idle(&mut self, start: u64, end: u64) {
        self.writer.write(RawSpan {
            kind: SpanKind::Idle,
            cause: Cause::None,
            name: 0,
            start,
            end,
            label: Label::default(),
        });
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
fn guarded<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let message = panic_message(&*payload);
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        message
    })
}

impl Inner {
    /// Runs the ready task in `slot` and ends it; returns a successor to run next.
    pub(crate) fn execute(&self, slot: u32, context: &mut Context) -> Option<u32> {
        self.count_started(context.lane);
        let failure = match self.table.slot(slot).cancelled_by() {
            Some(failure) => {
                self.discard(slot, failure, context);
                Some(failure)
            }
            None => self.run_body(slot, context),
        };
        // SAFETY: this thread ends the task, so it owns the cell; the body was consumed.
        let cleared = guarded(|| unsafe { self.table.slot(slot).cell.clear() });
        debug_assert!(cleared.is_ok(), "the drop of a claim panicked");
        let next = self.end(slot, failure, context);
        self.count_finished(context.lane);
        next
    }

    /// Ends the task or guard in `slot`, queues ready successors but the first, returns that.
    pub(crate) fn end(
        &self,
        slot: u32,
        failure: Option<u32>,
        context: &mut Context,
    ) -> Option<u32> {
        let ready = &mut context.ready;
        self.table.end(slot, failure, |successor| {
            if self.table.slot(successor).is_guard() {
                self.wake_guard(successor);
            } else {
                ready.push(successor);
            }
        });
        context.free(self, slot);
        if context.ready.is_empty() {
            return None;
        }
        let mut ready = std::mem::take(&mut context.ready);
        // The list gives the last submitted successor first; run in submission order.
        let next = ready.pop();
        for slot in ready.drain(..).rev() {
            self.queue(slot);
        }
        context.ready = ready;
        next
    }

    fn run_body(&self, slot: u32, context: &mut Context) -> Option<u32> {
        let cell = &self.table.slot(slot).cell;
        let tracing = self.recorder.enabled();
        let timed = self.timing || tracing;
        let start = if timed { self.recorder.now() } else { 0 };
        let result = LocalState::inside_body(|| {
            // SAFETY: the task is ready and was taken from a queue once, so this thread owns
            // the cell; the body has not run.
            guarded(|| unsafe { cell.run() })
        });
        let end = if timed { self.recorder.now() } else { 0 };
        self.totals(context.lane).task(end - start);
        if tracing {
            // SAFETY: still the owner.
            let meta = unsafe { cell.meta() };
            let name = context.name(self, meta.name);
            let label = meta.label;
            let (kind, cause) = (SpanKind::Task, Cause::None);
            context.writer.write(RawSpan { kind, cause, name, start, end, label });
        }
        let (panicked, message) = match result {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => (false, error_text(&*error)),
            Err(message) => (true, message),
        };
        // SAFETY: still the owner.
        let meta = unsafe { cell.meta() };
        Some(self.fail(slot, meta, panicked, message))
    }

    /// Records a failure before the task counts as ended: whoever is submitted later and finds
    /// it ended also finds that it failed.
    fn fail(&self, slot: u32, meta: Meta, panicked: bool, message: String) -> u32 {
        let Meta { name, location, label, sequence } = meta;
        let failure = TaskFailure { name, label, sequence, location, panicked, message };
        let mut submitter = self.submitter();
        let index = submitter.failures.add(failure);
        submitter.spoil(self.table.current(slot), index);
        index
    }

    fn discard(&self, slot: u32, failure: u32, context: &Context) {
        let cell = &self.table.slot(slot).cell;
        // SAFETY: the task is ready and was taken from a queue once, so this thread owns the
        // cell; the body has not been consumed.
        let dropped = guarded(|| unsafe { cell.discard() });
        self.totals(context.lane).cancelled();
        let mut submitter = self.submitter();
        submitter.failures.count_cancelled();
        submitter.spoil(self.table.current(slot), failure);
        if let Err(message) = dropped {
            // SAFETY: still the owner.
            let meta = unsafe { cell.meta() };
            let Meta { name, location, label, sequence } = meta;
            let message = format!("dropping its body: {message}");
            let panicked = true;
            submitter.failures.add(TaskFailure {
                name,
                label,
                sequence,
                location,
                panicked,
                message,
            });
        }
    }

    pub(crate) fn totals(&self, lane: usize) -> &LaneTotals {
        &self.totals.lanes[lane]
    }
}
