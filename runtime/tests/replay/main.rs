//! Recorded graphs: replaying, refusals, cancelling, dropping, and when their ends are told.

mod block;
#[path = "../common/mod.rs"]
mod common;

mod cancelling;
mod dropping;
mod following;
mod leases;
mod programs;
mod refusals;
mod replaying;
mod stress;
mod telling;
