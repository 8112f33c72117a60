//! Why a figure or a summary could not be made.

/// Why a figure or a summary could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GanttError {
    /// There is nothing to draw.
    #[error("trace `{title}` has no spans")]
    NoSpans {
        /// Title of the trace.
        title: String,
    },
    /// A comparison of nothing.
    #[error("no traces to compare")]
    NoTraces,
    /// Neither a mark nor a span names any of the wanted batches.
    #[error("trace `{title}` has none of the batches {from}..{to}")]
    NoBatch {
        /// Title of the trace.
        title: String,
        /// First batch asked for.
        from: u32,
        /// One past the last batch asked for.
        to: u32,
    },
    /// The interval to draw is empty or reversed.
    #[error("the window from {from} ns to {to} ns is empty")]
    EmptyWindow {
        /// Start of the window, nanoseconds since the origin of the trace.
        from: u64,
        /// End of the window, nanoseconds since the origin of the trace.
        to: u64,
    },
    /// The width leaves no room for lanes and labels, or no viewer could show it.
    #[error("a figure cannot be {width} pixels wide, allowed are {min} to {max}")]
    Width {
        /// Width asked for, in pixels.
        width: u32,
        /// The smallest allowed.
        min: u32,
        /// The largest allowed.
        max: u32,
    },
    /// More lanes than any figure can show.
    #[error("trace `{title}` has {found} lanes, at most {limit} can be shown")]
    Lanes {
        /// Title of the trace.
        title: String,
        /// Number of lanes in the trace.
        found: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// A span that contradicts the rest of the trace.
    #[error("trace `{title}`: span {index}: {reason}")]
    Span {
        /// Title of the trace.
        title: String,
        /// Index into the spans of the trace.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The drawing library failed.
    #[error("drawing failed: {0}")]
    Draw(String),
}
