//! How well a network does: loss, accuracy, and which classes it takes for which.

mod confusion;
mod epoch;

pub use confusion::Confusion;
pub use epoch::{EpochRecord, EpochSums, Score};
