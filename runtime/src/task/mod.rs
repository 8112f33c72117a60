//! Tasks: what they are called, what they run, and how they fail.

mod cell;
mod failure;
mod handle;
mod outcome;

pub(crate) use cell::{BodyError, BodyResult, Job, Meta, PackedMeta, Repeated, TaskCell};
pub use failure::TaskFailure;
pub(crate) use failure::{Failures, REQUEST};
pub use handle::TaskHandle;
pub use outcome::Outcome;

use crate::graph::TaskRef;

/// Names a submitted task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskId {
    pub(crate) task: TaskRef,
    pub(crate) sequence: u64,
    pub(crate) runtime: u64,
}

impl TaskId {
    /// The task's place in submission order, counted from 0 over the life of the runtime.
    pub fn sequence(self) -> u64 {
        self.sequence
    }
}

/// Where a task belongs: for traces and error messages, and for waiting for a batch's tasks or
/// cancelling them ([`Runtime::wait_for_label`], [`Runtime::cancel_label`]). It has no effect on
/// execution.
///
/// [`Runtime::wait_for_label`]: crate::Runtime::wait_for_label
/// [`Runtime::cancel_label`]: crate::Runtime::cancel_label
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label {
    /// Number of the batch over the whole run.
    pub batch: Option<u32>,
    /// Index of the layer.
    pub layer: Option<u16>,
    /// Index of the shard.
    pub shard: Option<u16>,
}

impl Label {
    /// The label of a batch as a whole.
    ///
    /// ```
    /// # use millrace_runtime::Label;
    /// let second_layer = Label { layer: Some(2), ..Label::batch(7) };
    /// assert_eq!(second_layer.to_string(), "batch 7, layer 2");
    /// ```
    pub const fn batch(batch: u32) -> Self {
        Label { batch: Some(batch), layer: None, shard: None }
    }

    /// Whether `task` has every number that this label has.
    pub(crate) fn covers(self, task: Label) -> bool {
        (self.batch.is_none() || self.batch == task.batch)
            && (self.layer.is_none() || self.layer == task.layer)
            && (self.shard.is_none() || self.shard == task.shard)
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.batch.map(|n| format!("batch {n}")),
            self.layer.map(|n| format!("layer {n}")),
            self.shard.map(|n| format!("shard {n}")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}
