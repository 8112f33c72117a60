//! What a loader is told.

use crate::BadSamples;
use crate::error::LoaderError;

/// How a [`Loader`](crate::Loader) cuts a data set into batches, and how much memory it takes.
///
/// ```
/// use millrace_loader::LoaderConfig;
///
/// let config = LoaderConfig { batch_size: 32, shuffle: true, ..LoaderConfig::default() };
/// assert_eq!(config.epochs, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Samples of a batch; the last batch of an epoch has what is left. At least 1; 10 by
    /// default.
    pub batch_size: usize,
    /// Into how many shards a batch is cut, each loaded by a task of its own; a batch of fewer
    /// samples has one for each. From 1 to 65536; 1 by default.
    pub shards: usize,
    /// How often the data set is gone through; 1 by default.
    pub epochs: u32,
    /// What the order of the samples depends on, with `shuffle`; 0 by default.
    pub seed: u64,
    /// Whether each epoch takes the samples in another order
    /// ([`sample_order`](crate::sample_order)); else they come as in the data set. Off by
    /// default.
    pub shuffle: bool,
    /// Slots of the kind [`Advanced`](crate::LoaderKind::Advanced); at least 2, 3 by default.
    /// A trainer that lets `d` batches be in work at once never waits for a ring of `d` + 2.
    pub ring: usize,
    /// The most bytes that the slots for images may take together; no limit by default.
    pub limit: Option<usize>,
    /// What to do about a sample that cannot be decoded; the load fails by default.
    pub bad_samples: BadSamples,
}

impl Default for LoaderConfig {
    fn default() -> Self {
        LoaderConfig {
            batch_size: 10,
            shards: 1,
            epochs: 1,
            seed: 0,
            shuffle: false,
            ring: 3,
            limit: None,
            bad_samples: BadSamples::Fail,
        }
    }
}

/// The most shards: tasks carry the shard's number in 16 bits.
const MAX_SHARDS: usize = 1 << 16;

impl LoaderConfig {
    /// Checks the settings against a data set, and returns the number of batches of a run.
    pub(crate) fn check(&self, samples: usize) -> Result<u32, LoaderError> {
        if self.batch_size == 0 {
            return Err(LoaderError::EmptyBatches);
        }
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(LoaderError::Shards { asked: self.shards, most: MAX_SHARDS });
        }
        if self.ring < 2 {
            return Err(LoaderError::Ring { asked: self.ring });
        }
        let per_epoch = samples.div_ceil(self.batch_size);
        u32::try_from(per_epoch)
            .ok()
            .and_then(|per_epoch| per_epoch.checked_mul(self.epochs))
            .ok_or(LoaderError::TooManyBatches { per_epoch, epochs: self.epochs })
    }
}
