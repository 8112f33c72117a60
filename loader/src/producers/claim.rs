//! What a producer is asked for, and which sample comes after which.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::{LastBatch, ProducersConfig};
use super::error::ProducersError;
use crate::sample_order;

/// What a producer is asked for. The bytes that it makes must depend on this alone; then the
/// stream is the same for any number and kind of producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The epoch, counted from 0.
    pub epoch: u32,
    /// The sample, from 0 up to the number of samples.
    pub index: u32,
    /// Where random numbers of this sample begin: [`sample_seed`] of the run's seed.
    pub seed: u64,
}

/// The seed of one sample in one epoch, so that no two samples draw the same random numbers.
///
/// Each argument in turn is added to the state and mixed by the finaliser of SplitMix64 (G. L.
/// Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014).
///
/// ```
/// use millrace_loader::producers::sample_seed;
///
/// assert_ne!(sample_seed(1, 0, 5), sample_seed(1, 1, 5));
/// assert_eq!(sample_seed(0, 0, 0), 0x2382_75bc_38fc_be91);
/// ```
pub fn sample_seed(seed: u64, epoch: u32, index: u32) -> u64 {
    [seed, epoch.into(), index.into()]
        .into_iter()
        .fold(0, |state, part| mix(state.wrapping_add(part)))
}

fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where a stream goes on after an interruption: everything that is to be remembered, for any
/// number of samples, epochs and producers.
///
/// [`Producers::position`](super::Producers::position) gives it,
/// [`ProducersConfig::start`] takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch.
    pub epoch: u32,
    /// Batches of this epoch that have been given out.
    pub batches: u32,
    /// The first place of the epoch's order that has not been given out.
    pub next: u32,
    /// Later places that have been given out or skipped, when samples come as they get ready: at
    /// most [`ProducersConfig::window`] of them.
    pub ahead: Vec<u32>,
    /// What stream it is a position of: a digest of the number of samples, seed and shuffle.
    pub stream: u64,
}

/// One place of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) epoch: u32,
    /// Place in the order of the epoch.
    pub(crate) place: u32,
    /// The sample that stands there.
    pub(crate) index: u32,
}

/// The places of a whole run in order, from a position on.
#[derive(Debug)]
pub(crate) struct Stream {
    samples: u32,
    /// Places of an epoch: fewer than samples when the last batch is dropped, more when padded.
    places: u32,
    epochs: u32,
    seed: u64,
    shuffle: bool,
    /// Of the epoch that is being claimed; `None` in the order of the data set.
    order: Option<Arc<[u32]>>,
    epoch: u32,
    place: u32,
}

impl Stream {
    /// `config` has been checked.
    pub(crate) fn new(config: &ProducersConfig, start: &Position) -> Self {
        // Checked: both fit 32 bits.
        let samples = config.samples as u32;
        let batch = config.batch_size as u32;
        let places = match config.last {
            LastBatch::Keep => samples,
            // What is skipped is made up for by the samples that would else be left over.
            LastBatch::Drop if config.bad.skips() => samples,
            LastBatch::Drop => samples / batch * batch,
            LastBatch::Pad => samples.div_ceil(batch) * batch,
        };
        let mut stream = Stream {
            samples,
            places,
            epochs: config.epochs,
            seed: config.seed,
            shuffle: config.shuffle,
            order: None,
            epoch: start.epoch,
            place: start.next,
        };
        stream.enter();
        stream
    }

    /// Samples of the data set.
    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// Places of an epoch.
    pub(crate) fn places(&self) -> u32 {
        self.places
    }

    /// How many of them hold a sample that counts; the others pad the last batch.
    pub(crate) fn counted(&self) -> u32 {
        self.places.min(self.samples)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.epoch >= self.epochs || self.places == 0
    }

    /// Whether that place of that epoch is the next one.
    pub(crate) fn is_next(&self, epoch: u32, place: u32) -> bool {
        (self.epoch, self.place) == (epoch, place) && !self.is_over()
    }

    /// Takes the next place.
    pub(crate) fn next(&mut self) -> Option<Place> {
        if self.is_over() {
            return None;
        }
        let place = self.place % self.samples;
        let index = self.order.as_ref().map_or(place, |order| order[place as usize]);
        let next = Place { epoch: self.epoch, place: self.place, index };
        self.advance();
        Some(next)
    }

    /// The claim of a sample.
    pub(crate) fn claim(&self, epoch: u32, index: u32) -> Claim {
        Claim { epoch, index, seed: sample_seed(self.seed, epoch, index) }
    }

    /// Another sample in place of one that cannot be made, and of `before` others that could
    /// not either; decided by seed, epoch and index.
    pub(crate) fn substitute(&self, place: Place, before: u32) -> u32 {
        let draw = mix(sample_seed(self.seed, place.epoch, place.index) ^ u64::from(before + 1));
        let offset = 1 + draw % u64::from(self.samples.max(2) - 1);
        ((u64::from(place.index) + offset) % u64::from(self.samples)) as u32
    }

    fn advance(&mut self) {
        self.place += 1;
        self.enter();
    }

    /// Enters the next epoch when this one has no place left; draws its order.
    fn enter(&mut self) {
        if self.place >= self.places {
            self.epoch += 1;
            self.place = 0;
            self.order = None;
        }
        if self.shuffle && self.order.is_none() && !self.is_over() {
            self.order = Some(sample_order(self.seed, self.epoch, self.samples as usize).into());
        }
    }
}

/// A digest of what decides the order and the content of a stream.
pub(crate) fn stream_digest(config: &ProducersConfig) -> u64 {
    [config.samples as u64, config.seed, config.shuffle.into()]
        .into_iter()
        .fold(0, |state, part| mix(state ^ part))
}

/// Whether a run can begin there.
pub(crate) fn check_start(
    config: &ProducersConfig,
    start: &Position,
) -> Result<(), ProducersError> {
    let wanted = stream_digest(config);
    if start.stream != wanted {
        return Err(ProducersError::OtherStream { wanted, found: start.stream });
    }
    let in_range = |&place: &u32| place as usize <= config.samples.max(config.batch_size);
    let places = || [&start.next].into_iter().chain(&start.ahead);
    if !places().all(in_range) || !places().is_sorted_by(|a, b| a < b) {
        return Err(ProducersError::NoSuchPosition { next: start.next, samples: config.samples });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by a separate program from the description above.
    #[test]
    fn golden_seeds() {
        assert_eq!(sample_seed(0, 0, 0), 0x2382_75bc_38fc_be91);
        assert_eq!(sample_seed(42, 3, 7), 0x07bd_fa5b_4a5f_0f15);
        assert_eq!(sample_seed(u64::MAX, u32::MAX, u32::MAX), 0xe245_38b3_50aa_fc94);
    }

    #[test]
    fn no_two_samples_of_any_epoch_share_a_seed() {
        let seeds = (0..20).flat_map(|epoch| (0..500).map(move |i| sample_seed(7, epoch, i)));
        assert_eq!(seeds.collect::<std::collections::HashSet<_>>().len(), 10_000);
    }
}
