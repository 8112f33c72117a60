//! Values left out at random.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Backward, Config, Draw, Forward, Layer, Mode, one_input};
use crate::{Element, NnError, Shape};

/// Settings of a [`Dropout`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutConfig {
    /// Probability that a value is left out, at least 0 and below 1.
    pub rate: f64,
}

impl DropoutConfig {
    /// Leaves out each value with this probability.
    pub const fn new(rate: f64) -> Self {
        Self { rate }
    }

    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` has no values or too many; [`NnError::Setting`] when the
    /// rate is no probability below 1.
    pub fn build(self, name: &str, input: Shape) -> Result<Dropout, NnError> {
        input.check_values(name)?;
        if !(0.0..1.0).contains(&self.rate) {
            return Err(NnError::setting(name, "rate", self.rate, "at least 0 and below 1"));
        }
        Ok(Dropout { rate: self.rate, shape: input })
    }
}

impl Config for DropoutConfig {
    fn kind(&self) -> &'static str {
        "dropout"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

/// A dropout for samples of one shape. In training each value becomes 0 with the probability
/// [`DropoutConfig::rate`], and what is kept is divided by the probability to be kept, so that the
/// mean stays. In evaluation values pass as they are.
///
/// Whether a value is kept is a function of the [`Draw`], of the place of its sample in the batch
/// and of its own place in the sample, whatever shard it is in: the generator is ChaCha with eight
/// rounds, keyed by the draw, with a stream per sample and a word per value. So the backward pass
/// draws again instead of keeping marks.
///
/// ```
/// use millrace_nn::layer::{Alone, Config, DropoutConfig, Mode};
/// use millrace_nn::Shape;
///
/// let shape = Shape::Features(4);
/// let layer = DropoutConfig::new(0.5).build_layer("drop", &[shape])?;
/// let mut dropout = Alone::new(layer, &[shape], Vec::new());
/// let y = dropout.forward(Mode::train(1), &[&[1.0; 4]]);
/// assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
/// assert_eq!(dropout.backward(&[1.0; 4]).x, [y]);
/// assert_eq!(dropout.forward(Mode::Evaluate, &[&[1.0; 4]]), [1.0; 4]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    rate: f64,
    shape: Shape,
}

impl Dropout {
    /// Scales what is kept, and sets to 0 what is not.
    fn apply<E: Element>(&self, mode: Mode, values: &mut [E]) {
        let Mode::Train(draw) = mode else { return };
        let scale = E::narrow(1.0 / (1.0 - self.rate));
        // Below 2^32, as the rate is below 1: the largest rates leave one word in 2^32.
        let dropped = (self.rate * 2f64.powi(32)) as u32;
        let mut words = generator(draw);
        for (sample, values) in values.chunks_exact_mut(self.shape.len()).enumerate() {
            words.set_stream(u64::from(draw.first) + sample as u64);
            words.set_word_pos(0);
            for value in values {
                *value = if words.next_u32() < dropped { E::zero() } else { *value * scale };
            }
        }
    }
}

/// The words of a layer in a batch. Every part of the draw has bytes of its own in the key.
fn generator(draw: Draw) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&draw.seed.to_le_bytes());
    key[8..12].copy_from_slice(&draw.epoch.to_le_bytes());
    key[12..16].copy_from_slice(&draw.batch.to_le_bytes());
    key[16..20].copy_from_slice(&draw.layer.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

impl<E: Element> Layer<E> for Dropout {
    fn kind(&self) -> &'static str {
        "dropout"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn in_place(&self) -> bool {
        true
    }

    fn draws(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, E>) {
        self.apply(io.mode, io.y);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        self.apply(io.mode, io.dx[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use proptest::prelude::*;

    fn mask(len: usize, rate: f64, draw: Draw, samples: usize) -> Vec<f32> {
        let layer = DropoutConfig::new(rate).build("drop", Shape::Features(len)).unwrap();
        let mut values = vec![1.0; samples * len];
        layer.apply(Mode::Train(draw), &mut values);
        values
    }

    #[test]
    fn gradients_match_finite_differences() {
        for shape in [Shape::image(3, 2, 5), Shape::image(17, 1, 1), Shape::Features(1)] {
            let layer = DropoutConfig::new(0.4).build("drop", shape).unwrap();
            check_gradients(Arc::new(layer), &[shape], 3);
        }
    }

    #[test]
    fn a_sample_has_the_same_mask_in_any_shard() {
        let whole = mask(17, 0.5, Draw::default(), 5);
        for first in 0..5 {
            let shard = mask(17, 0.5, Draw { first, ..Draw::default() }, 5 - first as usize);
            assert_eq!(shard, whole[17 * first as usize..], "from sample {first}");
        }
        let samples: std::collections::HashSet<Vec<u32>> =
            whole.chunks(17).map(|sample| sample.iter().map(|v| v.to_bits()).collect()).collect();
        assert_eq!(samples.len(), 5, "each sample has a mask of its own");
    }

    #[test]
    fn every_part_of_the_draw_counts() {
        let none = Draw::default();
        let draws = [
            none,
            Draw { seed: 1, ..none },
            Draw { seed: 1 << 32, ..none },
            Draw { epoch: 1, ..none },
            Draw { batch: 1, ..none },
            Draw { layer: 1, ..none },
            Draw { first: 1, ..none },
        ];
        for (i, &a) in draws.iter().enumerate() {
            for &b in &draws[..i] {
                assert_ne!(mask(64, 0.5, a, 1), mask(64, 0.5, b, 1), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn the_rate_is_the_share_left_out_and_the_mean_stays() {
        let values = mask(1000, 0.3, Draw::default(), 100);
        let share = values.iter().filter(|&&v| v == 0.0).count() as f64 / 1e5;
        // Seven standard deviations; the words are the same in every run.
        assert!((share - 0.3).abs() < 0.01, "{share}");
        let mean = values.iter().map(|v| v.widen()).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.015, "{mean}");
        assert_eq!(mask(100, 0.0, Draw::default(), 1), [1.0; 100]);
    }

    proptest! {
        #[test]
        fn any_rate_is_built_or_refused(rate in prop_oneof![proptest::num::f64::ANY, -1.0..2.0]) {
            let built = DropoutConfig::new(rate).build("drop", Shape::Features(2));
            prop_assert_eq!(built.is_ok(), (0.0..1.0).contains(&rate));
        }
    }
}
