//! The folder of results: a new one for each run of the command, each file complete or absent.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The folder that `results/TIME` is made in.
const RESULTS: &str = "results";

/// A folder of results that did not exist, or was empty, before this run.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
}

impl Output {
    /// Makes the folder: `wanted`, or a new one under `results/` with the time as its name.
    ///
    /// # Errors
    /// When it cannot be made or written, or when `wanted` has something in it: results are
    /// never written over.
    pub fn create(wanted: Option<&Path>) -> Result<Self, Failure> {
        let path = match wanted {
            Some(path) => empty_folder(path)?,
            None => new_folder(Path::new(RESULTS), &time_name())?,
        };
        let output = Output { path };
        // Better to find out now than after minutes of training.
        let probe = output.temporary("probe");
        fs::File::create(&probe).map_err(|error| Failure::io("write in", &output.path, &error))?;
        fs::remove_file(&probe).map_err(|error| Failure::io("write in", &output.path, &error))?;
        Ok(output)
    }

    /// The folder of a run that another process of the same comparison has made.
    pub fn existing(path: &Path) -> Self {
        Output { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of file `name` in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.{}.tmp", std::process::id()))
    }

    /// Writes the file `name`, which appears in the folder only once it is complete and on disk.
    ///
    /// # Errors
    /// When `content` fails or the system does; an older file of that name then stays.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        write_whole(&self.file(name), &self.temporary(name), content)
    }
}

/// Writes `path`, which appears, or changes, only once the new content is complete.
///
/// # Errors
/// When `content` fails or the system does.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    write_whole(path, &temporary, content)
}

fn write_whole(
    path: &Path,
    temporary: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let written = (|| {
        let mut writer = BufWriter::new(fs::File::create(temporary)?);
        content(&mut writer)?;
        writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(temporary, path)
    })();
    written.map_err(|error| {
        // The error to report is the first one; there may be no such file.
        let _ = fs::remove_file(temporary);
        Failure::io("write", path, &error)
    })
}

fn empty_folder(path: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::io("create", path, &error))?;
    let mut entries = fs::read_dir(path).map_err(|error| Failure::io("read", path, &error))?;
    if entries.next().is_some() {
        return Err(Failure::failed(format_args!(
            "--out {}: the folder is not empty; results are never written over",
            path.display()
        )));
    }
    Ok(path.to_owned())
}

/// A folder `parent/name`, or `parent/name-2` and so on where that exists.
fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, Failure> {
    fs::create_dir_all(parent).map_err(|error| Failure::io("create", parent, &error))?;
    for number in 1.. {
        let path = match number {
            1 => parent.join(name),
            _ => parent.join(format!("{name}-{number}")),
        };
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::io("create", &path, &error)),
        }
    }
    unreachable!("some number is free")
}

/// The time in UTC, without the colons that some file systems refuse.
fn time_name() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_never_used_twice() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let make = || new_folder(parent.path(), "now").expect("new folder");
        let names = [make(), make(), make()]
            .map(|path| path.file_name().expect("has a name").to_string_lossy().into_owned());
        assert_eq!(names, ["now", "now-2", "now-3"]);
    }

    #[test]
    fn results_are_never_written_over() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let wanted = folder.path().join("a/b");
        let output = Output::create(Some(&wanted)).expect("a new folder");
        output.write("x", |file| file.write_all(b"old")).expect("written");
        let failure = Output::create(Some(&wanted)).expect_err("not empty");
        assert!(failure.to_string().contains("a/b: the folder is not empty"), "{failure}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let output = Output::create(Some(folder.path())).expect("an empty folder");
        output.write("table.csv", |file| file.write_all(b"old")).expect("written");
        let failure = output
            .write("table.csv", |file| {
                file.write_all(b"half of the new")?;
                Err(io::ErrorKind::StorageFull.into())
            })
            .expect_err("failed");
        assert!(failure.to_string().contains("table.csv"), "{failure}");
        assert_eq!(fs::read(output.file("table.csv")).expect("still there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let failure = Output::create(Some(&file.join("out"))).expect_err("under a file");
        assert_eq!(failure.code(), 1);
        assert!(failure.to_string().contains("file/out"), "{failure}");
    }
}
