//! Which files a folder of class folders has.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// Deeper folders than this are links in a circle.
const MAX_DEPTH: usize = 16;

/// Names that systems leave behind in folders of images; others of their kind begin with a dot.
const LITTER: [&str; 3] = ["Thumbs.db", "ehthumbs.db", "desktop.ini"];

/// Whether a name is no sample's and no class's.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
        || LITTER.iter().any(|litter| name.eq_ignore_ascii_case(litter))
}

/// The names in a folder in order of their bytes, and whether each is a folder. Links are
/// followed.
pub(super) fn list(dir: &Path) -> Result<Vec<(OsString, bool)>, DataError> {
    let refused = |source| DataError::Read { file: dir.to_owned(), source };
    let mut names = Vec::new();
    for entry in dir.read_dir().map_err(refused)? {
        let entry = entry.map_err(refused)?;
        // What is neither file nor folder, such as a link to nothing, is told when it is read.
        let is_dir = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
        names.push((entry.file_name(), is_dir));
    }
    names.sort();
    Ok(names)
}

/// All files in a folder and the folders in it, in order; hidden ones go to `skipped`.
pub(super) fn files(dir: &Path, skipped: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    walk(dir, 0, &mut found, skipped)?;
    Ok(found)
}

fn walk(
    dir: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    skipped: &mut Vec<PathBuf>,
) -> Result<(), DataError> {
    if depth > MAX_DEPTH {
        return Err(DataError::Depth { dir: dir.to_owned(), limit: MAX_DEPTH });
    }
    for (name, is_dir) in list(dir)? {
        let path = dir.join(&name);
        match (is_hidden(&name), is_dir) {
            (true, _) => skipped.push(path),
            (false, true) => walk(&path, depth + 1, found, skipped)?,
            (false, false) => found.push(path),
        }
    }
    Ok(())
}
