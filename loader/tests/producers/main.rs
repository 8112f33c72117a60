//! Producers from the outside: what they give out, whatever happens to them.

mod common;
mod faults;
mod memory;
mod processes;
mod stops;
mod streams;
