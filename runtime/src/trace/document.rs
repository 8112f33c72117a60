//! The trace document: what a run records, and what figures are drawn from.
//!
//! A document is versioned JSON ([`Trace::write_json`], [`Trace::read_json`]). Times are
//! nanoseconds since [`Trace::origin`]; spans of one lane never overlap except that a wait
//! which a body or a thread nests lies inside its outer span.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use super::Keep;

/// The value of [`Trace::format`] in every document.
pub const FORMAT: &str = "millrace-trace";
/// The version that this crate writes. Readers refuse a newer one.
///
/// Version 3 brought the cause [`Memory`](Cause::Memory), version 4 [`Span::sequence`].
pub const VERSION: u32 = 4;

/// One recorded run: lanes, the spans on them, and marks common to all lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Always [`FORMAT`].
    pub format: Cow<'static, str>,
    /// Version of the document, at most [`VERSION`].
    pub version: u32,
    /// What was run, for figure titles: for example `double/advanced`.
    pub title: String,
    /// Free facts about the run (workers, batch size, machine), in key order.
    pub meta: BTreeMap<String, String>,
    /// Wall-clock time of time 0, in seconds since the Unix epoch.
    pub origin: f64,
    /// The lanes; [`Span::lane`] indexes them.
    pub lanes: Vec<Lane>,
    /// Names of task kinds and wait causes; [`Span::name`] indexes them.
    pub names: Vec<String>,
    /// All spans, ordered by lane, then by start.
    pub spans: Vec<Span>,
    /// Points in time that concern every lane, in time order.
    pub marks: Vec<Mark>,
    /// Spans that are not here because a lane's buffer was full: the sum over
    /// [`Lane::dropped`], and in documents that lack that all that is known.
    pub dropped: u64,
    /// Which spans a lane kept when its buffer was full.
    #[serde(default)]
    pub keep: Keep,
}

/// A row of the chart: one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// `main`, `worker 0`, `worker 1`, ...
    pub name: String,
    /// What runs on it.
    pub kind: LaneKind,
    /// Spans of the lane that are not in the document because its buffer was full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

/// What kind of thread a lane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// The thread that submits tasks.
    Main,
    /// A worker of the pool.
    Worker,
}

/// What a span shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// The body of a task; the name is the task's.
    Task,
    /// A worker that found no ready task; the cause says why.
    Idle,
    /// A thread that waits inside a call (`wait`, `acquire`, `reset`, `next`, a full window).
    Wait,
}

/// Why a worker was idle or a thread waited.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Not a wait (the cause of a task span).
    #[default]
    None,
    /// The memory of an arena was still in use; the span's name is `arena NAME`.
    Barrier,
    /// The data of the next batch was not there yet.
    Loader,
    /// The submission window was full.
    Window,
    /// The memory window was full.
    Memory,
    /// A thread waited for the value of a handle.
    Acquire,
    /// A thread waited for all submitted tasks, or for all of a label.
    Drain,
    /// No task was ready: what was submitted depended on running tasks, or the submitting
    /// thread was busy.
    NoReadyTask,
    /// Worker 0 is the thread that submits tasks, and it ran the program.
    MainBusy,
}

impl Cause {
    /// Every cause of waiting, in the order in which tables list them.
    pub const ALL: [Cause; 8] = [
        Cause::Barrier,
        Cause::Loader,
        Cause::Window,
        Cause::Memory,
        Cause::Acquire,
        Cause::Drain,
        Cause::NoReadyTask,
        Cause::MainBusy,
    ];

    /// Place in [`Cause::ALL`]; none for [`Cause::None`].
    pub(crate) fn index(self) -> Option<usize> {
        Self::ALL.iter().position(|cause| *cause == self)
    }

    /// The words for tables and legends: `barrier`, `loader late`, ...
    pub fn label(self) -> &'static str {
        match self {
            Cause::None => "none",
            Cause::Barrier => "barrier",
            Cause::Loader => "loader late",
            Cause::Window => "window full",
            Cause::Memory => "memory window full",
            Cause::Acquire => "acquire",
            Cause::Drain => "drain",
            Cause::NoReadyTask => "no ready task",
            Cause::MainBusy => "main thread busy",
        }
    }
}

/// One interval on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Index into [`Trace::lanes`].
    pub lane: u32,
    /// What it shows.
    pub kind: SpanKind,
    /// Index into [`Trace::names`].
    pub name: u32,
    /// Start, nanoseconds since [`Trace::origin`].
    pub start: u64,
    /// End, nanoseconds since [`Trace::origin`]; not before `start`.
    pub end: u64,
    /// Why, for idle and wait spans.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cause: Cause,
    /// Number of the batch over the whole run, counted from 0, where the task has one, or the
    /// tasks that were waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Index of the layer in the network, where the task has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<u16>,
    /// Index of the shard of the batch, where the task has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// The task's place in submission order, counted from 0 over the life of the runtime
    /// ([`TaskId::sequence`](crate::TaskId::sequence)). Documents before version 4 have none, nor
    /// has a body that took 18 minutes or longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_none(cause: &Cause) -> bool {
    *cause == Cause::None
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Span {
    /// Length in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// A point in time: the main thread began a batch or an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Nanoseconds since [`Trace::origin`].
    pub time: u64,
    /// What began.
    pub kind: MarkKind,
    /// Its number, counted from 0 over the whole run.
    pub index: u32,
}

/// What a [`Mark`] marks the start of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A batch.
    Batch,
    /// An epoch.
    Epoch,
}

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Not JSON, or not of this shape; the message has line and column.
    #[error("not a trace: {0}")]
    Json(#[source] serde_json::Error),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[source] std::io::Error),
    /// JSON, but some other document.
    #[error("not a trace: the format is `{0}`, wanted `{FORMAT}`")]
    Format(String),
    /// Written by a newer program, or damaged.
    #[error("trace version {found}: this program reads versions 1 to {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A span or mark that contradicts the rest of the document.
    #[error("bad trace: span {index}: {reason}")]
    Span {
        /// Index into [`Trace::spans`].
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Trace {
    /// Writes the document as JSON.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write_json(&self, writer: impl Write) -> Result<(), TraceError> {
        serde_json::to_writer(writer, self).map_err(|error| TraceError::Io(error.into()))
    }

    /// Reads and checks a document.
    ///
    /// # Errors
    /// When it is not JSON, another document, a newer version, or when a span names a lane or
    /// name that is not there or ends before it starts.
    pub fn read_json(reader: impl Read) -> Result<Self, TraceError> {
        let trace: Trace =
            serde_json::from_reader(reader).map_err(|error| match error.is_io() {
                true => TraceError::Io(error.into()),
                false => TraceError::Json(error),
            })?;
        if trace.format != FORMAT {
            return Err(TraceError::Format(trace.format.into_owned()));
        }
        if trace.version == 0 || trace.version > VERSION {
            return Err(TraceError::Version { found: trace.version });
        }
        trace.check()?;
        Ok(trace)
    }

    fn check(&self) -> Result<(), TraceError> {
        for (index, span) in self.spans.iter().enumerate() {
            let reason = if span.lane as usize >= self.lanes.len() {
                "its lane does not exist"
            } else if span.name as usize >= self.names.len() {
                "its name does not exist"
            } else if span.end < span.start {
                "it ends before it starts"
            } else {
                continue;
            };
            return Err(TraceError::Span { index, reason });
        }
        Ok(())
    }

    /// First start and last end over all spans, or `None` without spans.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let start = self.spans.iter().map(|s| s.start).min()?;
        let end = self.spans.iter().map(|s| s.end).max()?;
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Trace {
        Trace {
            format: FORMAT.into(),
            version: VERSION,
            title: "single/naive".into(),
            meta: BTreeMap::from([("workers".to_owned(), "1".to_owned())]),
            origin: 1.5,
            lanes: vec![Lane { name: "main".into(), kind: LaneKind::Main, dropped: 0 }],
            names: vec!["dense.forward".into()],
            spans: vec![Span {
                lane: 0,
                kind: SpanKind::Task,
                name: 0,
                start: 3,
                end: 8,
                cause: Cause::None,
                batch: Some(0),
                layer: None,
                shard: None,
                sequence: Some(7),
            }],
            marks: vec![Mark { time: 1, kind: MarkKind::Batch, index: 0 }],
            dropped: 0,
            keep: Keep::Newest,
        }
    }

    #[test]
    fn survives_a_round_trip() {
        let mut bytes = Vec::new();
        document().write_json(&mut bytes).expect("in-memory write");
        assert_eq!(Trace::read_json(&bytes[..]).expect("own output"), document());
    }

    #[test]
    fn losses_name_the_lanes_where_they_are_known() {
        let mut trace = document();
        assert!(trace.losses().is_none());
        trace.dropped = 1;
        let text = |trace: &Trace| trace.losses().expect("some").to_string();
        assert_eq!(text(&trace), "1 span was lost");
        trace.dropped = 7;
        trace.lanes[0].dropped = 2;
        trace.lanes.push(Lane { name: "worker 0".into(), kind: LaneKind::Worker, dropped: 5 });
        assert_eq!(text(&trace), "7 spans were lost, the oldest ones of main (2), worker 0 (5)");
        let mut bytes = Vec::new();
        trace.write_json(&mut bytes).expect("in-memory write");
        assert_eq!(Trace::read_json(&bytes[..]).expect("own output"), trace);
    }

    #[test]
    fn documents_from_before_losses_were_told_by_lane_are_read() {
        let text = r#"{"format": "millrace-trace", "version": 2, "title": "t", "meta": {},
            "origin": 0, "lanes": [{"name": "main", "kind": "main"}], "names": [], "spans": [],
            "marks": [], "dropped": 3}"#;
        let trace = Trace::read_json(text.as_bytes()).expect("a document");
        assert_eq!((trace.keep, trace.lanes[0].dropped, trace.dropped), (Keep::Oldest, 0, 3));
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let with = |change: fn(&mut Trace)| {
            let mut trace = document();
            change(&mut trace);
            let mut bytes = Vec::new();
            trace.write_json(&mut bytes).expect("in-memory write");
            Trace::read_json(&bytes[..]).expect_err("refused").to_string()
        };
        assert!(with(|t| t.version = 9).contains("version 9"));
        assert!(with(|t| t.format = "other".into()).contains("`other`"));
        assert!(with(|t| t.spans[0].lane = 1).contains("span 0: its lane"));
        assert!(with(|t| t.spans[0].name = 1).contains("span 0: its name"));
        assert!(with(|t| t.spans[0].end = 2).contains("ends before"));
        let cut = Trace::read_json(&b"{\"format\": "[..]).expect_err("refused").to_string();
        assert!(cut.contains("line 1"), "{cut}");
    }
}
