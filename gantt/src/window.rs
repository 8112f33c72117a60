//! Which part of a trace a figure shows.

use std::ops::Range;

use millrace_runtime::trace::{MarkKind, Trace};

use crate::GanttError;
use crate::segment::MAX_TIME;

/// Which part of a trace a figure shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Every span and mark.
    #[default]
    All,
    /// From the start of the first batch until the work of the last is done.
    Batches(Range<u32>),
    /// Between two times, in nanoseconds since the origin.
    Window(u64, u64),
}

impl Selection {
    /// First and last moment to draw of a trace that was checked; the first is before the last.
    pub(crate) fn resolve(&self, trace: &Trace) -> Result<(u64, u64), GanttError> {
        match self {
            Selection::All => {
                let none = || GanttError::NoSpans { title: trace.title.clone() };
                let (start, end) = trace.extent().ok_or_else(none)?;
                // The main thread begins the first batch a little before anything runs.
                let first = trace.marks.iter().map(|mark| mark.time).min().unwrap_or(start);
                let start = start.min(first);
                Ok((start, end.max(start + 1)))
            }
            Selection::Window(from, to) if from < to && *to <= MAX_TIME => Ok((*from, *to)),
            Selection::Window(from, to) => Err(GanttError::EmptyWindow { from: *from, to: *to }),
            Selection::Batches(batches) => of_batches(trace, batches),
        }
    }
}

fn of_batches(trace: &Trace, batches: &Range<u32>) -> Result<(u64, u64), GanttError> {
    let mark = |index| batch_marks(trace).find(|&(_, i)| i == index).map(|(time, _)| time);
    let inside = || trace.spans.iter().filter(|s| s.batch.is_some_and(|b| batches.contains(&b)));
    // Loading may begin long before the batch does, so spans count only where marks lack.
    let start = mark(batches.start).or_else(|| inside().map(|s| s.start).min());
    // Workers may still run a batch when the main thread is one or more batches ahead.
    let work = inside().map(|s| s.end).max();
    let next = mark(batches.end);
    let end = match (work, next) {
        (Some(work), Some(next)) => Some(work.max(next)),
        (None, None) => trace.extent().map(|(_, end)| end),
        (work, next) => work.or(next),
    };
    match (start, end) {
        (Some(start), Some(end)) if !batches.is_empty() && start < MAX_TIME => {
            Ok((start, end.min(MAX_TIME).max(start + 1)))
        }
        _ => Err(GanttError::NoBatch {
            title: trace.title.clone(),
            from: batches.start,
            to: batches.end,
        }),
    }
}

fn batch_marks(trace: &Trace) -> impl Iterator<Item = (u64, u32)> + '_ {
    let batches = trace.marks.iter().filter(|mark| mark.kind == MarkKind::Batch);
    batches.map(|mark| (mark.time, mark.index))
}

/// When the first batch begins inside a window, or else the start of the window.
pub(crate) fn first_batch(trace: &Trace, (from, to): (u64, u64)) -> u64 {
    let inside = batch_marks(trace).map(|(time, _)| time).filter(|t| (from..=to).contains(t));
    inside.min().unwrap_or(from)
}

/// The numbers of `count` batches from the middle of a trace, or of all where there are fewer.
///
/// The first batches of a run pay for cold caches and first allocations; those in the middle
/// show its steady state.
pub fn middle_batches(trace: &Trace, count: u32) -> Range<u32> {
    let marked = batch_marks(trace).map(|(_, index)| index);
    let total = marked.chain(trace.spans.iter().filter_map(|s| s.batch)).max();
    let total = total.map_or(0, |last| last.saturating_add(1));
    let start = total.saturating_sub(count) / 2;
    start..start + count.min(total)
}
