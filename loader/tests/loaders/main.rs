//! Loaders on a runtime: what they give out, and what they wait for.

mod common;
mod streams;
mod waits;
