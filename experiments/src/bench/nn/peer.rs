//! The same cases in PyTorch: `experiments/peers/train_torch.py`, run by a Python that has it.
//!
//! The program lives as long as the benchmark. It reads one line per measurement, `NET MODE BATCH
//! THREADS SECONDS`, and answers with one line of JSON, `{"images_per_s": ...}` or `{"error": ...}`.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Case;
use crate::failure::Failure;

const PROGRAM: &str = include_str!("../../../peers/train_torch.py");

const ENDED: &str = "the program ended (does this Python have PyTorch?)";

/// How PyTorch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Mode {
    /// Operation by operation, images as planes.
    Eager,
    /// The same with images channels last.
    ChannelsLast,
    /// `torch.compile`.
    Compile,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Eager, Self::ChannelsLast, Self::Compile];

    /// Its name, as in options, tables and messages to the program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::ChannelsLast => "channels_last",
            Self::Compile => "compile",
        }
    }
}

/// The running program. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Peer {
    python: PathBuf,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    ImagesPerS(f64),
    Error(String),
}

impl Peer {
    /// Starts the program.
    ///
    /// # Errors
    /// When the interpreter cannot be started.
    pub(super) fn start(python: &Path) -> Result<Self, Failure> {
        let child = Command::new(python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| Failure::io("starting", python, &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => {
                Ok(Self { python: python.to_owned(), child, to, from: BufReader::new(from) })
            }
            _ => unreachable!("both are piped"),
        }
    }

    /// Images per second of one case.
    ///
    /// # Errors
    /// When the program ends, fails, or says something else.
    pub(super) fn rate(&mut self, case: &Case, mode: Mode, seconds: f64) -> Result<f64, Failure> {
        let Case { net, batch, workers } = case;
        let line = format!("{} {} {batch} {workers} {seconds}\n", net.name(), mode.name());
        let sent = self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush());
        let mut answer = String::new();
        let read = sent.and_then(|()| self.from.read_line(&mut answer));
        let failed = |what: &str| {
            Failure::failed(format_args!(
                "--peer {}: {} of {}: {what}",
                self.python.display(),
                mode.name(),
                net.name()
            ))
        };
        match (read, serde_json::from_str(&answer)) {
            (Ok(0), _) => Err(failed(ENDED)),
            (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Err(failed(ENDED)),
            (Err(error), _) => Err(failed(&error.to_string())),
            (Ok(_), Ok(Answer::ImagesPerS(rate))) if rate > 0.0 => Ok(rate),
            (Ok(_), Ok(Answer::Error(error))) => Err(failed(&error)),
            (Ok(_), _) => Err(failed(&format!("no figure in {answer:?}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing more to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
