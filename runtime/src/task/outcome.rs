//! What a body may return.

use std::error::Error;

/// What a body returns: nothing, or a `Result` whose error ends the task like a panic would.
pub trait Outcome {
    /// The error, if any.
    ///
    /// # Errors
    /// The body's own error.
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}
