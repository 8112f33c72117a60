//! The `millrace` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    millrace_experiments::millrace()
}
