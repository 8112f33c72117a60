//! What a run is at, beside its tensors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::{EpochRecord, EpochSums};
use crate::{Clip, NnError, Optimiser, Schedule};

/// Everything that decides how a run goes on, but for the values of its tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The description of the network, as text.
    pub network: String,
    /// How parameters are updated.
    pub optimiser: Optimiser,
    /// How the step size changes.
    pub schedule: Schedule,
    /// How gradients are clipped, if they are.
    pub clip: Option<Clip>,
    /// How far the run is.
    pub progress: Progress,
    /// The seed of the run, and others by what they are for.
    pub seeds: BTreeMap<String, u64>,
    /// What came of the epochs that are over, the first one first.
    pub epochs: Vec<EpochRecord>,
    /// The sums of the epoch that is not over, if batches of it were trained.
    pub sums: Option<EpochSums>,
}

/// How far a run is: the batch that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The epoch of the next batch, 0 for the first.
    pub epoch: u32,
    /// Its place in the epoch, 0 for the first.
    pub batch: u32,
    /// Updates so far.
    pub updates: u64,
}

impl State {
    /// Checks the settings.
    pub(super) fn check(&self) -> Result<(), NnError> {
        self.optimiser.check()?;
        self.schedule.check()?;
        self.clip.map_or(Ok(()), |clip| clip.check())
    }
}
