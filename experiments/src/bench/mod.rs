//! `millrace bench`: what the parts of Millrace cost, beside what others cost.

mod peers;
mod rows;
mod runtime;

pub use rows::{PeerFigure, RuntimeRow};
pub use runtime::runtime;
