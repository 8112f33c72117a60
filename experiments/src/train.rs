//! One combination: `train`, and the binaries named after combinations.

use std::time::{Duration, Instant};

use millrace_runtime::watchdog::StallReport;

use crate::charts;
use crate::combination::Combination;
use crate::data::Data;
use crate::failure::Failure;
use crate::options::{RunOptions, TrainOptions};
use crate::output::Output;
use crate::progress::Bar;
use crate::protocol::{Event, Progress, send};
use crate::result::{Outcome, Row, RunResult};
use crate::run::{self, Run};
use crate::{table, terminal};

/// How often a run tells how far it has come.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// `train`: for people, or as one run of a comparison.
///
/// # Errors
/// As [`alone`].
pub fn train(options: &TrainOptions) -> Result<(), Failure> {
    let combination = Combination::new(options.arena, options.loader);
    if let Some(name) = &options.events {
        return for_comparison(combination, &options.run, name);
    }
    alone(combination, &options.run)
}

/// Trains with one combination, prints its table and writes its results.
///
/// # Errors
/// When the command line or the data set is wrong, when the run fails or is stopped, or when
/// results cannot be written.
pub fn alone(combination: Combination, options: &RunOptions) -> Result<(), Failure> {
    let data = Data::load(options.dataset.as_deref())?;
    let settings = data.check(options)?;
    let output = Output::create(options.out.as_deref())?;
    let bar = Bar::new(settings.batches().into(), options.quiet);
    let label = combination.to_string();
    let mut limiter = Limiter::default();
    let stalled = |report: &StallReport| terminal::warn(report.to_string().trim_end());
    let run = Run { combination, settings, data, traced: options.trace, stalled };
    let finished = run::run(run, &mut |progress| {
        if limiter.is_due(progress) {
            bar.show(&label, progress);
        }
        Ok(())
    });
    bar.clear();
    let (result, trace) = finished?;
    write_result(&output, &result)?;
    let traced = result.settings.trace_batches;
    let rows = [Row::single(combination, Outcome::Finished { result: Box::new(result) })];
    output.write("table.json", |file| table::write_json(&rows, file))?;
    output.write("table.csv", |file| table::write_csv(&rows, file))?;
    if let Some(trace) = trace {
        charts::warn(combination, &trace);
        charts::write(&output, &combination.file_name(), &trace, traced)?;
    }
    terminal::print(&rows, options.json)?;
    if !options.json {
        terminal::say(&format!("Results: {}/", output.path().display()))?;
    }
    Ok(())
}

/// Trains with one combination and tells the comparison that started this process, which writes
/// down what it is told; only a trace is written here, under `name`.
fn for_comparison(
    combination: Combination,
    options: &RunOptions,
    name: &str,
) -> Result<(), Failure> {
    let data = Data::load(options.dataset.as_deref())?;
    let settings = data.check(options)?;
    let folder = options.out.as_deref().ok_or_else(|| Failure::usage("--events needs --out"))?;
    let output = Output::existing(folder);
    let mut limiter = Limiter::default();
    let stalled = |report: &StallReport| {
        // If nobody reads any more, the next progress fails.
        let _ = send(&Event::Stalled { report: report.to_string() });
    };
    let run = Run { combination, settings, data, traced: options.trace, stalled };
    let (result, trace) = run::run(run, &mut |progress| match limiter.is_due(progress) {
        true => send(&Event::Progress(*progress)),
        false => Ok(()),
    })?;
    if let Some(trace) = trace {
        charts::write(&output, name, &trace, result.settings.trace_batches)?;
    }
    send(&Event::Finished { result: Box::new(result) })
}

fn write_result(output: &Output, result: &RunResult) -> Result<(), Failure> {
    output.write(&format!("run-{}.json", result.combination.file_name()), |file| {
        serde_json::to_writer_pretty(&mut *file, result)?;
        writeln!(file)
    })
}

/// Lets progress through that is not too soon after the last.
#[derive(Debug, Default)]
struct Limiter {
    last: Option<Instant>,
}

impl Limiter {
    fn is_due(&mut self, progress: &Progress) -> bool {
        let now = Instant::now();
        let is_last = progress.batch == progress.batches;
        let due =
            is_last || self.last.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        if due {
            self.last = Some(now);
        }
        due
    }
}
