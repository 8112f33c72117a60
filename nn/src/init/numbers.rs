//! Random numbers of one parameter.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::Element;

/// Sets these numbers apart from others drawn under the same seed.
const PURPOSE: &[u8; 24] = b"millrace initial values\0";

/// The numbers of the parameter that has a given name, under a given seed.
///
/// They are those of ChaCha with 8 rounds: the block function of a key, a stream and a counter. The
/// first key is the seed (little-endian) and a fixed text. The length of the name and then each 8
/// bytes of it (little-endian, filled up with zeros) are taken as a stream, whose first 32 bytes
/// are the next key; the numbers are stream 0 of the last key.
pub(super) struct Numbers(ChaCha8Rng);

impl Numbers {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..].copy_from_slice(PURPOSE);
        let words = name.as_bytes().chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        for word in [name.len() as u64].into_iter().chain(words) {
            let mut numbers = ChaCha8Rng::from_seed(key);
            numbers.set_stream(word);
            numbers.fill_bytes(&mut key);
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A number from 0 on, below 1: a multiple of 2^-53.
    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `values` with numbers from `low` to `high`, each as likely as any other.
    pub(super) fn uniform<E: Element>(&mut self, low: f64, high: f64, values: &mut [E]) {
        for value in values {
            *value = E::narrow(low + (high - low) * self.share());
        }
    }

    /// Fills `values` with normally distributed numbers, two from each two drawn (G. Box and
    /// M. Muller, "A note on the generation of random normal deviates", 1958). The functions are
    /// those of a library in Rust, not of the system, which would round otherwise elsewhere.
    pub(super) fn normal<E: Element>(&mut self, mean: f64, deviation: f64, values: &mut [E]) {
        for pair in values.chunks_mut(2) {
            let radius = (-2.0 * libm::log(1.0 - self.share())).sqrt();
            let (sine, cosine) = libm::sincos(TAU * self.share());
            for (value, normal) in pair.iter_mut().zip([radius * cosine, radius * sine]) {
                *value = E::narrow(mean + deviation * normal);
            }
        }
    }
}
