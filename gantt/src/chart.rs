//! The chart of one trace.

use std::ops::Range;

use millrace_runtime::trace::{MarkKind, Trace};

use crate::axis::{Axis, MarkRows, duration};
use crate::band::Shape;
use crate::canvas::{Align, Canvas, Font, figure};
use crate::legend::Legend;
use crate::palette::Palette;
use crate::segment::{check, overlap_words, overlaps};
use crate::theme::Tone;
use crate::view::{DOT, View, lane_height, lane_note, paint_lane, shapes, shares, whole};
use crate::window::Selection;
use crate::{GanttError, Theme};

/// Widths that figures may have, in pixels.
pub(crate) const WIDTHS: (u32, u32) = (400, 10_000);
/// The width of a figure if none is asked for, in pixels.
pub(crate) const DEFAULT_WIDTH: u32 = 1200;
/// Distance of everything from the edges of the figure, in pixels.
pub(crate) const MARGIN: f64 = 18.0;
/// The widest column of lane names, in pixels.
const WIDEST_NAME: f64 = 150.0;
/// Distance of lanes, in pixels.
const LANE_GAP: f64 = 4.0;
/// Height of the axis with its labels, in pixels.
pub(crate) const AXIS_ROOM: f64 = 40.0;
/// Lines of facts about the run at most.
const FACT_LINES: usize = 3;

pub(crate) const TITLE: Font = Font::bold(18.0, Tone::Ink);
pub(crate) const FACT: Font = Font::new(12.0, Tone::Muted);
pub(crate) const NAME: Font = Font::new(11.5, Tone::Ink);
pub(crate) const NOTE: Font = Font::new(10.5, Tone::Muted);
/// Height of a line of facts, in pixels.
pub(crate) const FACT_ROW: f64 = 17.0;

/// A Gantt chart of one trace, or of a part of it.
///
/// ```
/// use millrace_gantt::Chart;
/// use millrace_runtime::trace::{Cause, FORMAT, Lane, LaneKind, Span, SpanKind, Trace, VERSION};
///
/// let mut trace = Trace {
///     format: FORMAT.into(),
///     version: VERSION,
///     title: "single/naive".into(),
///     meta: Default::default(),
///     origin: 0.0,
///     lanes: vec![Lane { name: "worker 0".into(), kind: LaneKind::Worker, dropped: 0 }],
///     names: vec!["dense.forward".into()],
///     spans: Vec::new(),
///     marks: Vec::new(),
///     dropped: 0,
///     keep: Default::default(),
/// };
/// // Nothing was recorded yet: that is an error, not an empty picture.
/// assert!(Chart::new(&trace).render().is_err());
///
/// trace.spans.push(Span {
///     lane: 0,
///     kind: SpanKind::Task,
///     name: 0,
///     start: 0,
///     end: 1_000_000,
///     cause: Cause::None,
///     batch: Some(0),
///     layer: None,
///     shard: None,
///     sequence: None,
/// });
/// let svg = Chart::new(&trace).width(800).batches(0..1).render()?;
/// assert!(svg.contains("dense.forward"));
/// # Ok::<(), millrace_gantt::GanttError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a chart is drawn by `render`"]
pub struct Chart<'a> {
    trace: &'a Trace,
    width: u32,
    theme: Theme,
    selection: Selection,
}

impl<'a> Chart<'a> {
    /// A chart of the whole trace, 1200 pixels wide, on white.
    pub fn new(trace: &'a Trace) -> Self {
        Chart { trace, width: DEFAULT_WIDTH, theme: Theme::Light, selection: Selection::All }
    }

    /// Sets the width in pixels, 400 to 10000; the height follows from the number of lanes.
    pub fn width(mut self, px: u32) -> Self {
        self.width = px;
        self
    }

    /// Sets whether the chart is on white or on a dark page.
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = theme;
        self
    }

    /// Shows some batches only: from the mark of the first until the last is done, and at least
    /// until the mark of the one after it. Replaces an earlier choice of batches or window.
    pub fn batches(mut self, batches: Range<u32>) -> Self {
        self.selection = Selection::Batches(batches);
        self
    }

    /// Shows the time from `from` to `to` only, in nanoseconds since the origin of the trace.
    /// Replaces an earlier choice of batches or window.
    pub fn window(mut self, from: u64, to: u64) -> Self {
        self.selection = Selection::Window(from, to);
        self
    }

    /// Draws the chart as an SVG document.
    ///
    /// # Errors
    /// When the trace has no spans or none of the batches, when it contradicts itself, or when
    /// the width or the window makes no sense.
    pub fn render(&self) -> Result<String, GanttError> {
        check_width(self.width)?;
        check(self.trace)?;
        let palette = Palette::new(&[self.trace]);
        let view = View::new(self.trace, &self.selection, &palette)?;
        let layout = Layout::new(view, &palette, &self.selection, f64::from(self.width));
        figure((layout.width, layout.height), self.theme, |canvas| layout.draw(canvas))
    }
}

/// Refuses widths that cannot be drawn.
pub(crate) fn check_width(width: u32) -> Result<(), GanttError> {
    let (min, max) = WIDTHS;
    if (min..=max).contains(&width) { Ok(()) } else { Err(GanttError::Width { width, min, max }) }
}

/// What is written below the axis.
pub(crate) fn axis_words(crowded: bool) -> &'static str {
    if crowded {
        "time in ms; where spans are narrower than pixels, heights are shares of time"
    } else {
        "time in ms"
    }
}

/// Width of the column of lane names, in pixels.
pub(crate) fn name_room<'n>(names: impl Iterator<Item = &'n str>) -> f64 {
    names.map(|name| NAME.width(name)).fold(NAME.width("batch"), f64::max).min(WIDEST_NAME)
}

/// The facts about a run, then where its time went, as lines that fit a width.
///
/// Batches that were chosen are told in place of those of the whole trace.
fn facts(view: &View<'_>, selection: &Selection, width: f64) -> Vec<String> {
    let mut meta = view.trace.meta.clone();
    if let Selection::Batches(range) = selection {
        meta.insert("batches".to_owned(), format!("{}..{}", range.start, range.end));
    }
    let facts = meta.into_iter().map(|(key, value)| (DOT, format!("{key} {value}")));
    let mut lines = wrapped(facts, width);
    lines.truncate(FACT_LINES);
    lines.extend(wrapped(shares(&view.summary), width));
    lines
}

/// Joins phrases by their separators, on as many lines as they need.
fn wrapped(phrases: impl IntoIterator<Item = (&'static str, String)>, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (separator, phrase) in phrases {
        match lines.last_mut() {
            Some(line)
                if FACT.width(line) + FACT.width(separator) + FACT.width(&phrase) <= width =>
            {
                *line += separator;
                *line += &phrase;
            }
            _ => lines.push(FACT.fit(&phrase, width)),
        }
    }
    lines
}

/// Positions of everything, in pixels.
struct Layout<'a> {
    view: View<'a>,
    legend: Legend,
    facts: Vec<String>,
    /// Spans that overlap another of their lane.
    overlaps: usize,
    width: f64,
    height: f64,
    legend_top: f64,
    rows: MarkRows,
    lanes_top: f64,
    lane_height: i32,
    axis: Axis,
}

impl<'a> Layout<'a> {
    fn new(view: View<'a>, palette: &Palette, selection: &Selection, width: f64) -> Self {
        let inner = width - 2.0 * MARGIN;
        let facts = facts(&view, selection, inner);
        let overlaps = overlaps(view.trace);
        let rest = view.summary.lanes.iter().any(|lane| lane.rest > 0);
        let legend = Legend::new(&view.used, palette, rest, inner);
        // Below the title, and with a warning where spans are missing or hide others.
        let lines = facts.len() + usize::from(view.trace.dropped > 0) + usize::from(overlaps > 0);
        let legend_top = MARGIN + 26.0 + lines as f64 * FACT_ROW + 8.0;
        let marked = |kind| view.marks().iter().any(|mark| mark.kind == kind);
        let mut y = legend_top + legend.height() + 10.0;
        let mut row = |shown: bool| {
            y += if shown { 15.0 } else { 0.0 };
            y - 7.5
        };
        let rows = MarkRows {
            epoch: Some(row(marked(MarkKind::Epoch))),
            batch: row(marked(MarkKind::Batch)),
        };
        let lanes_top = (y + 2.0).round();
        let lane_height = lane_height(view.order.len(), 30, 18);
        let bottom = lanes_top + view.order.len() as f64 * (f64::from(lane_height) + LANE_GAP);
        let names = view.trace.lanes.iter().map(|lane| lane.name.as_str());
        let left = (MARGIN + name_room(names) + 8.0).round();
        let right = (width - MARGIN - NOTE.width("99.9 % waits") - 8.0).round();
        let (from, to) = (view.window.0 as i64, view.window.1 as i64);
        let axis = Axis { from, to, left, width: right - left };
        let height = (bottom + AXIS_ROOM + MARGIN / 2.0).round();
        Layout {
            view,
            legend,
            facts,
            overlaps,
            width,
            height,
            legend_top,
            rows,
            lanes_top,
            lane_height,
            axis,
        }
    }

    fn draw(&self, canvas: &mut Canvas<'_>) -> Result<(), GanttError> {
        self.heading(canvas)?;
        self.legend.draw(canvas, (MARGIN, self.legend_top))?;
        let (bottom, crowded) = self.lanes(canvas)?;
        let marks: Vec<_> =
            self.view.marks().into_iter().map(|mark| (mark.time as i64, mark)).collect();
        self.axis.marks(canvas, &marks, self.rows, (self.lanes_top, bottom))?;
        let batches = marks.iter().any(|(_, mark)| mark.kind == MarkKind::Batch);
        if batches {
            let at = (self.axis.left - 8.0, self.rows.batch);
            canvas.text(at, Align::Right, NOTE, "batch")?;
        }
        self.axis.draw(canvas, bottom, axis_words(crowded))
    }

    fn heading(&self, canvas: &mut Canvas<'_>) -> Result<(), GanttError> {
        let trace = self.view.trace;
        let length = duration(self.view.duration());
        let right = self.width - MARGIN;
        let mut y = MARGIN + 10.0;
        canvas.text((right, y), Align::Right, FACT, &length)?;
        let room = right - MARGIN - FACT.width(&length) - 20.0;
        canvas.text((MARGIN, y), Align::Left, TITLE, &TITLE.fit(&trace.title, room))?;
        y += 16.0 + FACT_ROW / 2.0;
        let inner = self.width - 2.0 * MARGIN;
        for line in &self.facts {
            canvas.text((MARGIN, y), Align::Left, FACT, line)?;
            y += FACT_ROW;
        }
        if let Some(losses) = trace.losses() {
            let font = Font::new(12.0, Tone::Warning);
            let words = format!("The figure has holes: {losses}");
            canvas.text((MARGIN, y), Align::Left, font, &font.fit(&words, inner))?;
            y += FACT_ROW;
        }
        if let Some(words) = overlap_words(self.overlaps) {
            let font = Font::new(12.0, Tone::Warning);
            canvas.text((MARGIN, y), Align::Left, font, &font.fit(&words, inner))?;
        }
        Ok(())
    }

    /// Draws the lanes and returns where they end and whether any has dense parts.
    fn lanes(&self, canvas: &mut Canvas<'_>) -> Result<(f64, bool), GanttError> {
        let (left, width) = (self.axis.left, whole(self.axis.width as i32));
        let height = whole(self.lane_height);
        let mut shapes = shapes(&[&self.view], &[width], height);
        let shapes = shapes.pop().unwrap_or_default();
        let mut y = self.lanes_top;
        for &lane in &self.view.order {
            paint_lane(canvas, (left, y), (width, height), &shapes[lane])?;
            let middle = y + f64::from(self.lane_height) / 2.0;
            let summary = &self.view.summary.lanes[lane];
            let name = NAME.fit(&summary.name, WIDEST_NAME);
            canvas.text((left - 8.0, middle), Align::Right, NAME, &name)?;
            let note = lane_note(summary, self.view.summary.makespan);
            canvas.text((left + self.axis.width + 8.0, middle), Align::Left, NOTE, &note)?;
            y += f64::from(self.lane_height) + LANE_GAP;
        }
        Ok((y, shapes.iter().flatten().any(Shape::is_dense)))
    }
}
