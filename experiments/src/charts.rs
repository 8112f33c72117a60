//! Traces and their charts as files: written by runs, read by [`gantt`](crate::gantt) and by
//! comparisons.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use millrace_gantt::{Chart, Comparison, compare};
use millrace_runtime::trace::Trace;

use crate::failure::{Failure, chain};
use crate::options::BatchRange;
use crate::output::Output;
use crate::terminal;

/// Width of the charts of a comparison, in pixels.
const WIDTH: u32 = 1200;

/// Reads and checks a trace.
///
/// # Errors
/// When there is no such file, or it is not a trace.
pub fn read(path: &Path) -> Result<Trace, Failure> {
    let file = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
    Trace::read_json(BufReader::new(file))
        .map_err(|error| Failure::failed(format_args!("{}: {}", path.display(), chain(&error))))
}

/// Warns if spans of the trace of `what` were lost.
pub fn warn(what: impl Display, trace: &Trace) {
    if let Some(losses) = trace.losses() {
        terminal::warn(format_args!("the trace of {what} has holes: {losses}"));
    }
}

/// Name of the trace of what is called `stem` in a folder of results.
pub fn trace_name(stem: &str) -> String {
    format!("trace-{stem}.json")
}

/// Name of the chart of what is called `stem` in a folder of results.
pub fn chart_name(stem: &str) -> String {
    format!("gantt-{stem}.svg")
}

/// Writes the trace of what is called `stem` and a chart of these batches of it.
///
/// # Errors
/// When the trace cannot be drawn or a file not be written.
pub fn write(
    output: &Output,
    stem: &str,
    trace: &Trace,
    batches: BatchRange,
) -> Result<(), Failure> {
    output.write(&trace_name(stem), |file| trace.write_json(file).map_err(io::Error::other))?;
    let chart = Chart::new(trace).width(WIDTH).batches(batches.first..batches.end);
    let svg = chart.render().map_err(|error| {
        Failure::failed(format_args!("cannot draw the trace of {stem}: {}", chain(&error)))
    })?;
    output.write(&chart_name(stem), |file| file.write_all(svg.as_bytes()))
}

/// These batches of all traces on one time axis.
///
/// # Errors
/// When they cannot be drawn.
pub fn comparison(traces: &[Trace], batches: BatchRange) -> Result<String, Failure> {
    let options = Comparison::default()
        .title("Batch arenas and loaders compared")
        .width(WIDTH)
        .batches(batches.first..batches.end);
    compare(&traces.iter().collect::<Vec<_>>(), &options).map_err(|error| {
        Failure::failed(format_args!("cannot draw the comparison: {}", chain(&error)))
    })
}
