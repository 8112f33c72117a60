//! Recording and reading of execution traces.
//!
//! Each lane (the main thread, each worker) writes spans to its own buffer, without locks; an
//! idle interval of a worker is cut, when the trace is taken, where the main thread's waits
//! began to starve the workers (every submitted task had been started) and where they ended. So
//! each piece carries the cause of the wait that was to blame, or says that no task was ready.
//!
//! A lane's buffer is bounded ([`Builder::trace_capacity`](crate::Builder::trace_capacity)) and
//! says what it lost ([`Trace::losses`]). While recording is off, a task costs one relaxed load
//! more.

mod document;
mod lane;
mod losses;
mod names;
mod raw_span;
mod recorder;

pub use document::{
    Cause, FORMAT, Lane, LaneKind, Mark, MarkKind, Span, SpanKind, Trace, TraceError, VERSION,
};
pub(crate) use lane::LaneWriter;
pub use losses::{Keep, Losses};
pub(crate) use names::NameCache;
pub(crate) use raw_span::RawSpan;
pub(crate) use recorder::Recorder;
