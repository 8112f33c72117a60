//! A layer by itself.

use std::sync::Arc;

use super::{Backward, Draw, Forward, Layer, Mode, Wide};
use crate::{Element, Shape};

/// Runs one layer on memory of its own, to try it or to test it.
///
/// It is strict where a trainer would be generous: what a layer must not rely on is not a number,
/// what it does not use is empty, and lengths are exact. So a layer that breaks the
/// [contract](super) shows here.
///
/// ```
/// use std::sync::Arc;
/// use millrace_nn::Shape;
/// use millrace_nn::layer::{Alone, MaxPool2dConfig, Mode};
///
/// let shape = Shape::image(1, 2, 2);
/// let layer = MaxPool2dConfig::new([2, 2]).build("pool", shape)?;
/// let mut pool = Alone::new(Arc::new(layer), &[shape], Vec::new());
/// assert_eq!(pool.forward(Mode::Evaluate, &[&[1.0f32, 5.0, 3.0, 2.0]]), [5.0]);
/// assert_eq!(pool.backward(&[0.5]).x, [[0.0, 0.5, 0.0, 0.0]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct Alone<E: Element> {
    layer: Arc<dyn Layer<E>>,
    inputs: Vec<usize>,
    parameters: Vec<Vec<E>>,
    packed: Vec<E>,
    state: Vec<Vec<E>>,
    relu: bool,
    last: Last<E>,
}

/// What the last forward pass left.
#[derive(Debug)]
struct Last<E> {
    samples: usize,
    mode: Mode,
    x: Vec<Vec<E>>,
    y: Vec<E>,
    saved: Vec<E>,
    saved_bytes: Vec<u8>,
    total: Vec<f64>,
}

/// The gradients that a backward pass gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients<E> {
    /// By each input.
    pub x: Vec<Vec<E>>,
    /// By each parameter.
    pub parameters: Vec<Vec<E>>,
}

impl<E: Element> Alone<E> {
    /// A layer that was built for samples of these shapes, with these values of its parameters.
    ///
    /// # Panics
    /// When the parameters have not the lengths that the layer tells.
    pub fn new(layer: Arc<dyn Layer<E>>, inputs: &[Shape], parameters: Vec<Vec<E>>) -> Self {
        let told: Vec<usize> = layer.parameters().iter().map(super::Parameter::len).collect();
        let given: Vec<usize> = parameters.iter().map(Vec::len).collect();
        assert_eq!(given, told, "{}: lengths of the parameters", layer.kind());
        let mut packed = vec![E::nan(); layer.packed_len()];
        layer.pack(&slices(&parameters), &mut packed);
        let last = Last {
            samples: 0,
            mode: Mode::Evaluate,
            x: Vec::new(),
            y: Vec::new(),
            saved: Vec::new(),
            saved_bytes: Vec::new(),
            total: Vec::new(),
        };
        let state = layer.state();
        let state = state.iter().map(|state| vec![E::narrow(state.initial); state.len]).collect();
        let inputs = inputs.iter().map(Shape::len).collect();
        Self { layer, inputs, parameters, packed, state, relu: false, last }
    }

    /// The same with a rectified linear unit on the output of every forward pass.
    ///
    /// # Panics
    /// When the layer does not [fuse](Layer::fuses_relu) one.
    #[must_use]
    pub fn relu(mut self) -> Self {
        assert!(self.layer.fuses_relu(), "{}: fuses no relu", self.layer.kind());
        self.relu = true;
        self
    }

    /// What the layer has learned from the batches of its forward passes in training.
    pub fn state(&self) -> &[Vec<E>] {
        &self.state
    }

    /// Changes the parameters: `change` gets each in turn.
    pub fn parameters_mut(&mut self, change: impl FnMut(&mut [E])) {
        self.parameters.iter_mut().map(Vec::as_mut_slice).for_each(change);
        self.layer.pack(&slices(&self.parameters), &mut self.packed);
    }

    /// The output for these inputs, which are a whole batch.
    ///
    /// # Panics
    /// When the lengths do not fit the shapes.
    pub fn forward(&mut self, mode: Mode, x: &[&[E]]) -> Vec<E> {
        assert_eq!(x.len(), self.inputs.len(), "{}: number of inputs", self.layer.kind());
        let samples = x[0].len() / self.inputs[0];
        for (x, len) in x.iter().zip(&self.inputs) {
            assert_eq!(x.len(), samples * len, "{}: length of an input", self.layer.kind());
        }
        let saved = self.layer.saved();
        self.last = Last {
            samples,
            mode,
            x: x.iter()
                .map(|x| if self.layer.uses().x { x.to_vec() } else { Vec::new() })
                .collect(),
            y: vec![E::nan(); samples * self.layer.output().len()],
            saved: vec![E::nan(); samples * saved.values],
            saved_bytes: vec![u8::MAX; samples * saved.bytes],
            total: self.total(mode, x),
        };
        let state = if mode == Mode::Evaluate { slices(&self.state) } else { Vec::new() };
        let in_place = self.layer.in_place();
        if in_place {
            self.last.y.copy_from_slice(x[0]);
        }
        self.layer.forward(Forward {
            samples,
            mode,
            x: if in_place { &[] } else { x },
            y: &mut self.last.y,
            parameters: &slices(&self.parameters),
            packed: &self.packed,
            state: &state,
            wide: Wide { forward: &self.last.total, ..Wide::default() },
            saved: &mut self.last.saved,
            saved_bytes: &mut self.last.saved_bytes,
            scratch: &mut vec![E::nan(); self.layer.scratch_len(samples)],
            relu: self.relu,
        });
        self.last.y.clone()
    }

    /// What the layer makes of the batch as a whole, and learns from it.
    fn total(&mut self, mode: Mode, x: &[&[E]]) -> Vec<f64> {
        let Some(wide) = self.layer.batch_wide().filter(|_| mode != Mode::Evaluate) else {
            return Vec::new();
        };
        let mut total = vec![f64::NAN; wide.forward_len()];
        wide.forward_part(x[0], &mut total);
        let mut state: Vec<&mut [E]> = self.state.iter_mut().map(Vec::as_mut_slice).collect();
        wide.learn(&total, &mut state);
        total
    }

    /// The gradients at the inputs of the last forward pass, from that by its output.
    ///
    /// # Panics
    /// When the length does not fit the output of the last forward pass.
    pub fn backward(&mut self, dy: &[E]) -> Gradients<E> {
        let Last { samples, mode, x, y, saved, saved_bytes, total } = &self.last;
        assert_eq!(dy.len(), y.len(), "{}: length of the gradient", self.layer.kind());
        let in_place = self.layer.in_place();
        let mut gradients = Gradients {
            x: self.inputs.iter().map(|len| vec![E::nan(); samples * len]).collect(),
            parameters: self.parameters.iter().map(|values| vec![E::nan(); values.len()]).collect(),
        };
        if in_place {
            gradients.x[0].copy_from_slice(dy);
        }
        let mut part = Vec::new();
        if let Some(wide) = self.layer.batch_wide() {
            part.resize(wide.backward_len(), f64::NAN);
            wide.backward_part(&x[0], dy, total, &mut part);
        }
        let mut dx: Vec<&mut [E]> = gradients.x.iter_mut().map(Vec::as_mut_slice).collect();
        let mut dparameters: Vec<&mut [E]> =
            gradients.parameters.iter_mut().map(Vec::as_mut_slice).collect();
        self.layer.backward(Backward {
            samples: *samples,
            mode: *mode,
            x: &slices(x),
            y: if self.layer.uses().y { y } else { &[] },
            parameters: &slices(&self.parameters),
            packed: &self.packed,
            wide: Wide { forward: total, backward: &part, part: &part },
            saved,
            saved_bytes,
            dy: if in_place { &[] } else { dy },
            dx: &mut dx,
            dparameters: &mut dparameters,
            scratch: &mut vec![E::nan(); self.layer.scratch_len(*samples)],
        });
        gradients
    }
}

impl Mode {
    /// Training, with random numbers drawn from `seed` and from nothing else.
    pub fn train(seed: u64) -> Self {
        Self::Train(Draw { seed, ..Draw::default() })
    }
}

fn slices<E>(values: &[Vec<E>]) -> Vec<&[E]> {
    values.iter().map(Vec::as_slice).collect()
}
