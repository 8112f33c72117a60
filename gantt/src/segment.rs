//! From the spans of a trace to what each lane does at each moment.
//!
//! Spans may nest (a wait inside a call that waits, a wait inside a body). The innermost span
//! owns its time, so that the segments of one lane never overlap and their lengths add up.

use std::cmp::Reverse;

use millrace_runtime::trace::{Cause, LaneKind, Span, SpanKind, Trace};

use crate::GanttError;

/// Traces may have up to this many lanes: one per worker and some for other threads.
pub(crate) const MAX_LANES: usize = 4096;
/// The last moment that is allowed, in nanoseconds (52 days): sums over all lanes then fit in
/// `u64`, and every time is exact as `f64`.
pub(crate) const MAX_TIME: u64 = (1 << 52) - 1;

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// A worker, or the main thread itself, runs the body of a task.
    Task,
    /// A worker sleeps or waits inside a body.
    Idle(Cause),
    /// The main thread waits.
    Wait(Cause),
}

/// A stretch of one lane during which one span is the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) activity: Activity,
    /// Index into the names of the trace.
    pub(crate) name: u32,
}

impl Segment {
    /// The part inside the window, if any.
    pub(crate) fn clipped(mut self, from: u64, to: u64) -> Option<Self> {
        self.start = self.start.max(from);
        self.end = self.end.min(to);
        (self.start < self.end).then_some(self)
    }
}

/// What `span` means on a lane of the given kind.
pub(crate) fn activity(span: &Span, lane: LaneKind) -> Activity {
    match (span.kind, lane) {
        (SpanKind::Task, _) => Activity::Task,
        (SpanKind::Idle | SpanKind::Wait, LaneKind::Worker) => Activity::Idle(span.cause),
        (SpanKind::Idle | SpanKind::Wait, LaneKind::Main) => Activity::Wait(span.cause),
    }
}

/// Checks what the other functions of this crate rely on.
pub(crate) fn check(trace: &Trace) -> Result<(), GanttError> {
    let title = || trace.title.clone();
    if trace.lanes.len() > MAX_LANES {
        let found = trace.lanes.len();
        return Err(GanttError::Lanes { title: title(), found, limit: MAX_LANES });
    }
    for (index, span) in trace.spans.iter().enumerate() {
        let reason = if span.lane as usize >= trace.lanes.len() {
            "its lane does not exist"
        } else if span.name as usize >= trace.names.len() {
            "its name does not exist"
        } else if span.end < span.start {
            "it ends before it starts"
        } else if span.end > MAX_TIME {
            "it ends more than 52 days after the origin"
        } else {
            continue;
        };
        return Err(GanttError::Span { title: title(), index, reason });
    }
    Ok(())
}

/// The segments of every lane, in time order, of a trace that was [`check`]ed.
pub(crate) fn segments(trace: &Trace) -> Vec<Vec<Segment>> {
    let kinds = trace.lanes.iter().map(|lane| lane.kind);
    by_lane(trace).into_iter().zip(kinds).map(|(spans, kind)| innermost(&spans, kind)).collect()
}

/// The spans of every lane, each before those that it holds.
pub(crate) fn by_lane(trace: &Trace) -> Vec<Vec<&Span>> {
    let mut lanes: Vec<Vec<&Span>> = vec![Vec::new(); trace.lanes.len()];
    for span in &trace.spans {
        lanes[span.lane as usize].push(span);
    }
    for spans in &mut lanes {
        // The sort is stable and almost free, since documents are ordered by start.
        spans.sort_by_key(|span| (span.start, Reverse(span.end)));
    }
    lanes
}

/// How many spans of a trace that was [`check`]ed overlap one that began before on their lane:
/// they end after it, or both are tasks with no wait between. A figure shows only one of two
/// such spans at a time, so it must say how many there are.
pub(crate) fn overlaps(trace: &Trace) -> usize {
    by_lane(trace).iter().map(|spans| overlaps_of(spans)).sum()
}

fn overlaps_of(spans: &[&Span]) -> usize {
    let mut open: Vec<&Span> = Vec::new();
    let mut found = 0;
    for span in spans.iter().filter(|span| span.start < span.end) {
        while open.last().is_some_and(|outer| outer.end <= span.start) {
            open.pop();
        }
        found += usize::from(open.last().is_some_and(|outer| {
            span.end > outer.end || (span.kind == SpanKind::Task && outer.kind == SpanKind::Task)
        }));
        open.push(span);
    }
    found
}

/// What a figure says of so many overlaps, if there are any.
pub(crate) fn overlap_words(overlaps: usize) -> Option<String> {
    (overlaps > 0).then(|| {
        format!("{overlaps} spans overlap others of their lane; the one that began last is shown")
    })
}

fn innermost(spans: &[&Span], kind: LaneKind) -> Vec<Segment> {
    let mut out = Vec::with_capacity(spans.len());
    let mut open: Vec<&Span> = Vec::new();
    let mut now = 0;
    for span in spans {
        advance(&mut open, &mut now, span.start, kind, &mut out);
        now = span.start;
        open.push(span);
    }
    advance(&mut open, &mut now, u64::MAX, kind, &mut out);
    out
}

/// Gives the time from `now` to `until` to the open spans, innermost first.
fn advance(
    open: &mut Vec<&Span>,
    now: &mut u64,
    until: u64,
    kind: LaneKind,
    out: &mut Vec<Segment>,
) {
    while let Some(&top) = open.last() {
        let end = top.end.min(until);
        if end > *now {
            let activity = activity(top, kind);
            out.push(Segment { start: *now, end, activity, name: top.name });
            *now = end;
        }
        if top.end > until {
            break;
        }
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: SpanKind, start: u64, end: u64) -> Span {
        let cause = if kind == SpanKind::Task { Cause::None } else { Cause::Barrier };
        Span {
            lane: 0,
            kind,
            name: 0,
            start,
            end,
            cause,
            batch: None,
            layer: None,
            shard: None,
            sequence: None,
        }
    }

    fn swept(spans: &[Span], kind: LaneKind) -> Vec<(u64, u64, Activity)> {
        let spans: Vec<&Span> = spans.iter().collect();
        innermost(&spans, kind).iter().map(|s| (s.start, s.end, s.activity)).collect()
    }

    #[test]
    fn the_innermost_span_owns_its_time() {
        let spans = [span(SpanKind::Task, 0, 10), span(SpanKind::Wait, 2, 5)];
        assert_eq!(
            swept(&spans, LaneKind::Worker),
            [
                (0, 2, Activity::Task),
                (2, 5, Activity::Idle(Cause::Barrier)),
                (5, 10, Activity::Task)
            ]
        );
    }

    #[test]
    fn waits_may_nest_and_tasks_may_not() {
        let count = |spans: &[Span]| overlaps_of(&spans.iter().collect::<Vec<_>>());
        let helped = [
            span(SpanKind::Task, 0, 10),
            span(SpanKind::Wait, 2, 8),
            span(SpanKind::Task, 3, 8),
            span(SpanKind::Task, 10, 12),
        ];
        assert_eq!(count(&helped), 0);
        let crossing = [span(SpanKind::Wait, 0, 4), span(SpanKind::Task, 2, 6)];
        assert_eq!(count(&crossing), 1);
        let held = [span(SpanKind::Task, 0, 10), span(SpanKind::Task, 2, 4)];
        assert_eq!(count(&held), 1);
        assert_eq!(overlap_words(0), None);
    }

    #[test]
    fn spans_that_cross_or_are_empty_still_partition_the_time() {
        let spans = [
            span(SpanKind::Wait, 0, 4),
            span(SpanKind::Task, 2, 6),
            span(SpanKind::Task, 3, 3),
            span(SpanKind::Wait, 9, 9),
        ];
        let wait = Activity::Wait(Cause::Barrier);
        let got = swept(&spans, LaneKind::Main);
        assert_eq!(got, [(0, 2, wait), (2, 3, Activity::Task), (3, 6, Activity::Task)]);
    }
}
