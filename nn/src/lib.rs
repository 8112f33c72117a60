//! Layers, losses, optimisers and a trainer that run as tasks on shards of a batch.
#![forbid(unsafe_code)]

#[cfg(test)]
mod check;
mod element;
mod error;
mod kernel;
pub mod layer;
mod shape;

pub use element::Element;
pub use error::NnError;
pub use shape::Shape;
