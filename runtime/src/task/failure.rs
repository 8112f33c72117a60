//! Failures of tasks: recorded once, reported once, named in full.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use super::{Label, Meta};
use crate::error::WaitError;
use crate::graph::TaskRef;

/// A task whose body panicked or returned an error.
#[derive(Clone, Debug)]
pub struct TaskFailure {
    name: &'static str,
    label: Label,
    sequence: u64,
    location: &'static Location<'static>,
    panicked: bool,
    message: String,
}

impl TaskFailure {
    pub(crate) fn new(meta: Meta, panicked: bool, message: String) -> Self {
        let Meta { name, location, label, sequence } = meta;
        TaskFailure { name, label, sequence, location, panicked, message }
    }

    /// The task's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The task's labels.
    pub fn label(&self) -> Label {
        self.label
    }

    /// Where it was submitted.
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// True for a panic, false for an error that the body returned.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// The panic's message, or the error's text with its sources.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task `{}`", self.name)?;
        if self.label != Label::default() {
            write!(f, " ({})", self.label)?;
        }
        let verb = if self.panicked { "panicked" } else { "failed" };
        write!(f, ", submitted at {}, {verb}: {}", self.location, self.message)
    }
}

/// To blame for a task that was cancelled on request; all other numbers are places in the list of
/// failures.
pub(crate) const REQUEST: u32 = u32::MAX - 1;

/// How many tasks that left no valid data are remembered at least, besides those that wrote a
/// handle last.
const REMEMBERED: usize = 1 << 16;

/// All failures of a runtime, and which tasks they took down.
#[derive(Default)]
pub(crate) struct Failures {
    all: Vec<Arc<TaskFailure>>,
    /// How many of `all` have been reported.
    reported: usize,
    /// Tasks cancelled since the last report, because of a failure and on request.
    cancelled: u64,
    requested: u64,
    /// Ended tasks that left no valid data, with the failure that is to blame.
    spoilt: HashMap<TaskRef, Spoilt>,
    /// How often there was a report.
    reports: u32,
}

/// An ended task that left no valid data.
#[derive(Clone, Copy)]
struct Spoilt {
    blame: u32,
    /// What it was labelled; a guard was not.
    label: Option<Label>,
    /// How many reports there had been.
    reports: u32,
}

impl Failures {
    /// Records a failure; returns its index.
    pub(crate) fn add(&mut self, failure: TaskFailure) -> u32 {
        self.all.push(Arc::new(failure));
        u32::try_from(self.all.len() - 1).unwrap_or(REQUEST - 1)
    }

    /// What to say to who wanted what was not made.
    pub(crate) fn spoilt(&self, blame: u32) -> WaitError {
        if blame == REQUEST {
            return WaitError::Cancelled;
        }
        WaitError::Spoilt { failure: self.all[blame as usize].clone() }
    }

    pub(crate) fn count_cancelled(&mut self, blame: u32) {
        if blame == REQUEST {
            self.requested += 1;
        } else {
            self.cancelled += 1;
        }
    }

    /// Remembers that what `task` was to write is not valid. A guard has no label.
    pub(crate) fn spoil(&mut self, task: TaskRef, label: Option<Label>, blame: u32) {
        self.spoilt.insert(task, Spoilt { blame, label, reports: self.reports });
    }

    /// The failure that spoilt what an ended task wrote.
    #[inline]
    pub(crate) fn spoilt_by(&self, task: TaskRef) -> Option<u32> {
        if self.spoilt.is_empty() {
            return None;
        }
        self.spoilt.get(&task).map(|spoilt| spoilt.blame)
    }

    /// What spoilt the ended tasks that `wanted` covers, unless that was reported.
    pub(crate) fn unreported_of(&self, wanted: Label) -> Option<u32> {
        let of_it = |spoilt: &&Spoilt| {
            spoilt.reports == self.reports && spoilt.label.is_some_and(|label| wanted.covers(label))
        };
        self.foremost(self.spoilt.values().filter(of_it).map(|spoilt| spoilt.blame))
    }

    /// Of several to blame, the failure that was submitted first, or else a request.
    pub(crate) fn foremost(&self, blames: impl Iterator<Item = u32>) -> Option<u32> {
        blames.min_by_key(|blame| {
            self.all.get(*blame as usize).map_or(u64::MAX, |failure| failure.sequence)
        })
    }

    /// Forgets spoilt tasks that no handle names, once there are many more than handles.
    pub(crate) fn prune(&mut self, handles: usize, writers: impl Iterator<Item = TaskRef>) {
        if self.spoilt.len() > REMEMBERED + 2 * handles {
            let spoilt = std::mem::take(&mut self.spoilt);
            self.spoilt = writers
                .filter_map(|task| spoilt.get(&task).map(|spoilt| (task, *spoilt)))
                .collect();
        }
    }

    pub(crate) fn unreported(&self) -> bool {
        self.reported < self.all.len() || self.requested > 0
    }

    /// Reports the first failure in submission order that was not reported yet, with how many
    /// more there are and how many tasks were cancelled; or else that tasks were cancelled on
    /// request. Marks all of them reported.
    pub(crate) fn report(&mut self) -> Result<(), WaitError> {
        let new = &self.all[self.reported..];
        let others = new.len().saturating_sub(1);
        let first = new.iter().min_by_key(|failure| failure.sequence).cloned();
        self.reported = self.all.len();
        self.reports = self.reports.wrapping_add(1);
        let cancelled = std::mem::take(&mut self.cancelled);
        let requested = std::mem::take(&mut self.requested);
        match first {
            Some(failure) => Err(WaitError::Failed { failure, others, cancelled }),
            None if requested > 0 => Err(WaitError::Cancelled),
            None => Ok(()),
        }
    }
}
