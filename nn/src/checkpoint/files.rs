//! Files that are complete or absent, and the names of those of a checkpoint.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::CheckpointError;

/// Writes `path` so that it holds either what it held before or all of `content`, whenever the
/// process or the system stops: to a temporary file in the same folder, which then takes its name.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), CheckpointError> {
    let temporary = temporary(path);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync(folder(path))
    })();
    written.map_err(|error| {
        // The error to report is the first one; there may be no such file.
        let _ = fs::remove_file(&temporary);
        CheckpointError::io("write", path)(error)
    })
}

/// The folder that a file is in.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes sure that the names in a folder are on disk.
#[cfg(unix)]
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems know no such call.
#[cfg(not(unix))]
fn sync(_folder: &Path) -> io::Result<()> {
    Ok(())
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

/// The files of tensors of a checkpoint: `last-7.safetensors` and `last-7.optimiser.safetensors`
/// beside `last.json`. Each save takes a new number, so that the files of the last one stay until
/// the new ones are complete.
pub(super) struct Names<'a> {
    folder: &'a Path,
    stem: &'a str,
}

/// How the name of each file of tensors ends.
const ENDS: [&str; 2] = [".safetensors", ".optimiser.safetensors"];

impl<'a> Names<'a> {
    /// The names for the checkpoint at `path`.
    pub(super) fn new(path: &'a Path) -> Result<Self, CheckpointError> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        match (stem, path.extension()) {
            (Some(stem), Some(end)) if end == "json" => Ok(Self { folder: folder(path), stem }),
            _ => {
                let wanted = "a checkpoint is a file that ends in .json, its name valid UTF-8";
                let error = io::Error::new(io::ErrorKind::InvalidInput, wanted);
                Err(CheckpointError::io("use", path)(error))
            }
        }
    }

    /// The names of weights and optimiser that have this number.
    pub(super) fn of(&self, number: u64) -> [String; 2] {
        ENDS.map(|end| format!("{}-{number}{end}", self.stem))
    }

    /// A number that no file has yet.
    pub(super) fn free_number(&self) -> Result<u64, CheckpointError> {
        let taken = self.entries()?.filter_map(|name| self.number(&name)).max();
        Ok(taken.map_or(1, |taken| taken.saturating_add(1)))
    }

    /// Removes the files of other saves, finished or not. What cannot be removed stays: it does no
    /// harm.
    pub(super) fn clean(&self, number: u64) {
        for name in self.entries().into_iter().flatten() {
            let whole = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
            if self.number(whole.unwrap_or(&name)).is_some_and(|other| other != number) {
                let _ = fs::remove_file(self.folder.join(name));
            }
        }
    }

    /// The number in the name of one of the files.
    fn number(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(self.stem)?.strip_prefix('-')?;
        ENDS.iter().find_map(|end| rest.strip_suffix(end)?.parse().ok())
    }

    fn entries(&self) -> Result<impl Iterator<Item = String>, CheckpointError> {
        let entries =
            fs::read_dir(self.folder).map_err(CheckpointError::io("read", self.folder))?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
    }
}
