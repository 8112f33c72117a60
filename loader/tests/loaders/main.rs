//! Loaders on a runtime: what they give out, and what they wait for.

mod common;
mod decoded;
mod streams;
mod waits;
