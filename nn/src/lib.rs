//! Layers, losses, optimisers and a trainer that run as tasks on shards of a batch.
#![forbid(unsafe_code)]

#[cfg(test)]
mod check;
mod element;
mod error;
mod gemm;
pub mod init;
mod kernel;
pub mod layer;
mod loss;
mod network;
mod optimiser;
mod shape;
mod trainer;

pub use element::Element;
pub use error::NnError;
pub use gemm::{Matrix, gemm};
pub use loss::{Partial, SoftmaxCrossEntropy};
pub use network::{LayerKind, Network, NetworkBuilder, Node};
pub use optimiser::Sgd;
pub use shape::Shape;
pub use trainer::{BatchPlace, EpochMetrics, Evaluation, Trainer};
