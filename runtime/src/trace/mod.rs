//! Recording and reading of execution traces.
//!
//! Each lane (the main thread, each worker) writes spans to its own buffer, without locks; an
//! idle interval of a worker is cut, when the trace is taken, at the main thread's waits, so
//! that each piece carries the cause for which the main thread waited, or says that no task was
//! ready. While recording is off, a task costs one relaxed load more.

mod document;
mod lane;
mod recorder;

pub use document::{
    Cause, FORMAT, Lane, LaneKind, Mark, MarkKind, Span, SpanKind, Trace, TraceError, VERSION,
};
pub(crate) use lane::{LaneWriter, RawSpan};
pub(crate) use recorder::Recorder;
