//! Fully connected layer.
//!
//! # How it computes
//! A shard of few samples is computed by the loops that the crate's layers share, on the weights
//! where they are; for many samples and a large layer, packing pays and [`gemm`] does the work. The
//! choice depends on the sizes alone.

use super::{Backward, Forward, Layer, Parameter, Uses};
use crate::kernel::{Blocked, Kernel, Unit, block_len, combine_rows, dispatch, dots, take};
use crate::{Element, Matrix, NnError, Shape, gemm};

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

    /// Values of scratch that the two backward computations need for a shard of `samples`.
    pub const fn scratch_len(&self, samples: usize) -> usize {
        let (data, weights) = (block_len(samples, self.outputs), block_len(self.outputs, samples));
        if data > weights { data } else { weights }
    }

    /// Floating point operations of one sample in one direction (forward, by data or by weights).
    pub const fn flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    /// `y = x * weights + bias` for every sample of the shard.
    ///
    /// # Shapes
    /// `x`: samples x inputs; `y`: samples x outputs, overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(&self, x: &[E], weights: &[E], bias: &[E], y: &mut [E]) {
        let samples = self.check(x.len(), y.len(), weights.len(), bias.len());
        if self.packs(samples) {
            for y in y.chunks_exact_mut(self.outputs) {
                y.copy_from_slice(bias);
            }
            let weights = Matrix::new(weights, self.outputs, self.inputs);
            gemm(Matrix::new(x, samples, self.inputs), weights.transposed(), true, y);
        } else {
            dispatch(Product { layer: *self, x, weights, bias, y });
        }
    }

    /// The gradient of the loss by the input, from that by the output.
    ///
    /// # Shapes
    /// `dy`: samples x outputs; `dx`: samples x inputs, overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward_data<E: Element>(
        &self,
        dy: &[E],
        weights: &[E],
        dx: &mut [E],
        scratch: &mut [E],
    ) {
        let samples = self.check(dx.len(), dy.len(), weights.len(), self.bias_len());
        if self.packs(samples) {
            let weights = Matrix::new(weights, self.outputs, self.inputs);
            gemm(Matrix::new(dy, samples, self.outputs), weights, false, dx);
        } else {
            dispatch(BackwardData { layer: *self, dy, weights, dx, scratch });
        }
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
        scratch: &mut [E],
    ) {
        let samples = self.check(x.len(), dy.len(), dweights.len(), dbias.len());
        if self.packs(samples) {
            let x = Matrix::new(x, samples, self.inputs);
            gemm(Matrix::new(dy, samples, self.outputs).transposed(), x, false, dweights);
        } else {
            dispatch(BackwardWeights { layer: *self, x, dy, dweights, scratch });
        }
        dbias.fill(E::zero());
        for dy in dy.chunks_exact(self.outputs) {
            for (dbias, &dy) in dbias.iter_mut().zip(dy) {
                *dbias += dy;
            }
        }
    }

    /// Whether packing pays for a shard of `samples`: measured, see `benches/layers.rs`.
    const fn packs(&self, samples: usize) -> bool {
        samples >= 16 && self.weights_len() >= 1 << 16
    }

    fn check(&self, x: usize, y: usize, weights: usize, bias: usize) -> usize {
        let samples = x / self.inputs;
        assert_eq!(x, samples * self.inputs, "dense: length of the input");
        assert_eq!(y, samples * self.outputs, "dense: length of the output");
        assert_eq!(weights, self.weights_len(), "dense: number of weights");
        assert_eq!(bias, self.bias_len(), "dense: number of biases");
        samples
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

    fn scratch_len(&self, samples: usize) -> usize {
        self.scratch_len(samples)
    }

    fn flops(&self) -> u64 {
        self.flops()
    }

    fn forward(&self, io: Forward<'_, E>) {
        self.forward(io.x[0], io.parameters[0], io.parameters[1], io.y);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let [dweights, dbias] = io.dparameters else { panic!("dense: two gradients") };
        self.backward_weights(io.x[0], io.dy, dweights, dbias, io.scratch);
        if !io.dx[0].is_empty() {
            self.backward_data(io.dy, io.parameters[0], io.dx[0], io.scratch);
        }
    }
}

struct Product<'a, E> {
    layer: Dense,
    x: &'a [E],
    weights: &'a [E],
    bias: &'a [E],
    y: &'a mut [E],
}

impl<E: Element> Kernel for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer: Dense { inputs, outputs }, x, weights, bias, y } = self;
        let samples = x.len() / inputs;
        dots::<U, E>(
            weights,
            x,
            samples,
            |sample| sample * inputs,
            inputs,
            |o, sample, product| {
                y[sample * outputs + o] = bias[o] + product;
            },
        );
    }
}

struct BackwardData<'a, E> {
    layer: Dense,
    dy: &'a [E],
    weights: &'a [E],
    dx: &'a mut [E],
    scratch: &'a mut [E],
}

impl<E: Element> Kernel for BackwardData<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer: Dense { inputs, outputs }, dy, weights, dx, mut scratch } = self;
        let samples = dy.len() / outputs;
        let space = take(&mut scratch, block_len(samples, outputs));
        let rows = Blocked::pack(space, samples, outputs, |sample, o| dy[sample * outputs + o]);
        let at = (0..outputs).map(|o| o * inputs);
        combine_rows::<U, E>(weights, at, rows, inputs, |_| E::zero(), dx);
    }
}

struct BackwardWeights<'a, E> {
    layer: Dense,
    x: &'a [E],
    dy: &'a [E],
    dweights: &'a mut [E],
    scratch: &'a mut [E],
}

impl<E: Element> Kernel for BackwardWeights<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer: Dense { inputs, outputs }, x, dy, dweights, mut scratch } = self;
        let samples = dy.len() / outputs;
        let space = take(&mut scratch, block_len(outputs, samples));
        let rows = Blocked::pack(space, outputs, samples, |o, sample| dy[sample * outputs + o]);
        let at = (0..samples).map(|sample| sample * inputs);
        combine_rows::<U, E>(x, at, rows, inputs, |_| E::zero(), dweights);
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
            let mut scratch = vec![f64::NAN; layer.scratch_len(samples)];
            let loss = |x: &[f64], weights: &[f64], bias: &[f64]| {
                let mut y = vec![f64::NAN; dy.len()];
                layer.forward(x, weights, bias, &mut y);
                y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
            };
            let mut dx = vec![f64::NAN; x.len()];
            layer.backward_data(&dy, &weights, &mut dx, &mut scratch);
            assert_close(&dx, &slope(&x, |x| loss(x, &weights, &bias)), 1e-6);
            let mut dweights = vec![f64::NAN; weights.len()];
            let mut dbias = vec![f64::NAN; bias.len()];
            scratch.fill(f64::NAN);
            layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch);
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
    fn packing_changes_roundings_only() {
        let (inputs, outputs, samples) = (1 << 12, 16, 16);
        let layer = DenseConfig::new(outputs).build("dense", Shape::Features(inputs)).unwrap();
        assert!(layer.packs(samples) && !layer.packs(samples / 2));
        let (x, weights) = (numbers(samples * inputs, 1), numbers(layer.weights_len(), 2));
        let (bias, dy) = (numbers(outputs, 3), numbers(samples * outputs, 4));
        let mut scratch = vec![f64::NAN; layer.scratch_len(samples)];
        // All samples at once are packed, each half is not.
        let mut run = |samples: usize| {
            let (mut y, mut dx) = (vec![f64::NAN; dy.len()], vec![f64::NAN; x.len()]);
            let (mut dw, mut db) = (vec![0.0; weights.len()], vec![0.0; outputs]);
            let shards = x.chunks(samples * inputs).zip(dy.chunks(samples * outputs));
            let out = y.chunks_mut(samples * outputs).zip(dx.chunks_mut(samples * inputs));
            for ((x, dy), (y, dx)) in shards.zip(out) {
                let (mut dws, mut dbs) = (vec![f64::NAN; dw.len()], vec![f64::NAN; db.len()]);
                layer.forward(x, &weights, &bias, y);
                layer.backward_data(dy, &weights, dx, &mut scratch);
                layer.backward_weights(x, dy, &mut dws, &mut dbs, &mut scratch);
                dw.iter_mut().zip(dws).for_each(|(sum, value)| *sum += value);
                db.iter_mut().zip(dbs).for_each(|(sum, value)| *sum += value);
            }
            [y, dx, dw, db]
        };
        for (packed, direct) in run(samples).iter().zip(&run(samples / 2)) {
            assert_close(packed, direct, 1e-11);
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
