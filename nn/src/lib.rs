//! Layers, losses, optimisers and a trainer that run as tasks on shards of a batch.
//!
//! A [`Network`] is a checked list of layers. A [`Trainer`] holds its parameters and submits each
//! batch as tasks, one per layer and shard, whose dependencies the runtime infers from the buffers
//! that they read and write. The computations themselves ([`layer`], [`loss`], [`Sgd`],
//! [`gemm`]) know nothing of tasks and can be called on plain slices:
//!
//! ```
//! use millrace_nn::layer::{Conv2dConfig, Padding};
//! use millrace_nn::Shape;
//!
//! // One filter of 3x3 that adds up what it sees, on one image of ones.
//! let config = Conv2dConfig::new(1, [3, 3]).padding(Padding::Same);
//! let layer = config.build("sum", Shape::image(1, 3, 4))?;
//! let (x, weights, bias) = ([1.0f32; 12], [1.0; 9], [0.5]);
//! let mut packed = vec![0.0; layer.packed_len::<f32>()];
//! layer.pack(&weights, &mut packed);
//! let (mut y, mut scratch) = ([0.0; 12], vec![0.0; layer.scratch_len::<f32>(1)]);
//! layer.forward(&x, &packed, &bias, false, &mut y, &mut scratch);
//! assert_eq!(y, [4.5, 6.5, 6.5, 4.5, 6.5, 9.5, 9.5, 6.5, 4.5, 6.5, 6.5, 4.5]);
//! # Ok::<(), millrace_nn::NnError>(())
//! ```
//!
//! # Invariants
//! * **The same bits every time.** The result of a run depends on the initial values, the batches
//!   and the number of shards, and on the processor's vector unit; never on the number of workers
//!   or on the depth of the batch arena.
//! * **Memory comes from the caller.** No computation on a shard allocates; buffers come from
//!   arenas, temporary values from scratch.
//! * **Shapes are checked once,** when a network is built, by errors that name the layer, the shape
//!   that reaches it and the shape that it wants.
//! * **A batch is plain buffers.** The crate does not know where images come from.
//! * **No unsafe code.**
#![forbid(unsafe_code)]

#[cfg(test)]
mod check;
pub mod checkpoint;
mod element;
mod error;
mod gemm;
pub mod guard;
pub mod init;
mod kernel;
pub mod layer;
pub mod loss;
pub mod metrics;
mod network;
mod optimiser;
mod schedule;
mod shape;
mod trainer;

pub use element::Element;
pub use error::NnError;
pub use gemm::{Matrix, gemm};
pub use network::{Network, NetworkBuilder, Node, Source};
pub use optimiser::{Adam, Clip, Decay, Optimiser, Sgd, Step};
pub use schedule::{Course, Schedule};
pub use shape::Shape;
pub use trainer::{BatchPlace, EpochMetrics, Evaluation, Granularity, Trainer, TrainerConfig};
