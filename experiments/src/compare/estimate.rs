//! `--dry-run`: the runs that are missing, and how long they will take.
//!
//! The time of a run is that of finished runs of the same point, where there are some; else
//! it is reckoned from a short run with the same conditions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Instant;

use super::store::Store;
use super::{child, this_program};
use crate::experiment::{Plan, Point};
use crate::failure::Failure;
use crate::interrupt;
use crate::result::Outcome;
use crate::terminal;

/// Samples of a short run, where a batch is no larger.
const PROBED: usize = 500;

/// How long the runs of a point take.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Seconds for each sample that is trained on.
    per_sample: f64,
    /// Seconds besides.
    fixed: f64,
}

/// Prints the missing runs of `plan` in their order, and how long they will take.
///
/// # Errors
/// When a short run fails or is stopped, or standard output cannot be written.
pub(super) fn dry_run(plan: &Plan, store: &Store<'_>) -> Result<(), Failure> {
    let missing = store.missing(&plan.points, &plan.runs);
    let mut seconds = vec![None; plan.points.len()];
    let mut probes = HashMap::new();
    let mut total = 0.0;
    for (number, run) in missing.iter().enumerate() {
        let point = &plan.points[run.point];
        let seconds = match seconds[run.point] {
            Some(seconds) => seconds,
            None => *seconds[run.point].insert(point_seconds(point, store, &mut probes)?),
        };
        total += seconds;
        let which = match run.repetition {
            0 => "warm-up".to_owned(),
            repetition => format!("run {repetition}"),
        };
        terminal::say(&format!("{:>5}  {which:<8} {seconds:>9.1} s  {}", number + 1, point.label))?;
    }
    let done = plan.runs.len() - missing.len();
    terminal::say(&format!(
        "{} runs of {} combinations, about {}; {done} are done",
        missing.len(),
        plan.points.len(),
        duration(total)
    ))
}

fn point_seconds(
    point: &Point,
    store: &Store<'_>,
    probes: &mut HashMap<Vec<OsString>, Cost>,
) -> Result<f64, Failure> {
    let known = store.of(point).filter_map(|record| match &record.outcome {
        Outcome::Finished { result } => Some(result.seconds),
        _ => None,
    });
    if let Some(seconds) = known.reduce(f64::max) {
        return Ok(seconds);
    }
    let arguments = probe(point);
    let cost = match probes.get(&arguments) {
        Some(cost) => *cost,
        None => *probes.entry(arguments.clone()).or_insert(measure(&arguments)?),
    };
    let settings = &point.settings;
    Ok(cost.fixed + cost.per_sample * f64::from(settings.epochs) * settings.samples as f64)
}

/// The words of a short run with the conditions of `point`: an arena and a loader make little
/// difference to an estimate, and neither do numbers of epochs and samples.
fn probe(point: &Point) -> Vec<OsString> {
    let mut short = point.clone();
    let samples = short.settings.samples.min(PROBED.max(short.settings.batch_size));
    short.settings.samples = samples;
    short.settings.epochs = 1;
    short.settings.trace_batches.first = 0;
    short.settings.trace_batches.end = 1;
    short.settings.arguments()
}

fn measure(arguments: &[OsString]) -> Result<Cost, Failure> {
    let mut command = std::process::Command::new(this_program()?);
    command.args(["train", "--events", "probe", "--out", "."]).args(arguments);
    let start = Instant::now();
    match child::follow(&mut command, interrupt::requested, |_| (), |_| ())? {
        Outcome::Finished { result } => Ok(Cost {
            per_sample: result.seconds / result.images.max(1) as f64,
            fixed: (start.elapsed().as_secs_f64() - result.seconds).max(0.0),
        }),
        Outcome::Failed { reason } => {
            Err(Failure::failed(format_args!("a short run to estimate the time: {reason}")))
        }
        _ => Err(Failure::interrupted("stopped while the time was estimated")),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_told_in_its_unit() {
        assert_eq!(duration(12.3), "12 s");
        assert_eq!(duration(120.0), "2 min");
        assert_eq!(duration(7200.0), "2.0 h");
    }
}
