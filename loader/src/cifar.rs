//! CIFAR-10 and CIFAR-100 in their binary form.
//!
//! A file is nothing but records of the same length: the label (two bytes in CIFAR-100, coarse
//! and fine), then 3072 bytes, the red, green and blue plane of 32x32 pixels (A. Krizhevsky,
//! "Learning multiple layers of features from tiny images", 2009). There is no header, so the
//! length of the file and the range of the labels are all that can be wrong, and both are
//! checked. Files may be plain or gzip.

use std::fs;
use std::io::BufRead;
use std::path::Path;

use crate::Dataset;
use crate::error::{DataError, Reason};
use crate::input::{Input, open};

/// Shape of each image.
const SHAPE: [usize; 3] = [3, 32, 32];
/// Bytes of an image.
const PIXELS: usize = 3 * 32 * 32;

/// Which of the two data sets, and which labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cifar {
    /// CIFAR-10.
    Ten,
    /// CIFAR-100 with its 100 fine labels.
    Hundred,
    /// CIFAR-100 with its 20 coarse labels.
    HundredCoarse,
}

impl Cifar {
    /// Number of classes.
    pub fn classes(self) -> usize {
        match self {
            Cifar::Ten => 10,
            Cifar::Hundred => 100,
            Cifar::HundredCoarse => 20,
        }
    }

    /// Label bytes of a record, and which of them counts.
    fn label(self) -> (usize, usize) {
        match self {
            Cifar::Ten => (1, 0),
            Cifar::Hundred => (2, 1),
            Cifar::HundredCoarse => (2, 0),
        }
    }

    /// Files of the training set, of the test set, and of the names.
    fn files(self) -> (&'static [&'static str], &'static str, &'static str) {
        match self {
            Cifar::Ten => (
                &[
                    "data_batch_1.bin",
                    "data_batch_2.bin",
                    "data_batch_3.bin",
                    "data_batch_4.bin",
                    "data_batch_5.bin",
                ],
                "test_batch.bin",
                "batches.meta.txt",
            ),
            Cifar::Hundred => (&["train.bin"], "test.bin", "fine_label_names.txt"),
            Cifar::HundredCoarse => (&["train.bin"], "test.bin", "coarse_label_names.txt"),
        }
    }

    /// What a directory holds, by the name of its first training file.
    pub fn of_dir(dir: impl AsRef<Path>) -> Option<Self> {
        let holds = |kind: Cifar| dir.as_ref().join(kind.files().0[0]).is_file();
        [Cifar::Ten, Cifar::Hundred].into_iter().find(|&kind| holds(kind))
    }
}

/// Reads the training and the test set from the files of a directory, which have their original
/// names. Where the file of the names of the classes is there, it is read, too.
///
/// # Errors
/// As [`read`], and when the file of the names does not have one for each class.
pub fn read_dir(dir: impl AsRef<Path>, kind: Cifar) -> Result<(Dataset, Dataset), DataError> {
    let dir = dir.as_ref();
    let (train, test, names) = kind.files();
    let names = class_names(&dir.join(names), kind)?;
    let called = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let part = |part: &str, files: &[&str]| {
        let mut records = Records::default();
        for file in files {
            records.take(&mut open(&dir.join(file))?, kind)?;
        }
        let set = records.dataset(&format!("{called}/{part}"), kind)?;
        Ok(match names.clone() {
            Some(names) => set.with_class_names(names),
            None => set,
        })
    };
    Ok((part("train", train)?, part("test", &[test])?))
}

/// Reads one file of records.
///
/// # Errors
/// [`DataError::Read`] when the system cannot; [`DataError::Malformed`] when the file is empty,
/// when its length is no whole number of records, and for the first label that is no class.
pub fn read(path: impl AsRef<Path>, kind: Cifar) -> Result<Dataset, DataError> {
    let path = path.as_ref();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    one(&mut open(path)?, &name, kind)
}

/// Reads one file of records from memory. `name` stands for the file in messages.
///
/// ```
/// use millrace_loader::cifar::{self, Cifar};
///
/// let mut file = vec![0; 2 * 3073];
/// file[3073] = 7;
/// assert_eq!(cifar::parse("two images", &file, Cifar::Ten)?.labels(), [0, 7]);
///
/// let cut = cifar::parse("cut", &file[..5000], Cifar::Ten).unwrap_err();
/// assert_eq!(
///     cut.to_string(),
///     r#""cut": byte 3073: the file has 5000 bytes, which is no whole number of records of 3073 bytes"#
/// );
/// # Ok::<(), millrace_loader::DataError>(())
/// ```
///
/// # Errors
/// As [`read`].
pub fn parse(name: impl AsRef<Path>, bytes: &[u8], kind: Cifar) -> Result<Dataset, DataError> {
    let name = name.as_ref();
    one(&mut Input::new(name, bytes)?, &name.to_string_lossy(), kind)
}

fn one<R: BufRead>(input: &mut Input<R>, name: &str, kind: Cifar) -> Result<Dataset, DataError> {
    let mut records = Records::default();
    records.take(input, kind)?;
    records.dataset(name, kind)
}

/// What was read so far.
#[derive(Default)]
struct Records {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Records {
    fn take<R: BufRead>(&mut self, input: &mut Input<R>, kind: Cifar) -> Result<(), DataError> {
        let (label_bytes, which) = kind.label();
        let record = label_bytes + PIXELS;
        let bytes = input.read_to_end()?;
        if bytes.is_empty() {
            return Err(input.malformed(0, Reason::Empty));
        }
        let whole = bytes.len() - bytes.len() % record;
        if whole < bytes.len() {
            let (record, found) = (record as u64, bytes.len() as u64);
            return Err(input.malformed(whole as u64, Reason::Records { record, found }));
        }
        for (i, bytes) in bytes.chunks_exact(record).enumerate() {
            let (label, classes) = (bytes[which], kind.classes());
            if usize::from(label) >= classes {
                let offset = (i * record + which) as u64;
                return Err(input.malformed(offset, Reason::Label { index: i, label, classes }));
            }
            self.labels.push(label);
            self.pixels.extend(&bytes[label_bytes..]);
        }
        Ok(())
    }

    fn dataset(self, name: &str, kind: Cifar) -> Result<Dataset, DataError> {
        Dataset::new(name, SHAPE, self.pixels, self.labels, kind.classes())
    }
}

/// The lines of the file of the names, where there is one.
fn class_names(path: &Path, kind: Cifar) -> Result<Option<Vec<String>>, DataError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DataError::Read { file: path.to_owned(), source }),
    };
    let text = String::from_utf8_lossy(&text);
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if names.len() == kind.classes() {
        return Ok(Some(names));
    }
    Err(DataError::ClassNames {
        file: path.to_owned(),
        names: names.len(),
        classes: kind.classes(),
    })
}
