//! `millrace bench`: what the parts of Millrace cost, beside what others cost.

mod costs;
mod metg;
mod nn;
mod peers;
mod rows;
mod runtime;

pub use costs::{CostRow, Unit, costs};
pub use metg::{Efficiency, Kernel, MetgRow, Pattern, metg};
use millrace_runtime::Runtime;
pub use nn::{LayerRow, Mode, Net, NnRow, nn};
pub use rows::{PeerFigure, RuntimeRow};
pub use runtime::runtime;
use serde::Serialize;

use crate::failure::{Failure, chain};
use crate::options::{BenchOptions, pin};
use crate::terminal;

/// A runtime as the options ask for it.
fn build(options: &BenchOptions, workers: usize) -> Result<Runtime, Failure> {
    let mut builder = Runtime::builder()
        .workers(workers)
        .pin(pin(options.pin))
        .main_helps(true)
        .timing(options.timing);
    if let Some(window) = options.window {
        builder = builder.window(window);
    }
    builder.build().map_err(|error| Failure::failed(chain(&error)))
}

/// Prints rows: as JSON, or as the text that `render` makes of them.
fn print<R: Serialize>(
    rows: &[R],
    json: bool,
    render: impl FnOnce(&[R]) -> String,
) -> Result<(), Failure> {
    let text = match json {
        true => serde_json::to_string_pretty(rows).map_err(Failure::failed)? + "\n",
        false => render(rows),
    };
    terminal::write(|stdout| stdout.write_all(text.as_bytes()))
}

/// The user stopped a benchmark.
fn stopped() -> Failure {
    Failure::interrupted("stopped; nothing was printed")
}
