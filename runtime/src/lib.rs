//! Sequential task flow on a worker pool.

pub mod trace;
