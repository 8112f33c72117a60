//! What the computations of a layer are handed.

use super::Wide;

/// What [`Layer::backward`](super::Layer::backward) wants to see again of a shard's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The values of the inputs.
    pub x: bool,
    /// The values of the output.
    pub y: bool,
}

/// Memory per sample that forward fills for backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Values of the element type.
    pub values: usize,
    /// Bytes, for indices and marks.
    pub bytes: usize,
}

/// What a computation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Training, with what random numbers are drawn from.
    Train(Draw),
    /// Use of what was learned: nothing is random, and nothing is learned.
    Evaluate,
}

/// What the random numbers of a layer are a function of, beside the place of a value in its sample:
/// so the same training draws the same numbers, whoever computes which shard when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// The seed of the training.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The batch, counted over the whole run.
    pub batch: u32,
    /// Index of the layer in its network.
    pub layer: u32,
    /// Place of the shard's first sample in its batch.
    pub first: u32,
}

/// What [`Layer::forward`](super::Layer::forward) works on.
///
/// [`new`](Self::new) fills in what most layers do not have, so that a call names only the rest:
///
/// ```
/// use millrace_nn::layer::{DenseConfig, Forward, Layer};
/// use millrace_nn::Shape;
///
/// let layer = DenseConfig::new(1).build("sum", Shape::Features(2))?;
/// let (weights, bias) = ([1.0f32, 1.0], [0.5]);
/// let mut y = [0.0; 3];
/// let io = Forward::new(3, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], &mut y);
/// Layer::forward(&layer, Forward { parameters: &[&weights, &bias], ..io });
/// assert_eq!(y, [3.5, 7.5, 11.5]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct Forward<'a, E> {
    /// Samples of the shard.
    pub samples: usize,
    /// What the computation is for.
    pub mode: Mode,
    /// The values of each input; empty for a layer that works in place.
    pub x: &'a [&'a [E]],
    /// The values of the output, which are overwritten.
    pub y: &'a mut [E],
    /// The parameters.
    pub parameters: &'a [&'a [E]],
    /// Their packed form, which [`Layer::pack`](super::Layer::pack) made.
    pub packed: &'a [E],
    /// What the layer has learned from batches, when it is evaluated; empty in training.
    pub state: &'a [&'a [E]],
    /// What the batch came to, in training.
    pub wide: Wide<'a>,
    /// Memory for backward: as many values per sample as [`Saved::values`] tells.
    pub saved: &'a mut [E],
    /// Memory for backward: as many bytes per sample as [`Saved::bytes`] tells.
    pub saved_bytes: &'a mut [u8],
    /// Memory until the call returns.
    pub scratch: &'a mut [E],
    /// Whether a rectified linear unit is to be put on the output. Only a layer that
    /// [fuses](super::Layer::fuses_relu) it is asked to.
    pub relu: bool,
}

impl<'a, E> Forward<'a, E> {
    /// What a layer without parameters or memory of its own gets, to evaluate.
    pub fn new(samples: usize, x: &'a [&'a [E]], y: &'a mut [E]) -> Self {
        Self {
            samples,
            mode: Mode::Evaluate,
            x,
            y,
            parameters: &[],
            packed: &[],
            state: &[],
            wide: Wide::default(),
            saved: &mut [],
            saved_bytes: &mut [],
            scratch: &mut [],
            relu: false,
        }
    }
}

/// What [`Layer::backward`](super::Layer::backward) works on.
#[derive(Debug)]
pub struct Backward<'a, 'g, E> {
    /// Samples of the shard.
    pub samples: usize,
    /// What forward was called with.
    pub mode: Mode,
    /// The values of each input, if [`Uses::x`] asks for them; else each slice is empty.
    pub x: &'a [&'a [E]],
    /// The values of the output, if [`Uses::y`] asks for them; else empty.
    pub y: &'a [E],
    /// The parameters.
    pub parameters: &'a [&'a [E]],
    /// Their packed form, which [`Layer::pack`](super::Layer::pack) made.
    pub packed: &'a [E],
    /// What the batch came to.
    pub wide: Wide<'a>,
    /// What forward saved.
    pub saved: &'a [E],
    /// The bytes that forward saved.
    pub saved_bytes: &'a [u8],
    /// The gradient of the loss by the output; empty for a layer that works in place.
    pub dy: &'a [E],
    /// The gradient by each input, which is overwritten; empty where nobody wants it.
    pub dx: &'a mut [&'g mut [E]],
    /// The gradient by each parameter, which is overwritten.
    pub dparameters: &'a mut [&'g mut [E]],
    /// Memory until the call returns.
    pub scratch: &'a mut [E],
}

impl<'a, 'g, E> Backward<'a, 'g, E> {
    /// What a layer without parameters or memory of its own, that uses neither input nor output,
    /// gets.
    pub fn new(samples: usize, dy: &'a [E], dx: &'a mut [&'g mut [E]]) -> Self {
        Self {
            samples,
            mode: Mode::Evaluate,
            x: &[],
            y: &[],
            parameters: &[],
            packed: &[],
            wide: Wide::default(),
            saved: &[],
            saved_bytes: &[],
            dy,
            dx,
            dparameters: &mut [],
            scratch: &mut [],
        }
    }
}
