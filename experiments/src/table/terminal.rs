//! The table for people in a terminal.

use comfy_table::{CellAlignment, Table};
use comfy_table::{LineStyle, TableStyle};

use super::{MEASURES, Measure};
use crate::reading::Reading;
use crate::result::{Outcome, Row};

/// The table's columns: its measures take this much, each combination that much.
const LABEL_WIDTH: usize = 30;
const CELL_WIDTH: usize = 14;
/// Lines only around the head: the many rows of numbers stay close together.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

pub(super) fn render(rows: &[Row], width: usize) -> String {
    let mut notes = Notes::default();
    let per_block = (width.saturating_sub(LABEL_WIDTH) / CELL_WIDTH).max(1);
    // Blocks of equal size look better than a full one and a rest.
    let blocks = rows.len().div_ceil(per_block).max(1);
    let mut text: Vec<String> = rows
        .chunks(rows.len().div_ceil(blocks).max(1))
        .map(|block| table(block, &mut notes).to_string())
        .collect();
    text.extend(notes.lines());
    text.join("\n") + "\n"
}

fn table(rows: &[Row], notes: &mut Notes) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let names = rows.iter().map(|row| row.label.replacen('/', "\n", 1).replace(", ", "\n"));
    table.set_header(std::iter::once(String::new()).chain(names));
    for measure in MEASURES.iter().filter(|measure| measure.is_brief) {
        let cells = rows.iter().map(|row| cell(row, measure, notes));
        table.add_row(std::iter::once(measure.label.to_owned()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cell(row: &Row, measure: &Measure, notes: &mut Notes) -> String {
    let Some(result) = row.result() else {
        let reason = row.missing().unwrap_or_default();
        let note = match row.outcome {
            Outcome::Stopped | Outcome::NotRun => reason,
            _ => format!("{}: {reason}", row.label),
        };
        return notes.mark("none", &note);
    };
    match measure.of(result) {
        Reading::Measured { value } => measure.unit.format(value),
        Reading::Scaled { value, .. } => notes.mark(
            &measure.unit.format(value),
            "scaled: the counter took turns with others; the share is in table.csv",
        ),
        missing => notes.mark("unavailable", &missing.status()),
    }
}

/// Remarks below the table, each once.
#[derive(Debug, Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, text: &str, note: &str) -> String {
        let index = self.0.iter().position(|known| known == note).unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        text.to_owned() + &superscript(index + 1)
    }

    fn lines(self) -> impl Iterator<Item = String> {
        self.0.into_iter().enumerate().map(|(index, note)| {
            let number = superscript(index + 1);
            format!("{number} {note}")
        })
    }
}

fn superscript(number: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|digit| DIGITS[usize::from(digit - b'0')]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combination::Combination;
    use crate::result::example;

    fn rows() -> Vec<Row> {
        let finished = |combination| {
            let result = Box::new(example(combination));
            Row::single(combination, Outcome::Finished { result })
        };
        let mut rows: Vec<Row> = Combination::ALL.into_iter().map(finished).collect();
        rows[5].outcome = Outcome::Failed { reason: "killed by signal 9".to_owned() };
        rows
    }

    #[test]
    fn each_reason_is_told_once_and_referred_to() {
        let text = render(&rows(), 200);
        let absent = "unavailable: perf_event_open: No such file or directory (os error 2)";
        assert_eq!(text.matches(absent).count(), 1, "{text}");
        assert_eq!(text.matches("failed: killed by signal 9").count(), 1, "{text}");
        let ipc = text.lines().find(|line| line.contains("instructions per cycle"));
        assert_eq!(ipc.expect("a line").matches("unavailable²").count(), 7, "{text}");
        assert_eq!(text.matches("run time").count(), 1);
    }

    #[test]
    fn a_narrow_terminal_gets_blocks() {
        for (width, blocks) in [(142, 1), (100, 2), (80, 3), (20, 8)] {
            let text = render(&rows(), width);
            assert_eq!(text.matches("run time").count(), blocks, "{width}");
        }
    }

    #[test]
    fn lines_keep_within_the_width() {
        for width in [80, 100, 140] {
            let text = render(&rows(), width);
            for line in text.lines().take_while(|line| !line.starts_with('¹')) {
                assert!(
                    line.chars().count() <= width,
                    "{} > {width}: {line}",
                    line.chars().count()
                );
            }
        }
    }
}
