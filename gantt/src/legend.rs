//! The legend: what occurs in the figure, one row or more per group.

use std::collections::BTreeSet;

use crate::GanttError;
use crate::canvas::{Align, Canvas, Font};
use crate::palette::{Group, Key, Palette};
use crate::theme::Tone;

const ENTRY: Font = Font::new(11.0, Tone::Ink);
const TITLE: Font = Font::new(11.0, Tone::Muted);
/// Heights and distances in pixels.
const ROW: f64 = 18.0;
const SWATCH: f64 = 12.0;
const GAP: f64 = 16.0;
/// The widest an entry's text may be.
const WIDEST: f64 = 260.0;

/// A legend laid out for a width.
pub(crate) struct Legend {
    /// Titles of groups: row and text.
    titles: Vec<(usize, &'static str)>,
    /// Row, offset from the left, tone and text of each entry.
    entries: Vec<(usize, f64, Tone, String)>,
    rows: usize,
    /// Offset of the first entry of each row.
    indent: f64,
}

impl Legend {
    pub(crate) fn new(used: &BTreeSet<Key>, palette: &Palette, rest: bool, width: f64) -> Self {
        let groups =
            [(Group::Tasks, "tasks"), (Group::Idle, "worker asleep"), (Group::Waits, "main waits")];
        let indent = groups.iter().map(|(_, title)| TITLE.width(title)).fold(0.0, f64::max) + GAP;
        let mut legend = Legend { titles: Vec::new(), entries: Vec::new(), rows: 0, indent };
        for (group, title) in groups {
            let keys = used.iter().filter(|key| key.group() == group);
            let entries = keys.map(|&key| (Tone::Key(key), palette.label(key).to_owned()));
            legend.group(title, entries.collect(), width);
        }
        if rest {
            let words = "scheduling; on main, the program itself".to_owned();
            legend.group("other", vec![(Tone::Lane, words)], width);
        }
        legend
    }

    fn group(&mut self, title: &'static str, entries: Vec<(Tone, String)>, width: f64) {
        if entries.is_empty() {
            return;
        }
        self.titles.push((self.rows, title));
        let mut x = self.indent;
        for (tone, label) in entries {
            let label = ENTRY.fit(&label, WIDEST.min(width - self.indent - SWATCH - 5.0));
            let wide = SWATCH + 5.0 + ENTRY.width(&label);
            if x + wide > width && x > self.indent {
                x = self.indent;
                self.rows += 1;
            }
            self.entries.push((self.rows, x, tone, label));
            x += wide + GAP;
        }
        self.rows += 1;
    }

    /// Height in pixels.
    pub(crate) fn height(&self) -> f64 {
        self.rows as f64 * ROW
    }

    pub(crate) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        (left, top): (f64, f64),
    ) -> Result<(), GanttError> {
        let middle = |row: usize| top + (row as f64 + 0.5) * ROW;
        for &(row, title) in &self.titles {
            canvas.text((left, middle(row)), Align::Left, TITLE, title)?;
        }
        for (row, x, tone, label) in &self.entries {
            let (x, y) = (left + x, middle(*row));
            if *tone == Tone::Lane {
                // As pale as the page: it needs a border.
                canvas.rect((x - 0.7, y - 6.7), (x + SWATCH + 0.7, y + 6.7), Tone::Muted)?;
            }
            canvas.rect((x, y - SWATCH / 2.0), (x + SWATCH, y + SWATCH / 2.0), *tone)?;
            canvas.text((x + SWATCH + 5.0, y), Align::Left, ENTRY, label)?;
        }
        Ok(())
    }
}
