//! The layers: settings, shapes, and the computation on a shard.
//!
//! # What a layer is
//! A layer is built once, by its settings (`...Config`), for the shapes of its inputs. From then on
//! it is a [`Layer`]: an object without state that tells how much memory its computations need and
//! computes, in both directions, on the contiguous samples of a shard. It knows nothing of tasks,
//! allocates nothing, and gives the same bits for the same shard on whatever thread it runs. All
//! memory comes from whoever calls it: a [`Trainer`](crate::Trainer), or [`Alone`] to try a layer
//! by itself.
//!
//! # How values lie in memory
//! A shard is sample after sample. A sample of shape channels x height x width is stored *channels
//! last*: row by row, column by column, and for each place the values of all channels. So the
//! innermost loop of most layers runs over channels, and a 1x1 convolution is a plain product.
//! Loaders and files know planes (channel, row, column): [`ToChannelsLast`] turns them, and
//! [`Flatten`] gives features in the order of the planes, as every other library does. Parameters
//! keep the order that they have elsewhere, such as (filter, channel, row, column).
//!
//! # The contract
//! 1. [`forward`](Layer::forward) gets the values of the inputs and overwrites that of the output.
//!    What `y`, `saved` and `scratch` held before has no meaning: it may be not a number.
//! 2. [`backward`](Layer::backward) gets the gradient of the loss by the output and overwrites
//!    those by the inputs and by the parameters, summed over the samples of the shard. It sees of
//!    the inputs and the output only what [`uses`](Layer::uses) asks for; other slices are empty.
//!    An empty slice of `dx` means that nobody wants the gradient by that input.
//! 3. What forward leaves in `saved` is there in backward, unchanged.
//! 4. A layer that works [in place](Layer::in_place) has one input. Forward finds it in `y`, and
//!    `x` is empty; backward finds the gradient by the output in `dx[0]`, and `dy` is empty.
//! 5. Lengths are those that the layer told, times the number of samples where that is said. A
//!    layer may panic on others; they are a fault of the caller, never of data.
//! 6. The order of additions is a function of the sizes and of the vector unit alone. The result
//!    of a sample does not depend on the samples beside it, but for layers that are [`BatchWide`]:
//!    they say in parts what of a shard matters to the others.
//!
//! # A layer of one's own
//! ```
//! use std::sync::Arc;
//! use millrace_nn::layer::{Alone, Backward, Forward, Layer, Mode, Uses};
//! use millrace_nn::{Element, Shape};
//!
//! /// The square of each value.
//! #[derive(Debug)]
//! struct Square(Shape);
//!
//! impl<E: Element> Layer<E> for Square {
//!     fn kind(&self) -> &'static str {
//!         "square"
//!     }
//!
//!     fn output(&self) -> Shape {
//!         self.0
//!     }
//!
//!     fn uses(&self) -> Uses {
//!         Uses { x: true, y: false }
//!     }
//!
//!     fn forward(&self, io: Forward<'_, E>) {
//!         io.y.iter_mut().zip(io.x[0]).for_each(|(y, &x)| *y = x * x);
//!     }
//!
//!     fn backward(&self, io: Backward<'_, '_, E>) {
//!         for ((dx, &dy), &x) in io.dx[0].iter_mut().zip(io.dy).zip(io.x[0]) {
//!             *dx = (x + x) * dy;
//!         }
//!     }
//! }
//!
//! let shape = Shape::Features(3);
//! let mut square = Alone::new(Arc::new(Square(shape)), &[shape], Vec::new());
//! assert_eq!(square.forward(Mode::Evaluate, &[&[1.0, 2.0, -3.0]]), [1.0, 4.0, 9.0]);
//! assert_eq!(square.backward(&[1.0, 1.0, 0.5]).x, [[2.0, 4.0, -3.0]]);
//! ```

mod activation;
mod add;
mod alone;
mod average_pool2d;
mod batch_norm;
mod concat;
mod config;
mod conv2d;
mod conv_transpose2d;
mod dense;
mod dropout;
mod flatten;
mod global_max_pool2d;
mod io;
mod layer_norm;
mod max_pool2d;
mod parameter;
mod planes;
mod relu;
mod softmax;
mod upsample;
mod wide;

use std::fmt::Debug;

pub use activation::{Activate, Activation};
pub use add::{Add, AddConfig};
pub use alone::{Alone, Gradients};
pub use average_pool2d::{AveragePool2d, AveragePool2dConfig};
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use concat::{Concat, ConcatConfig};
pub use config::{Config, FlattenConfig, ReluConfig, one_input};
pub use conv_transpose2d::{ConvTranspose2d, ConvTranspose2dConfig};
pub use conv2d::{Conv2d, Conv2dConfig, Padding};
pub use dense::{Dense, DenseConfig};
pub use dropout::{Dropout, DropoutConfig};
pub use flatten::{Flatten, flatten};
pub use global_max_pool2d::{GlobalMaxPool2d, GlobalMaxPool2dConfig};
pub use io::{Backward, Draw, Forward, Mode, Saved, Uses};
pub use layer_norm::{LayerNorm, LayerNormConfig};
pub use max_pool2d::{MaxPool2d, MaxPool2dConfig};
pub use parameter::{Parameter, Role, State};
pub use planes::ToChannelsLast;
pub use relu::Relu;
pub use softmax::{Softmax, SoftmaxConfig};
pub use upsample::{Upsample, UpsampleConfig};
pub use wide::{BatchWide, Wide};
pub(crate) use wide::{Way, combine, part_len};

use crate::{Element, Shape};

/// What a layer does on a shard; see the [module](self) for the contract.
///
/// Only [`kind`](Self::kind), [`output`](Self::output), [`forward`](Self::forward) and
/// [`backward`](Self::backward) have to be given; what the others tell by default fits a layer
/// without parameters, scratch or memory of its own.
pub trait Layer<E: Element>: Debug + Send + Sync + 'static {
    /// What kind of layer it is, such as `conv2d`. Traces and errors show it.
    fn kind(&self) -> &'static str;

    /// Shape of one sample of the output.
    fn output(&self) -> Shape;

    /// The parameters, in the order in which the computations get them. Called when a network is
    /// built and a trainer is made, not per batch.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// What the layer learns from batches, in the order in which [`Forward::state`] has it.
    fn state(&self) -> Vec<State> {
        Vec::new()
    }

    /// What the layer does with a whole batch, if it does.
    fn batch_wide(&self) -> Option<&dyn BatchWide<E>> {
        None
    }

    /// What backward wants to see of inputs and output. What nobody uses is not kept.
    fn uses(&self) -> Uses {
        Uses::default()
    }

    /// Whether both directions work in place; see the contract.
    fn in_place(&self) -> bool {
        false
    }

    /// Memory per sample that forward fills for backward, besides inputs and output.
    fn saved(&self) -> Saved {
        Saved::default()
    }

    /// Values of scratch that each direction needs for a shard of `samples`, at most.
    fn scratch_len(&self, samples: usize) -> usize {
        let _ = samples;
        0
    }

    /// Values of the packed form of the parameters; 0 if there is none.
    fn packed_len(&self) -> usize {
        0
    }

    /// Brings the parameters into the form in which the computations read them fastest. It is
    /// called once after the parameters have changed, and both directions get the result, for every
    /// shard. `packed` holds [`packed_len`](Self::packed_len) values and is overwritten.
    fn pack(&self, parameters: &[&[E]], packed: &mut [E]) {
        let _ = (parameters, packed);
    }

    /// Whether forward can put a rectified linear unit on its output, as
    /// [`Forward::relu`] asks, for less than going over the output again.
    fn fuses_relu(&self) -> bool {
        false
    }

    /// Whether the layer is `max(x, 0)`, which a layer before it may do in its stead.
    fn is_relu(&self) -> bool {
        false
    }

    /// Whether the output is the input, value for value, so that neither direction has anything to
    /// do and none is called.
    fn is_identity(&self) -> bool {
        false
    }

    /// Whether the layer draws random numbers in training; see [`Draw`].
    fn draws(&self) -> bool {
        false
    }

    /// Floating point operations of the products of one sample, forward; each of the two gradients
    /// takes as many. A layer without products counts as none.
    fn flops(&self) -> u64 {
        0
    }

    /// Computes the output of a shard.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    fn forward(&self, io: Forward<'_, E>);

    /// Computes the gradients of a shard.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    fn backward(&self, io: Backward<'_, '_, E>);
}
