//! IDX files: the form in which MNIST and its relatives come.
//!
//! A file is a header and then the elements, last dimension fastest. The header has two zero
//! bytes, the element type (`0x08`: unsigned byte), the number of dimensions, and the size of
//! each dimension as a big-endian 32-bit number. Images have three dimensions (count, rows,
//! columns), labels have one.
//!
//! Files are read plain or compressed by gzip, whatever their name says. Each malformed input
//! is an error that names the file, the byte offset and the reason. Memory grows as data
//! arrives, in bounded steps: what a header merely claims is never allocated, and more data
//! than it claims is an error after one byte.

mod dir;
mod write;

use std::io::BufRead;
use std::path::Path;

pub use dir::{is_dir, read_dir};
pub use write::{encode_images, encode_labels};

use crate::error::{DataError, Reason};
use crate::input::{Input, STEP, open};

/// The element type of images and labels.
const UNSIGNED_BYTE: u8 = 0x08;

/// The content of an IDX image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Number of images; not 0.
    pub count: usize,
    /// Height of each, in pixels; not 0.
    pub rows: usize,
    /// Width of each, in pixels; not 0.
    pub cols: usize,
    /// `count` x `rows` x `cols` grey values, columns fastest.
    pub pixels: Vec<u8>,
}

/// What a file is to hold.
struct Kind {
    /// The word for messages.
    what: &'static str,
    /// What the sizes in the header count, one for each dimension.
    sizes: &'static [&'static str],
    /// The kind that this one is confused with.
    other: &'static Kind,
}

static IMAGES: Kind =
    Kind { what: "images", sizes: &["images", "rows", "columns"], other: &LABELS };
static LABELS: Kind = Kind { what: "labels", sizes: &["labels"], other: &IMAGES };

impl Kind {
    fn dimensions(&self) -> u8 {
        self.sizes.len() as u8
    }

    /// Length of the header, in bytes.
    fn header_len(&self) -> u64 {
        4 + 4 * self.sizes.len() as u64
    }
}

/// Reads an image file, plain or gzip.
///
/// # Errors
/// [`DataError::Read`] when the system cannot, [`DataError::Malformed`] when the content is
/// not a whole IDX image file and nothing else.
pub fn read_images(path: impl AsRef<Path>) -> Result<Images, DataError> {
    images(&mut open(path.as_ref())?)
}

/// Reads a label file, plain or gzip, whose labels are all below `classes`.
///
/// # Errors
/// As [`read_images`], and for the first label that is no class.
pub fn read_labels(path: impl AsRef<Path>, classes: usize) -> Result<Vec<u8>, DataError> {
    labels(&mut open(path.as_ref())?, classes)
}

/// Reads an image file, plain or gzip, from memory. `name` stands for the file in messages.
///
/// ```
/// use millrace_loader::idx;
///
/// // One image of one row and two columns.
/// let file = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 17, 255];
/// let images = idx::parse_images("two pixels", &file)?;
/// assert_eq!((images.count, images.rows, images.cols), (1, 1, 2));
/// assert_eq!(images.pixels, [17, 255]);
///
/// let cut = idx::parse_images("one pixel", &file[..17]).unwrap_err();
/// assert_eq!(
///     cut.to_string(),
///     r#""one pixel": byte 17: the data ends after 1 bytes, the header claims 2"#
/// );
/// # Ok::<(), millrace_loader::DataError>(())
/// ```
///
/// # Errors
/// As [`read_images`].
pub fn parse_images(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Images, DataError> {
    images(&mut Input::new(name.as_ref(), bytes)?)
}

/// Reads a label file, plain or gzip, from memory. `name` stands for the file in messages.
///
/// # Errors
/// As [`read_labels`].
pub fn parse_labels(
    name: impl AsRef<Path>,
    bytes: &[u8],
    classes: usize,
) -> Result<Vec<u8>, DataError> {
    labels(&mut Input::new(name.as_ref(), bytes)?, classes)
}

fn images<R: BufRead>(input: &mut Input<R>) -> Result<Images, DataError> {
    let sizes = header(input, &IMAGES)?;
    let claimed = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size.into()));
    let Some(claimed) = claimed.filter(|&claimed| isize::try_from(claimed).is_ok()) else {
        return Err(input.malformed(4, Reason::Overflow { sizes }));
    };
    let pixels = body(input, IMAGES.header_len(), claimed)?;
    let [count, rows, cols] = [0, 1, 2].map(|i| sizes[i] as usize);
    Ok(Images { count, rows, cols, pixels })
}

fn labels<R: BufRead>(input: &mut Input<R>, classes: usize) -> Result<Vec<u8>, DataError> {
    let sizes = header(input, &LABELS)?;
    let labels = body(input, LABELS.header_len(), sizes[0].into())?;
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        None => Ok(labels),
        Some(index) => {
            let offset = LABELS.header_len() + index as u64;
            let label = labels[index];
            Err(input.malformed(offset, Reason::Label { index, label, classes }))
        }
    }
}

/// Reads and checks the header, and returns its sizes, none of which is 0.
fn header<R: BufRead>(input: &mut Input<R>, kind: &Kind) -> Result<Vec<u32>, DataError> {
    let mut start = [0; 4];
    let found = input.fill(&mut start)?;
    // A file that is no IDX file at all is better told so than told that it is short.
    if start[..2] != [0, 0] {
        return Err(input.malformed(0, Reason::Magic { found: start }));
    }
    if found < start.len() {
        let found = found as u64;
        return Err(input.malformed(found, Reason::ShortHeader { wanted: 4, found }));
    }
    if start[2] != UNSIGNED_BYTE {
        return Err(input.malformed(2, Reason::ElementType { found: start[2] }));
    }
    let (wanted, found) = (kind.dimensions(), start[3]);
    if found != wanted {
        let reason = if found == kind.other.dimensions() {
            Reason::Swapped { wanted: kind.what, found: kind.other.what }
        } else {
            Reason::Dimensions { what: kind.what, wanted, found }
        };
        return Err(input.malformed(3, reason));
    }
    sizes(input, kind)
}

fn sizes<R: BufRead>(input: &mut Input<R>, kind: &Kind) -> Result<Vec<u32>, DataError> {
    let mut bytes = [0; 4 * 3];
    let bytes = &mut bytes[..4 * kind.sizes.len()];
    let found = 4 + input.fill(bytes)? as u64;
    let wanted = kind.header_len();
    if found < wanted {
        return Err(input.malformed(found, Reason::ShortHeader { wanted, found }));
    }
    let sizes: Vec<u32> =
        bytes.chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]])).collect();
    match sizes.iter().position(|&size| size == 0) {
        None => Ok(sizes),
        Some(i) => Err(input.malformed(4 + 4 * i as u64, Reason::Zero { what: kind.sizes[i] })),
    }
}

/// Reads the `claimed` bytes after the header, and makes sure that no more follow.
fn body<R: BufRead>(
    input: &mut Input<R>,
    header_len: u64,
    claimed: u64,
) -> Result<Vec<u8>, DataError> {
    let mut data = Vec::new();
    loop {
        let held = data.len();
        let missing = claimed - held as u64;
        let step = missing.min(STEP as u64) as usize;
        if step == 0 {
            break;
        }
        if data.capacity() - held < step && data.try_reserve_exact(growth(held, missing)).is_err() {
            let held = held as u64;
            return Err(input.malformed(header_len + held, Reason::Memory { claimed, held }));
        }
        data.resize(held + step, 0);
        let read = input.read(&mut data[held..])?;
        data.truncate(held + read);
        if read == 0 {
            let found = held as u64;
            return Err(input.malformed(header_len + found, Reason::ShortData { claimed, found }));
        }
    }
    // This also makes a gzip decoder go to the end of its stream and compare the checksum.
    match input.read(&mut [0])? {
        0 => Ok(data),
        _ => Err(input.malformed(header_len + claimed, Reason::LongData { claimed })),
    }
}

/// How much more memory to ask for when `held` bytes are there and `missing` are claimed:
/// never more than is claimed, and never more than doubles what really arrived.
fn growth(held: usize, missing: u64) -> usize {
    missing.min(held.max(STEP) as u64) as usize
}

#[cfg(test)]
mod tests;
