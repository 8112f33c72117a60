//! The command line: what was typed ([`Cli`], [`SingleCli`]), and what it means ([`Settings`]).

mod bench;
mod compare;
mod gantt;
mod run;
mod settings;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use bench::{BenchCostsOptions, BenchMetgOptions, BenchNnOptions, BenchOptions};
use clap::{Args, Parser, Subcommand};
pub use compare::{CompareCommand, CompareOptions, Typed};
pub use gantt::GanttOptions;
use millrace_runtime::topology::Pin;
pub use run::{Bytes, SchedulerChoice};
use serde::{Deserialize, Serialize};
pub use settings::{MAX_WORKERS, Settings};

use crate::combination::{ArenaMode, ArenaModeParser, LoaderMode};
use crate::failure::Failure;

const TRAIN_EXAMPLES: &str = "\
Examples:
  millrace train                            two batch arenas and the advanced loader
  millrace train --arena 'ring(3)' --loader naive --epochs 1 --trace
  millrace train --arena single --loader naive --workers 0 --json
  millrace train --epochs 1 --workers 2 --trace --trace-batches 0..600 --out first
  millrace train --epochs 1 --workers 2 --scheduler static \
    --placement first/trace-double-advanced.json";

const BENCH_RUNTIME_EXAMPLES: &str = "\
Examples:
  millrace bench runtime
  millrace bench runtime --bodies 0 --workers 2 --scenarios chain,grid --rounds 1
  millrace bench runtime --peers ~/peers --json";

const BENCH_COSTS_EXAMPLES: &str = "\
Examples:
  millrace bench costs
  millrace bench costs --quick
  millrace bench costs --peers ~/peers --json";

const BENCH_METG_EXAMPLES: &str = "\
Examples:
  millrace bench metg
  millrace bench metg --patterns stencil_1d --kernels compute --workers 2 --width 1,4
  millrace bench metg --timesteps 1000 --peers ~/peers --json";

const BENCH_NN_EXAMPLES: &str = "\
Examples:
  millrace bench nn
  millrace bench nn --nets N2,N3 --batches 32 --peer ~/venv/bin/python --json
  millrace bench nn --layers --nets N3";

const SINGLE_EXAMPLES: &str = "\
Examples:
  cargo run --release --bin double-advanced
  cargo run --release --bin single-naive -- --epochs 1 --trace
  cargo run --release --bin single-double -- --dataset ~/mnist --batch-size 64 --json";

/// The command line of `millrace`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "millrace",
    version,
    about = "Trains a network by a task graph and shows every wait",
    long_about = "Trains a network by a task graph and shows every wait.\n\nWithout a subcommand \
                  it compares all combinations of batch arena and batch loader.",
    after_help = compare::EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do; `compare` where nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of `compare`.
    #[command(flatten)]
    pub compare: CompareOptions,
}

/// The subcommands of `millrace`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run an experiment, by default every batch arena with every loader; table, charts, report
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareCommand),
    /// Train with one combination
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(TrainOptions),
    /// Draw one trace or several as a Gantt chart
    #[command(after_help = gantt::EXAMPLES)]
    Gantt(GanttOptions),
    /// Measure what a part of Millrace costs
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// The subcommands of `millrace bench`.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// The cost of a task: six task graphs, beside other runtimes
    #[command(after_help = BENCH_RUNTIME_EXAMPLES)]
    Runtime(BenchRuntimeOptions),
    /// What waiting, acquiring, handles, memory and idling cost, against goals and limits
    #[command(after_help = BENCH_COSTS_EXAMPLES)]
    Costs(BenchCostsOptions),
    /// The smallest tasks that leave half of the machine's speed: METG(50%) of Task Bench
    #[command(after_help = BENCH_METG_EXAMPLES)]
    Metg(BenchMetgOptions),
    /// How fast small networks are trained, beside the machine's peak and PyTorch
    #[command(after_help = BENCH_NN_EXAMPLES)]
    Nn(BenchNnOptions),
}

/// Options of `bench runtime`.
#[derive(Clone, Debug, Args)]
pub struct BenchRuntimeOptions {
    /// Task graphs [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// Lengths of a task's body in microseconds, 0 for none
    #[arg(long, value_name = "US", value_delimiter = ',', default_value = "0,1,5,20")]
    pub bodies: Vec<u64>,
    /// Numbers of workers; with two or more, the submitting thread is one of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,1")]
    pub workers: Vec<usize>,
    /// Rounds, each of 7 runs of every graph and one run of each peer
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// The options of all benchmarks of the runtime.
    #[command(flatten)]
    pub bench: BenchOptions,
}

/// The command line of the binaries that run one combination.
#[derive(Clone, Debug, Parser)]
#[command(version, about = "Trains with one combination of batch arena and batch loader")]
#[command(after_help = SINGLE_EXAMPLES)]
pub struct SingleCli {
    /// The options.
    #[command(flatten)]
    pub run: RunOptions,
}

/// Options of `train`.
#[derive(Clone, Debug, Args)]
pub struct TrainOptions {
    /// Batch arenas: how many batches may be in memory at once
    #[arg(long, value_parser = ArenaModeParser, default_value = "double")]
    pub arena: ArenaMode,
    /// Batch loader: when a batch is loaded and its memory used again
    #[arg(long, value_enum, default_value = "advanced")]
    pub loader: LoaderMode,
    /// The other options.
    #[command(flatten)]
    pub run: RunOptions,
    /// Write progress and result as JSON lines instead of a table, and name the files of a
    /// trace so: for `compare`
    #[arg(long, hide = true, value_name = "NAME")]
    pub events: Option<String>,
}

/// Options of everything that trains.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// Times that every sample is used
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub epochs: u32,
    /// Samples per batch; the last batch of an epoch may be smaller
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub batch_size: usize,
    /// Worker threads, 0 to run each task where it is submitted [default: one per processor in
    /// the affinity mask of the process, at most its cgroup's CPU quota rounded up]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Bind each worker to a processor of its own, physical cores before hyper-threads; the main
    /// thread, which is worker 0 of two or more, is not bound
    #[arg(long)]
    pub pin: bool,
    /// Use only the first N training samples [default: all]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Decides the initial weights and the order of a shuffle
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u32,
    /// Folder with the four IDX files of MNIST or Fashion-MNIST, plain or gzip
    /// [default: embedded images]
    #[arg(long, value_name = "PATH")]
    pub dataset: Option<PathBuf>,
    /// Write a trace and a Gantt chart (`compare` always does)
    #[arg(long)]
    pub trace: bool,
    /// Folder for the results, new or empty [default: results/TIME]
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Batches to trace, counted from 0 over the whole run
    /// [default: 60 batches from batch 120 on, or the last 60]
    #[arg(long, value_name = "A..B")]
    pub trace_batches: Option<BatchRange>,
    /// Another order of samples in each epoch, decided by the seed
    #[arg(long)]
    pub shuffle: bool,
    /// Parts that a batch is cut into, each worked on by its own tasks; decides how gradients
    /// are added up [default: by network and batch size]
    #[arg(long, value_name = "N")]
    pub shards: Option<usize>,
    /// Learning rate
    #[arg(long, value_name = "RATE", default_value_t = 0.001)]
    pub lr: f64,
    /// Submitted, unfinished tasks at most [default: chosen by the runtime]
    #[arg(long, value_name = "N")]
    pub window: Option<usize>,
    /// Say on standard error who waits for whom when no task has started or ended for so long
    #[arg(long, value_name = "SECONDS")]
    pub watchdog: Option<f64>,
    /// Memory that submitted, unfinished tasks may declare at most, in bytes or with one of the
    /// suffixes K, M, G (powers of 1024) [default: no bound]
    #[arg(long, value_name = "BYTES")]
    pub memory_window: Option<Bytes>,
    /// Which worker runs which ready task next
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    pub scheduler: SchedulerChoice,
    /// A trace whose schedule `--scheduler static` is to follow, task by task; one of the whole run
    /// (--trace-batches), with the same options
    #[arg(long, value_name = "TRACE")]
    pub placement: Option<PathBuf>,
    /// Spans that a trace keeps of each thread at most [default: chosen by the runtime]
    #[arg(long, value_name = "N")]
    pub trace_capacity: Option<usize>,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

/// Batches `first..end`, counted from 0 over the whole run; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRange {
    /// The first batch.
    pub first: u32,
    /// The batch after the last.
    pub end: u32,
}

impl BatchRange {
    /// Whether batch `index` belongs to the range.
    pub fn contains(self, index: u32) -> bool {
        (self.first..self.end).contains(&index)
    }
}

impl fmt::Display for BatchRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.end)
    }
}

impl FromStr for BatchRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let ends = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
        match ends {
            Some((first, end)) if first < end => Ok(BatchRange { first, end }),
            Some(_) => Err("the range is empty".to_owned()),
            None => Err("wanted A..B, for example 120..180".to_owned()),
        }
    }
}

/// What `--pin` means.
pub(crate) fn pin(asked: bool) -> Pin {
    if asked { Pin::Cores } else { Pin::No }
}

/// Reads a command line.
///
/// `Ok(None)` means that help or version was asked for and has been printed.
///
/// # Errors
/// A usage failure of one line when the command line is wrong.
pub fn parse<C: Parser>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Option<C>, Failure> {
    let error = match C::try_parse_from(arguments) {
        Ok(parsed) => return Ok(Some(parsed)),
        Err(error) => error,
    };
    if error.use_stderr() {
        return Err(Failure::usage(usage_line(&error.to_string())));
    }
    error.print().map_err(|error| Failure::stdout(&error))?;
    Ok(None)
}

/// What the parser says over several lines, without its prefix, usage and reference to help.
fn usage_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let told: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    format!("{} (see --help)", told.join("; ").replacen(":; ", ": ", 1))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn cli(arguments: &[&str]) -> Result<Cli, String> {
        let arguments = std::iter::once("millrace").chain(arguments.iter().copied());
        match parse::<Cli>(arguments) {
            Ok(cli) => Ok(cli.expect("no help was asked for")),
            Err(failure) => {
                assert_eq!(failure.code(), 2);
                Err(failure.to_string())
            }
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
        SingleCli::command().debug_assert();
    }

    #[test]
    fn compare_is_the_default() {
        let cli = cli(&["--epochs", "2"]).expect("valid");
        assert!(cli.command.is_none());
        let run = &cli.compare.run;
        assert_eq!((run.epochs, run.batch_size, run.seed), (2, 10, 42));
        assert_eq!(cli.compare.typed.words(), ["--epochs=2"]);
    }

    #[test]
    fn train_takes_any_depth_of_ring() {
        let cli = cli(&["train", "--arena", "ring(5)", "--loader", "prefetch"]).expect("valid");
        let Some(Command::Train(train)) = cli.command else { panic!("another subcommand") };
        assert_eq!((train.arena, train.loader), (ArenaMode::Ring(5), LoaderMode::Prefetch));
    }

    #[test]
    fn mistakes_are_named_in_one_line() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["train", "--arena", "singel", "--loader", "naive"], &["'singel'", "'single'"]),
            (&["train", "--arena", "ring(0)", "--loader", "naive"], &["ring(0)", "1 to 64"]),
            (&["train", "--arena", "single", "--loader", "naiv"], &["'naiv'", "'naive'"]),
            (&["--epoch", "2"], &["'--epoch'", "'--epochs'"]),
            (&["gantt", "x", "--out", "y", "--batches", "9..3"], &["9..3", "empty"]),
            (&["tran"], &["'tran'", "'train'"]),
        ];
        for (arguments, wanted) in cases {
            let message = cli(arguments).expect_err("refused");
            assert_eq!(message.lines().count(), 1, "{message}");
            assert!(message.ends_with("(see --help)"), "{message}");
            for word in wanted {
                assert!(message.contains(word), "{message} lacks {word}");
            }
        }
    }
}
