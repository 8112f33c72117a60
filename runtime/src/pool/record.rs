//! What is noted about a task when it becomes ready, begins and ends, and about idle time, while
//! timing is on or a trace is recorded. Otherwise a task costs one look at two flags.
#![allow(unsafe_code, reason = "reads task cells as their owner")]

use super::Context;
use crate::graph::Slot;
use crate::runtime::Inner;
use crate::task::{Label, Meta};
use crate::trace::{Cause, RawSpan, SpanKind};
use crate::watchdog::Call;

/// Why a thread waits, as statistics and traces tell it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason<'a> {
    pub(crate) cause: Cause,
    pub(crate) name: &'a str,
    pub(crate) label: Label,
    /// What the user called, where that is known.
    pub(crate) call: Option<Call>,
}

impl From<Cause> for Reason<'static> {
    fn from(cause: Cause) -> Self {
        Reason { cause, name: cause.label(), label: Label::default(), call: None }
    }
}

impl Reason<'_> {
    /// The same, for a call of the user's.
    pub(crate) fn calling(self, call: Call) -> Self {
        Reason { call: Some(call), ..self }
    }
}

impl Inner {
    /// Whether times are taken: timing is on, or there is a watchdog, or a trace is recorded.
    #[inline]
    pub(crate) fn takes_times(&self) -> bool {
        self.times || self.recorder.enabled()
    }

    /// The time, or 0 if no times are taken.
    #[inline]
    pub(crate) fn time_if_taken(&self) -> u64 {
        if self.takes_times() { self.recorder.now() } else { 0 }
    }

    /// Notes that the task in `slot` became ready at `time`, unless that is 0; only by the thread
    /// that made it so, before it queues the task.
    #[inline]
    pub(crate) fn note_ready(&self, slot: &Slot, time: u64) {
        if time != 0 {
            slot.set_ready_at(time);
        }
    }

    /// The body of the task in `slot` begins now; returns the time. What is needed about the task
    /// afterwards is fetched meanwhile: another core wrote it.
    #[inline]
    pub(super) fn body_begins(&self, slot: u32, lane: usize) -> u64 {
        self.table.prefetch_facts(slot);
        let now = self.recorder.now();
        if let Some(watch) = &self.watch {
            watch.body_begins(lane, slot, now);
        }
        now
    }

    /// The body of the task in `slot`, which began at `start`, ended now; returns the time.
    ///
    /// # Safety
    /// The calling thread owns the cell of the slot, and it is filled.
    #[cold] // Keeps it out of the way of tasks whose times are not taken.
    pub(super) unsafe fn body_ended(&self, slot: u32, start: u64, context: &mut Context) -> u64 {
        let end = self.recorder.now();
        if let Some(watch) = &self.watch {
            watch.body_ended(context.lane);
        }
        let slot = self.table.slot(slot);
        let kind = slot.kind().unwrap_or_else(|| {
            // Submitted before times were taken.
            // SAFETY: the caller's promise.
            let meta = unsafe { self.meta(slot) };
            context.names.number(&self.recorder, meta.name)
        });
        let delay = slot.ready_at().map(|ready| start.saturating_sub(ready));
        let kinds = &self.totals(context.lane).kinds;
        context.kinds.record(kinds, kind, end.saturating_sub(start), delay);
        if self.recorder.enabled() {
            // SAFETY: the caller's promise.
            let Meta { label, sequence, .. } = unsafe { self.meta(slot) };
            let (kind, name, cause, sequence) = (SpanKind::Task, kind, Cause::None, Some(sequence));
            context.writer.write(RawSpan { kind, cause, name, start, end, label, sequence });
        }
        end
    }

    /// Runs `wait` and records how long it took and why.
    pub(crate) fn record_wait<R>(&self, reason: Reason<'_>, wait: impl FnOnce() -> R) -> R {
        let Reason { cause, name, label, .. } = reason;
        let start = self.recorder.now();
        let tracing = self.recorder.enabled();
        let named = if tracing { self.recorder.intern(name) } else { 0 };
        self.totals.clock.begin(cause, named, start);
        self.totals.wait_begins(cause, name);
        self.note_starvation();
        let watched = self.watch.as_ref().map(|watch| (watch, watch.wait_begins(reason, start)));
        let result = wait();
        if let Some((watch, ticket)) = watched {
            watch.wait_ends(ticket);
        }
        let end = self.recorder.now();
        self.recorder.starved(self.totals.clock.end(end));
        self.totals.wait_ends(cause, name, end.saturating_sub(start));
        if tracing {
            let (kind, name, sequence) = (SpanKind::Wait, named, None);
            let span = RawSpan { kind, cause, name, start, end, label, sequence };
            self.main_context().writer.write(span);
        }
        result
    }
}

impl Context {
    fn write_idle(&mut self, cause: Cause, name: u32, start: u64, end: u64) {
        let (kind, label, sequence) = (SpanKind::Idle, Label::default(), None);
        self.writer.write(RawSpan { kind, cause, name, start, end, label, sequence });
    }

    /// Records an idle interval, whose cause is found when the trace is taken.
    pub(super) fn record_idle(&mut self, start: u64, end: u64) {
        self.write_idle(Cause::None, 0, start, end);
    }

    /// Records that worker 0 was away.
    pub(super) fn record_away(&mut self, inner: &Inner, start: u64, end: u64) {
        let cause = Cause::MainBusy;
        let name = self.names.number(&inner.recorder, cause.label());
        self.write_idle(cause, name, start, end);
    }
}
