//! Fully connected layer.
//!
//! # How it computes
//! Weights, inputs and gradients are read where they are, row by row: forward as dot products of
//! rows, and both gradients as sums of scaled rows. Nothing is packed.

use super::{Backward, Forward, Layer, Parameter, Uses};
use crate::kernel::{Dots, Outer, VectorUnit};
use crate::{Element, NnError, Shape};

/// Settings of a [`Dense`] layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseConfig {
    /// Number of output features.
    pub features: usize,
}

impl DenseConfig {
    /// A layer with this many output features.
    pub const fn new(features: usize) -> Self {
        Self { features }
    }

    /// The layer for rows of features of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is an image; [`NnError::Setting`] when `features` is 0.
    pub fn build(self, name: &str, input: Shape) -> Result<Dense, NnError> {
        let inputs = input.as_features(name)?;
        if self.features == 0 {
            return Err(NnError::setting(name, "features", 0, "at least 1"));
        }
        Shape::image(1, self.features, inputs).check_size(name)?;
        Ok(Dense { inputs, outputs: self.features })
    }
}

/// A fully connected layer. Weights are stored as (output, input), the bias as one value per output.
#[derive(Clone, Copy, Debug)]
pub struct Dense {
    inputs: usize,
    outputs: usize,
}

impl Dense {
    /// The settings.
    pub const fn config(&self) -> DenseConfig {
        DenseConfig { features: self.outputs }
    }

    /// Shape of one sample of the output.
    pub const fn output(&self) -> Shape {
        Shape::Features(self.outputs)
    }

    /// Number of weights: outputs x inputs.
    pub const fn weights_len(&self) -> usize {
        self.outputs * self.inputs
    }

    /// Number of biases: one per output.
    pub const fn bias_len(&self) -> usize {
        self.outputs
    }

    /// Floating point operations of one sample in one direction (forward, by data or by weights).
    pub const fn flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    /// `y = x * weights + bias` for every sample of the shard, and 0 where that is negative if
    /// `relu`.
    ///
    /// # Shapes
    /// `x`: samples x inputs; `y`: samples x outputs, overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(
        &self,
        x: &[E],
        [weights, bias]: [&[E]; 2],
        relu: bool,
        y: &mut [E],
    ) {
        self.check(x.len(), y.len(), weights.len(), bias.len());
        VectorUnit::best().run(Dots {
            left: weights,
            right: x,
            len: self.inputs,
            bias,
            rectify: relu,
            out: y,
        });
    }

    /// The gradient of the loss by the input, from that by the output.
    ///
    /// # Shapes
    /// `dy`: samples x outputs; `dx`: samples x inputs, overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward_data<E: Element>(&self, dy: &[E], weights: &[E], dx: &mut [E]) {
        self.check(dx.len(), dy.len(), weights.len(), self.outputs);
        VectorUnit::best().run(Outer {
            a: dy,
            steps: [self.outputs, 1],
            rows: weights,
            len: self.inputs,
            out: dx,
        });
    }

    /// The gradients of the loss by weights and bias, summed over the samples of the shard.
    ///
    /// # Shapes
    /// `x`: samples x inputs; `dy`: samples x outputs; `dweights` and `dbias` are overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward_weights<E: Element>(
        &self,
        x: &[E],
        dy: &[E],
        dweights: &mut [E],
        dbias: &mut [E],
    ) {
        self.check(x.len(), dy.len(), dweights.len(), dbias.len());
        VectorUnit::best().run(Outer {
            a: dy,
            steps: [1, self.outputs],
            rows: x,
            len: self.inputs,
            out: dweights,
        });
        dbias.fill(E::zero());
        for dy in dy.chunks_exact(self.outputs) {
            for (dbias, &dy) in dbias.iter_mut().zip(dy) {
                *dbias += dy;
            }
        }
    }

    fn check(&self, x: usize, y: usize, weights: usize, bias: usize) {
        let samples = x / self.inputs;
        assert_eq!(x, samples * self.inputs, "dense: length of the input");
        assert_eq!(y, samples * self.outputs, "dense: length of the output");
        assert_eq!(weights, self.weights_len(), "dense: number of weights");
        assert_eq!(bias, self.bias_len(), "dense: number of biases");
    }
}

impl<E: Element> Layer<E> for Dense {
    fn kind(&self) -> &'static str {
        "dense"
    }

    fn output(&self) -> Shape {
        self.output()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let fans = [self.inputs, self.outputs];
        vec![
            Parameter::weight(&[self.outputs, self.inputs], fans),
            Parameter::bias(self.outputs, fans),
        ]
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn flops(&self) -> u64 {
        self.flops()
    }

    fn forward(&self, io: Forward<'_, E>) {
        self.forward(io.x[0], [io.parameters[0], io.parameters[1]], io.relu, io.y);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let [dweights, dbias] = io.dparameters else { panic!("dense: two gradients") };
        self.backward_weights(io.x[0], io.dy, dweights, dbias);
        if !io.dx[0].is_empty() {
            self.backward_data(io.dy, io.parameters[0], io.dx[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, check_gradients, numbers, slope};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_match_finite_differences(
            inputs in 1usize..40,
            outputs in 1usize..12,
            samples in 1usize..7,
        ) {
            let layer = DenseConfig::new(outputs).build("dense", Shape::Features(inputs)).unwrap();
            let x = numbers(samples * inputs, 1);
            let weights = numbers(layer.weights_len(), 2);
            let bias = numbers(outputs, 3);
            let dy = numbers(samples * outputs, 4);
            let loss = |x: &[f64], weights: &[f64], bias: &[f64]| {
                let mut y = vec![f64::NAN; dy.len()];
                layer.forward(x, [weights, bias], false, &mut y);
                y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
            };
            let mut dx = vec![f64::NAN; x.len()];
            layer.backward_data(&dy, &weights, &mut dx);
            assert_close(&dx, &slope(&x, |x| loss(x, &weights, &bias)), 1e-6);
            let mut dweights = vec![f64::NAN; weights.len()];
            let mut dbias = vec![f64::NAN; bias.len()];
            layer.backward_weights(&x, &dy, &mut dweights, &mut dbias);
            assert_close(&dweights, &slope(&weights, |weights| loss(&x, weights, &bias)), 1e-6);
            assert_close(&dbias, &slope(&bias, |bias| loss(&x, &weights, bias)), 1e-6);
        }
    }

    #[test]
    fn as_a_layer_its_gradients_match_finite_differences() {
        for (inputs, outputs, samples) in [(1, 1, 1), (7, 3, 2), (5, 17, 3)] {
            let input = Shape::Features(inputs);
            let layer = DenseConfig::new(outputs).build("dense", input).unwrap();
            check_gradients(Arc::new(layer), &[input], samples);
        }
    }

    #[test]
    fn errors_name_layer_shape_and_need() {
        let build = |features, input| DenseConfig::new(features).build("4 (dense)", input);
        assert_eq!(
            build(10, Shape::image(4, 13, 13)).unwrap_err().to_string(),
            "layer 4 (dense): got shape 4x13x13, wanted a row of features (put a flatten layer before)"
        );
        assert_eq!(
            build(0, Shape::Features(3)).unwrap_err().to_string(),
            "4 (dense): features is 0, wanted at least 1"
        );
        assert!(build(usize::MAX, Shape::Features(3)).is_err());
        assert!(build(1, Shape::Features(0)).is_err());
    }
}
