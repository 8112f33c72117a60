//! The command line of `gantt`.

use std::path::PathBuf;

use clap::Args;

use super::BatchRange;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace gantt trace-single-naive.json --out gantt.svg
  millrace gantt trace-double-advanced.json --out five.svg --batches 130..135 --width 1600
  millrace gantt trace-double-advanced.json --out page.html
  millrace gantt run/trace-single-naive.json run/trace-double-advanced.json --out both.html

The ending of the file decides what it is: .svg is a figure, .html a page to zoom into, which
holds the traces and works offline. Several traces are drawn below each other on one time axis.";

/// Options of `gantt`.
#[derive(Clone, Debug, Args)]
pub struct GanttOptions {
    /// Traces as written by --trace or by compare
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// The chart to write: an .svg or .html file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Draw only these batches; a page shows them first
    #[arg(long, value_name = "A..B")]
    pub batches: Option<BatchRange>,
    /// Width of a figure in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1200,
        value_parser = clap::value_parser!(u32).range(400..=10_000))]
    pub width: u32,
}
