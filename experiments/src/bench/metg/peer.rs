//! The same graphs on StarPU: `experiments/peers/metg_starpu.cpp`.
//!
//! The program is called `metg_starpu WORKERS PATTERN KERNEL WIDTH TIMESTEPS ITERATIONS`, checks
//! the order of its tasks, and prints one line: both names, then `wall_ns`, the time of a run, and
//! `work`, the floating-point operations or bytes of one iteration.

use std::path::{Path, PathBuf};

use super::Setting;
use crate::bench::peers::{call, words};
use crate::failure::Failure;

/// The program's place in a folder of peers.
const PROGRAM: &str = "metg_starpu";

/// StarPU's program.
#[derive(Debug)]
pub(super) struct Peer {
    program: PathBuf,
}

/// What one run of the program tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) peer: String,
    pub(super) wall_ns: f64,
    pub(super) work: f64,
}

impl Peer {
    /// Looks for the program.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn find(folder: &Path) -> Result<Self, Failure> {
        let program = folder.join(PROGRAM);
        match program.is_file() {
            true => Ok(Peer { program }),
            false => Err(Failure::failed(format_args!(
                "--peers {}: the program {PROGRAM} is not there (experiments/peers/{PROGRAM}.cpp \
                 tells how to build it)",
                folder.display(),
            ))),
        }
    }

    /// Runs one granularity.
    ///
    /// # Errors
    /// When the program fails or prints something else than it should.
    pub(super) fn run(
        &self,
        setting: &Setting,
        timesteps: u32,
        iterations: u32,
    ) -> Result<Answer, Failure> {
        let arguments = [
            setting.workers.to_string(),
            setting.pattern.name().to_owned(),
            setting.kernel.name().to_owned(),
            setting.width.to_string(),
            timesteps.to_string(),
            iterations.to_string(),
        ];
        let text = call(&self.program, &arguments, setting.workers)?;
        text.lines().find_map(|line| parse(line, setting.pattern.name())).ok_or_else(|| {
            Failure::failed(format_args!(
                "{} {}: no figure in what it printed: {text}",
                self.program.display(),
                arguments.join(" ")
            ))
        })
    }
}

fn parse(line: &str, pattern: &str) -> Option<Answer> {
    let (peer, ran, values) = words(line)?;
    let number = |key: &str| {
        let value: f64 = values.get(key)?.parse().ok()?;
        Some(value).filter(|value| value.is_finite() && *value > 0.0)
    };
    let answer =
        Answer { peer: peer.to_owned(), wall_ns: number("wall_ns")?, work: number("work")? };
    Some(answer).filter(|_| ran == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_the_pattern_and_have_figures() {
        let line = "starpu-default fft kernel=compute w=2 wall_ns=1.5e6 work=96";
        let expected = Answer { peer: "starpu-default".to_owned(), wall_ns: 1.5e6, work: 96.0 };
        assert_eq!(parse(line, "fft"), Some(expected));
        assert_eq!(parse(line, "nearest"), None);
        assert_eq!(parse("starpu fft wall_ns=0 work=96", "fft"), None);
        assert_eq!(parse("starpu fft wall_ns=nan work=96", "fft"), None);
        assert_eq!(parse("starpu fft wall_ns=5", "fft"), None);
    }

    #[test]
    fn a_folder_without_the_program_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Peer::find(folder.path()).expect_err("nothing there").to_string();
        assert!(error.contains("metg_starpu") && error.contains("build"), "{error}");
    }
}
