//! What the process of one run tells the comparison that started it: a JSON document per line.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::result::RunResult;

/// One line on the standard output of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run goes on.
    Progress(Progress),
    /// Nothing moves any more.
    Stalled {
        /// Who waits for whom.
        report: String,
    },
    /// The run came to its end.
    Finished {
        /// What it gave.
        result: Box<RunResult>,
    },
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Batches that were submitted.
    pub batch: u32,
    /// Batches of the whole run.
    pub batches: u32,
    /// The epoch that is under way, from 0.
    pub epoch: u32,
    /// Mean loss of the last finished epoch.
    pub loss: Option<f64>,
}

/// Writes one event to standard output at once.
///
/// # Errors
/// When nobody reads any more, which ends a run whose comparison is gone.
pub fn send(event: &Event) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(event)
        .map_err(|error| Failure::failed(format_args!("cannot describe the run: {error}")))?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(|error| Failure::stdout(&error))
}
