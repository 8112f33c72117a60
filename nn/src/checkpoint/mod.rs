//! Runs that can be continued, and weights that can be exchanged.
//!
//! # Weights
//! [`Tensors`] are named blocks of values in a safetensors file. With the names and orders that a
//! network's parameters have in PyTorch, such a file is a `state_dict`, in either direction.
//!
//! # Checkpoints
//! A [`Checkpoint`] is a JSON file, for instance `last.json`, and two files of tensors beside it:
//! `last-7.safetensors` with the weights, and `last-7.optimiser.safetensors` with what the optimiser
//! remembers of them. The JSON file holds the [`State`], the names, lengths and CRC-32 of the two,
//! and its own CRC-32.
//!
//! # A save is one step
//! 1. The two files of tensors are written under a number that no file has yet, and are on disk.
//! 2. The JSON file is written to a temporary file, is on disk, and takes the place of the old one.
//!    This is the moment at which the new checkpoint is the last one.
//! 3. Files of tensors with other numbers are removed.
//!
//! Whenever a writer is killed, the JSON file names two complete files; what an unfinished save
//! left is removed by the next one. Two processes must not save the same checkpoint at once.
//!
//! ```
//! use millrace_nn::checkpoint::{Checkpoint, Progress, State, Tensor, Tensors};
//! use millrace_nn::{Schedule, Sgd};
//!
//! let mut weights = Tensors::new();
//! weights.insert("fc.bias", Tensor::of(&[2], &[0.5f32, 0.25]));
//! let state = State {
//!     network: "a dense layer".to_owned(),
//!     optimiser: Sgd::new(0.1)?.into(),
//!     schedule: Schedule::default(),
//!     clip: None,
//!     progress: Progress { epoch: 1, batch: 20, updates: 120 },
//!     seeds: [("run".to_owned(), 42)].into(),
//!     epochs: Vec::new(),
//!     sums: None,
//! };
//! let checkpoint = Checkpoint { state, weights, memory: Tensors::new() };
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("last.json");
//! checkpoint.save(&path)?;
//! assert_eq!(Checkpoint::load(&path)?, checkpoint);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod files;
mod state;
mod tensors;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use error::CheckpointError;
pub use state::{Progress, State};
pub use tensors::{Tensor, Tensors, Values};

use files::{Names, folder, write_whole};

/// A run at a moment between two batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Where the run is.
    pub state: State,
    /// The parameters, and other values that belong to the network, by name.
    pub weights: Tensors,
    /// What the optimiser remembers, each by its own name and that of the parameter, such as
    /// `exp_avg/conv1.weight`.
    pub memory: Tensors,
}

/// What the JSON file begins with.
const FORMAT: &str = "millrace checkpoint";
/// The version that is written, and the latest that can be read.
const VERSION: u32 = 1;

const WANTED: &str = "checkpoint";

/// What every version of the JSON file has.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// The JSON file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    format: &'a str,
    version: u32,
    /// Of the text of the body.
    crc32: u32,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    weights: Part,
    memory: Part,
    state: State,
}

/// A file of tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    file: String,
    bytes: u64,
    crc32: u32,
}

impl Checkpoint {
    /// Writes the checkpoint to `path`, which ends in `.json`, and the files of tensors beside it;
    /// those of the checkpoint that was there before are removed.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] when the system refuses; the checkpoint that was there before stays.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        let names = Names::new(path)?;
        let number = names.free_number()?;
        let [weights, memory] = names.of(number);
        let body = Body {
            weights: Part::write(path, weights, &self.weights)?,
            memory: Part::write(path, memory, &self.memory)?,
            state: self.state.clone(),
        };
        let body = serde_json::value::to_raw_value(&body).expect("its keys are text");
        let crc32 = crc32fast::hash(body.get().as_bytes());
        let envelope = Envelope { format: FORMAT, version: VERSION, crc32, body: &body };
        let mut text = serde_json::to_vec_pretty(&envelope).expect("its keys are text");
        text.push(b'\n');
        write_whole(path, &text)?;
        names.clean(number);
        Ok(())
    }

    /// Reads the checkpoint at `path`.
    ///
    /// # Errors
    /// When a file cannot be read, ends too early, is something else, was damaged, or was written
    /// by a later version; see [`CheckpointError`]. What is read is what was written.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(CheckpointError::io("read", path))?;
        let Body { weights, memory, state } = body(path, &bytes)?;
        state
            .check()
            .map_err(Box::new)
            .map_err(|source| CheckpointError::Setting { path: path.to_owned(), source })?;
        Ok(Self { state, weights: weights.read(path)?, memory: memory.read(path)? })
    }
}

/// Checks and reads the content of the JSON file.
fn body(path: &Path, bytes: &[u8]) -> Result<Body, CheckpointError> {
    let refused = |error: serde_json::Error| {
        if error.is_eof() {
            CheckpointError::truncated(path, error)
        } else {
            CheckpointError::foreign(path, WANTED, error)
        }
    };
    let Header { format, version } = serde_json::from_slice(bytes).map_err(refused)?;
    if format != FORMAT || version == 0 {
        let reason = format_args!("it says that it is {format:?}, version {version}");
        return Err(CheckpointError::foreign(path, WANTED, reason));
    }
    if version > VERSION {
        return Err(CheckpointError::TooNew { path: path.to_owned(), version, known: VERSION });
    }
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(refused)?;
    let body = envelope.body.get();
    if crc32fast::hash(body.as_bytes()) != envelope.crc32 {
        return Err(CheckpointError::corrupt(path, "the checksum does not fit"));
    }
    serde_json::from_str(body).map_err(refused)
}

impl Part {
    /// Writes tensors to `file` beside `path`.
    fn write(path: &Path, file: String, tensors: &Tensors) -> Result<Self, CheckpointError> {
        let content = tensors.to_bytes();
        write_whole(&path.with_file_name(&file), &content)?;
        Ok(Self { file, bytes: content.len() as u64, crc32: crc32fast::hash(&content) })
    }

    fn read(&self, path: &Path) -> Result<Tensors, CheckpointError> {
        if Path::new(&self.file).file_name() != Some(self.file.as_ref()) {
            let reason = format_args!("{:?} is no file beside it", self.file);
            return Err(CheckpointError::foreign(path, WANTED, reason));
        }
        let path = folder(path).join(&self.file);
        let content = fs::read(&path).map_err(CheckpointError::io("read", &path))?;
        let got = content.len() as u64;
        if got < self.bytes {
            let reason = format_args!("{got} bytes, wanted {}", self.bytes);
            return Err(CheckpointError::truncated(&path, reason));
        }
        if got > self.bytes || crc32fast::hash(&content) != self.crc32 {
            return Err(CheckpointError::corrupt(&path, "the checksum does not fit"));
        }
        Tensors::from_bytes(&path, &content)
    }
}
