//! Layers of the tests' own, which use what a layer may ask for.

use std::sync::Arc;

use millrace_nn::layer::{
    Backward, Config, Forward, Layer, Mode, Parameter, Relu, Saved, Uses, one_input,
};
use millrace_nn::{NnError, Shape};

/// The sum of its inputs.
#[derive(Debug)]
pub(crate) struct Sum;

#[derive(Debug)]
struct SumLayer(Shape);

impl Config for Sum {
    fn kind(&self) -> &'static str {
        "sum"
    }

    fn build_layer(&self, _: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        assert!(inputs.iter().all(|input| *input == inputs[0]));
        Ok(Arc::new(SumLayer(inputs[0])))
    }
}

impl Layer<f32> for SumLayer {
    fn kind(&self) -> &'static str {
        "sum"
    }

    fn output(&self) -> Shape {
        self.0
    }

    fn forward(&self, io: Forward<'_, f32>) {
        io.y.fill(0.0);
        for x in io.x {
            io.y.iter_mut().zip(*x).for_each(|(y, x)| *y += x);
        }
    }

    fn backward(&self, io: Backward<'_, '_, f32>) {
        io.dx.iter_mut().filter(|dx| !dx.is_empty()).for_each(|dx| dx.copy_from_slice(io.dy));
    }
}

/// Each value times a weight of its own, which is packed as its square root's square; it can put a
/// ReLU on its output, and keeps the signs of its input as bytes and the input as values.
#[derive(Debug)]
pub(crate) struct Scale;

#[derive(Debug)]
struct ScaleLayer(Shape);

impl Config for Scale {
    fn kind(&self) -> &'static str {
        "scale"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(ScaleLayer(one_input(name, inputs)?)))
    }
}

impl Layer<f32> for ScaleLayer {
    fn kind(&self) -> &'static str {
        "scale"
    }

    fn output(&self) -> Shape {
        self.0
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::weight(&[self.0.len()], [1, 1])]
    }

    fn saved(&self) -> Saved {
        Saved { values: self.0.len(), bytes: 3 }
    }

    fn scratch_len(&self, samples: usize) -> usize {
        samples + 5
    }

    fn packed_len(&self) -> usize {
        1 + self.0.len()
    }

    fn pack(&self, parameters: &[&[f32]], packed: &mut [f32]) {
        packed[0] = 17.0;
        packed[1..].copy_from_slice(parameters[0]);
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, f32>) {
        let len = self.0.len();
        assert_eq!((io.scratch.len(), io.packed[0]), (io.samples + 5, 17.0));
        assert_eq!(
            (io.x[0].len(), io.y.len(), io.saved.len()),
            (io.samples * len, io.samples * len, io.samples * len)
        );
        io.saved.copy_from_slice(io.x[0]);
        for (sample, bytes) in io.saved_bytes.chunks_exact_mut(3).enumerate() {
            bytes.fill(sample as u8);
        }
        for (y, x) in io.y.chunks_exact_mut(len).zip(io.x[0].chunks_exact(len)) {
            y.iter_mut().zip(x).zip(&io.packed[1..]).for_each(|((y, x), w)| *y = x * w);
        }
        if io.relu {
            Relu::new(self.0).forward(io.y);
        }
    }

    fn backward(&self, io: Backward<'_, '_, f32>) {
        let len = self.0.len();
        assert!(io.x.iter().all(|x| x.is_empty()) && io.y.is_empty());
        for (sample, bytes) in io.saved_bytes.chunks_exact(3).enumerate() {
            assert_eq!(bytes, [sample as u8; 3], "bytes of another sample");
        }
        io.dparameters[0].fill(0.0);
        for (dy, x) in io.dy.chunks_exact(len).zip(io.saved.chunks_exact(len)) {
            io.dparameters[0].iter_mut().zip(dy).zip(x).for_each(|((d, dy), x)| *d += dy * x);
        }
        if !io.dx[0].is_empty() {
            for (dx, dy) in io.dx[0].chunks_exact_mut(len).zip(io.dy.chunks_exact(len)) {
                dx.iter_mut().zip(dy).zip(io.parameters[0]).for_each(|((dx, dy), w)| *dx = dy * w);
            }
        }
    }
}

/// Half of each value, or less twice it, as drawn; works in place in both directions.
#[derive(Debug)]
pub(crate) struct Noise;

#[derive(Debug)]
struct NoiseLayer(Shape);

impl NoiseLayer {
    fn apply(&self, mode: Mode, values: &mut [f32]) {
        let Mode::Train(draw) = mode else { return };
        for (i, value) in values.iter_mut().enumerate() {
            let sample = i / self.0.len() + draw.first as usize;
            let place = (sample * self.0.len() + i % self.0.len()) as u64;
            let mix = place
                .wrapping_add(draw.seed << 8)
                .wrapping_add(u64::from(draw.layer) << 16)
                .wrapping_add(u64::from(draw.epoch) << 24)
                .wrapping_add(u64::from(draw.batch) << 32)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *value *= if mix >> 63 == 0 { 0.5 } else { -2.0 };
        }
    }
}

impl Config for Noise {
    fn kind(&self) -> &'static str {
        "noise"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(NoiseLayer(one_input(name, inputs)?)))
    }
}

impl Layer<f32> for NoiseLayer {
    fn kind(&self) -> &'static str {
        "noise"
    }

    fn output(&self) -> Shape {
        self.0
    }

    fn in_place(&self) -> bool {
        true
    }

    fn draws(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, f32>) {
        self.apply(io.mode, io.y);
    }

    fn backward(&self, io: Backward<'_, '_, f32>) {
        self.apply(io.mode, io.dx[0]);
    }
}

/// The square of each value, from which the gradient is found by the input, or (for what is not
/// negative) by the output.
#[derive(Debug)]
pub(crate) struct Square {
    pub(crate) by_output: bool,
}

#[derive(Debug)]
struct SquareLayer {
    shape: Shape,
    by_output: bool,
}

impl Config for Square {
    fn kind(&self) -> &'static str {
        "square"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(SquareLayer { shape: one_input(name, inputs)?, by_output: self.by_output }))
    }
}

impl Layer<f32> for SquareLayer {
    fn kind(&self) -> &'static str {
        "square"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn uses(&self) -> Uses {
        Uses { x: !self.by_output, y: self.by_output }
    }

    fn in_place(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, f32>) {
        io.y.iter_mut().for_each(|y| *y *= *y);
    }

    fn backward(&self, io: Backward<'_, '_, f32>) {
        let root = |i: usize| if self.by_output { io.y[i].sqrt() } else { io.x[0][i] };
        io.dx[0].iter_mut().enumerate().for_each(|(i, dx)| *dx *= 2.0 * root(i));
    }
}
