//! The losses: what tells how far the output of a network is from what is wanted.
//!
//! A loss is built once, by its settings (`...Config`), for the shape of the network's output. From
//! then on it is a [`Loss`]: an object without state that computes on the contiguous samples of a
//! shard, allocates nothing, and gives the same bits on whatever thread it runs.
//!
//! # The mean over a batch
//! The loss of a batch is a weighted mean over its samples (or pixels, or values), as everywhere: the
//! sum of the losses over the sum of their weights. The weights may depend on the targets: a pixel
//! without a class weighs nothing, a rare class may weigh more. A shard knows only its own, so a
//! gradient needs the weight of the whole batch first: it is the same for every batch of that size
//! if the loss has a [`sample_weight`](Loss::sample_weight), else the sum of the
//! [`weight`](Loss::weight) of its shards. A batch that weighs nothing has loss 0 and gradient 0.
//!
//! # Targets
//! What a sample is compared with is a [`Target`]: numbers of classes or values, as
//! [`wants`](Loss::wants) tells. If the output is an image, class numbers lie row by row, one per
//! place, and values plane by plane, as files and loaders have them, although the output itself is
//! stored channels last.
//!
//! ```
//! use millrace_nn::Shape;
//! use millrace_nn::loss::{Compared, Loss, SoftmaxCrossEntropyConfig, Target};
//!
//! // Two classes for each of the two pixels of an image; the second has none.
//! let output = Shape::image(2, 1, 2);
//! let loss = SoftmaxCrossEntropyConfig::new().ignore(255).build(output)?;
//! let logits = [0.5f32, 0.5, 3.0, 0.0];
//! let target = Target::Classes(&[1, 255]);
//! let compared = Compared { output: &logits, target, first: 0 };
//! let mut gradient = [0.0; 4];
//! let partial = loss.forward_backward(compared, loss.weight(1, target), &mut gradient)?;
//! assert_eq!((partial.mean(), partial.weight), (2f64.ln(), 1.0));
//! assert_eq!(gradient, [0.5, -0.5, 0.0, 0.0]);
//! # Ok::<(), millrace_nn::NnError>(())
//! ```

mod by_value;
#[cfg(test)]
mod check;
mod softmax_cross_entropy;

use std::fmt::Debug;
use std::ops::AddAssign;

use bytemuck::{Pod, Zeroable};

pub use by_value::{BinaryCrossEntropyConfig, ByValue, MeanSquaredErrorConfig};
pub use softmax_cross_entropy::{SoftmaxCrossEntropy, SoftmaxCrossEntropyConfig};

use crate::{Element, NnError, Shape};

/// What tells how far an output is from what is wanted; see the [module](self).
pub trait Loss<E: Element>: Debug + Send + Sync + 'static {
    /// What kind of loss it is, such as `softmax_cross_entropy`. Errors show it.
    fn kind(&self) -> &'static str;

    /// What each sample is compared with.
    fn wants(&self) -> Wanted;

    /// The weight of every sample, if it does not depend on its target.
    fn sample_weight(&self) -> Option<f64>;

    /// The weight of `samples` samples, by which the sum of their losses is to be divided. What
    /// [`forward`](Self::forward) refuses weighs nothing.
    fn weight(&self, samples: usize, target: Target<'_, E>) -> f64;

    /// What the samples of a shard contribute to their batch.
    ///
    /// # Errors
    /// [`NnError::Label`] for a class that does not exist.
    ///
    /// # Panics
    /// When the lengths do not fit each other, or the target is of the other sort.
    fn forward(&self, shard: Compared<'_, E>) -> Result<Partial, NnError>;

    /// The same, and the gradient of the mean loss of the batch by the output, which is
    /// overwritten. `weight` is that of the whole batch.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    fn forward_backward(
        &self,
        shard: Compared<'_, E>,
        weight: f64,
        gradient: &mut [E],
    ) -> Result<Partial, NnError>;
}

/// What a loss wants of each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The number of a class, for each of some places.
    Classes {
        /// Numbers per sample: 1, or one per pixel.
        places: usize,
        /// How many classes there are.
        classes: usize,
        /// The number of what has no class.
        ignore: Option<u8>,
    },
    /// So many values.
    Values(usize),
}

/// What the output of some samples is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target<'a, E> {
    /// Numbers of classes, counted from 0.
    Classes(&'a [u8]),
    /// Values.
    Values(&'a [E]),
}

/// The samples of a shard and what they are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a, E> {
    /// What the network gives: samples x values of its output.
    pub output: &'a [E],
    /// What is wanted: samples x what [`Loss::wants`] tells.
    pub target: Target<'a, E>,
    /// Place of the first sample in its batch, for errors.
    pub first: usize,
}

/// What a shard contributes to the loss and the accuracy of its batch, as plain memory for tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Partial {
    /// Sum of the losses of the samples, each times its weight.
    pub loss: f64,
    /// Sum of the weights.
    pub weight: f64,
    /// How many samples, pixels or values the network gets right.
    pub correct: u64,
    /// Of how many: 0 for a loss that knows no right and wrong.
    pub counted: u64,
}

impl Partial {
    /// The mean loss; 0 of nothing.
    pub fn mean(&self) -> f64 {
        if self.weight == 0.0 { 0.0 } else { self.loss / self.weight }
    }

    /// The share that the network gets right; 0 of nothing.
    pub fn accuracy(&self) -> f64 {
        if self.counted == 0 { 0.0 } else { self.correct as f64 / self.counted as f64 }
    }
}

impl AddAssign for Partial {
    fn add_assign(&mut self, other: Self) {
        self.loss += other.loss;
        self.weight += other.weight;
        self.correct += other.correct;
        self.counted += other.counted;
    }
}

/// By what a gradient is multiplied to be that of the mean: 0 if nothing weighs.
fn scale(weight: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { 1.0 / weight }
}

/// Which of some values is the largest: the first, if several are, or if it is not a number.
pub(crate) fn first_largest<E: Element>(values: impl Iterator<Item = E>) -> usize {
    let (mut best, mut largest) = (0, E::nan());
    for (i, value) in values.enumerate() {
        if i == 0 || value > largest {
            (best, largest) = (i, value);
        }
    }
    best
}

/// Values of a place, and places.
const fn channels_and_places(output: Shape) -> (usize, usize) {
    match output {
        Shape::Features(features) => (features, 1),
        Shape::Image { channels, height, width } => (channels, height * width),
    }
}

/// Refuses weights that are not one per class, or without meaning.
fn check_weights(
    kind: &str,
    setting: &'static str,
    weights: &[f64],
    classes: usize,
) -> Result<(), NnError> {
    if weights.len() != classes {
        let got = format!("{} numbers", weights.len());
        return Err(NnError::setting(kind, setting, got, "one per class"));
    }
    match weights.iter().find(|weight| !(0.0..f64::INFINITY).contains(*weight)) {
        Some(bad) => Err(NnError::setting(kind, setting, bad, "at least 0 and finite")),
        None => Ok(()),
    }
}
