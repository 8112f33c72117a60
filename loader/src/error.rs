//! Why a data set could not be read, or a batch not be loaded.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use millrace_arena::ArenaError;
use millrace_runtime::{SubmitError, WaitError};

use crate::images::ImageFault;

/// Why a data set could not be had.
///
/// Every variant prints as one line; file names are quoted and escaped, so that a name with odd
/// bytes in it cannot break the line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused to open, list or read.
    #[error("{file:?}: {source}")]
    Read {
        /// The file or directory.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was read, and its content is not what it must be.
    #[error("{file:?}: {position}: {reason}")]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Where in it.
        position: Position,
        /// What is wrong there.
        reason: Reason,
    },
    /// A directory lacks one of the four files of a data set.
    #[error(
        "{dir:?} has no file with the {role}: looked for {}; found {}",
        looked_for.join(", "),
        Found(found)
    )]
    Missing {
        /// The directory.
        dir: PathBuf,
        /// What the file would hold, for example `training images`.
        role: &'static str,
        /// The accepted names, in the order in which they are tried.
        looked_for: Vec<String>,
        /// The names that the directory does hold, sorted and escaped.
        found: Vec<String>,
    },
    /// Images without a pixel.
    #[error("data set {name:?}: images of {} x {} x {} have no pixel", shape[0], shape[1], shape[2])]
    Shape {
        /// Name of the data set.
        name: String,
        /// Channels, height and width.
        shape: [usize; 3],
    },
    /// Pixels that are not a whole number of samples, or not as many as the labels.
    #[error(
        "data set {name:?}: {labels} labels and {pixels} pixels do not go together: \
         a sample has {sample_len} pixels"
    )]
    Lengths {
        /// Name of the data set.
        name: String,
        /// Number of labels.
        labels: usize,
        /// Number of pixels, over all samples.
        pixels: usize,
        /// Pixels of one sample: channels x height x width.
        sample_len: usize,
    },
    /// A label that is no class of the data set.
    #[error("data set {name:?}: sample {index} has label {label}, but there are {classes} classes")]
    Label {
        /// Name of the data set.
        name: String,
        /// Index of the sample.
        index: usize,
        /// Its label.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
    /// A file that is no image, or whose image has a fault.
    #[error("{file:?}: {fault}")]
    Image {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: ImageFault,
    },
    /// A folder of class folders without a class.
    #[error(
        "{dir:?} has no class folder: wanted one folder of images for each class; found {}",
        Found(found)
    )]
    NoClass {
        /// The folder.
        dir: PathBuf,
        /// The names in it, sorted and escaped.
        found: Vec<String>,
    },
    /// More classes than a label can tell apart.
    #[error("{dir:?} has {classes} class folders, at most 256 can be told apart")]
    Classes {
        /// The folder.
        dir: PathBuf,
        /// Number of class folders.
        classes: usize,
    },
    /// A class of which there is no sample.
    #[error("{dir:?}: no image of the class {class:?}; allow empty classes, or remove it")]
    EmptyClass {
        /// The folder of class folders.
        dir: PathBuf,
        /// Name of the class.
        class: OsString,
    },
    /// A class folder that is no class of the training set.
    #[error("{dir:?}: {class:?} is a class here, but not in {other:?}")]
    OtherClass {
        /// The folder of class folders.
        dir: PathBuf,
        /// Name of the class.
        class: OsString,
        /// The folder whose classes count.
        other: PathBuf,
    },
    /// Folders in folders without an end, as links can make them.
    #[error("{dir:?}: more than {limit} folders deep; is there a link to a folder above?")]
    Depth {
        /// The folder.
        dir: PathBuf,
        /// How deep folders are looked through.
        limit: usize,
    },
    /// A file of class names that does not have one for each class.
    #[error("{file:?}: {names} names for {classes} classes")]
    ClassNames {
        /// The file.
        file: PathBuf,
        /// Names in it.
        names: usize,
        /// Classes of the data set.
        classes: usize,
    },
    /// More samples than a sample index can count.
    #[error("data set {name:?}: {samples} samples are more than {}", u32::MAX)]
    TooMany {
        /// Name of the data set.
        name: String,
        /// Number of samples.
        samples: usize,
    },
}

/// Why a sample could not be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// Its data is missing or damaged.
    #[error("{name}: {cause}")]
    Decode {
        /// What the data set calls the sample.
        name: String,
        /// What is wrong.
        cause: DataError,
    },
    /// The decoder panicked.
    #[error("{name}: the decoder panicked: {message}")]
    Panic {
        /// What the data set calls the sample.
        name: String,
        /// The message of the panic.
        message: String,
    },
    /// More bad samples than may be replaced.
    #[error("more than {limit} bad samples; the last one: {last}")]
    Limit {
        /// How many may be.
        limit: usize,
        /// What was wrong with the first one beyond that.
        last: Box<SampleError>,
    },
}

/// A byte offset in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// Bytes from the start of the file as it is stored.
    File(u64),
    /// Bytes from the start of what a compressed file unpacks to.
    Unpacked(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::File(offset) => write!(f, "byte {offset}"),
            Position::Unpacked(offset) => write!(f, "byte {offset} of the unpacked data"),
        }
    }
}

/// What is wrong with the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The first two bytes of an IDX file are zero; here they are not.
    #[error("not an IDX file: it starts with {}, wanted 00 00", Hex(found))]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// The elements are not unsigned bytes.
    #[error("the element type is {found:#04x} ({}), wanted 0x08 (unsigned byte)", type_name(*found))]
    ElementType {
        /// The type byte of the header.
        found: u8,
    },
    /// Images where labels are wanted, or the other way round.
    #[error("this file holds {found}, wanted {wanted}: are the two files swapped?")]
    Swapped {
        /// What the file was to hold.
        wanted: &'static str,
        /// What it holds.
        found: &'static str,
    },
    /// Neither images nor labels.
    #[error("the data has {found} dimensions, wanted {wanted} for {what}")]
    Dimensions {
        /// What the file was to hold.
        what: &'static str,
        /// Number of dimensions of that.
        wanted: u8,
        /// Number of dimensions found.
        found: u8,
    },
    /// The file ends inside the header.
    #[error("the file ends inside the header: {found} bytes of {wanted}")]
    ShortHeader {
        /// Length of the header, in bytes, as far as it is known.
        wanted: u64,
        /// Bytes found.
        found: u64,
    },
    /// A size in the header is zero.
    #[error("the header says 0 {what}")]
    Zero {
        /// What there is none of: `images`, `rows`, ...
        what: &'static str,
    },
    /// The sizes in the header multiply to more bytes than a computer can address.
    #[error("the header claims {} bytes, more than can be addressed", Product(sizes))]
    Overflow {
        /// The sizes.
        sizes: Vec<u32>,
    },
    /// There is less data than the header claims.
    #[error("the data ends after {found} bytes, the header claims {claimed}")]
    ShortData {
        /// Bytes that the header claims, without the header itself.
        claimed: u64,
        /// Bytes found.
        found: u64,
    },
    /// There is more data than the header claims.
    #[error("the data goes on after the {claimed} bytes that the header claims")]
    LongData {
        /// Bytes that the header claims, without the header itself.
        claimed: u64,
    },
    /// The data arrives, but memory for it cannot be had.
    #[error("no memory for more than {held} of the {claimed} bytes that the header claims")]
    Memory {
        /// Bytes that the header claims, without the header itself.
        claimed: u64,
        /// Bytes read so far.
        held: u64,
    },
    /// A label that is no class.
    #[error("label {label} of sample {index}, but there are {classes} classes")]
    Label {
        /// Index of the sample.
        index: usize,
        /// Its label.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
    /// The file of the labels counts other than the file of the images.
    #[error("{labels} labels for the {images} images of {images_file:?}")]
    Counts {
        /// Number of labels.
        labels: usize,
        /// Number of images.
        images: usize,
        /// The file of the images.
        images_file: PathBuf,
    },
    /// Test images of another size than the training images.
    #[error(
        "images of {}x{} pixels, those of {other_file:?} have {}x{}",
        found[0], found[1], other[0], other[1]
    )]
    Size {
        /// Rows and columns found.
        found: [usize; 2],
        /// Rows and columns of the training images.
        other: [usize; 2],
        /// The file of the training images.
        other_file: PathBuf,
    },
    /// A file of records whose length is no whole number of them.
    #[error("the file has {found} bytes, which is no whole number of records of {record} bytes")]
    Records {
        /// Length of a record, in bytes.
        record: u64,
        /// Length of the file, unpacked, in bytes.
        found: u64,
    },
    /// An NPY file that is none, or not of a kind that is read.
    #[error("{detail}")]
    Npy {
        /// What is wrong.
        detail: String,
    },
    /// A file of records without one.
    #[error("the file is empty")]
    Empty,
    /// Memory for a file cannot be had.
    #[error("no memory for more than {held} bytes")]
    Exhausted {
        /// Bytes read so far.
        held: u64,
    },
    /// A gzip file that ends before its trailer.
    #[error("the gzip stream ends early")]
    ShortGzip,
    /// A gzip file whose header, data or checksum is wrong.
    #[error("the gzip stream is damaged: {detail}")]
    DamagedGzip {
        /// What the decoder said.
        detail: String,
    },
    /// Bytes after the end of a gzip stream that begin no further stream.
    #[error("bytes follow the end of the gzip stream")]
    AfterGzip,
}

/// Name of the element type that an IDX header's type byte stands for.
fn type_name(byte: u8) -> &'static str {
    match byte {
        0x08 => "unsigned byte",
        0x09 => "signed byte",
        0x0b => "16-bit integer",
        0x0c => "32-bit integer",
        0x0d => "32-bit float",
        0x0e => "64-bit float",
        _ => "no IDX type",
    }
}

/// Prints bytes as two hexadecimal digits each.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Prints sizes as `a x b x c`.
struct Product<'a>(&'a [u32]);

impl fmt::Display for Product<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { " x " })?;
        }
        Ok(())
    }
}

/// Prints the first names of a directory, and how many more there are.
struct Found<'a>(&'a [String]);

impl Found<'_> {
    /// As many names as fit a line that is still read.
    const SHOWN: usize = 8;
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let shown = &self.0[..self.0.len().min(Self::SHOWN)];
        f.write_str(&shown.join(", "))?;
        match self.0.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why a loader could not be made, or a batch not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// A batch size of 0.
    #[error("a batch of 0 samples is none: the batch size is at least 1")]
    EmptyBatches,
    /// No shard, or more than a task's label can number.
    #[error("{asked} shards: a batch has from 1 to {most}")]
    Shards {
        /// What was asked for.
        asked: usize,
        /// The limit.
        most: usize,
    },
    /// A ring without a slot to load ahead into.
    #[error("a ring of {asked} slots: loading ahead needs at least 2")]
    Ring {
        /// What was asked for.
        asked: usize,
    },
    /// More batches than a batch index can count.
    #[error("{epochs} epochs of {per_epoch} batches are more than {} batches", u32::MAX)]
    TooManyBatches {
        /// Batches of an epoch.
        per_epoch: usize,
        /// Epochs asked for.
        epochs: u32,
    },
    /// A data set whose samples have no value, or no label.
    #[error("data set {name:?}: a sample without a value or without a label is none")]
    EmptySamples {
        /// Name of the data set.
        name: String,
    },
    /// The data set, or a batch, could not get its memory.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A task that loads was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// Waiting failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
