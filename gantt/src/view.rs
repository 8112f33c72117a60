//! The part of a trace that a figure shows, ready to be painted.

use std::collections::BTreeSet;

use millrace_runtime::trace::{LaneKind, Mark, Trace};

use crate::band::{Grid, Piece, Shape};
use crate::canvas::{Canvas, UNIT, units};
use crate::palette::{Key, Palette, cause_label};
use crate::segment::{Segment, segments};
use crate::summary::share;
use crate::theme::Tone;
use crate::window::Selection;
use crate::{GanttError, LaneSummary, Summary};

/// About how many bytes all bands of a figure may take; columns are widened until they fit.
const BUDGET: usize = 1_400_000;
/// Widths of columns to try, in pixels.
const COLUMNS: [u32; 8] = [4, 6, 8, 12, 16, 24, 32, 64];

/// A trace cut to a window.
pub(crate) struct View<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) window: (u64, u64),
    pub(crate) summary: Summary,
    /// The keys that occur in the window.
    pub(crate) used: BTreeSet<Key>,
    /// Per lane.
    pieces: Vec<Vec<Piece>>,
    /// Indices of the lanes as they are to be shown: the main thread above the workers.
    pub(crate) order: Vec<usize>,
}

impl<'a> View<'a> {
    /// Cuts a trace that was [`check`](crate::segment::check)ed.
    pub(crate) fn new(
        trace: &'a Trace,
        selection: &Selection,
        palette: &Palette,
    ) -> Result<Self, GanttError> {
        let (from, to) = selection.resolve(trace)?;
        let segments = segments(trace);
        let summary = Summary::of_segments(trace, &segments, from, to);
        let piece = |segment: &Segment| {
            let segment = segment.clipped(from, to)?;
            let key = palette.key_of(trace, segment.activity, segment.name);
            Some(Piece { start: segment.start, end: segment.end, key })
        };
        let pieces: Vec<Vec<Piece>> =
            segments.iter().map(|lane| lane.iter().filter_map(piece).collect()).collect();
        let used = pieces.iter().flatten().map(|piece| piece.key).collect();
        let order = lane_order(trace);
        Ok(View { trace, window: (from, to), summary, used, pieces, order })
    }

    pub(crate) fn duration(&self) -> u64 {
        self.window.1 - self.window.0
    }

    /// The marks inside the window, in time order.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        let (from, to) = self.window;
        let inside = self.trace.marks.iter().filter(|mark| (from..=to).contains(&mark.time));
        let mut marks: Vec<Mark> = inside.copied().collect();
        marks.sort_by_key(|mark| mark.time);
        marks
    }

    fn shapes(&self, width: i32, height: i32, column: u32) -> Vec<Vec<Shape>> {
        let grid = Grid { window: self.window, width, height, column };
        self.pieces.iter().map(|pieces| grid.shapes(pieces)).collect()
    }
}

/// Indices of the lanes as they are to be shown: the main thread above the workers.
pub(crate) fn lane_order(trace: &Trace) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trace.lanes.len()).collect();
    order.sort_by_key(|&lane| trace.lanes[lane].kind == LaneKind::Worker);
    order
}

/// The shapes of every lane of every view, at the finest resolution that keeps the document
/// small. `widths` are the widths of the views in units.
pub(crate) fn shapes(views: &[&View<'_>], widths: &[i32], height: i32) -> Vec<Vec<Vec<Shape>>> {
    let at = |column| -> Vec<Vec<Vec<Shape>>> {
        views.iter().zip(widths).map(|(view, &width)| view.shapes(width, height, column)).collect()
    };
    let cost = |shapes: &Vec<Vec<Vec<Shape>>>| -> usize {
        shapes.iter().flatten().flatten().map(Shape::cost).sum()
    };
    let mut best = at(COLUMNS[0]);
    for column in &COLUMNS[1..] {
        if cost(&best) <= BUDGET {
            break;
        }
        best = at(*column);
    }
    best
}

/// Paints one lane: its background, then its shapes. `left` and `top` are in pixels.
pub(crate) fn paint_lane(
    canvas: &mut Canvas<'_>,
    (left, top): (f64, f64),
    (width, height): (i32, i32),
    shapes: &[Shape],
) -> Result<(), GanttError> {
    let (x, y) = (units(left), units(top));
    canvas.unit_rect((x, y), (x + width, y + height), Tone::Lane)?;
    for shape in shapes {
        match shape {
            Shape::Block { key, x0, x1 } => {
                canvas.unit_rect((x + x0, y), (x + x1, y + height), Tone::Key(*key))?;
            }
            Shape::Outline { key, points } => {
                let moved = points.iter().map(|(px, py)| (x + px, y + py));
                canvas.polygon(moved, Tone::Key(*key))?;
            }
        }
    }
    Ok(())
}

/// Height of a lane in whole pixels, smaller when there are many.
pub(crate) fn lane_height(lanes: usize, tall: i32, low: i32) -> i32 {
    match lanes {
        0..=6 => tall,
        7..=12 => (tall + low) / 2,
        _ => low,
    }
}

/// The units of a number of whole pixels.
pub(crate) fn whole(px: i32) -> i32 {
    px * UNIT
}

/// What is written beside a lane.
pub(crate) fn lane_note(lane: &LaneSummary, makespan: u64) -> String {
    match lane.kind {
        LaneKind::Worker => format!("{} busy", percent(share(lane.busy, makespan))),
        LaneKind::Main => format!("{} waits", percent(share(lane.idle.total(), makespan))),
    }
}

/// A share as a percentage with at most one decimal.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        "< 0.1 %".to_owned()
    } else if percent < 10.0 && percent > 0.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Where the workers' time went, as phrases, each with what separates it from the one before.
pub(crate) fn shares(summary: &Summary) -> Vec<(&'static str, String)> {
    let of = |time| percent(summary.worker_share(time));
    if summary.workers().next().is_none() {
        return vec![(DOT, "no workers".to_owned())];
    }
    let mut phrases = vec![(DOT, format!("workers: busy {}", of(summary.busy())))];
    for (index, (cause, time)) in summary.idle().iter().enumerate() {
        let (separator, lead) = if index == 0 { (DOT, "asleep: ") } else { (", ", "") };
        phrases.push((separator, format!("{lead}{} {}", cause_label(cause), of(time))));
    }
    phrases.push((DOT, format!("scheduling {}", of(summary.scheduling()))));
    phrases
}

/// Separates facts of different kinds in a line.
pub(crate) const DOT: &str = " · ";
