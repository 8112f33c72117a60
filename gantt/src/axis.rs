//! The time axis and the marks of batches and epochs.

use millrace_runtime::trace::{Mark, MarkKind};

use crate::GanttError;
use crate::canvas::{Align, Canvas, Font};
use crate::theme::Tone;

/// Room for the label of a tick, in pixels.
const TICK_ROOM: f64 = 95.0;
/// The least distance of labels in a row, in pixels.
const GAP: f64 = 7.0;
/// The least distance of epoch lines, in pixels.
const EPOCH_GAP: f64 = 6.0;
/// Fonts of the numbers of batches, epochs and ticks.
const BATCH: Font = Font::new(10.0, Tone::Muted);
const EPOCH: Font = Font::bold(10.5, Tone::Ink);
const TICK: Font = Font::new(11.0, Tone::Muted);
/// Font of what the numbers mean.
const WORDS: Font = Font::new(11.0, Tone::Ink);

/// A mapping of time (nanoseconds, perhaps relative to some event) to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) left: f64,
    pub(crate) width: f64,
}

impl Axis {
    pub(crate) fn x(&self, time: i64) -> f64 {
        let span = (self.to - self.from).max(1) as f64;
        self.left + (time - self.from) as f64 / span * self.width
    }

    /// Round times, far enough apart to label each.
    fn ticks(&self) -> (i64, Vec<i64>) {
        let wanted = (self.width / TICK_ROOM).max(1.0);
        let least = (self.to - self.from).max(1) as f64 / wanted;
        let mut step = 1i64;
        for factor in [2, 5, 10].into_iter().cycle() {
            if step as f64 >= least {
                break;
            }
            let decade = 10i64.pow(step.ilog10());
            step = decade * factor;
        }
        let first = self.from.div_euclid(step) + i64::from(self.from.rem_euclid(step) > 0);
        (step, (first..=self.to.div_euclid(step)).map(|n| n * step).collect())
    }

    /// Faint lines at the ticks.
    pub(crate) fn grid(
        &self,
        canvas: &mut Canvas<'_>,
        top: f64,
        end: f64,
    ) -> Result<(), GanttError> {
        for tick in self.ticks().1 {
            let x = self.x(tick);
            canvas.rect((x - 0.5, top), (x + 0.5, end), Tone::Faint)?;
        }
        Ok(())
    }

    /// The axis line at `y`, ticks and labels below it, and what the numbers mean.
    pub(crate) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        y: f64,
        words: &str,
    ) -> Result<(), GanttError> {
        canvas.rect((self.left, y), (self.left + self.width, y + 1.0), Tone::Muted)?;
        let (step, ticks) = self.ticks();
        for tick in ticks {
            let x = self.x(tick);
            canvas.rect((x - 0.5, y), (x + 0.5, y + 5.0), Tone::Muted)?;
            canvas.text((x, y + 14.0), Align::Centre, TICK, &milliseconds(tick, step))?;
        }
        let middle = self.left + self.width / 2.0;
        let words = WORDS.fit(words, self.width);
        canvas.text((middle, y + 31.0), Align::Centre, WORDS, &words)
    }

    /// Lines through the lanes at batches and epochs, and their numbers above the lanes.
    /// `rows` holds the middles of the label rows of epochs and batches.
    pub(crate) fn marks(
        &self,
        canvas: &mut Canvas<'_>,
        marks: &[(i64, Mark)],
        rows: MarkRows,
        (top, end): (f64, f64),
    ) -> Result<(), GanttError> {
        let of = |kind| marks.iter().filter(move |(_, mark)| mark.kind == kind);
        let batches: Vec<(f64, u32)> =
            of(MarkKind::Batch).map(|(time, mark)| (self.x(*time), mark.index)).collect();
        let epochs: Vec<f64> = of(MarkKind::Epoch).map(|(time, _)| self.x(*time)).collect();
        let step = self.batch_step(&batches);
        let mut free = f64::NEG_INFINITY;
        for (x, index) in batches.into_iter().filter(|(_, index)| index % step == 0) {
            let label = index.to_string();
            let end_of_label = x + 3.0 + BATCH.width(&label);
            let crossed = epochs.iter().any(|&line| x + 1.0 < line && line < end_of_label + 2.0);
            if x < free || crossed {
                continue;
            }
            canvas.rect((x - 0.4, rows.batch - 6.0), (x + 0.4, top), Tone::Muted)?;
            canvas.rect((x - 0.4, top), (x + 0.4, end), Tone::Ink)?;
            canvas.text((x + 3.0, rows.batch), Align::Left, BATCH, &label)?;
            free = end_of_label + GAP;
        }
        let (mut free, mut line) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (time, mark) in of(MarkKind::Epoch) {
            let (x, label) = (self.x(*time), format!("epoch {}", mark.index));
            if x < line {
                continue;
            }
            let row = rows.epoch.filter(|_| x >= free);
            let start = row.unwrap_or(rows.batch) - 6.0;
            canvas.rect((x - 1.0, start), (x + 1.0, end), Tone::Ink)?;
            line = x + EPOCH_GAP;
            if let Some(row) = row {
                canvas.text((x + 4.0, row), Align::Left, EPOCH, &label)?;
                free = x + 4.0 + EPOCH.width(&label) + GAP;
            }
        }
        Ok(())
    }

    /// Every how many batches one is marked, so that labels fit.
    fn batch_step(&self, batches: &[(f64, u32)]) -> u32 {
        let (Some((first, _)), Some((last, number))) = (batches.first(), batches.last()) else {
            return 1;
        };
        let apart = (last - first) / (batches.len() - 1).max(1) as f64;
        let room = BATCH.width(&number.to_string()) + GAP + 3.0;
        let steps = [1, 2, 5].into_iter().cycle().zip((0..9).flat_map(|decade| [decade; 3]));
        let mut steps = steps.map(|(factor, decade)| factor * 10u32.pow(decade));
        steps.find(|&step| apart * f64::from(step) >= room).unwrap_or(u32::MAX)
    }
}

/// The middles of the rows of labels above the lanes, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkRows {
    /// No labels if there is no such row.
    pub(crate) epoch: Option<f64>,
    pub(crate) batch: f64,
}

/// A time in milliseconds, with the decimals that `step` needs.
fn milliseconds(time: i64, step: i64) -> String {
    let decimals = (0..6).find(|&digits| step % 10i64.pow(6 - digits) == 0).unwrap_or(6);
    format!("{:.*}", decimals as usize, time as f64 / 1e6)
}

/// A length of time in words, with three to four digits.
pub(crate) fn duration(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0..1e3 => format!("{ns} ns"),
        1e3..1e6 => format!("{:.1} µs", ns / 1e3),
        1e6..1e8 => format!("{:.2} ms", ns / 1e6),
        1e8..1e10 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis { from: -3_400_000, to: 61_000_000, left: 0.0, width: 1000.0 };
        let (step, ticks) = axis.ticks();
        assert_eq!(step, 10_000_000);
        assert_eq!(ticks, [0, 10, 20, 30, 40, 50, 60].map(|ms| ms * 1_000_000));
        let tiny = Axis { from: 5, to: 6, left: 0.0, width: 1000.0 };
        assert_eq!(tiny.ticks(), (1, vec![5, 6]));
    }

    #[test]
    fn labels_have_the_decimals_of_their_step() {
        assert_eq!(milliseconds(2_000_000, 1_000_000), "2");
        assert_eq!(milliseconds(2_500_000, 500_000), "2.5");
        assert_eq!(milliseconds(7, 1), "0.000007");
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(12_340_000), "12.34 ms");
    }
}
