//! What the page knows of the traces besides their spans.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millrace_runtime::trace::{LaneKind, MarkKind, Span, SpanKind, Trace};
use plotters::style::RGBColor;
use serde::Serialize;

use crate::palette::{Group, Key, Palette, cause_label};
use crate::segment::{Activity, activity, overlap_words, overlaps};
use crate::view::lane_order;
use crate::window::Selection;
use crate::{GanttError, Theme};

/// The document's first part, as the program reads it.
#[derive(Debug, Serialize)]
pub(super) struct Head<'a> {
    title: String,
    keys: Vec<KeyHead<'a>>,
    runs: Vec<RunHead<'a>>,
    /// What to show at first of the first run, in nanoseconds since its origin.
    view: Option<(u64, u64)>,
}

#[derive(Debug, Serialize)]
struct KeyHead<'a> {
    label: &'a str,
    group: &'static str,
    light: String,
    dark: String,
}

#[derive(Debug, Serialize)]
struct RunHead<'a> {
    title: &'a str,
    meta: &'a BTreeMap<String, String>,
    lanes: Vec<LaneHead<'a>>,
    /// Indices of the lanes from the top.
    order: Vec<usize>,
    names: &'a [String],
    /// For each number of [`Whats`]: kind of span, cause in words, name, key.
    whats: Vec<(u8, &'static str, u32, usize)>,
    /// Time, whether an epoch begins there rather than a batch, and its number.
    marks: Vec<(u64, u8, u32)>,
    /// What a reader must know before trusting the picture.
    warnings: Vec<String>,
    window: (u64, u64),
}

#[derive(Debug, Serialize)]
struct LaneHead<'a> {
    name: &'a str,
    kind: LaneKind,
    spans: usize,
}

/// What makes spans look and read alike: kind, what the lane does, and name.
type What = (SpanKind, Activity, u32);

/// Numbers of what occurs in a trace.
#[derive(Debug, Default)]
pub(super) struct Whats(HashMap<What, u32>);

impl Whats {
    fn of(trace: &Trace) -> (Self, Vec<&Span>) {
        let mut whats = Whats::default();
        let mut examples = Vec::new();
        for span in &trace.spans {
            let next = examples.len() as u32;
            let number = *whats.0.entry(what(trace, span)).or_insert(next);
            if number == next {
                examples.push(span);
            }
        }
        (whats, examples)
    }

    /// The number of a span of the trace.
    pub(super) fn number(&self, trace: &Trace, span: &Span) -> u32 {
        self.0[&what(trace, span)]
    }
}

fn what(trace: &Trace, span: &Span) -> What {
    (span.kind, activity(span, trace.lanes[span.lane as usize].kind), span.name)
}

/// The head of a page of checked traces, and the numbers that their spans refer to.
pub(super) fn head<'a>(
    traces: &[&'a Trace],
    palette: &'a Palette,
    title: String,
    view: &Selection,
) -> Result<(Head<'a>, Vec<Whats>), GanttError> {
    let (whats, examples): (Vec<_>, Vec<_>) = traces.iter().map(|trace| Whats::of(trace)).unzip();
    let key = |trace: &Trace, span: &Span| {
        palette.key_of(trace, activity(span, trace.lanes[span.lane as usize].kind), span.name)
    };
    let spans = traces
        .iter()
        .zip(&examples)
        .flat_map(|(trace, spans)| spans.iter().map(move |s| (trace, s)));
    let used: BTreeSet<Key> = spans.map(|(trace, span)| key(trace, span)).collect();
    let used: Vec<Key> = used.into_iter().collect();
    let place = |wanted: Key| used.iter().position(|key| *key == wanted).unwrap_or_default();
    let mut runs = Vec::with_capacity(traces.len());
    for (trace, examples) in traces.iter().zip(&examples) {
        let told = |span: &&Span| {
            let cause = if span.kind == SpanKind::Task { "" } else { cause_label(span.cause) };
            (span.kind as u8, cause, span.name, place(key(trace, span)))
        };
        runs.push(RunHead::new(trace, examples.iter().map(told).collect())?);
    }
    let keys = used.iter().map(|&key| KeyHead::new(key, palette)).collect();
    let view = match view {
        Selection::All => None,
        part => Some(part.resolve(traces[0])?),
    };
    Ok((Head { title, keys, runs, view }, whats))
}

impl<'a> KeyHead<'a> {
    fn new(key: Key, palette: &'a Palette) -> Self {
        let group = match key.group() {
            Group::Tasks => "tasks",
            Group::Idle => "idle",
            Group::Waits => "waits",
        };
        let colour = |theme| {
            let RGBColor(r, g, b) = key.colour(theme);
            format!("#{r:02x}{g:02x}{b:02x}")
        };
        let (light, dark) = (colour(Theme::Light), colour(Theme::Dark));
        KeyHead { label: palette.label(key), group, light, dark }
    }
}

impl<'a> RunHead<'a> {
    fn new(
        trace: &'a Trace,
        whats: Vec<(u8, &'static str, u32, usize)>,
    ) -> Result<Self, GanttError> {
        let mut lanes: Vec<LaneHead<'a>> = trace
            .lanes
            .iter()
            .map(|lane| LaneHead { name: &lane.name, kind: lane.kind, spans: 0 })
            .collect();
        for span in &trace.spans {
            lanes[span.lane as usize].spans += 1;
        }
        let mut marks: Vec<(u64, u8, u32)> = trace
            .marks
            .iter()
            .map(|mark| (mark.time, u8::from(mark.kind == MarkKind::Epoch), mark.index))
            .collect();
        marks.sort_unstable();
        let losses = trace.losses().map(|losses| format!("The picture has holes: {losses}"));
        Ok(RunHead {
            title: &trace.title,
            meta: &trace.meta,
            lanes,
            order: lane_order(trace),
            names: &trace.names,
            whats,
            marks,
            warnings: losses.into_iter().chain(overlap_words(overlaps(trace))).collect(),
            window: Selection::All.resolve(trace)?,
        })
    }
}
