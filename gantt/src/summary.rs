//! How long each lane was busy, idle and for which cause.

use std::collections::BTreeMap;

use millrace_runtime::trace::{Cause, LaneKind, Trace};

use crate::GanttError;
use crate::segment::{Activity, Segment, activity, check, segments};

/// Where the time of a trace, or of a window of it, went; exact to the nanosecond.
///
/// Each lane's time is a partition: `busy + idle + rest` is the makespan. Where spans nest, the
/// innermost owns the time: a body that waits is idle meanwhile. `rest` is what no span covers:
/// on a worker the cost of scheduling (looking for tasks, releasing successors), on the main
/// lane the submitting program itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Length of the interval, in nanoseconds: from the first start to the last end of all
    /// spans, or the window asked for.
    pub makespan: u64,
    /// One entry per lane of the trace, in its order.
    pub lanes: Vec<LaneSummary>,
    /// One entry per activity and name that occurs, in that order.
    pub totals: Vec<Total>,
}

/// Where the time of one lane went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneSummary {
    /// Name of the lane.
    pub name: String,
    /// Whose lane it is.
    pub kind: LaneKind,
    /// Nanoseconds in bodies of tasks.
    pub busy: u64,
    /// Nanoseconds asleep or waiting; on the main lane, its waits.
    pub idle: CauseTimes,
    /// Nanoseconds that no span covers.
    pub rest: u64,
    /// Number of task spans that touch the interval.
    pub tasks: u64,
}

/// The time of all spans of one activity and name, over all lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// What the lanes did.
    pub activity: Activity,
    /// Name of the task kind or of the wait (for a barrier: which arena).
    pub name: String,
    /// Number of spans that touch the interval.
    pub spans: u64,
    /// Their time in nanoseconds, without that of spans nested in them.
    pub time: u64,
}

/// Nanoseconds for each [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTimes([u64; Cause::ALL.len() + 1]);

impl CauseTimes {
    /// Nanoseconds lost to `cause`.
    pub fn get(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Nanoseconds over all causes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes that took any time, in the order of tables; one without a cause comes last.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        let all = Cause::ALL.into_iter().chain([Cause::None]);
        all.map(|cause| (cause, self.get(cause))).filter(|&(_, time)| time > 0)
    }

    fn add(&mut self, cause: Cause, time: u64) {
        self.0[cause as usize] += time;
    }

    fn merge(mut self, other: &Self) -> Self {
        for (sum, time) in self.0.iter_mut().zip(other.0) {
            *sum += time;
        }
        self
    }
}

impl Summary {
    /// Sums up a whole trace. One without spans has makespan 0.
    ///
    /// # Errors
    /// When a span names a lane or name that is not there, ends before it starts, or ends more
    /// than 52 days after the origin; or when there are more than 4096 lanes.
    pub fn of(trace: &Trace) -> Result<Self, GanttError> {
        check(trace)?;
        let (from, to) = trace.extent().unwrap_or((0, 0));
        Ok(Self::of_segments(trace, &segments(trace), from, to))
    }

    /// Sums up the part of a trace between two times (nanoseconds since its origin).
    ///
    /// # Errors
    /// As [`Summary::of`], and when the window is reversed or ends after more than 52 days.
    pub fn within(trace: &Trace, from: u64, to: u64) -> Result<Self, GanttError> {
        check(trace)?;
        if from > to || to > crate::segment::MAX_TIME {
            return Err(GanttError::EmptyWindow { from, to });
        }
        Ok(Self::of_segments(trace, &segments(trace), from, to))
    }

    pub(crate) fn of_segments(trace: &Trace, lanes: &[Vec<Segment>], from: u64, to: u64) -> Self {
        let makespan = to - from;
        let mut totals: BTreeMap<(Activity, u32), (u64, u64)> = BTreeMap::new();
        let mut tasks = vec![0; lanes.len()];
        for span in &trace.spans {
            if span.end < from || span.start > to {
                continue;
            }
            let lane = span.lane as usize;
            let activity = activity(span, trace.lanes[lane].kind);
            totals.entry((activity, span.name)).or_default().0 += 1;
            tasks[lane] += u64::from(activity == Activity::Task);
        }
        let mut summaries = Vec::with_capacity(lanes.len());
        for ((lane, segments), tasks) in trace.lanes.iter().zip(lanes).zip(tasks) {
            let (mut busy, mut idle) = (0, CauseTimes::default());
            for segment in segments.iter().filter_map(|s| s.clipped(from, to)) {
                let time = segment.end - segment.start;
                totals.entry((segment.activity, segment.name)).or_default().1 += time;
                match segment.activity {
                    Activity::Task => busy += time,
                    Activity::Idle(cause) | Activity::Wait(cause) => idle.add(cause, time),
                }
            }
            let rest = makespan - busy - idle.total();
            let (name, kind) = (lane.name.clone(), lane.kind);
            summaries.push(LaneSummary { name, kind, busy, idle, rest, tasks });
        }
        let totals = totals.into_iter().map(|((activity, name), (spans, time))| {
            let name = trace.names[name as usize].clone();
            Total { activity, name, spans, time }
        });
        Summary { makespan, lanes: summaries, totals: totals.collect() }
    }

    /// The lanes of the workers.
    pub fn workers(&self) -> impl Iterator<Item = &LaneSummary> {
        self.lanes.iter().filter(|lane| lane.kind == LaneKind::Worker)
    }

    /// Nanoseconds that all workers together spent in bodies.
    pub fn busy(&self) -> u64 {
        self.workers().map(|lane| lane.busy).sum()
    }

    /// Nanoseconds that all workers together were idle, by cause.
    pub fn idle(&self) -> CauseTimes {
        self.workers().fold(CauseTimes::default(), |sum, lane| sum.merge(&lane.idle))
    }

    /// Nanoseconds of all workers together that no span covers.
    ///
    /// `busy + idle + scheduling` is the makespan times the number of workers.
    pub fn scheduling(&self) -> u64 {
        self.workers().map(|lane| lane.rest).sum()
    }

    /// Nanoseconds that the main thread waited, by cause.
    pub fn waits(&self) -> CauseTimes {
        let main = self.lanes.iter().filter(|lane| lane.kind == LaneKind::Main);
        main.fold(CauseTimes::default(), |sum, lane| sum.merge(&lane.idle))
    }

    /// `time` as a share (0 to 1) of what the workers had; 0 where they had nothing.
    pub fn worker_share(&self, time: u64) -> f64 {
        share(time, self.makespan * self.workers().count() as u64)
    }
}

/// `part / whole`, and 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
