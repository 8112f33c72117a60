//! The `millrace` command: trains a network with every combination of batch arena and batch
//! loader, and reports what each cost and what it waited for.
//!
//! The binaries of this package are a call each: [`millrace`] for the command with its
//! subcommands, [`single`] for those that are named after a combination. The way through the
//! crate is the way of a command:
//!
//! | module | what it does |
//! |---|---|
//! | [`options`] | what was typed, then what it means: checked settings |
//! | [`experiment`] | what is compared: levels of factors, as a file; the order of the runs |
//! | [`compare`] | each run in a process of its own; collects, goes on, reports |
//! | [`train`] | one combination, for people or for a comparison ([`protocol`]) |
//! | [`run`] | joins runtime, arenas, loader and network, and measures: [`result::RunResult`] |
//! | [`mod@bench`] | the cost of a task, beside other runtimes |
//! | [`counters`], [`energy`], [`machine`] | what is measured beside the clock |
//! | [`table`], [`charts`], [`report`], [`output`] | what becomes of results |
//! | [`mod@gantt`] | charts of traces that were written before |
//!
//! # Invariants
//! - **No number without a status.** What was not measured is a reason
//!   ([`reading::Reading`]), never a 0; ratios exist only between counts of one group.
//! - **A file is complete or absent**, and never written over by another command
//!   ([`output::Output`]).
//! - **Runs are alike.** Each combination gets the same settings and a process of its own, and
//!   the loop that trains it is the same code.
//! - **Signals are answered between batches**; no process outlives its comparison.
//! - **Every failure is one line** with one of the exit codes of [`failure::Failure`].
//!
//! # Example
//! What the counters of two workers allow to say, and what they do not:
//! ```
//! use millrace_experiments::counters::{Count, Counts, Event};
//! use millrace_experiments::reading::Reading;
//!
//! let worker = |loads, misses| Counts {
//!     counts: vec![
//!         Count { event: Event::LlcLoads, group: Some(0), reading: loads },
//!         Count { event: Event::LlcLoadMisses, group: Some(0), reading: misses },
//!     ],
//! };
//! let first = worker(Reading::Measured { value: 300 }, Reading::Measured { value: 30 });
//! let second = worker(Reading::Measured { value: 100 }, Reading::Measured { value: 70 });
//! let sum = Counts::sum(&[("worker 0".into(), first), ("worker 1".into(), second)]);
//! let ratio = sum.ratio(Event::LlcLoadMisses, Event::LlcLoads);
//! assert_eq!(ratio, Reading::Measured { value: 0.25 });
//! assert_eq!(sum.instructions_per_cycle().reason(), Some("instructions were not asked for"));
//! ```

#![forbid(unsafe_code)]

pub mod bench;
pub mod charts;
pub mod combination;
pub mod compare;
pub mod counters;
pub mod data;
pub mod energy;
pub mod experiment;
pub mod failure;
pub mod gantt;
pub mod interrupt;
mod learner;
pub mod machine;
pub mod options;
pub mod output;
pub mod progress;
pub mod protocol;
pub mod reading;
pub mod report;
pub mod result;
pub mod run;
pub mod table;
pub mod terminal;
pub mod train;

use std::process::ExitCode;

use combination::{ArenaMode, Combination, LoaderMode};
use failure::Failure;
use options::{BenchCommand, Cli, Command, CompareCommand, SingleCli};

/// The command `millrace`, with the arguments of this process.
pub fn millrace() -> ExitCode {
    exit_code(run_millrace())
}

/// A binary that trains with one combination, with the arguments of this process.
pub fn single(arena: ArenaMode, loader: LoaderMode) -> ExitCode {
    exit_code(run_single(Combination::new(arena, loader)))
}

fn run_millrace() -> Result<(), Failure> {
    let Some(cli) = options::parse::<Cli>(std::env::args_os())? else { return Ok(()) };
    let compare = CompareCommand { file: None, options: cli.compare };
    let command = cli.command.unwrap_or(Command::Compare(compare));
    if !matches!(command, Command::Gantt(_)) {
        interrupt::install()?;
    }
    match command {
        Command::Compare(options) => compare::compare(&options),
        Command::Train(options) => train::train(&options),
        Command::Gantt(options) => gantt::gantt(&options),
        Command::Bench(BenchCommand::Runtime(options)) => bench::runtime(&options),
        Command::Bench(BenchCommand::Costs(options)) => bench::costs(&options),
        Command::Bench(BenchCommand::Metg(options)) => bench::metg(&options),
        Command::Bench(BenchCommand::Nn(options)) => bench::nn(&options),
    }
}

fn run_single(combination: Combination) -> Result<(), Failure> {
    let Some(cli) = options::parse::<SingleCli>(std::env::args_os())? else { return Ok(()) };
    interrupt::install()?;
    train::alone(combination, &cli.run)
}

fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
