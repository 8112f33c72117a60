//! Other runtimes' programs, run beside ours.
//!
//! A folder of peers holds programs by fixed names. Each is called `PROGRAM WORKERS BODY_US
//! SCENARIO` (`rust-peers`: `PEER WORKERS BODY_US`) and prints one line per runtime and scenario:
//! both names, then words `key=value`, of which `total` and `submit` are nanoseconds per task.
//! What breaks the order of its tasks prints `WRONG`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::interrupt;

/// Programs that run one scenario, by their places in the folder.
const PROGRAMS: [&str; 5] = ["taskflow", "starpu", "omp_gcc", "omp_clang", "tbb"];
/// The program that runs every scenario, and its peers that know dependencies.
const RUST: (&str, [&str; 2]) = ("rust/target/release/rust-peers", ["proto", "rayon-dag"]);

/// What one line of a program tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) peer: String,
    pub(super) scenario: String,
    pub(super) total: f64,
    pub(super) submit: f64,
}

/// The programs that a folder has.
#[derive(Debug)]
pub(super) struct Peers {
    programs: Vec<PathBuf>,
    rust: Option<PathBuf>,
}

impl Peers {
    /// Looks which programs there are.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn find(folder: &Path) -> Result<Self, Failure> {
        let exists = |path: &PathBuf| path.is_file();
        let programs: Vec<_> =
            PROGRAMS.iter().map(|name| folder.join(name)).filter(exists).collect();
        let rust = Some(folder.join(RUST.0)).filter(exists);
        if programs.is_empty() && rust.is_none() {
            return Err(Failure::failed(format_args!(
                "--peers {}: none of the programs {}, {} is there (are they built?)",
                folder.display(),
                PROGRAMS.join(", "),
                RUST.0
            )));
        }
        Ok(Peers { programs, rust })
    }

    /// Runs one scenario by each program.
    pub(super) fn scenario(
        &self,
        scenario: &str,
        workers: usize,
        body_us: u64,
    ) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        for program in &self.programs {
            let arguments = [workers.to_string(), body_us.to_string(), scenario.to_owned()];
            lines.extend(call(program, &arguments, workers)?.lines().filter_map(parse));
        }
        Ok(lines)
    }

    /// Runs every scenario by the program that cannot run one alone.
    pub(super) fn all(&self, workers: usize, body_us: u64) -> Result<Vec<Line>, Failure> {
        let Some(program) = &self.rust else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        for peer in RUST.1 {
            let arguments = [peer.to_owned(), workers.to_string(), body_us.to_string()];
            lines.extend(call(program, &arguments, workers)?.lines().filter_map(parse));
        }
        Ok(lines)
    }
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// When it cannot be started, fails or prints `WRONG`; when the user stops it.
pub(super) fn call(
    program: &Path,
    arguments: &[String],
    workers: usize,
) -> Result<String, Failure> {
    let failed = |what: &dyn std::fmt::Display| {
        Failure::failed(format_args!("{} {}: {what}", program.display(), arguments.join(" ")))
    };
    let output = Command::new(program)
        .args(arguments)
        // StarPU's settings; the cost of GCC's fan-out grows with the square of its rounds.
        .envs([("STARPU_NCPU", workers.to_string().as_str()), ("STARPU_SILENT", "1")])
        .envs([("STARPU_NCUDA", "0"), ("STARPU_NOPENCL", "0"), ("FAN_ROUNDS", "100")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| failed(&error))?;
    // A signal from the terminal reaches the program as well.
    if interrupt::requested() {
        return Err(super::stopped());
    }
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().find(|line| line.contains("WRONG")) {
        Some(wrong) => Err(failed(&wrong)),
        None => Ok(text),
    }
}

fn parse(line: &str) -> Option<Line> {
    let (peer, scenario, values) = words(line)?;
    let number = |key: &str| values.get(key)?.parse().ok();
    Some(Line {
        peer: peer.to_owned(),
        scenario: scenario.to_owned(),
        total: number("total")?,
        submit: number("submit")?,
    })
}

/// The parts of a line: the peer, what it ran, and its words `key=value`.
pub(super) fn words(line: &str) -> Option<(&str, &str, BTreeMap<&str, &str>)> {
    let mut words = line.split_whitespace();
    let names = (words.next()?, words.next()?);
    Some((names.0, names.1, words.filter_map(|word| word.split_once('=')).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_their_keys() {
        let line = "taskflow-stf     chain        body=0  w=2 n=100000 total=125 min=100 max=180 \
                    submit=97 others=0.01";
        let expected = Line {
            peer: "taskflow-stf".to_owned(),
            scenario: "chain".to_owned(),
            total: 125.0,
            submit: 97.0,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("calibrating"), None);
        assert_eq!(parse("x chain total=fast submit=1"), None);
    }

    #[test]
    fn a_folder_without_programs_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Peers::find(folder.path()).expect_err("nothing there");
        assert!(error.to_string().contains("taskflow"), "{error}");
    }
}
