//! Random numbers of one transform of one sample.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::SamplePlace;
use crate::producers::sample_seed;

/// Numbers that depend on seed, epoch, index and the transform's place in the list alone: what
/// one transform draws does not change what the next one does.
pub(super) struct Numbers(ChaCha8Rng);

impl Numbers {
    pub(super) fn new(seed: u64, place: SamplePlace, transform: usize) -> Self {
        // A data set's index fits 32 bits.
        let seed = sample_seed(seed, place.epoch, place.index as u32);
        let mut numbers = ChaCha8Rng::seed_from_u64(seed);
        numbers.set_stream(transform as u64);
        Numbers(numbers)
    }

    /// At least 0 and below 1, a multiple of 2^-24.
    pub(super) fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 / (1 << 24) as f32
    }

    /// Between `-most` and `most`.
    pub(super) fn within(&mut self, most: f32) -> f32 {
        (2.0 * self.unit() - 1.0) * most
    }

    /// True in that share of the cases.
    pub(super) fn happens(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// From 0 to `most`, each equally likely but for 2^-32 of them.
    pub(super) fn up_to(&mut self, most: usize) -> usize {
        let bound = most as u64 + 1;
        ((u64::from(self.0.next_u32()) * bound) >> 32) as usize
    }

    /// Of the beta distribution with both parameters `alpha`, at most 1 (M. D. Jöhnk, "Erzeugung
    /// von betaverteilten und gammaverteilten Zufallszahlen", 1964).
    pub(super) fn beta(&mut self, alpha: f32) -> f32 {
        loop {
            let [x, y] = [0; 2].map(|_| f64::from(self.unit()).powf(1.0 / f64::from(alpha)));
            let sum = x + y;
            if sum > 0.0 && sum <= 1.0 {
                return (x / sum) as f32;
            }
        }
    }
}
