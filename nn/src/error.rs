//! What can go wrong with a network, its data or its run.

use millrace_arena::ArenaError;
use millrace_runtime::{SubmitError, WaitError};

use crate::Shape;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NnError {
    /// A layer does not fit the shape that reaches it.
    #[error("layer {layer}: got shape {got}, wanted {wanted}")]
    Shape {
        /// Place and kind of the layer, such as `2 (max_pool2d)`.
        layer: String,
        /// The shape of a sample that reaches the layer.
        got: Shape,
        /// What the layer accepts.
        wanted: String,
    },
    /// A layer does not take so many inputs.
    #[error("layer {layer}: got {got} inputs, wanted {wanted}")]
    Inputs {
        /// Name of the layer.
        layer: String,
        /// The number of inputs.
        got: usize,
        /// How many the layer takes.
        wanted: String,
    },
    /// A setting of a layer, network or trainer has no meaning.
    #[error("{place}: {setting} is {got}, wanted {wanted}")]
    Setting {
        /// The layer, or `network` or `trainer`.
        place: String,
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        got: String,
        /// What is accepted.
        wanted: &'static str,
    },
    /// What was handed in does not fit the network, or its parts do not fit each other.
    #[error("{what}: got {got}, wanted {wanted}")]
    Batch {
        /// What was counted.
        what: &'static str,
        /// Its number.
        got: usize,
        /// The number that fits.
        wanted: usize,
    },
    /// A label names no class of the network.
    #[error(
        "sample {sample} of the batch has label {label}, but the network has {classes} classes"
    )]
    Label {
        /// Index of the sample in its batch.
        sample: usize,
        /// The label found.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
    /// A task was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A wait did not end well.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// An arena did not do what it was asked.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

impl NnError {
    pub(crate) fn shape(layer: &str, got: Shape, wanted: impl Into<String>) -> Self {
        Self::Shape { layer: layer.to_owned(), got, wanted: wanted.into() }
    }

    pub(crate) fn inputs(layer: &str, got: usize, wanted: impl Into<String>) -> Self {
        Self::Inputs { layer: layer.to_owned(), got, wanted: wanted.into() }
    }

    pub(crate) fn setting(
        place: impl Into<String>,
        setting: &'static str,
        got: impl ToString,
        wanted: &'static str,
    ) -> Self {
        Self::Setting { place: place.into(), setting, got: got.to_string(), wanted }
    }
}
