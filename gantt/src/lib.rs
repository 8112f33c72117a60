//! Figures of execution traces.
