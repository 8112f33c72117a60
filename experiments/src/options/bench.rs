//! Options of `millrace bench`.

use std::path::PathBuf;

use clap::Args;

use super::settings::MAX_WORKERS;
use crate::bench::{Kernel, Mode, Net, Pattern};

/// Options that all benchmarks of the runtime have.
#[derive(Clone, Debug, Args)]
pub struct BenchOptions {
    /// Folder of other runtimes' programs, to run in the same sitting
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Submitted, unfinished tasks at most [default: chosen by the runtime]
    #[arg(long, value_name = "N")]
    pub window: Option<usize>,
    /// Bind each worker to a processor of its own, except for the submitting thread
    #[arg(long)]
    pub pin: bool,
    /// Count the time in bodies and the idle time, as a training run does
    #[arg(long)]
    pub timing: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `bench costs`.
#[derive(Clone, Debug, Args)]
pub struct BenchCostsOptions {
    /// Folder of other runtimes' programs, to run in the same sitting
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// Few repetitions: a look, not a measurement
    #[arg(long)]
    pub quick: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
    /// Weigh one thing in this process and print the bytes: for `bench costs` itself
    #[arg(long, hide = true, value_name = "NAME")]
    pub probe: Option<String>,
}

/// Options of `bench metg`.
#[derive(Clone, Debug, Args)]
pub struct BenchMetgOptions {
    /// What a task of one timestep depends on [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub patterns: Vec<Pattern>,
    /// What the bodies do [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub kernels: Vec<Kernel>,
    /// Numbers of workers; with two or more, the submitting thread is one of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS as i64))]
    pub workers: Vec<u16>,
    /// Columns of the graph for each worker
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub width: Vec<u16>,
    /// Timesteps of a run [default: about 50 ms of bodies, from 20 to 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    pub timesteps: Option<u32>,
    /// Rounds, each of one run of every granularity, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Length of a body in microseconds where the sweep begins; it is halved from there on
    #[arg(long, value_name = "US", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub largest: u32,
    /// The options of all benchmarks of the runtime.
    #[command(flatten)]
    pub bench: BenchOptions,
}

/// Options of `bench nn`.
#[derive(Clone, Debug, Args)]
pub struct BenchNnOptions {
    /// Networks [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', ignore_case = true)]
    pub nets: Vec<Net>,
    /// Samples of a batch [default: 10 for D, 32 and 128 for the others; of layers: 8]
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub batches: Vec<u16>,
    /// Numbers of workers, the main thread among them, and of the peer's threads
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS as i64))]
    pub workers: Vec<u16>,
    /// Shards of a batch [default: chosen by the network]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub shards: Option<u16>,
    /// Rounds, each of one run of every case, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Each layer by itself, on one thread, in all directions
    #[arg(long, conflicts_with_all = ["peer", "shards", "workers"])]
    pub layers: bool,
    /// A Python with PyTorch, to train the same in the same sitting
    #[arg(long, value_name = "PYTHON")]
    pub peer: Option<PathBuf>,
    /// How PyTorch computes [default: each way]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', requires = "peer")]
    pub modes: Vec<Mode>,
    /// Short runs: a look, not a measurement
    #[arg(long)]
    pub quick: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the table as JSON
    #[arg(long)]
    pub json: bool,
}
