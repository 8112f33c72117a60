//! Why a replay was refused.

use crate::error::SubmitError;

/// Why data was not bound, or a graph not replayed. Nothing was submitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The data has another shape than what the graph was recorded with.
    #[error("parameter {parameter} was recorded with {recorded}, and cannot be bound to {bound}")]
    Shape {
        /// Which parameter, in the order in which they were made.
        parameter: usize,
        /// The shape that was recorded.
        recorded: String,
        /// The shape of the data.
        bound: String,
    },
    /// The parameter was made by another recording.
    #[error("the parameter is that of another recording")]
    WrongRecording,
    /// The data that is bound was refused.
    #[error(transparent)]
    Refused(#[from] SubmitError),
}
