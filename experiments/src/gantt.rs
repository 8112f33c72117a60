//! `gantt TRACE... --out FILE`: charts of traces that were written before.

use std::fmt;
use std::path::Path;

use millrace_gantt::{Chart, Comparison, GanttError, Page, compare};
use millrace_runtime::trace::Trace;

use crate::charts::{read, warn};
use crate::failure::{Failure, chain};
use crate::interrupt;
use crate::options::GanttOptions;
use crate::output::write_file;

/// What a file is to hold, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Svg,
    Html,
}

impl Form {
    fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase).as_deref()
        {
            Some("svg") => Ok(Form::Svg),
            Some("html" | "htm") => Ok(Form::Html),
            _ => Err(Failure::usage(format_args!(
                "--out {}: a chart is an .svg or .html file (see --help)",
                path.display()
            ))),
        }
    }
}

/// Draws traces to a file.
///
/// # Errors
/// When the file has an unknown ending, when a trace cannot be read or drawn, or when the chart
/// cannot be written.
pub fn gantt(options: &GanttOptions) -> Result<(), Failure> {
    let form = Form::of(&options.out)?;
    let mut traces = Vec::with_capacity(options.traces.len());
    for path in &options.traces {
        let trace = read(path)?;
        warn(path.display(), &trace);
        traces.push(trace);
    }
    let drawn = match form {
        Form::Svg => figure(&traces, options),
        Form::Html => page(&traces, options),
    };
    let text = drawn.map_err(|error| {
        Failure::failed(format_args!("cannot draw {}: {}", Paths(options), chain(&error)))
    })?;
    // Up to here Ctrl-C just ends the process; from here on the file is finished first.
    interrupt::install()?;
    write_file(&options.out, |file| file.write_all(text.as_bytes()))
}

fn figure(traces: &[Trace], options: &GanttOptions) -> Result<String, GanttError> {
    let batches = options.batches.map(|range| range.first..range.end);
    if let [trace] = traces {
        let chart = Chart::new(trace).width(options.width);
        return batches.into_iter().fold(chart, Chart::batches).render();
    }
    let comparison = Comparison::default().width(options.width);
    let comparison = batches.into_iter().fold(comparison, Comparison::batches);
    compare(&traces.iter().collect::<Vec<_>>(), &comparison)
}

fn page(traces: &[Trace], options: &GanttOptions) -> Result<String, GanttError> {
    let (first, others) = traces.split_first().ok_or(GanttError::NoTraces)?;
    let page = others.iter().fold(Page::new(first), Page::beside);
    let batches = options.batches.map(|range| range.first..range.end);
    batches.into_iter().fold(page, Page::batches).render()
}

/// The paths of the traces, for messages.
struct Paths<'a>(&'a GanttOptions);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.0.traces.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, path.display())?;
        }
        Ok(())
    }
}
