//! Layer normalisation: each sample by itself.

use std::sync::Arc;

use super::planes::turn;
use super::{Backward, Config, Forward, Layer, Parameter, Saved, Uses, one_input};
use crate::kernel::take;
use crate::{Element, NnError, Shape};

/// Settings of a [`LayerNorm`]. The defaults are those of other libraries.
///
/// ```
/// use millrace_nn::layer::{Alone, Config, LayerNormConfig, Mode};
/// use millrace_nn::Shape;
///
/// let shape = Shape::Features(2);
/// let layer = LayerNormConfig { epsilon: 1e-12 }.build_layer("norm", &[shape])?;
/// let mut norm = Alone::new(layer, &[shape], vec![vec![1.0, 2.0], vec![0.0, 5.0]]);
/// let y = norm.forward(Mode::Evaluate, &[&[10.0f32, 30.0]]);
/// assert_eq!(y, [-1.0, 7.0]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormConfig {
    /// Is added to the variance, so that nothing is divided by 0. Default: 1e-5.
    pub epsilon: f64,
}

impl Default for LayerNormConfig {
    fn default() -> Self {
        Self { epsilon: 1e-5 }
    }
}

impl LayerNormConfig {
    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when the shape is empty or too large; [`NnError::Setting`] when the
    /// epsilon is not positive.
    pub fn build(self, name: &str, input: Shape) -> Result<LayerNorm, NnError> {
        input.check_values(name)?;
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(NnError::setting(name, "epsilon", self.epsilon, "a number above 0"));
        }
        Ok(LayerNorm { config: self, shape: input })
    }
}

impl Config for LayerNormConfig {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const KIND: &str = "layer_norm";

/// Normalises all values of a sample together to mean 0 and variance 1, and scales and shifts each
/// by what is learned for its place: a weight and a bias of the shape of the sample, stored as
/// elsewhere (channel, row, column). Sums are in double precision, value after value.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    config: LayerNormConfig,
    shape: Shape,
}

impl LayerNorm {
    /// The settings.
    pub const fn config(&self) -> LayerNormConfig {
        self.config
    }

    /// Values of a place, and places.
    const fn sizes(&self) -> [usize; 2] {
        match self.shape {
            Shape::Image { channels, height, width } => [channels, height * width],
            Shape::Features(features) => [features, 1],
        }
    }
}

impl<E: Element> Layer<E> for LayerNorm {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn parameters(&self) -> Vec<Parameter> {
        let dims = match self.shape {
            Shape::Image { channels, height, width } => vec![channels, height, width],
            Shape::Features(features) => vec![features],
        };
        let len = self.shape.len();
        vec![
            Parameter { dims: dims.clone(), ..Parameter::scale(len) },
            Parameter { dims, ..Parameter::shift(len) },
        ]
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    /// Mean and reciprocal deviation.
    fn saved(&self) -> Saved {
        Saved { values: 2, bytes: 0 }
    }

    fn scratch_len(&self, _: usize) -> usize {
        2 * self.shape.len()
    }

    fn packed_len(&self) -> usize {
        2 * self.shape.len()
    }

    fn pack(&self, parameters: &[&[E]], packed: &mut [E]) {
        let [channels, places] = self.sizes();
        for (values, packed) in parameters.iter().zip(packed.chunks_exact_mut(self.shape.len())) {
            turn(values, channels, places, packed);
        }
    }

    fn forward(&self, io: Forward<'_, E>) {
        let len = self.shape.len();
        let (weight, bias) = io.packed.split_at(len);
        let samples = io.x[0].chunks_exact(len).zip(io.y.chunks_exact_mut(len));
        for ((x, y), saved) in samples.zip(io.saved.chunks_exact_mut(2)) {
            let sum: f64 = x.iter().map(|x| x.widen()).sum();
            let mean = sum / len as f64;
            let squares: f64 = x.iter().map(|x| (x.widen() - mean) * (x.widen() - mean)).sum();
            let scale = 1.0 / (squares / len as f64 + self.config.epsilon).sqrt();
            let (mean, scale) = (E::narrow(mean), E::narrow(scale));
            saved.copy_from_slice(&[mean, scale]);
            for (((y, &x), &weight), &bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                *y = (x - mean) * scale * weight + bias;
            }
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let len = self.shape.len();
        let (weight, mut scratch) = (&io.packed[..len], io.scratch);
        let [dweight, dbias] = [take(&mut scratch, len), take(&mut scratch, len)];
        dweight.fill(E::zero());
        dbias.fill(E::zero());
        let samples = io.x[0].chunks_exact(len).zip(io.dy.chunks_exact(len));
        let mut dx = io.dx[0].chunks_exact_mut(len);
        for ((x, dy), saved) in samples.zip(io.saved.chunks_exact(2)) {
            let [mean, scale] = [saved[0], saved[1]];
            let (mut all, mut along) = (0.0, 0.0);
            for (i, (&x, &dy)) in x.iter().zip(dy).enumerate() {
                let normal = (x - mean) * scale;
                dweight[i] += dy * normal;
                dbias[i] += dy;
                let dy = (dy * weight[i]).widen();
                all += dy;
                along += dy * normal.widen();
            }
            let [all, along] = [all, along].map(|sum| E::narrow(sum / len as f64));
            let Some(dx) = dx.next() else { continue };
            for (((dx, &x), &dy), &weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                *dx = (dy * weight - all - (x - mean) * scale * along) * scale;
            }
        }
        let [channels, places] = self.sizes();
        for (gradient, sums) in io.dparameters.iter_mut().zip([dweight, dbias]) {
            turn(sums, places, channels, gradient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_gradients, numbers};
    use crate::layer::{Alone, Mode};
    use proptest::prelude::*;

    #[test]
    fn gradients_match_finite_differences() {
        for shape in [
            Shape::Features(3),
            Shape::Features(17),
            Shape::image(1, 1, 2),
            Shape::image(3, 4, 1),
            Shape::image(5, 2, 3),
        ] {
            for samples in [1, 4] {
                let layer = LayerNormConfig::default().build("norm", shape).unwrap();
                check_gradients(Arc::new(layer), &[shape], samples);
            }
        }
    }

    #[test]
    fn one_value_alone_becomes_its_shift() {
        let shape = Shape::image(1, 1, 1);
        let layer = Arc::new(LayerNormConfig::default().build("norm", shape).unwrap());
        let mut norm = Alone::<f64>::new(layer, &[shape], vec![vec![3.0], vec![0.25]]);
        assert_eq!(norm.forward(Mode::Evaluate, &[&[7.0, -2.0]]), [0.25, 0.25]);
        assert_eq!(norm.backward(&[1.0, 1.0]).x, [[0.0, 0.0]]);
    }

    #[test]
    fn bad_settings_are_errors() {
        let error = LayerNormConfig { epsilon: 0.0 }.build("norm", Shape::Features(2));
        assert_eq!(error.unwrap_err().to_string(), "norm: epsilon is 0, wanted a number above 0");
        assert!(LayerNormConfig::default().build("norm", Shape::Features(0)).is_err());
    }

    proptest! {
        #[test]
        fn samples_have_mean_0_and_variance_1(
            (channels, height, width) in (2usize..9, 1usize..4, 1usize..4),
            (offset, samples) in (-1e3..1e3f64, 1usize..4),
        ) {
            let shape = Shape::image(channels, height, width);
            let len = shape.len();
            let layer: Arc<dyn Layer<f64>> =
                Arc::new(LayerNormConfig { epsilon: 1e-12 }.build("norm", shape).unwrap());
            prop_assert_eq!(layer.output(), shape);
            let mut norm = Alone::new(layer, &[shape], vec![vec![1.0; len], vec![0.0; len]]);
            let mut x = numbers(samples * len, 1);
            x.iter_mut().for_each(|x| *x += offset);
            for y in norm.forward(Mode::Evaluate, &[&x]).chunks(len) {
                let mean = y.iter().sum::<f64>() / len as f64;
                let square = y.iter().map(|y| y * y).sum::<f64>() / len as f64;
                prop_assert!(mean.abs() < 1e-9 && (square - 1.0).abs() < 1e-6, "{} {}", mean, square);
            }
        }
    }
}
