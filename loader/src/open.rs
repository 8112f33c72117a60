//! Opens a data set of any form by its path.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cifar::{self, Cifar};
use crate::error::DataError;
use crate::folder::{Folder, FolderOptions};
use crate::npy::NpySet;
use crate::{Dataset, Samples, idx};

/// The form of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The four IDX files of MNIST and its relatives ([`idx`]).
    Idx,
    /// The binary files of CIFAR-10 or CIFAR-100 ([`cifar`]).
    Cifar,
    /// A folder of class folders, or one for each part ([`folder`](crate::folder)).
    Folder,
    /// A folder with two NPY files, or one for each part ([`npy`](crate::npy)).
    Npy,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Idx => "IDX",
            Format::Cifar => "CIFAR",
            Format::Folder => "folder of class folders",
            Format::Npy => "NPY",
        })
    }
}

/// A data set that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What it is.
    pub format: Format,
    /// Samples to train on; of a data set that is not divided, all.
    pub train: Arc<dyn Samples>,
    /// Samples to test on, where there are some.
    pub test: Option<Arc<dyn Samples>>,
    /// What was found and not looked at.
    pub skipped: Vec<PathBuf>,
}

/// Opens a data set: CIFAR's files are known by the name of the first one, NPY files by their
/// names, also in folders `train` and `test`; a folder with the folder `train`, or with other
/// folders, is one of images; any other is one of IDX files.
///
/// ```no_run
/// use millrace_loader::open::open;
///
/// let opened = open("flowers", &Default::default())?;
/// println!("{}: {} samples to train on", opened.format, opened.train.len());
/// # Ok::<(), millrace_loader::DataError>(())
/// ```
///
/// # Errors
/// When it cannot be opened as what it seems to be.
pub fn open(path: impl AsRef<Path>, options: &FolderOptions) -> Result<Opened, DataError> {
    let path = path.as_ref();
    if let Some(kind) = Cifar::of_dir(path) {
        return Ok(in_memory(Format::Cifar, cifar::read_dir(path, kind)?));
    }
    let [train, test] = ["train", "test"].map(|part| path.join(part));
    if NpySet::is_dir(path) || NpySet::is_dir(&train) {
        let undivided = NpySet::is_dir(path);
        let train = Arc::new(NpySet::open_dir(if undivided { path } else { &train })?);
        let test = (!undivided && NpySet::is_dir(&test)).then(|| NpySet::open_dir(&test));
        let test = test.transpose()?.map(|test| Arc::new(test) as Arc<dyn Samples>);
        return Ok(Opened { format: Format::Npy, train, test, skipped: Vec::new() });
    }
    if Folder::has_parts(path) {
        let parts = Folder::open_parts(path, options)?;
        let mut skipped = parts.train.skipped().to_vec();
        skipped.extend(parts.test.iter().flat_map(|test| test.skipped().iter().cloned()));
        let test = parts.test.map(|test| Arc::new(test) as Arc<dyn Samples>);
        return Ok(Opened { format: Format::Folder, train: Arc::new(parts.train), test, skipped });
    }
    if idx::is_dir(path) || !Folder::has_folders(path)? {
        return Ok(in_memory(Format::Idx, idx::read_dir(path)?));
    }
    let folder = Folder::open(path, options)?;
    let skipped = folder.skipped().to_vec();
    Ok(Opened { format: Format::Folder, train: Arc::new(folder), test: None, skipped })
}

fn in_memory(format: Format, (train, test): (Dataset, Dataset)) -> Opened {
    let (train, test) = (Arc::new(train), Arc::new(test));
    Opened { format, train, test: Some(test), skipped: Vec::new() }
}
