//! The table of results: one list of measures from which every form of it is made.

mod csv;
mod measure;
mod terminal;

use std::io;

pub use measure::{MEASURES, Measure, Unit};

use crate::result::Row;

/// Writes the table as CSV: a row per run; per measure the number and its status.
///
/// # Errors
/// When the writer fails.
pub fn write_csv(rows: &[Row], writer: impl io::Write) -> io::Result<()> {
    csv::write(rows, writer)
}

/// Writes the table as JSON: every row with all that is known about it.
///
/// # Errors
/// When the writer fails.
pub fn write_json(rows: &[Row], mut writer: impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, rows)?;
    writeln!(writer)
}

/// The table for a terminal `width` columns wide: a column per combination, in as many blocks as
/// the width asks for, and below it the reason of each number that is missing.
pub fn terminal(rows: &[Row], width: usize) -> String {
    terminal::render(rows, width)
}
