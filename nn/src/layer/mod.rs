//! The layers: settings, shapes, and the computation on a shard.
//!
//! Each layer is built for one input shape. Its computations work on the contiguous samples of a
//! shard (sample, channel, row, column), know nothing of tasks, allocate nothing, and give the same
//! bits for the same shard on whatever thread they run.

mod conv2d;
mod dense;
mod flatten;
mod max_pool2d;
mod relu;

pub use conv2d::{Conv2d, Conv2dConfig, Padding};
pub use dense::{Dense, DenseConfig};
pub use flatten::flatten;
pub use max_pool2d::{MaxPool2d, MaxPool2dConfig};
pub use relu::Relu;
