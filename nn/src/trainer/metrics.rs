//! Loss and accuracy of an epoch.

use millrace_arena::Sharded;

use super::{BatchPlace, Trainer};
use crate::NnError;
use crate::loss::Partial;
use crate::metrics::EpochSums;

/// Loss and accuracy of the batches of an epoch, each taken before the update by that batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochMetrics {
    /// Batches submitted for the epoch so far.
    pub batches: u64,
    /// Their samples.
    pub samples: u64,
    /// The mean over the batches of the mean loss of each. A last, smaller batch counts as much as
    /// any other, so its samples weigh more; where all batches are equal, this is the mean over the
    /// samples.
    pub loss: f64,
    /// The mean over the batches of the share of samples that the network got right, weighted
    /// likewise.
    pub accuracy: f64,
}

/// Adds a batch to the sums of its epoch, the contributions of its shards in order.
fn add(sums: &mut EpochSums, partials: &[Partial], samples: usize) {
    let mut batch = Partial::default();
    partials.iter().for_each(|&partial| batch += partial);
    sums.batches += 1;
    sums.samples += samples as u64;
    sums.loss += batch.mean();
    sums.accuracy += batch.accuracy();
}

impl Trainer {
    /// Submits the task that adds a batch to its epoch.
    pub(super) fn submit_metrics(
        &mut self,
        place: BatchPlace,
        partials: Sharded<Partial>,
        samples: usize,
    ) -> Result<(), NnError> {
        let layer = self.network.layers().len();
        let (sums, fresh) = match self.epochs.get(&place.epoch) {
            Some(&sums) => (sums, false),
            None => (self.weights.alloc(1)?, true),
        };
        let access = (partials.whole().read(), sums.write());
        self.at(Some(place.index), layer, 0).task("metrics").spawn(
            access,
            move |(partials, sums)| {
                if fresh {
                    sums[0] = EpochSums::default();
                }
                add(&mut sums[0], partials, samples);
            },
        )?;
        self.epochs.insert(place.epoch, sums);
        Ok(())
    }

    /// Loss and accuracy of the batches of `epoch` that were submitted so far.
    ///
    /// The call waits for the loss of the last of them, and for nothing else: after the first batch
    /// of the next epoch was submitted, the workers have something to do meanwhile.
    ///
    /// # Errors
    /// [`NnError::Setting`] when no batch was submitted for `epoch`; an error of the runtime when a
    /// task failed.
    pub fn epoch_metrics(&self, epoch: u32) -> Result<EpochMetrics, NnError> {
        let Some(sums) = self.epochs.get(&epoch) else {
            let wanted = "an epoch of which a batch was submitted";
            return Err(NnError::setting("trainer", "epoch", epoch, wanted));
        };
        let EpochSums { batches, samples, loss, accuracy } = sums.acquire()?[0];
        let mean = |sum: f64| sum / batches as f64;
        Ok(EpochMetrics { batches, samples, loss: mean(loss), accuracy: mean(accuracy) })
    }
}
