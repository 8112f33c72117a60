//! A data set as a directory of four files with the standard names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{IMAGES, Images, LABELS, images, labels};
use crate::error::{DataError, Reason};
use crate::input::open;
use crate::{CLASSES, Dataset};

/// One half of a data set.
struct Part {
    /// First word of the file names.
    prefix: &'static str,
    /// Second word of the data set's name.
    name: &'static str,
    /// What the two files hold, for messages.
    roles: [&'static str; 2],
}

const TRAIN: Part =
    Part { prefix: "train", name: "train", roles: ["training images", "training labels"] };
const TEST: Part = Part { prefix: "t10k", name: "test", roles: ["test images", "test labels"] };

/// Reads the training and the test set from the four files of a directory.
///
/// The names are `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte`
/// and `t10k-labels-idx1-ubyte`; each may have a dot before `idx` instead of the hyphen, and
/// may end in `.gz`. Of several that exist, the first in that order is read. Whether a file is
/// compressed, its content says.
///
/// # Errors
/// [`DataError::Missing`] lists what was looked for and what is there; otherwise as
/// [`read_images`](super::read_images) and [`read_labels`](super::read_labels), and when the parts do not go together.
pub fn read_dir(dir: impl AsRef<Path>) -> Result<(Dataset, Dataset), DataError> {
    let dir = dir.as_ref();
    let names = list(dir)?;
    // All four are looked for before any is read: a missing file is then told at once.
    let [train_images, test_images] = [find(dir, &names, &TRAIN, 0)?, find(dir, &names, &TEST, 0)?];
    let [train_labels, test_labels] = [find(dir, &names, &TRAIN, 1)?, find(dir, &names, &TEST, 1)?];

    let train = read_part(&train_images, &train_labels, |_| None)?;
    let [rows, cols] = [train.0.rows, train.0.cols];
    let test = read_part(&test_images, &test_labels, |test| {
        ([test.rows, test.cols] != [rows, cols]).then(|| Reason::Size {
            found: [test.rows, test.cols],
            other: [rows, cols],
            other_file: train_images.clone(),
        })
    })?;
    Ok((dataset(dir, &TRAIN, train)?, dataset(dir, &TEST, test)?))
}

/// Whether a directory has a file with one of the four names.
pub fn is_dir(dir: impl AsRef<Path>) -> bool {
    let Ok(names) = list(dir.as_ref()) else { return false };
    [TRAIN, TEST]
        .iter()
        .any(|part| (0..2).any(|which| find(dir.as_ref(), &names, part, which).is_ok()))
}

/// Offset of the first size in a header, the count; that of rows and columns follows it.
const COUNT: u64 = 4;

/// Reads a pair of files, asks `refuse` about the images, and compares the counts.
fn read_part(
    images_file: &Path,
    labels_file: &Path,
    refuse: impl Fn(&Images) -> Option<Reason>,
) -> Result<(Images, Vec<u8>), DataError> {
    let mut input = open(images_file)?;
    let images = images(&mut input)?;
    if let Some(reason) = refuse(&images) {
        return Err(input.malformed(COUNT + 4, reason));
    }
    let mut input = open(labels_file)?;
    let labels = labels(&mut input, CLASSES)?;
    if labels.len() != images.count {
        let (labels, images, images_file) = (labels.len(), images.count, images_file.to_owned());
        return Err(input.malformed(COUNT, Reason::Counts { labels, images, images_file }));
    }
    Ok((images, labels))
}

fn dataset(
    dir: &Path,
    part: &Part,
    (images, labels): (Images, Vec<u8>),
) -> Result<Dataset, DataError> {
    let dir = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let name = format!("{dir}/{}", part.name);
    Dataset::new(name, [1, images.rows, images.cols], images.pixels, labels, CLASSES)
}

/// The names in a directory, sorted.
fn list(dir: &Path) -> Result<Vec<OsString>, DataError> {
    let error = |source| DataError::Read { file: dir.to_owned(), source };
    let mut names = Vec::new();
    for entry in dir.read_dir().map_err(error)? {
        names.push(entry.map_err(error)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Finds the images (`which` 0) or labels (1) of a part.
fn find(dir: &Path, names: &[OsString], part: &Part, which: usize) -> Result<PathBuf, DataError> {
    let kind = [&IMAGES, &LABELS][which];
    let (what, dimensions) = (kind.what, kind.dimensions());
    let looked_for: Vec<String> = ["-", "."]
        .iter()
        .flat_map(|dot| ["", ".gz"].map(|end| (dot, end)))
        .map(|(dot, end)| format!("{}-{what}{dot}idx{dimensions}-ubyte{end}", part.prefix))
        .collect();
    match looked_for.iter().find(|name| names.iter().any(|found| found == name.as_str())) {
        Some(name) => Ok(dir.join(name)),
        None => Err(DataError::Missing {
            dir: dir.to_owned(),
            role: part.roles[which],
            looked_for,
            found: names.iter().map(|name| format!("{name:?}")).collect(),
        }),
    }
}
