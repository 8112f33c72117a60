//! Data sets and batch loaders that decode in runtime tasks.
#![forbid(unsafe_code)]

mod dataset;
mod embedded;
mod error;
pub mod idx;
mod input;
mod order;
#[cfg(test)]
mod testing;

pub use dataset::Dataset;
pub use embedded::embedded;
pub use error::{DataError, Position, Reason};
pub use order::sample_order;

/// Number of classes of the data sets that come in IDX form.
pub const CLASSES: usize = 10;
