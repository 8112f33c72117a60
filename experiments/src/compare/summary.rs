//! What is made of the runs: rows, tables, figures and the report.

use super::store::{RUNS, Record, Store};
use super::{Comparison, this_program};
use crate::charts;
use crate::experiment::Point;
use crate::failure::Failure;
use crate::interrupt;
use crate::machine::Machine;
use crate::machine::state::disturbed;
use crate::report::{Report, command_line};
use crate::result::{Outcome, Row};
use crate::table;
use crate::terminal;

/// Charts that a page and a figure hold at most: those of the first conditions.
const MAX_CHARTS: usize = 8;

impl Comparison<'_> {
    /// Writes tables, figures and the report, and prints what a reader wants first.
    ///
    /// # Errors
    /// When something cannot be written, when a run failed, or when the user stopped some.
    pub(super) fn summarise(&self, store: &Store<'_>) -> Result<(), Failure> {
        let rows = self.rows(store);
        self.output.write("table.json", |file| table::write_json(&rows, file))?;
        self.output.write("table.csv", |file| table::write_csv(&rows, file))?;
        let middle: Vec<Row> = self.plan.points.iter().map(|point| middle(point, &rows)).collect();
        self.write_report(&middle)?;
        let json = self.options.run.json;
        terminal::print(if json { &rows } else { &middle }, json)?;
        if !json {
            self.say_noise(store)?;
            let folder = self.output.path().display();
            terminal::say(&format!("Results: {folder}/ (open report.html)"))?;
        }
        self.verdict(store)
    }

    /// A row for each run that counts, in the order of the points.
    fn rows(&self, store: &Store<'_>) -> Vec<Row> {
        let rows = self.plan.points.iter().flat_map(|point| {
            (1..=self.experiment.repetitions).map(|repetition| {
                let record = store.find(point, repetition);
                let outcome = record.map_or(Outcome::NotRun, |record| record.outcome.clone());
                row(point, repetition, outcome)
            })
        });
        rows.collect()
    }

    /// Says where the machine was disturbed.
    fn say_noise(&self, store: &Store<'_>) -> Result<(), Failure> {
        let records: Vec<&Record> =
            self.plan.points.iter().flat_map(|point| store.of(point)).collect();
        let seconds = |record: &&Record| record.before.calibration.max(record.after.calibration);
        let seconds: Vec<f64> = records.iter().map(seconds).collect();
        let count = disturbed(&seconds).into_iter().filter(|is| *is).count();
        if count == 0 {
            return Ok(());
        }
        terminal::say(&format!(
            "The machine was disturbed at {count} of {} runs: a fixed loop took more than 10% \
             longer than usual before or after them.",
            records.len()
        ))
    }

    /// The figure of all traces and the page.
    fn write_report(&self, rows: &[Row]) -> Result<(), Failure> {
        let mut traces = Vec::new();
        let mut drawn = Vec::new();
        for row in rows.iter().filter(|row| row.result().is_some()).take(MAX_CHARTS) {
            let path = self.output.file(&charts::trace_name(&row.stem));
            if !path.exists() {
                continue;
            }
            let trace = charts::read(&path)?;
            charts::warn(&row.label, &trace);
            traces.push(trace);
            let path = self.output.file(&charts::chart_name(&row.stem));
            let svg = std::fs::read_to_string(&path)
                .map_err(|error| Failure::io("read", &path, &error))?;
            drawn.push((row.stem.clone(), svg));
        }
        let settings = &self.plan.points[0].settings;
        let figure = match traces.is_empty() {
            true => None,
            false => Some(charts::comparison(&traces, settings.trace_batches)?),
        };
        if let Some(svg) = &figure {
            self.output.write("compare.svg", |file| file.write_all(svg.as_bytes()))?;
        }
        let words = self.options.typed.words();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let report = Report {
            rows,
            title: &self.experiment.title,
            facts: &self.facts(),
            machine: &Machine::describe(),
            workers: settings.workers,
            traced: settings.trace_batches,
            command: &command_line(
                ["millrace", "compare", super::EXPERIMENT]
                    .into_iter()
                    .chain(words.iter().map(AsRef::as_ref)),
            ),
            compare: figure.as_deref(),
            charts: &drawn,
        };
        let html = report.html();
        self.output.write("report.html", |file| file.write_all(html.as_bytes()))
    }

    /// What was run, in words: each setting with the values that it has.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let points = &self.plan.points;
        let values = |of: &dyn Fn(&Point) -> String| {
            let mut values: Vec<String> = Vec::new();
            for value in points.iter().map(of) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values.join(", ")
        };
        let order = |point: &Point| match point.settings.shuffle {
            true => "shuffled in each epoch".to_owned(),
            false => "in file order".to_owned(),
        };
        vec![
            ("combinations", points.len().to_string()),
            ("runs of each", format!("{}, after a warm-up", self.experiment.repetitions)),
            ("data set", values(&|p| p.dataset.clone())),
            ("training samples", values(&|p| p.settings.samples.to_string())),
            ("their order", values(&order)),
            ("epochs", values(&|p| p.settings.epochs.to_string())),
            ("batch size", values(&|p| p.settings.batch_size.to_string())),
            ("shards", values(&|p| p.settings.shards.to_string())),
            ("workers", values(&|p| p.settings.workers.to_string())),
            ("scheduler", values(&|p| p.settings.scheduler.to_string())),
            ("learning rate", values(&|p| p.settings.lr.to_string())),
            ("seed", values(&|p| p.settings.seed.to_string())),
        ]
    }

    fn verdict(&self, store: &Store<'_>) -> Result<(), Failure> {
        let folder = self.output.path().display();
        let missing = store.missing(&self.plan.points, &self.plan.runs);
        if interrupt::requested() && !missing.is_empty() {
            let all = self.plan.runs.len();
            let program = this_program()?;
            let program = program.file_name().unwrap_or_default().to_string_lossy();
            return Err(Failure::interrupted(format_args!(
                "stopped: {} of {all} runs are finished, their results are in {folder}; \
                 `{program} compare --resume --out {folder}` runs the others",
                all - missing.len()
            )));
        }
        let mut failed = 0;
        // The first reason of each combination.
        let mut told: Vec<(&str, &str)> = Vec::new();
        for run in &missing {
            let point = &self.plan.points[run.point];
            let record = store.find(point, run.repetition);
            if let Some(Record { outcome: Outcome::Failed { reason }, .. }) = record {
                failed += 1;
                if !told.iter().any(|(label, _)| *label == point.label) {
                    told.push((&point.label, reason));
                }
            }
        }
        let told: Vec<String> =
            told.into_iter().map(|(label, reason)| format!("{label}: {reason}")).collect();
        match failed {
            0 => Ok(()),
            failed => Err(Failure::failed(format_args!(
                "{failed} of {} runs failed and are kept as such in {folder}/{RUNS}: {}",
                self.plan.runs.len(),
                told.join("; ")
            ))),
        }
    }
}

fn row(point: &Point, repetition: u32, outcome: Outcome) -> Row {
    Row {
        label: point.label.clone(),
        stem: point.stem.clone(),
        combination: point.combination,
        levels: point.levels.clone(),
        repetition,
        outcome,
    }
}

/// The run of `point` with the median run time: a whole run, so that its numbers go together.
/// Where none was finished, one that says why.
fn middle(point: &Point, rows: &[Row]) -> Row {
    let own = || rows.iter().filter(|row| row.stem == point.stem);
    let mut finished: Vec<(&Row, f64)> =
        own().filter_map(|row| Some((row, row.result()?.seconds))).collect();
    finished.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let middle = finished.get(finished.len().saturating_sub(1) / 2).map(|(row, _)| *row);
    let telling = || own().find(|row| matches!(row.outcome, Outcome::Failed { .. }));
    let found = middle.or_else(telling).or_else(|| own().next());
    found.cloned().unwrap_or_else(|| row(point, 1, Outcome::NotRun))
}
