//! Every combination, each in a process of its own, and what is made of their results.
//!
//! A process of its own gives each run its own peak of memory and its own allocator, and lets
//! one run fail without the others. What a run gives is on disk, complete and valid, before the
//! next one starts.

mod child;

use std::path::PathBuf;
use std::process::Command;

use crate::charts;
use crate::combination::Combination;
use crate::data::Data;
use crate::failure::Failure;
use crate::interrupt;
use crate::machine::Machine;
use crate::options::{RunOptions, Settings};
use crate::output::Output;
use crate::progress::Bar;
use crate::report::{Report, command_line};
use crate::result::{Outcome, Row};
use crate::table;
use crate::terminal;

/// Compares all eight combinations.
///
/// # Errors
/// When the command line or the data set is wrong, when results cannot be written, when a run
/// failed (after the others have run), or when the user stopped it. In the latter two cases the
/// results of the finished runs are complete.
pub fn compare(options: &RunOptions) -> Result<(), Failure> {
    if options.placement.is_some() {
        let text = "--placement: a trace is that of one combination, which `train` takes";
        return Err(Failure::usage(text));
    }
    // The processes load the data set again; here it is only checked.
    let (settings, dataset) = {
        let data = Data::load(options.dataset.as_deref())?;
        (data.check(options)?, data.name)
    };
    let output = Output::create(options.out.as_deref())?;
    let comparison = Comparison { options, settings, dataset, output };
    let rows = comparison.run_all()?;
    comparison.write_report(&rows)?;
    terminal::print(&rows, options.json)?;
    if !options.json {
        terminal::say(&format!(
            "Results: {}/ (open report.html)",
            comparison.output.path().display()
        ))?;
    }
    comparison.verdict(&rows)
}

struct Comparison<'a> {
    options: &'a RunOptions,
    settings: Settings,
    dataset: String,
    output: Output,
}

impl Comparison<'_> {
    /// Runs one combination after the other; after each, the tables on disk have its row.
    fn run_all(&self) -> Result<Vec<Row>, Failure> {
        let mut rows: Vec<Row> = Combination::ALL
            .into_iter()
            .map(|combination| Row { combination, outcome: Outcome::NotRun })
            .collect();
        let mut bar = Bar::new(rows.len(), self.settings.batches(), self.options.quiet);
        for index in 0..rows.len() {
            if interrupt::requested() {
                break;
            }
            let combination = rows[index].combination;
            rows[index].outcome = child::follow(
                &mut self.command(combination)?,
                interrupt::requested,
                |progress| bar.show(combination, progress),
                |report| terminal::warn(format_args!("{combination}: {}", report.trim_end())),
            )?;
            self.write_tables(&rows)?;
            bar.next_run();
        }
        bar.clear();
        Ok(rows)
    }

    fn command(&self, combination: Combination) -> Result<Command, Failure> {
        let mut command = Command::new(this_program()?);
        command
            .args(["train", "--events", "--trace"])
            .args(["--arena", &combination.arena.to_string()])
            .args(["--loader", &combination.loader.to_string()])
            .args(self.settings.arguments())
            .arg("--out")
            .arg(self.output.path());
        Ok(command)
    }

    fn write_tables(&self, rows: &[Row]) -> Result<(), Failure> {
        self.output.write("table.json", |file| table::write_json(rows, file))?;
        self.output.write("table.csv", |file| table::write_csv(rows, file))
    }

    /// The figure of all traces and the page.
    fn write_report(&self, rows: &[Row]) -> Result<(), Failure> {
        self.write_tables(rows)?;
        let finished = || rows.iter().filter(|row| row.result().is_some());
        let mut traces = Vec::new();
        let mut drawn = Vec::new();
        for row in finished() {
            let trace = charts::read(&self.output.file(&charts::trace_name(row.combination)))?;
            charts::warn(row.combination, &trace);
            traces.push(trace);
            let path = self.output.file(&charts::chart_name(row.combination));
            let svg = std::fs::read_to_string(&path)
                .map_err(|error| Failure::io("read", &path, &error))?;
            drawn.push((row.combination, svg));
        }
        let figure = match traces.is_empty() {
            true => None,
            false => Some(charts::comparison(&traces, self.settings.trace_batches)?),
        };
        if let Some(svg) = &figure {
            self.output.write("compare.svg", |file| file.write_all(svg.as_bytes()))?;
        }
        let arguments = self.settings.arguments();
        let words: Vec<String> =
            arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let report = Report {
            rows,
            settings: &self.settings,
            machine: &Machine::describe(),
            dataset: &self.dataset,
            command: &command_line(
                ["millrace", "compare"].into_iter().chain(words.iter().map(String::as_str)),
            ),
            compare: figure.as_deref(),
            charts: &drawn,
        };
        let html = report.html();
        self.output.write("report.html", |file| file.write_all(html.as_bytes()))
    }

    fn verdict(&self, rows: &[Row]) -> Result<(), Failure> {
        let finished = rows.iter().filter(|row| row.result().is_some()).count();
        let folder = self.output.path().display();
        if interrupt::requested() && finished < rows.len() {
            return Err(Failure::interrupted(format_args!(
                "stopped: {finished} of {} combinations are finished, their results are in {folder}",
                rows.len()
            )));
        }
        let failed: Vec<String> = rows
            .iter()
            .filter_map(|row| match &row.outcome {
                Outcome::Failed { reason } => Some(format!("{}: {reason}", row.combination)),
                _ => None,
            })
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::failed(failed.join("; "))) }
    }
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format_args!("cannot find this program: {error}")))
}
