//! Collects what lanes record into a trace document.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use super::lane::{LaneBuffer, LaneWriter};
use super::raw_span::RawSpan;
use crate::clock::Clock;
use crate::statistics::Starved;
use crate::sync::lock_plain as lock;

use super::{Cause, FORMAT, Keep, Lane, LaneKind, Mark, MarkKind, Span, SpanKind, Trace, VERSION};

/// The clock, the switch, the names and the lanes' readable sides.
pub(crate) struct Recorder {
    clock: Clock,
    base_unix: f64,
    enabled: AtomicBool,
    /// When recording was last switched on; spans are clipped to it.
    since: AtomicU64,
    /// When it was last switched off.
    until: AtomicU64,
    names: Mutex<Names>,
    marks: Mutex<Vec<Mark>>,
    /// When the main thread's waits starved the workers, in time order.
    starved: Mutex<Vec<Starved>>,
    keep: Keep,
    lanes: Vec<(Lane, Arc<LaneBuffer>)>,
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Recorder {
    /// A recorder with a main lane and one for each worker, each of which keeps at most
    /// `capacity` spans, and their writers in that order.
    pub(crate) fn new(workers: usize, capacity: usize, keep: Keep) -> (Self, Vec<LaneWriter>) {
        let lane = |name, kind| Lane { name, kind, dropped: 0 };
        let main = lane("main".into(), LaneKind::Main);
        let pool = (0..workers).map(|i| lane(format!("worker {i}"), LaneKind::Worker));
        let (lanes, writers) = std::iter::once(main)
            .chain(pool)
            .map(|lane| {
                let (buffer, writer) = LaneBuffer::new(capacity, keep);
                ((lane, buffer), writer)
            })
            .unzip();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let recorder = Recorder {
            clock: Clock::start(),
            base_unix: unix.map_or(0.0, |d| d.as_secs_f64()),
            enabled: AtomicBool::new(false),
            since: AtomicU64::new(0),
            until: AtomicU64::new(0),
            names: Mutex::default(),
            marks: Mutex::default(),
            starved: Mutex::default(),
            keep,
            lanes,
        };
        (recorder, writers)
    }

    /// Nanoseconds since the runtime was built; see [`Clock`].
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    pub(crate) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Whether an interval that began at `start` and ends now was, in part, recorded.
    pub(crate) fn covers(&self, start: u64) -> bool {
        self.enabled() || start < self.until.load(Ordering::Relaxed)
    }

    /// Forgets what was recorded and starts.
    pub(crate) fn start(&self) {
        for (_, buffer) in &self.lanes {
            buffer.take(|_| {});
        }
        lock(&self.marks).clear();
        lock(&self.starved).clear();
        self.since.store(self.now(), Ordering::Relaxed);
        self.enabled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        if self.enabled.swap(false, Ordering::Relaxed) {
            self.until.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Notes when a wait starved the workers.
    pub(crate) fn starved(&self, interval: Option<Starved>) {
        if let Some(interval) = interval
            && self.enabled()
        {
            lock(&self.starved).push(interval);
        }
    }

    pub(crate) fn mark(&self, kind: MarkKind, index: u32) {
        if self.enabled() {
            let mark = Mark { time: self.now(), kind, index };
            lock(&self.marks).push(mark);
        }
    }

    /// The number of a name: its place in [`names`](Self::names).
    pub(crate) fn intern(&self, name: &str) -> u32 {
        let mut names = lock(&self.names);
        if let Some(index) = names.index.get(name) {
            return *index;
        }
        let index = names.list.len() as u32;
        names.list.push(name.to_owned());
        names.index.insert(name.to_owned(), index);
        index
    }

    /// All names, by number.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.names).list.clone()
    }

    /// Takes all that was recorded since the start or the last call. `idle` tells, per worker,
    /// since when it has been idle; once recording has stopped, that interval ends there.
    pub(crate) fn take(
        &self,
        title: String,
        meta: BTreeMap<String, String>,
        idle: &[Option<(u64, Cause)>],
    ) -> Trace {
        let since = self.since.load(Ordering::Relaxed);
        let until = if self.enabled() { 0 } else { self.until.load(Ordering::Relaxed) };
        let mut lanes: Vec<(Lane, Vec<RawSpan>)> = Vec::new();
        for (lane, (described, buffer)) in self.lanes.iter().enumerate() {
            let mut spans = Vec::new();
            let dropped = buffer.take(|mut span| {
                span.start = span.start.max(since);
                if span.kind == SpanKind::Idle && until > 0 {
                    span.end = span.end.min(until);
                }
                if span.end >= span.start {
                    spans.push(span);
                }
            });
            let idle = lane.checked_sub(1).and_then(|worker| *idle.get(worker)?);
            if let Some((start, cause)) = idle.map(|(start, cause)| (start.max(since), cause))
                && start < until
            {
                let (kind, label) = (SpanKind::Idle, Default::default());
                let name = self.intern(cause.label());
                let (end, sequence) = (until, None);
                spans.push(RawSpan { kind, cause, name, start, end, label, sequence });
            }
            // A nested wait ends, and so is written, before the span that contains it.
            spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
            lanes.push((Lane { dropped, ..described.clone() }, spans));
        }
        let starved = std::mem::take(&mut *lock(&self.starved));
        let idle_name = self.intern(Cause::NoReadyTask.label());
        let mut spans = Vec::new();
        for (lane, (_, raw)) in lanes.iter().enumerate() {
            for span in raw {
                let mut push = |raw: RawSpan| spans.push(finish(lane as u32, raw, since));
                if span.kind == SpanKind::Idle && span.cause == Cause::None {
                    split_idle(*span, idle_name, &starved, push);
                } else {
                    push(*span);
                }
            }
        }
        let marks = std::mem::take(&mut *lock(&self.marks));
        Trace {
            format: Cow::Borrowed(FORMAT),
            version: VERSION,
            title,
            meta,
            origin: self.base_unix + since as f64 * 1e-9,
            dropped: lanes.iter().map(|(lane, _)| lane.dropped).sum(),
            keep: self.keep,
            lanes: lanes.into_iter().map(|(lane, _)| lane).collect(),
            names: self.names(),
            spans,
            marks: marks
                .into_iter()
                .map(|mark| Mark { time: mark.time.saturating_sub(since), ..mark })
                .collect(),
        }
    }
}

fn finish(lane: u32, raw: RawSpan, since: u64) -> Span {
    Span {
        lane,
        kind: raw.kind,
        name: raw.name,
        start: raw.start - since,
        end: raw.end - since,
        cause: raw.cause,
        batch: raw.label.batch,
        layer: raw.label.layer,
        shard: raw.label.shard,
        sequence: raw.sequence,
    }
}

/// Cuts an idle interval of a worker where the main thread's waits began and ceased to starve
/// the workers: in between, the wait's cause is the worker's; else no task was ready.
///
/// `starved` is in time order and free of overlaps. No piece is empty, so an empty interval has
/// none.
fn split_idle(idle: RawSpan, idle_name: u32, starved: &[Starved], mut push: impl FnMut(RawSpan)) {
    let piece = |start, end, cause, name| RawSpan { start, end, cause, name, ..idle };
    let mut at = idle.start;
    let first = starved.partition_point(|wait| wait.end <= idle.start);
    for wait in &starved[first..] {
        if wait.start >= idle.end {
            break;
        }
        if wait.start > at {
            push(piece(at, wait.start, Cause::NoReadyTask, idle_name));
            at = wait.start;
        }
        let end = wait.end.min(idle.end);
        if at < end {
            push(piece(at, end, wait.cause, wait.name));
            at = end;
        }
    }
    if at < idle.end {
        push(piece(at, idle.end, Cause::NoReadyTask, idle_name));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::Label;
    use proptest::prelude::*;

    fn span(kind: SpanKind, start: u64, end: u64, cause: Cause, name: u32) -> RawSpan {
        RawSpan { kind, cause, name, start, end, label: Label::default(), sequence: None }
    }

    #[test]
    fn idle_time_takes_the_cause_of_the_wait_that_starves_the_workers() {
        let waits = [
            Starved { start: 0, end: 5, cause: Cause::Drain, name: 1 },
            Starved { start: 12, end: 20, cause: Cause::Barrier, name: 2 },
            Starved { start: 30, end: 90, cause: Cause::Window, name: 3 },
        ];
        let mut pieces = Vec::new();
        let idle = span(SpanKind::Idle, 3, 40, Cause::None, 0);
        split_idle(idle, 9, &waits, |p| pieces.push((p.start, p.end, p.cause, p.name)));
        assert_eq!(
            pieces,
            [
                (3, 5, Cause::Drain, 1),
                (5, 12, Cause::NoReadyTask, 9),
                (12, 20, Cause::Barrier, 2),
                (20, 30, Cause::NoReadyTask, 9),
                (30, 40, Cause::Window, 3),
            ]
        );
    }

    proptest! {
        #[test]
        fn pieces_tile_the_idle_interval(
            cuts in prop::collection::btree_set(0u64..1000, 0..20), start in 0u64..900, length in 0u64..300
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let (cause, name) = (Cause::Barrier, 1);
            let waits: Vec<Starved> = cuts
                .chunks_exact(2)
                .map(|c| Starved { start: c[0], end: c[1], cause, name })
                .collect();
            let idle = span(SpanKind::Idle, start, start + length, Cause::None, 0);
            let mut at = start;
            split_idle(idle, 9, &waits, |p| {
                assert_eq!(p.start, at);
                assert!(p.end > p.start);
                let inside = waits.iter().any(|w| w.start <= p.start && p.end <= w.end);
                assert_eq!(inside, p.cause == Cause::Barrier);
                at = p.end;
            });
            prop_assert_eq!(at, start + length);
        }
    }

    #[test]
    fn a_trace_starts_where_recording_was_switched_on() {
        let (recorder, mut writers) = Recorder::new(1, 1000, Keep::Oldest);
        writers[1].write(span(SpanKind::Task, 0, 1, Cause::None, 0));
        recorder.start();
        let since = recorder.now();
        let name = recorder.intern("dense.forward");
        recorder.mark(MarkKind::Batch, 4);
        writers[1].write(span(SpanKind::Task, 0, since + 10, Cause::None, name));
        recorder.stop();
        recorder.mark(MarkKind::Batch, 5);
        let trace = recorder.take("t".into(), BTreeMap::new(), &[Some((0, Cause::None))]);
        assert_eq!(trace.spans.len(), 2);
        assert_eq!((trace.spans[0].start, trace.spans[1].start), (0, 0));
        // A worker that slept all the time is idle from the start to the stop.
        let idle: Vec<_> = trace.spans.iter().filter(|s| s.kind == SpanKind::Idle).collect();
        assert_eq!((idle.len(), idle[0].cause), (1, Cause::NoReadyTask));
        assert_eq!(trace.marks.len(), 1);
        let mut bytes = Vec::new();
        trace.write_json(&mut bytes).expect("in-memory write");
        assert_eq!(Trace::read_json(&bytes[..]).expect("own output"), trace);
    }
}
