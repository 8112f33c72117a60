//! Trains with the batch arena `single` and the loader `naive`.

use std::process::ExitCode;

use millrace_experiments::combination::{ArenaMode, LoaderMode};

fn main() -> ExitCode {
    millrace_experiments::single(ArenaMode::Single, LoaderMode::Naive)
}
