//! Trains with the batch arena `double` and the loader `prefetch`.

use std::process::ExitCode;

use millrace_experiments::combination::{ArenaMode, LoaderMode};

fn main() -> ExitCode {
    millrace_experiments::single(ArenaMode::Double, LoaderMode::Prefetch)
}
