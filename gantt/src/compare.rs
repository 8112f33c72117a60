//! Several traces below each other, on one time axis.

use std::collections::BTreeSet;
use std::ops::Range;

use millrace_runtime::trace::{Mark, Trace};

use crate::axis::{Axis, MarkRows, duration};
use crate::band::Shape;
use crate::canvas::{Align, Canvas, Font, figure, units};
use crate::chart::{
    AXIS_ROOM, DEFAULT_WIDTH, FACT, FACT_ROW, MARGIN, NAME, NOTE, TITLE, axis_words, check_width,
    name_room,
};
use crate::legend::Legend;
use crate::palette::{BUSY, Key, Palette};
use crate::segment::check;
use crate::theme::Tone;
use crate::view::{View, lane_height, paint_lane, percent, shapes, whole};
use crate::window::{Selection, first_batch};
use crate::{GanttError, Summary, Theme};

/// Width of the column of share bars, in pixels.
const BAR: f64 = 150.0;
const BAR_HEIGHT: f64 = 13.0;
/// Distance of lanes and of blocks, in pixels.
const LANE_GAP: f64 = 2.0;
const BLOCK_GAP: f64 = 12.0;
/// Heights of a block's title and of its row of batch numbers, in pixels.
const HEAD_ROW: f64 = 18.0;
const MARK_ROW: f64 = 14.0;
const HEAD: Font = Font::bold(13.0, Tone::Ink);

/// What [`compare`] shows, and how large.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Title of the figure.
    pub title: String,
    /// Width in pixels, 400 to 10000.
    pub width: u32,
    /// Whether the figure is on white or on a dark page.
    pub theme: Theme,
    /// The batches to show of each trace; all if `None`.
    pub batches: Option<Range<u32>>,
}

impl Default for Comparison {
    fn default() -> Self {
        Comparison {
            title: "Comparison".to_owned(),
            width: DEFAULT_WIDTH,
            theme: Theme::Light,
            batches: None,
        }
    }
}

impl Comparison {
    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the width in pixels, 400 to 10000.
    #[must_use]
    pub fn width(mut self, px: u32) -> Self {
        self.width = px;
        self
    }

    /// Sets whether the figure is on white or on a dark page.
    #[must_use]
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = theme;
        self
    }

    /// Shows some batches only, as [`Chart::batches`](crate::Chart::batches) does.
    #[must_use]
    pub fn batches(mut self, batches: Range<u32>) -> Self {
        self.batches = Some(batches);
        self
    }
}

/// Draws traces below each other on the same time axis as one SVG document.
///
/// Time 0 is where the first batch shown of each trace begins. Each trace has its title, its
/// lanes, and to the right a bar with the shares of its workers' time in what is shown: busy,
/// asleep by cause, scheduling.
///
/// # Errors
/// When there are no traces, or for any of them as [`Chart::render`](crate::Chart::render).
pub fn compare(traces: &[&Trace], options: &Comparison) -> Result<String, GanttError> {
    check_width(options.width)?;
    if traces.is_empty() {
        return Err(GanttError::NoTraces);
    }
    for trace in traces {
        check(trace)?;
    }
    let palette = Palette::new(traces);
    let selection = options.batches.clone().map_or(Selection::All, Selection::Batches);
    let views: Result<Vec<_>, _> =
        traces.iter().map(|trace| View::new(trace, &selection, &palette)).collect();
    let layout = Layout::new(views?, &palette, options);
    figure((f64::from(options.width), layout.height), options.theme, |canvas| {
        layout.draw(canvas, options)
    })
}

/// Positions of everything, in pixels.
struct Layout<'a> {
    blocks: Vec<Block<'a>>,
    legend: Legend,
    lane_height: i32,
    axis: Axis,
    /// Where the last block ends.
    bottom: f64,
    height: f64,
}

/// One trace.
struct Block<'a> {
    view: View<'a>,
    /// The moment that is time 0 of the figure.
    zero: u64,
    top: f64,
    lanes_top: f64,
    /// Left edge and width of the lanes.
    left: f64,
    width: f64,
    shapes: Vec<Vec<Shape>>,
}

impl<'a> Layout<'a> {
    fn new(views: Vec<View<'a>>, palette: &Palette, options: &Comparison) -> Self {
        let inner = f64::from(options.width) - 2.0 * MARGIN;
        let used: BTreeSet<Key> = views.iter().flat_map(|view| view.used.iter().copied()).collect();
        let rest = views.iter().flat_map(|view| &view.summary.lanes).any(|lane| lane.rest > 0);
        let legend = Legend::new(&used, palette, rest, inner);
        let lanes = views.iter().map(|view| view.order.len()).max().unwrap_or(0);
        let lane_height = lane_height(lanes, 16, 10);

        let zeros: Vec<u64> = views.iter().map(|v| first_batch(v.trace, v.window)).collect();
        let offsets = views.iter().zip(&zeros).map(|(view, &zero)| {
            let (from, to) = view.window;
            (from as i64 - zero as i64, to as i64 - zero as i64)
        });
        let (from, to) = offsets
            .fold((i64::MAX, i64::MIN), |(from, to), (start, end)| (from.min(start), to.max(end)));
        let names = views.iter().flat_map(|view| &view.trace.lanes).map(|lane| lane.name.as_str());
        // The narrowest figures must keep some room for the lanes themselves.
        let left = (MARGIN + name_room(names).min(inner / 4.0) + 8.0).round();
        let right = (MARGIN + inner - BAR - 16.0).round();
        let axis = Axis { from, to, left, width: right - left };

        let mut y = MARGIN + 26.0 + FACT_ROW + legend.height() + 10.0;
        let mut blocks = Vec::with_capacity(views.len());
        for (view, zero) in views.into_iter().zip(zeros) {
            let marked = if view.marks().is_empty() { 4.0 } else { MARK_ROW };
            let lanes_top = (y + HEAD_ROW + marked).round();
            let x = |time: u64| axis.x(time as i64 - zero as i64).round();
            let (left, end) = (x(view.window.0), x(view.window.1));
            let room = view.order.len() as f64 * (f64::from(lane_height) + LANE_GAP);
            let bars = BAR_HEIGHT + 2.0 * 14.0;
            let top = y;
            y = lanes_top + room.max(bars) + BLOCK_GAP;
            let width = (end - left).max(1.0);
            blocks.push(Block { view, zero, top, lanes_top, left, width, shapes: Vec::new() });
        }
        let height = (y + AXIS_ROOM + MARGIN / 2.0).round();
        Layout { blocks, legend, lane_height, axis, bottom: y, height }.shaped()
    }

    /// Fills in the shapes, which share one budget.
    fn shaped(mut self) -> Self {
        let widths: Vec<i32> = self.blocks.iter().map(|block| units(block.width)).collect();
        let views: Vec<&View<'_>> = self.blocks.iter().map(|block| &block.view).collect();
        let shapes = shapes(&views, &widths, whole(self.lane_height));
        for (block, shapes) in self.blocks.iter_mut().zip(shapes) {
            block.shapes = shapes;
        }
        self
    }

    fn draw(&self, canvas: &mut Canvas<'_>, options: &Comparison) -> Result<(), GanttError> {
        let inner = f64::from(options.width) - 2.0 * MARGIN;
        let title = TITLE.fit(&options.title, inner);
        canvas.text((MARGIN, MARGIN + 10.0), Align::Left, TITLE, &title)?;
        let words = match &options.batches {
            Some(batches) if batches.len() == 1 => {
                format!("batch {}; time 0 is its start", batches.start)
            }
            Some(batches) => format!(
                "batches {} to {}; time 0 is the start of batch {0}",
                batches.start,
                batches.end.saturating_sub(1)
            ),
            None => "whole runs; time 0 is the start of the first batch".to_owned(),
        };
        let y = MARGIN + 26.0;
        let words = FACT.fit(&words, inner);
        canvas.text((MARGIN, y + FACT_ROW / 2.0), Align::Left, FACT, &words)?;
        self.legend.draw(canvas, (MARGIN, y + FACT_ROW + 4.0))?;
        let top = self.blocks.first().map_or(y, |block| block.top + HEAD_ROW);
        self.axis.grid(canvas, top, self.bottom)?;
        for block in &self.blocks {
            self.block(canvas, block)?;
        }
        let shapes = self.blocks.iter().flat_map(|block| &block.shapes);
        let crowded = shapes.flatten().any(Shape::is_dense);
        self.axis.draw(canvas, self.bottom, axis_words(crowded))
    }

    fn block(&self, canvas: &mut Canvas<'_>, block: &Block<'_>) -> Result<(), GanttError> {
        let view = &block.view;
        let bar = self.axis.left + self.axis.width + 16.0;
        let middle = block.top + HEAD_ROW / 2.0;
        let title = HEAD.fit(&view.trace.title, bar - MARGIN - 16.0);
        canvas.text((MARGIN, middle), Align::Left, HEAD, &title)?;
        let length = duration(view.duration());
        canvas.text((bar, middle), Align::Left, HEAD, &length)?;

        let mut y = block.lanes_top;
        for &lane in &view.order {
            let size = (units(block.width), whole(self.lane_height));
            paint_lane(canvas, (block.left, y), size, &block.shapes[lane])?;
            let name = NAME.fit(&view.trace.lanes[lane].name, self.axis.left - MARGIN - 8.0);
            let middle = y + f64::from(self.lane_height) / 2.0;
            canvas.text((self.axis.left - 8.0, middle), Align::Right, NOTE, &name)?;
            y += f64::from(self.lane_height) + LANE_GAP;
        }
        let marks: Vec<(i64, Mark)> = view
            .marks()
            .into_iter()
            .map(|mark| (mark.time as i64 - block.zero as i64, mark))
            .collect();
        let row = block.lanes_top - MARK_ROW / 2.0 - 1.0;
        let rows = MarkRows { epoch: None, batch: row };
        self.axis.marks(canvas, &marks, rows, (block.lanes_top, y - LANE_GAP))?;
        share_bar(canvas, (bar, block.lanes_top), &view.summary)
    }
}

/// A bar of the shares of the workers' time, and the two main ones in words.
fn share_bar(
    canvas: &mut Canvas<'_>,
    (left, top): (f64, f64),
    summary: &Summary,
) -> Result<(), GanttError> {
    if summary.workers().next().is_none() {
        return Ok(());
    }
    let idle = summary.idle();
    canvas.rect((left, top), (left + BAR, top + BAR_HEIGHT), Tone::Lane)?;
    let parts = [(BUSY, summary.busy())];
    let parts = parts.into_iter().chain(idle.iter().map(|(cause, t)| (Key::idle(cause), t)));
    let mut x = left;
    for (key, time) in parts {
        let end = x + summary.worker_share(time) * BAR;
        canvas.rect((x, top), (end, top + BAR_HEIGHT), Tone::Key(key))?;
        x = end;
    }
    let share = |time| percent(summary.worker_share(time));
    let lines = [
        format!("busy {}, asleep {}", share(summary.busy()), share(idle.total())),
        format!("scheduling {}", share(summary.scheduling())),
    ];
    for (line, row) in lines.iter().zip([9.0, 22.0]) {
        canvas.text((left, top + BAR_HEIGHT + row), Align::Left, NOTE, line)?;
    }
    Ok(())
}
