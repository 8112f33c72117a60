//! How the command ends: one line on standard error and an exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit code after Ctrl-C or a termination signal.
pub const INTERRUPTED: u8 = 130;

/// What stopped the command.
///
/// | kind | exit code |
/// |---|---|
/// | usage: the command line asks for something that cannot be | 2 |
/// | failure: a file, the system or a run failed | 1 |
/// | interruption: Ctrl-C or a termination signal | 130 |
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Usage,
    Failure,
    Interrupted,
    BrokenPipe,
}

impl Failure {
    /// The command line asks for something that cannot be.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Something failed; `message` says what and where.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Kind::Failure, message)
    }

    /// The user stopped the command; `message` says what stays behind.
    pub fn interrupted(message: impl fmt::Display) -> Self {
        Self::new(Kind::Interrupted, message)
    }

    /// `doing` ("write", "create", ...) something to `path` failed.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format_args!("cannot {doing} {}: {error}", path.display()))
    }

    /// Writing to standard output failed. A reader that has seen enough is no failure.
    pub fn stdout(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => Kind::BrokenPipe,
            _ => Kind::Failure,
        };
        Self::new(kind, format_args!("cannot write to standard output: {error}"))
    }

    /// The same failure, of the part called `part`.
    pub(crate) fn in_context(self, part: impl fmt::Display) -> Self {
        Self::new(self.kind, format_args!("{part}: {}", self.message))
    }

    fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Failure { kind, message: one_line(&message.to_string()) }
    }

    /// Whether the user stopped the command.
    pub fn is_interruption(&self) -> bool {
        self.kind == Kind::Interrupted
    }

    /// The number that the process ends with.
    pub fn code(&self) -> u8 {
        match self.kind {
            Kind::BrokenPipe => 0,
            Kind::Failure => 1,
            Kind::Usage => 2,
            Kind::Interrupted => INTERRUPTED,
        }
    }

    /// Says on standard error what happened, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        use io::Write;
        if self.kind != Kind::BrokenPipe {
            // Nothing can be done about a standard error that is closed.
            let _ = writeln!(io::stderr(), "error: {self}");
        }
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error with everything that caused it, in one line.
///
/// Messages that already quote their cause are not repeated.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        source = cause.source();
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_code_and_one_line() {
        assert_eq!(Failure::usage("no").code(), 2);
        assert_eq!(Failure::failed("two\n\n  lines").to_string(), "two; lines");
        assert_eq!(Failure::interrupted("").code(), 130);
        assert_eq!(Failure::stdout(&io::ErrorKind::BrokenPipe.into()).code(), 0);
        assert_eq!(Failure::stdout(&io::ErrorKind::StorageFull.into()).code(), 1);
        let part = Failure::usage("--epochs 0").in_context("double/naive");
        assert_eq!((part.code(), part.to_string().as_str()), (2, "double/naive: --epochs 0"));
        let denied = Failure::io("create", Path::new("/x"), &io::Error::from_raw_os_error(13));
        assert_eq!(denied.to_string(), "cannot create /x: Permission denied (os error 13)");
    }
}
