//! Other runtimes' programs that measure some of the same.
//!
//! `starpu_data WORKERS` prints lines `what   med=12 ns ...` or `what   12 bytes/task, ...`;
//! `omp_mem_gcc THREADS TASKS` prints `what: 12 outstanding of 12: 34 bytes/task RSS, 56
//! bytes/task heap, ...`.

use std::path::{Path, PathBuf};

use super::rows::CostRow;
use crate::bench::peers::call;
use crate::failure::Failure;

const PROGRAMS: [&str; 2] = ["starpu_data", "omp_mem_gcc"];
/// StarPU's workers, beside the submitting thread.
const WORKERS: usize = 1;
/// Each thread of GCC's lets 64 tasks be unfinished; from then on they run at once.
const OPENMP: (usize, usize) = (256, 16_000);

/// Rows, and the lines of StarPU's program whose sum is the same.
const STARPU: [(&str, &[(&str, &str)]); 8] = [
    ("task.memory", &[("1M outstanding, chain on one handle", "")]),
    ("handle.memory", &[("RSS per registered handle (300k)", "")]),
    (
        "handle.cycle",
        &[("vector_data_register (per handle)", "med="), ("data_unregister, never used", "med=")],
    ),
    ("acquire.handle", &[("data_acquire(RW)+release, idle handle", "med=")]),
    ("wait.idle", &[("wait_for_all, empty runtime", "med=")]),
    ("wait.worker", &[("one task + wait_for_all", "med=")]),
    ("submit.held", &[("1M outstanding, chain on one handle", "submit ")]),
    ("drain.million", &[("  draining them", "")]),
];
/// The same for GCC's.
const GCC: [(&str, &[(&str, &str)]); 2] = [
    ("task.memory", &[("one handle each", "RSS, ")]),
    ("submit.held", &[("one handle each", "submit ")]),
];

/// The programs that a folder has.
#[derive(Debug)]
pub(super) struct CostPeers {
    starpu: Option<PathBuf>,
    gcc: Option<PathBuf>,
}

impl CostPeers {
    /// Looks which programs there are.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn find(folder: &Path) -> Result<Self, Failure> {
        let [starpu, gcc] =
            PROGRAMS.map(|name| Some(folder.join(name)).filter(|path| path.is_file()));
        if starpu.is_none() && gcc.is_none() {
            return Err(Failure::failed(format_args!(
                "--peers {}: none of the programs {} is there (are they built?)",
                folder.display(),
                PROGRAMS.join(", ")
            )));
        }
        Ok(CostPeers { starpu, gcc })
    }

    /// Runs them and adds what they print to the rows.
    pub(super) fn measure(&self, rows: &mut [CostRow]) -> Result<(), Failure> {
        if let Some(program) = &self.starpu {
            let text = call(program, &[WORKERS.to_string()], WORKERS)?;
            add(rows, "StarPU", &text, &STARPU);
        }
        if let Some(program) = &self.gcc {
            let arguments = [OPENMP.0.to_string(), OPENMP.1.to_string()];
            add(rows, "OpenMP (GCC)", &call(program, &arguments, OPENMP.0)?, &GCC);
        }
        Ok(())
    }
}

fn add(rows: &mut [CostRow], peer: &str, text: &str, known: &[(&str, &[(&str, &str)])]) {
    for (name, parts) in known {
        let figures: Option<Vec<f64>> =
            parts.iter().map(|(what, key)| figure(text, what, key)).collect();
        let row = rows.iter_mut().find(|row| row.name == *name);
        if let (Some(row), Some(figures)) = (row, figures) {
            row.peers.insert(peer.to_owned(), figures.iter().sum());
        }
    }
}

/// The first number after `key`, in the last line that begins with `what`.
fn figure(text: &str, what: &str, key: &str) -> Option<f64> {
    let rest = text.lines().rev().find_map(|line| line.strip_prefix(what))?;
    let (_, rest) = rest.split_once(key)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_what_stands_before_them() {
        let text = "wait_for_all, empty runtime                  med=44 ns  min=42  max=50\n\
                    1M outstanding, chain on one handle          1426 bytes/task, submit 29 ns/task\n  \
                    draining them                              1127 ns/task\n  \
                    draining them                              2596 ns/task\n\
                    one handle each: 9 outstanding of 9: 121 bytes/task RSS, 304 bytes/task heap, \
                    submit 13 ns\n";
        let find = |what: &str, key: &str| figure(text, what, key);
        assert_eq!(find("wait_for_all, empty runtime", "med="), Some(44.0));
        assert_eq!(find("1M outstanding, chain on one handle", ""), Some(1426.0));
        assert_eq!(find("1M outstanding, chain on one handle", "submit "), Some(29.0));
        assert_eq!(find("  draining them", ""), Some(2596.0));
        assert_eq!(find("one handle each", "RSS, "), Some(304.0));
        assert_eq!(find("one task + wait_for_all", "med="), None);
    }
}
