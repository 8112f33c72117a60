//! The folder of results: a new one for each run of the command, each file complete or absent.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::failure::Failure;

/// The file by which a command takes its folder.
const CLAIM: &str = "command.txt";
/// The folder that `results/TIME` is made in.
const RESULTS: &str = "results";

/// A folder of results that did not exist, or was empty, before this run.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    /// Locked as long as this process works in the folder; a run of a comparison has no lock of
    /// its own.
    _claim: Option<Arc<File>>,
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
        claim(&path)
    }

    /// Goes on with the results in `path`, and takes the folder for this process.
    ///
    /// # Errors
    /// When it holds no results, or another command works in it.
    pub fn resume(path: &Path) -> Result<Self, Failure> {
        let claim = path.join(CLAIM);
        let file = fs::OpenOptions::new().append(true).open(&claim).map_err(|error| {
            let failure = Failure::io("open", &claim, &error);
            failure.in_context("--resume: no results to go on with")
        })?;
        take(path, file)
    }

    /// The folder of a run that another process of the same comparison has made.
    pub fn existing(path: &Path) -> Self {
        Output { path: path.to_owned(), _claim: None }
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

/// Writes down the command. The file takes the folder for this process: of two that found it
/// empty, one cannot make it. And better to find out now than after minutes of training that
/// nothing can be written.
fn claim(path: &Path) -> Result<Output, Failure> {
    let claim = path.join(CLAIM);
    let file = fs::OpenOptions::new().append(true).create_new(true).open(&claim);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => in_use(path),
        _ => Failure::io("write", &claim, &error),
    })?;
    take(path, file)
}

/// Locks the file of the claim and adds the command to it.
fn take(path: &Path, mut file: File) -> Result<Output, Failure> {
    let failed = |error| Failure::io("write", &path.join(CLAIM), &error);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::failed(format_args!(
                "{}: another command is at work in this folder",
                path.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let words: Vec<_> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    writeln!(file, "{}", words.join(" ")).map_err(failed)?;
    Ok(Output { path: path.to_owned(), _claim: Some(Arc::new(file)) })
}

/// Writes `path`. A file appears, or changes, only once the new content is complete; links are
/// followed; what is no regular file (a pipe, a device) is written to.
///
/// # Errors
/// When `content` fails or the system does.
pub fn write_file(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |error| Failure::io("write", path, &error);
    let target = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path).map_err(failed)?,
        Err(_) if fs::symlink_metadata(path).is_err() => path.to_owned(),
        // Something else, or a link to nothing.
        _ => {
            let open = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
            let mut writer = BufWriter::new(open.map_err(failed)?);
            return content(&mut writer).and_then(|()| writer.flush()).map_err(failed);
        }
    };
    let path = target.as_path();
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
        let mut writer = BufWriter::new(File::create(temporary)?);
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
        return Err(in_use(path));
    }
    Ok(path.to_owned())
}

fn in_use(path: &Path) -> Failure {
    Failure::failed(format_args!(
        "--out {}: the folder is not empty; results are never written over",
        path.display()
    ))
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
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 2);
        assert!(output.file(CLAIM).exists());
    }

    #[test]
    fn of_two_commands_one_gets_the_folder() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let (one, other) = (empty_folder(folder.path()), empty_folder(folder.path()));
        let _output = claim(&one.expect("empty")).expect("the first");
        let failure = claim(&other.expect("still empty")).expect_err("the second");
        assert!(failure.to_string().contains("never written over"), "{failure}");
    }

    #[test]
    fn results_are_gone_on_with_by_one_command_at_a_time() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let failure = Output::resume(folder.path()).expect_err("nothing there");
        assert!(failure.to_string().contains("no results to go on with"), "{failure}");
        let first = Output::create(Some(folder.path())).expect("an empty folder");
        let failure = Output::resume(folder.path()).expect_err("in use");
        assert!(failure.to_string().contains("another command is at work"), "{failure}");
        drop(first);
        let again = Output::resume(folder.path()).expect("free again");
        assert_eq!(fs::read_to_string(again.file(CLAIM)).expect("readable").lines().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_other_things_stay_what_they_are() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let [file, link, dangling] = ["file", "link", "dangling"].map(|f| folder.path().join(f));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        std::os::unix::fs::symlink(folder.path().join("new"), &dangling).expect("linked");
        for path in [&link, &dangling] {
            write_file(path, |out| out.write_all(b"content")).expect("written");
            assert!(path.is_symlink());
            assert_eq!(fs::read(path).expect("readable"), b"content");
        }
        assert_eq!(fs::read(&file).expect("readable"), b"content");
        // A socket stands for devices, which only root can make: it is not replaced.
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        write_file(&socket, |out| out.write_all(b"content")).expect_err("cannot be opened");
        assert!(!fs::symlink_metadata(&socket).expect("still there").is_file());
        write_file(folder.path(), |_| Ok(())).expect_err("a folder");
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
