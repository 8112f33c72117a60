//! Recording and reading of execution traces.

mod document;

pub use document::{
    Cause, FORMAT, Lane, LaneKind, Mark, MarkKind, Span, SpanKind, Trace, TraceError, VERSION,
};
