//! An experiment: every combination of its levels, each run in a process of its own, and what is
//! made of the results.
//!
//! A process of its own gives each run its own peak of memory and its own allocator, and lets
//! one run fail without the others. Repetitions are blocks: each has every combination once, in
//! a random order, so that what changes slowly on the machine meets all of them alike. What a
//! run gives is on disk, complete and valid, before the next one starts; a comparison that was
//! stopped, or whose experiment got more levels, runs only what is missing.

mod child;
mod estimate;
mod store;
mod summary;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::experiment::{Experiment, Plan, Planned, Point};
use crate::failure::Failure;
use crate::interrupt;
use crate::machine::state::MachineState;
use crate::options::{CompareCommand, CompareOptions};
use crate::output::Output;
use crate::progress::Bar;
use crate::result::Outcome;
use crate::terminal;
use store::{Record, Store};

/// The experiment of a folder of results.
const EXPERIMENT: &str = "experiment.toml";
/// How long a machine that was slowed down by heat is let cool at most, before each run.
const COOL_DOWN: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const COOL_DOWN_STEP: Duration = Duration::from_secs(2);

/// Runs an experiment.
///
/// # Errors
/// When the command line, the experiment or a data set is wrong, when results cannot be written,
/// when a run failed (after the others have run), or when the user stopped it. In the latter two
/// cases the results of the finished runs are complete.
pub fn compare(command: &CompareCommand) -> Result<(), Failure> {
    let CompareCommand { file, options } = command;
    if options.run.placement.is_some() {
        let text = "--placement: a trace is that of one combination, which `train` takes";
        return Err(Failure::usage(text));
    }
    let experiment = experiment(file.as_deref(), options)?;
    // The processes load the data sets again; here they are only checked.
    let mut plan = Plan::new(&experiment, &options.typed.words())?;
    let output = match (options.resume, options.dry_run, &options.run.out) {
        (true, _, Some(folder)) => Output::resume(folder)?,
        // Nothing is written: any folder without runs does.
        (_, true, _) => Output::existing(&std::env::temp_dir()),
        (_, _, folder) => Output::create(folder.as_deref())?,
    };
    let mut store = match options.dry_run && !options.resume {
        true => Store::empty(&output),
        false => Store::open(&output)?,
    };
    store.name(&mut plan.points);
    if options.dry_run {
        return estimate::dry_run(&plan, &store);
    }
    output.write(EXPERIMENT, |file| file.write_all(experiment.text().as_bytes()))?;
    let comparison = Comparison { options, experiment, plan, output: &output };
    comparison.run_missing(&mut store)?;
    comparison.summarise(&store)
}

/// The experiment that is asked for: of a file, of a folder that is gone on with, or the default.
fn experiment(file: Option<&Path>, options: &CompareOptions) -> Result<Experiment, Failure> {
    let own = options.run.out.as_ref().map(|folder| folder.join(EXPERIMENT));
    let mut experiment = match (file, own) {
        (Some(file), _) => Experiment::read(file)?,
        (None, Some(own)) if options.resume => Experiment::read(&own)?,
        _ => Experiment::default(),
    };
    for key in options.typed.keys() {
        experiment.give_up(key).map_err(Failure::usage)?;
    }
    if options.quick {
        let types_epochs = options.typed.keys().any(|key| key == "epochs");
        experiment.quicken(!types_epochs);
    }
    if let Some(repetitions) = options.repetitions {
        experiment
            .repeat(repetitions)
            .map_err(|reason| Failure::usage(format_args!("--{reason}")))?;
    }
    Ok(experiment)
}

struct Comparison<'a> {
    options: &'a CompareOptions,
    experiment: Experiment,
    plan: Plan,
    output: &'a Output,
}

impl Comparison<'_> {
    /// Runs what is missing, one after the other; after each, its file is on disk.
    fn run_missing(&self, store: &mut Store<'_>) -> Result<(), Failure> {
        let missing = store.missing(&self.plan.points, &self.plan.runs);
        let batches = missing.iter().map(|run| u64::from(self.batches(*run))).sum();
        let mut bar = Bar::new(batches, self.options.run.quiet);
        let mut before = MachineState::now();
        for run in missing {
            if interrupt::requested() {
                break;
            }
            let point = &self.plan.points[run.point];
            let outcome = child::follow(
                &mut self.command(point, run.repetition)?,
                interrupt::requested,
                |progress| bar.show(&point.label, progress),
                |report| terminal::warn(format_args!("{}: {}", point.label, report.trim_end())),
            )?;
            bar.next_run(self.batches(run));
            if outcome == Outcome::Stopped {
                break;
            }
            let after = MachineState::now();
            let next = cool_down(&before, &after);
            let order = store.next_order();
            store.add(Record::new(point, run.repetition, order, [before, after], outcome))?;
            before = next;
        }
        bar.clear();
        Ok(())
    }

    fn batches(&self, run: Planned) -> u32 {
        self.plan.points[run.point].settings.batches()
    }

    fn command(&self, point: &Point, repetition: u32) -> Result<Command, Failure> {
        let mut command = Command::new(this_program()?);
        command.args(["train", "--events", &point.stem]).args(point.arguments());
        // A trace costs a little time, so that only the run that does not count has one.
        if repetition == 0 {
            command.arg("--trace");
        }
        command.arg("--out").arg(self.output.path());
        Ok(command)
    }
}

/// Where processors were slowed down by heat during a run, waits until they are as fast as
/// before it, or for long enough; gives the state in which the next run begins.
fn cool_down(before: &MachineState, after: &MachineState) -> MachineState {
    let mut now = after.clone();
    if !after.has_throttled_since(before) {
        return now;
    }
    let start = Instant::now();
    while now.is_slower_than(before) && start.elapsed() < COOL_DOWN && !interrupt::requested() {
        thread::sleep(COOL_DOWN_STEP);
        now = MachineState::now();
    }
    now
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format_args!("cannot find this program: {error}")))
}
