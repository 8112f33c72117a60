//! Folders of class folders: the form in which most people keep their images.
//!
//! Each folder in the data set's folder is a class, and every file in it (or in folders in it) is
//! a sample of that class. Classes are numbered in the order of the bytes of their names, samples
//! follow each other class by class in the order of theirs. Names need not be UTF-8.
//!
//! Names that begin with a dot, `Thumbs.db` and `desktop.ini` are skipped, and listed
//! ([`Folder::skipped`]). Anything else in a class folder is taken for an image, whatever its
//! name ends in: one that is not is a bad sample, which [`check`](crate::check) finds.

mod scan;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scan::{files, is_hidden, list};

use crate::error::DataError;
use crate::images::{ImageOptions, ImageReader, size_of_file};
use crate::pool::Pool;
use crate::{SamplePlace, Samples};

/// Labels are bytes.
const MAX_CLASSES: usize = 256;

/// How a folder is read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FolderOptions {
    /// What becomes of the images.
    pub images: ImageOptions,
    /// Whether a class may have no sample; that is an error by default.
    pub allow_empty_classes: bool,
}

/// A data set whose samples are image files, in one folder for each class.
///
/// ```
/// use millrace_loader::{Samples, folder::{Folder, FolderOptions}};
///
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path();
/// # let mut blue = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
/// # blue.extend([0; 24]);
/// # blue.extend([255, 0, 0, 0]);
/// for path in ["cats/1.bmp", "cats/2.bmp", "dogs/1.bmp", "dogs/.hidden"] {
///     let path = root.join(path);
///     std::fs::create_dir_all(path.parent().unwrap())?;
///     std::fs::write(path, &blue)?;
/// }
/// let set = Folder::open(root, &FolderOptions::default())?;
/// assert_eq!((set.len(), set.shape(), set.skipped().len()), (3, [3, 1, 1], 1));
/// assert_eq!(set.class_names(), ["cats", "dogs"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Folder {
    name: String,
    classes: Arc<Classes>,
    files: Vec<PathBuf>,
    labels: Vec<u8>,
    skipped: Vec<PathBuf>,
    size: [usize; 2],
    options: ImageOptions,
    readers: Pool<ImageReader>,
}

/// The classes of one or several folders.
#[derive(Debug, PartialEq, Eq)]
struct Classes {
    /// Names of the folders, sorted.
    folders: Vec<OsString>,
    /// The same for people.
    names: Vec<String>,
    /// The folder that they are those of.
    root: PathBuf,
}

impl Classes {
    fn of(root: &Path) -> Result<Self, DataError> {
        let found = list(root)?;
        let folders: Vec<OsString> = found
            .iter()
            .filter(|(name, is_dir)| *is_dir && !is_hidden(name))
            .map(|(name, _)| name.clone())
            .collect();
        if folders.is_empty() {
            let found = found.iter().map(|(name, _)| format!("{name:?}")).collect();
            return Err(DataError::NoClass { dir: root.to_owned(), found });
        }
        if folders.len() > MAX_CLASSES {
            return Err(DataError::Classes { dir: root.to_owned(), classes: folders.len() });
        }
        let names = folders.iter().map(|name| printable(name)).collect();
        Ok(Classes { folders, names, root: root.to_owned() })
    }
}

/// A name as it is, or with its odd bytes escaped.
fn printable(name: &OsStr) -> String {
    match name.to_str() {
        Some(name) => name.to_owned(),
        None => format!("{name:?}").trim_matches('"').to_owned(),
    }
}

/// The parts of a data set, which share their classes and the size of their samples.
#[derive(Debug)]
pub struct Parts {
    /// The folder `train`.
    pub train: Folder,
    /// The folder `test`, or else `val`, `valid` or `validation`.
    pub test: Option<Folder>,
}

impl Folder {
    /// Finds the classes and the samples of a folder; no image is decoded. Where no size is asked
    /// for, the header of the first image is read.
    ///
    /// # Errors
    /// When a folder cannot be listed, when there is no class, or more than 256, when a class has
    /// no sample and may not, or when the first image has to tell the size and cannot.
    pub fn open(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Self, DataError> {
        let root = root.as_ref();
        Folder::with_classes(root, Arc::new(Classes::of(root)?), options)
    }

    fn with_classes(
        root: &Path,
        classes: Arc<Classes>,
        options: &FolderOptions,
    ) -> Result<Self, DataError> {
        let mut skipped = Vec::new();
        for (name, is_dir) in list(root)? {
            if !is_dir || is_hidden(&name) {
                skipped.push(root.join(name));
            } else if !classes.folders.contains(&name) {
                let (dir, other) = (root.to_owned(), classes.root.clone());
                return Err(DataError::OtherClass { dir, class: name, other });
            }
        }
        let (mut all, mut labels) = (Vec::new(), Vec::new());
        for (class, name) in classes.folders.iter().enumerate() {
            let dir = root.join(name);
            // A class of the training set may be missing in a test set, as an empty one may.
            let found = if dir.is_dir() { files(&dir, &mut skipped)? } else { Vec::new() };
            if found.is_empty() && !options.allow_empty_classes {
                return Err(DataError::EmptyClass { dir: root.to_owned(), class: name.clone() });
            }
            labels.resize(labels.len() + found.len(), class as u8);
            all.extend(found);
        }
        let name = root.display().to_string();
        if u32::try_from(all.len()).is_err() {
            return Err(DataError::TooMany { name, samples: all.len() });
        }
        let size = match (options.images.size, all.first()) {
            (Some(size), _) => size,
            (None, Some(first)) => size_of_file(first, &options.images)?,
            (None, None) => [1, 1],
        };
        Ok(Folder {
            name,
            classes,
            files: all,
            labels,
            skipped,
            size,
            options: options.images.clone(),
            readers: Pool::default(),
        })
    }

    /// Opens the parts of a data set: the folder `train` in `root`, and one for tests. The classes
    /// are those of `train`, in both.
    ///
    /// # Errors
    /// As [`open`](Folder::open) for each, and when the other part has a class that `train` has
    /// not.
    pub fn open_parts(root: impl AsRef<Path>, options: &FolderOptions) -> Result<Parts, DataError> {
        let root = root.as_ref();
        let train = Folder::open(root.join("train"), options)?;
        let test = ["test", "val", "valid", "validation"]
            .iter()
            .map(|name| root.join(name))
            .find(|path| path.is_dir());
        let mut options = options.clone();
        options.images.size = Some(train.size);
        let open = |path: PathBuf| Folder::with_classes(&path, train.classes.clone(), &options);
        let test = test.map(open).transpose()?;
        Ok(Parts { train, test })
    }

    /// Whether `root` has a folder `train`, for [`open_parts`](Folder::open_parts).
    pub fn has_parts(root: impl AsRef<Path>) -> bool {
        root.as_ref().join("train").is_dir()
    }

    /// Whether `root` has folders that could be classes.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn has_folders(root: impl AsRef<Path>) -> Result<bool, DataError> {
        Ok(list(root.as_ref())?.iter().any(|(name, is_dir)| *is_dir && !is_hidden(name)))
    }

    /// Files and folders that were not looked at: hidden ones, and files beside the class folders.
    pub fn skipped(&self) -> &[PathBuf] {
        &self.skipped
    }

    /// The file of a sample.
    ///
    /// # Panics
    /// When there is no such sample.
    pub fn file(&self, index: usize) -> &Path {
        &self.files[index]
    }

    /// The class of each sample.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("name", &self.name)
            .field("samples", &self.files.len())
            .field("classes", &self.classes.names)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Samples for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn shape(&self) -> [usize; 3] {
        [self.options.colours.channels(), self.size[0], self.size[1]]
    }

    fn classes(&self) -> usize {
        self.classes.folders.len()
    }

    fn class_names(&self) -> &[String] {
        &self.classes.names
    }

    fn label(&self, index: usize) -> Option<u8> {
        Some(self.labels[index])
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
        labels[0] = self.labels[place.index];
        self.readers.with(
            || ImageReader::new(self.size, self.options.clone()),
            |reader| reader.decode_file(&self.files[place.index], values),
        )
    }
}
