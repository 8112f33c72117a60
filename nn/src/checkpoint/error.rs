//! Why a checkpoint cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::NnError;

/// An error with a checkpoint or a file of tensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it was refused.
        source: io::Error,
    },
    /// The file ends too early.
    #[error("{} ends too early: {reason}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The file is something else.
    #[error("{} is no {wanted}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
        /// What shows that it is not.
        reason: String,
    },
    /// The file was written by a later version, in a way that this one does not know.
    #[error("{} has version {version}, the latest known here is {known}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The latest that can be read.
        known: u32,
    },
    /// The content is not what was written.
    #[error("{} was changed or damaged after it was written: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A setting in the file has no meaning.
    #[error("{}: {source}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// Which setting, and what is accepted.
        source: Box<NnError>,
    },
    /// A tensor holds values of another type.
    #[error("tensor {tensor} holds {got}, wanted {wanted}")]
    Type {
        /// Name of the tensor.
        tensor: String,
        /// Its type of values.
        got: String,
        /// What can be used.
        wanted: &'static str,
    },
    /// A tensor has other sizes.
    #[error("tensor {tensor} is {}, wanted {}", sizes(got), sizes(wanted))]
    Shape {
        /// Name of the tensor.
        tensor: String,
        /// Its sizes.
        got: Vec<usize>,
        /// Those that fit.
        wanted: Vec<usize>,
    },
    /// There are other tensors than those that are wanted.
    #[error("{}", names(missing, superfluous))]
    Names {
        /// Names of tensors that are wanted, but not there.
        missing: Vec<String>,
        /// Names of tensors that are there, but not wanted.
        superfluous: Vec<String>,
    },
}

impl CheckpointError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn truncated(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Truncated { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn foreign(path: &Path, wanted: &'static str, reason: impl fmt::Display) -> Self {
        Self::Foreign { path: path.to_owned(), wanted, reason: reason.to_string() }
    }

    pub(super) fn corrupt(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Corrupt { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Sizes as `4x1x3x3`; those of a single value as such.
fn sizes(dims: &[usize]) -> String {
    if dims.is_empty() {
        return "a single value".to_owned();
    }
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn names(missing: &[String], superfluous: &[String]) -> String {
    let list = |what: &str, names: &[String]| match names {
        [] => None,
        _ => Some(format!("{what}: {}", names.join(", "))),
    };
    let parts = [list("missing tensors", missing), list("superfluous tensors", superfluous)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
