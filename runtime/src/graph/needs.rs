//! What a task that is being submitted has to wait for.

use super::TaskRef;

/// A predecessor that a claim needs to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The task to wait for.
    pub(crate) task: TaskRef,
    /// Whether only the order matters, not what it wrote.
    pub(crate) order_only: bool,
}
