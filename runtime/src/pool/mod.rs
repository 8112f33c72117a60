//! The worker pool: ready queues, execution, sleep, and the waiting thread that helps.

mod children;
mod commute;
mod execute;
mod help;
mod idle;
mod inline;
mod local;
mod ready;
mod record;
mod roster;
mod sleep;
mod wait_point;
mod worker;

pub(crate) use commute::Commuting;
pub(crate) use execute::{Context, Released, guarded};
pub(crate) use help::Patience;
pub use local::in_task_body;
pub(crate) use local::{add_child, hold, holds, holds_any, release};
pub(crate) use ready::Shared;
pub(crate) use record::Reason;
pub(crate) use sleep::Sleep;
pub(crate) use wait_point::WaitPoint;
pub(crate) use worker::{start, stop};
