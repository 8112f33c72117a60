//! The runs of a comparison on disk: a file per run, complete or absent, from which a comparison
//! that was stopped, or that got more levels, goes on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::{Planned, Point};
use crate::failure::Failure;
use crate::machine::state::MachineState;
use crate::output::Output;
use crate::result::Outcome;

/// The folder of the runs, within that of the results.
pub(super) const RUNS: &str = "runs";
/// What the files of runs say that they are.
const FORMAT: &str = "millrace-run";
/// Version of that format: files of others are refused.
const VERSION: u32 = 1;

/// One run: what was run, on what kind of machine, and how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    format: String,
    version: u32,
    /// Name of its point in tables.
    pub label: String,
    /// Name of its point in names of files: `trace-STEM.json`.
    pub stem: String,
    /// Which run of its point it is: 0 is the warm-up.
    pub repetition: u32,
    /// Which run of the comparison it was, from 0.
    pub order: u64,
    /// When it began, in UTC.
    pub began: String,
    /// The level of each factor of the experiment.
    pub levels: BTreeMap<String, String>,
    /// Words of its command line after `millrace train`.
    pub arguments: Vec<String>,
    /// The machine before it.
    pub before: MachineState,
    /// The machine after it.
    pub after: MachineState,
    /// How it went.
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// The runs that are on disk.
#[derive(Debug)]
pub(super) struct Store<'a> {
    output: &'a Output,
    records: Vec<(PathBuf, Record)>,
}

fn words(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

impl Record {
    /// The run `planned` of `point`, the comparison's number `order`.
    pub(super) fn new(
        point: &Point,
        repetition: u32,
        order: u64,
        [before, after]: [MachineState; 2],
        outcome: Outcome,
    ) -> Self {
        Record {
            format: FORMAT.to_owned(),
            version: VERSION,
            label: point.label.clone(),
            stem: point.stem.clone(),
            repetition,
            order,
            began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            levels: point.levels.clone(),
            arguments: words(&point.arguments()),
            before,
            after,
            outcome,
        }
    }

    fn is_of(&self, point: &Point) -> bool {
        self.arguments == words(&point.arguments())
    }
}

impl<'a> Store<'a> {
    /// No run.
    pub(super) fn empty(output: &'a Output) -> Self {
        Store { output, records: Vec::new() }
    }

    /// Reads the runs in the folder of `output`, which may be none.
    ///
    /// # Errors
    /// When a file cannot be read, or is none of this version.
    pub(super) fn open(output: &'a Output) -> Result<Self, Failure> {
        let folder = output.file(RUNS);
        fs::create_dir_all(&folder).map_err(|error| Failure::io("create", &folder, &error))?;
        let entries = fs::read_dir(&folder).map_err(|e| Failure::io("read", &folder, &e))?;
        let mut records = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| Failure::io("read", &folder, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let record = read(&path)?;
                records.push((path, record));
            }
        }
        records.sort_by_key(|(_, record)| record.order);
        Ok(Store { output, records })
    }

    /// The runs of `point`, in the order in which they were run.
    pub(super) fn of(&self, point: &Point) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|(_, record)| record).filter(|record| record.is_of(point))
    }

    /// The run `planned` of `point`, where it is on disk.
    pub(super) fn find(&self, point: &Point, repetition: u32) -> Option<&Record> {
        self.of(point).find(|record| record.repetition == repetition)
    }

    /// Gives every point whose runs are on disk the name that its files have, and the others
    /// names that no file has.
    pub(super) fn name(&self, points: &mut [Point]) {
        for index in 0..points.len() {
            let known = self.of(&points[index]).next().map(|record| record.stem.clone());
            let stem = known.unwrap_or_else(|| {
                let mut stem = points[index].stem.clone();
                let is_taken = |stem: &str| {
                    let on_disk = self.records.iter().any(|(_, record)| record.stem == stem);
                    on_disk || points[..index].iter().any(|point| point.stem == stem)
                };
                while is_taken(&stem) {
                    stem += "-2";
                }
                stem
            });
            points[index].stem = stem;
        }
    }

    /// The number of the next run.
    pub(super) fn next_order(&self) -> u64 {
        self.records.iter().map(|(_, record)| record.order + 1).max().unwrap_or(0)
    }

    /// The runs of `plan` that have to be run: those that are not on disk, or failed.
    pub(super) fn missing(&self, points: &[Point], runs: &[Planned]) -> Vec<Planned> {
        let is_done = |run: &&Planned| {
            let record = self.find(&points[run.point], run.repetition);
            record.is_some_and(|record| matches!(record.outcome, Outcome::Finished { .. }))
        };
        runs.iter().filter(|run| !is_done(run)).copied().collect()
    }

    /// Writes a run down, in place of one of the same that failed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn add(&mut self, record: Record) -> Result<(), Failure> {
        let name = format!("{}-{}.json", record.stem, record.repetition);
        let path = self.output.file(RUNS).join(name);
        crate::output::write_file(&path, |file| {
            serde_json::to_writer_pretty(&mut *file, &record)?;
            writeln!(file)
        })?;
        self.records.retain(|(known, _)| *known != path);
        self.records.push((path, record));
        Ok(())
    }
}

/// Reads the file of a run.
///
/// # Errors
/// When it cannot be read, or is none of this version.
pub(super) fn read(path: &Path) -> Result<Record, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    let broken = |error: serde_json::Error| {
        Failure::failed(format_args!(
            "{}: not the result of a run: {error}; without the file, it is run again",
            path.display()
        ))
    };
    let header: Header = serde_json::from_str(&text).map_err(broken)?;
    if header.format != FORMAT || header.version != VERSION {
        return Err(Failure::failed(format_args!(
            "{}: {} version {}, where this program reads {FORMAT} version {VERSION}; take the \
             program that wrote it, or another folder",
            path.display(),
            header.format,
            header.version
        )));
    }
    serde_json::from_str(&text).map_err(broken)
}
