//! Data sets as two NPY files: one array of samples, one of labels.
//!
//! | array | shape |
//! |---|---|
//! | samples | N x C x H x W (or N x D x H x W), N x H x W, or N x F |
//! | labels | N, or one for each pixel: N x H x W, or N x D x H x W where samples are volumes |
//!
//! Both are read where they lie, sample by sample; nothing but their headers is kept in memory.
//! Numbers may be in either byte order. Unsigned bytes and 16-bit numbers are taken for pixels,
//! and scaled by their type's maximum to values from 0 to 1; all others are taken as they are.
//! Labels are whole numbers below 256, which is checked when the set is opened. A file that is not
//! exactly as long as its header says is refused.

mod header;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use header::{Element, Header, MAX_HEADER, parse};

use crate::error::{DataError, Position, Reason};
use crate::input::{STEP, open_file};
use crate::pool::Pool;
use crate::{LabelKind, SamplePlace, Samples};

/// Name of the file of samples in a folder.
pub const SAMPLES: &str = "samples.npy";
/// Name of the file of labels in a folder.
pub const LABELS: &str = "labels.npy";

/// A data set in two NPY files.
///
/// ```
/// use millrace_loader::npy::NpySet;
/// use millrace_loader::Samples;
///
/// # let dir = tempfile::tempdir()?;
/// // What `numpy.save` writes for two samples of 1x2 bytes, and for their labels.
/// let file = |shape: &str, numbers: &[u8]| {
///     let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
///     let length = (text.len() as u16).to_le_bytes();
///     [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), numbers].concat()
/// };
/// # let [samples, labels] = ["samples.npy", "labels.npy"].map(|name| dir.path().join(name));
/// std::fs::write(&samples, file("(2, 1, 2)", &[0, 51, 102, 255]))?;
/// std::fs::write(&labels, file("(2,)", &[1, 0]))?;
/// let set = NpySet::open(&samples, &labels)?;
/// assert_eq!((set.len(), set.shape(), set.classes()), (2, [1, 1, 2], 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NpySet {
    name: String,
    samples: Array,
    labels: Array,
    shape: [usize; 3],
    label_kind: LabelKind,
    classes: usize,
    /// Bytes of a sample, or of its labels.
    space: Pool<Vec<u8>>,
}

impl NpySet {
    /// Whether a folder has both files.
    pub fn is_dir(dir: impl AsRef<Path>) -> bool {
        [SAMPLES, LABELS].iter().all(|name| dir.as_ref().join(name).is_file())
    }

    /// Opens the files `samples.npy` and `labels.npy` of a folder; as [`open`](NpySet::open).
    ///
    /// # Errors
    /// As [`open`](NpySet::open).
    pub fn open_dir(dir: impl AsRef<Path>) -> Result<Self, DataError> {
        let dir = dir.as_ref();
        NpySet::open(dir.join(SAMPLES), dir.join(LABELS))
    }

    /// Opens two files. The labels are read through once: there are as many classes as the largest
    /// of them says.
    ///
    /// # Errors
    /// [`DataError::Read`] when a file cannot be read, [`DataError::Malformed`] when it is no whole
    /// NPY file of numbers, when the two do not go together, and for a label that is none.
    pub fn open(samples: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Self, DataError> {
        let (samples, labels) = (Array::open(samples.as_ref())?, Array::open(labels.as_ref())?);
        let (count, shape) = match samples.header.shape[..] {
            [n, c, h, w] => (n, [c, h, w]),
            [n, h, w] => (n, [1, h, w]),
            [n, f] => (n, [1, 1, f]),
            _ => return Err(samples.refuse("wanted 2, 3 or 4 dimensions for samples")),
        };
        let [channels, height, width] = shape;
        let label_kind = match labels.header.shape[..] {
            [n] if n == count => LabelKind::Sample,
            [n, h, w] if [n, h, w] == [count, height, width] => {
                LabelKind::Pixel { labels: height * width }
            }
            [n, d, h, w] if [n, d, h, w] == [count, channels, height, width] => {
                LabelKind::Pixel { labels: channels * height * width }
            }
            [n, 1, h, w] if [n, h, w] == [count, height, width] => {
                LabelKind::Pixel { labels: height * width }
            }
            _ => {
                let detail = format!(
                    "labels of shape {:?} do not go with samples of shape {:?}",
                    labels.header.shape, samples.header.shape
                );
                return Err(labels.refuse(&detail));
            }
        };
        let name = samples.file.display().to_string();
        if shape.contains(&0) {
            return Err(DataError::Shape { name, shape });
        }
        if u32::try_from(count).is_err() {
            return Err(DataError::TooMany { name, samples: count });
        }
        if !labels.header.element.is_integer() {
            return Err(labels.refuse("labels are whole numbers"));
        }
        let classes = labels.largest_label()?.map_or(1, |largest| usize::from(largest) + 1);
        let space = Pool::default();
        Ok(NpySet { name, samples, labels, shape, label_kind, classes, space })
    }
}

impl Samples for NpySet {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.samples.header.shape[0]
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn label_kind(&self) -> LabelKind {
        self.label_kind
    }

    fn classes(&self) -> usize {
        self.classes
    }

    /// The index; errors name the file.
    fn sample_name(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        self.space.with(Vec::new, |space| {
            let first = place.index * values.len();
            values_of(&self.samples, self.samples.read(first, values.len(), space)?, values);
            let first = place.index * labels.len();
            let bytes = self.labels.read(first, labels.len(), space)?;
            for (i, label) in labels.iter_mut().enumerate() {
                *label = self.labels.label(bytes, first, i)?;
            }
            Ok(())
        })
    }
}

/// An NPY file that is as long as it should be.
#[derive(Debug)]
struct Array {
    file: PathBuf,
    open: File,
    header: Header,
}

impl Array {
    fn open(path: &Path) -> Result<Self, DataError> {
        let refused = |source| DataError::Read { file: path.to_owned(), source };
        let malformed = |(at, reason): (u64, Reason)| DataError::Malformed {
            file: path.to_owned(),
            position: Position::File(at),
            reason,
        };
        let open = open_file(path)?;
        let mut start = Vec::new();
        (&open).take(MAX_HEADER as u64).read_to_end(&mut start).map_err(refused)?;
        let header = parse(&start).map_err(malformed)?;
        let held = open.metadata().map_err(refused)?.len() - header.start.min(start.len() as u64);
        let numbers = header
            .shape
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size.try_into().ok()?));
        let claimed = numbers.and_then(|n| n.checked_mul(header.element.bytes() as u64));
        let claimed =
            claimed.filter(|&claimed| isize::try_from(claimed).is_ok()).ok_or_else(|| {
                let detail =
                    format!("the shape {:?} is larger than can be addressed", header.shape);
                malformed((header.start, Reason::Npy { detail }))
            })?;
        let end = header.start + held.min(claimed);
        if held < claimed {
            return Err(malformed((end, Reason::ShortData { claimed, found: held })));
        }
        if held > claimed {
            return Err(malformed((end, Reason::LongData { claimed })));
        }
        Ok(Array { file: path.to_owned(), open, header })
    }

    fn refuse(&self, detail: &str) -> DataError {
        self.malformed(self.header.start, Reason::Npy { detail: detail.to_owned() })
    }

    fn malformed(&self, at: u64, reason: Reason) -> DataError {
        DataError::Malformed { file: self.file.clone(), position: Position::File(at), reason }
    }

    /// Reads the bytes of some numbers.
    fn read<'a>(
        &self,
        first: usize,
        count: usize,
        space: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], DataError> {
        let bytes = self.header.element.bytes();
        space.resize(count * bytes, 0);
        let at = self.header.start + (first * bytes) as u64;
        self.open
            .read_exact_at(space, at)
            .map_err(|source| DataError::Read { file: self.file.clone(), source })?;
        Ok(space)
    }

    /// Number `i` of `bytes`, which begin with number `first` of the file.
    fn label(&self, bytes: &[u8], first: usize, i: usize) -> Result<u8, DataError> {
        let size = self.header.element.bytes();
        let number = &bytes[i * size..][..size];
        let mut wide = [0; 8];
        // A number below 0 has its highest bit set, and is too large without its sign, too.
        let wide = if self.header.big_endian {
            wide[8 - size..].copy_from_slice(number);
            u64::from_be_bytes(wide)
        } else {
            wide[..size].copy_from_slice(number);
            u64::from_le_bytes(wide)
        };
        // Of one byte with a sign, what is above 127 is below 0.
        let most = if self.header.element == Element::I8 { 127 } else { 255 };
        u8::try_from(wide).ok().filter(|&label| label <= most).ok_or_else(|| {
            let at = self.header.start + ((first + i) * size) as u64;
            self.malformed(at, Reason::Npy { detail: "a label is from 0 to 255".to_owned() })
        })
    }

    /// The largest of all numbers, if there are some; an error for one that is no label.
    fn largest_label(&self) -> Result<Option<u8>, DataError> {
        let count = self.header.shape.iter().product::<usize>();
        let (mut space, mut largest) = (Vec::new(), None);
        for first in (0..count).step_by(STEP / 8) {
            let some = (count - first).min(STEP / 8);
            let bytes = self.read(first, some, &mut space)?;
            for i in 0..some {
                largest = largest.max(Some(self.label(bytes, first, i)?));
            }
        }
        Ok(largest)
    }
}

/// Numbers as values.
fn values_of(array: &Array, bytes: &[u8], values: &mut [f32]) {
    /// Fills `values` from numbers of one type.
    macro_rules! fill {
        ($type:ty, $value:expr) => {{
            let value: fn($type) -> f32 = $value;
            let numbers = bytes.chunks_exact(size_of::<$type>()).map(|number| {
                let mut array_of = [0; size_of::<$type>()];
                array_of.copy_from_slice(number);
                match array.header.big_endian {
                    true => <$type>::from_be_bytes(array_of),
                    false => <$type>::from_le_bytes(array_of),
                }
            });
            for (to, number) in values.iter_mut().zip(numbers) {
                *to = value(number);
            }
        }};
    }
    match array.header.element {
        Element::Bool => fill!(u8, |byte| f32::from(u8::from(byte != 0))),
        Element::U8 => fill!(u8, |byte| f32::from(byte) / 255.0),
        Element::U16 => fill!(u16, |word| f32::from(word) / 65535.0),
        Element::U32 => fill!(u32, |number| number as f32),
        Element::U64 => fill!(u64, |number| number as f32),
        Element::I8 => fill!(i8, f32::from),
        Element::I16 => fill!(i16, f32::from),
        Element::I32 => fill!(i32, |number| number as f32),
        Element::I64 => fill!(i64, |number| number as f32),
        Element::F32 => fill!(f32, |number| number),
        Element::F64 => fill!(f64, |number| number as f32),
    }
}
