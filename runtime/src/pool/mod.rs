//! The worker pool: ready queues, execution, sleep.

mod execute;
mod local;
mod sleep;
mod wait_point;
mod worker;

pub(crate) use execute::Context;
pub(crate) use local::LocalState;
pub use local::in_task_body;
pub(crate) use sleep::Sleep;
pub(crate) use wait_point::WaitPoint;
pub(crate) use worker::{start, stop};
