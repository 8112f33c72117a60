//! What a report tells, and how it reads.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::task::{Label, Meta};

/// The first few of many.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listed<T> {
    /// Those that are told.
    pub list: Vec<T>,
    /// How many more there are.
    pub more: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Listed { list: Vec::new(), more: 0 }
    }
}

impl<T> Listed<T> {
    /// Adds one, unless there are `most` already; then it is counted only.
    pub(super) fn add(&mut self, most: usize, item: impl FnOnce() -> T) {
        if self.list.len() < most {
            self.list.push(item());
        } else {
            self.more += 1;
        }
    }

    /// All there are.
    fn count(&self) -> u64 {
        self.list.len() as u64 + self.more
    }
}

/// A task that has not ended, or an acquisition of data: what others wait for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Place {
    /// The task's name; for an acquisition, the call.
    pub name: &'static str,
    /// The task's labels.
    pub label: Label,
    /// Where it was submitted, or called.
    pub location: &'static Location<'static>,
    /// What it does.
    pub state: State,
}

/// What an unfinished task, or acquisition, does.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// The task waits for others, or the call that acquires data waits for tasks.
    Waiting,
    /// The task waits for nothing but a worker, or if it commutes, for its turn.
    Ready,
    /// Its body runs.
    Running {
        /// On which worker; `None` for a thread outside the pool.
        worker: Option<usize>,
        /// For how long.
        time: Duration,
    },
    /// It belongs to a replay, and does not run: it waits, or is ready.
    Recorded,
    /// The data has been acquired, and is held.
    Held,
}

/// A task, or a call that acquires data or waits for tasks, that cannot go on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitingTask {
    /// Which one.
    pub place: Place,
    /// What it waits for. A task whose body has ended waits for its children. It is empty for a
    /// task in whose way there is nothing any more.
    pub waits_for: Listed<Place>,
}

/// A thread outside the pool that waits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitingThread {
    /// Its name, or its number.
    pub thread: String,
    /// What it called, as far as that is known.
    pub call: Option<&'static str>,
    /// Where.
    pub location: Option<&'static Location<'static>>,
    /// What for, as in traces.
    pub reason: String,
    /// For how long.
    pub time: Duration,
}

/// What the workers do, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workers {
    /// Run bodies.
    pub running: usize,
    /// Look for tasks, or sleep.
    pub idle: usize,
    /// Worker 0 while its thread runs the program
    /// ([`Builder::main_helps`](crate::Builder::main_helps)).
    pub away: usize,
    /// Are between two of these.
    pub busy: usize,
}

/// Who waits for whom, while nothing moves. Its lists are bounded, and say how many there are
/// more; tasks are in submission order. Displayed, it is a text of some lines.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StallReport {
    /// For how long no task has started or ended.
    pub stalled: Duration,
    /// Submitted tasks that have not ended.
    pub unfinished: u64,
    /// Tasks whose bodies run.
    pub running: Listed<Place>,
    /// Tasks and calls that wait. Of a replay, only tasks that wait for others outside of it.
    pub waiting: Listed<WaitingTask>,
    /// Tasks that wait for nothing but a worker, without those of replays.
    pub ready: u64,
    /// Acquired data.
    pub held: Listed<Place>,
    /// Unfinished replays: their batch, and at most how many of their tasks have not ended.
    pub replays: Listed<(Option<u32>, u64)>,
    /// What the workers do.
    pub workers: Workers,
    /// Threads that wait.
    pub threads: Listed<WaitingThread>,
}

impl Place {
    pub(super) fn new(meta: Meta, state: State) -> Self {
        let Meta { name, label, location, .. } = meta;
        Place { name, label, location, state }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { name, label, location, state } = self;
        if *state == State::Held {
            return write!(f, "data held since `{name}` at {location}");
        }
        write!(f, "`{name}`")?;
        if *label != Label::default() {
            write!(f, " ({label})")?;
        }
        write!(f, ", submitted at {location}, ")?;
        match state {
            State::Waiting | State::Held => f.write_str("which waits"),
            State::Ready => f.write_str("which is ready"),
            State::Recorded => f.write_str("which is part of a replay"),
            State::Running { worker: Some(worker), time } => {
                write!(f, "which has run on worker {worker} for {time:.1?}")
            }
            State::Running { worker: None, time } => write!(f, "which has run for {time:.1?}"),
        }
    }
}

impl fmt::Display for WaitingThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread `{}` ", self.thread)?;
        if let Some(call) = self.call {
            write!(f, "in `{call}` ")?;
        }
        if let Some(location) = self.location {
            write!(f, "at {location} ")?;
        }
        write!(f, "({}) for {:.1?}", self.reason, self.time)
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workers { running, idle, away, busy } = *self;
        let all = running + idle + away + busy;
        write!(f, "{running} of {all} run tasks, {idle} are idle")?;
        if away > 0 {
            f.write_str(", worker 0 is a thread that does not wait")?;
        }
        if busy > 0 {
            write!(f, ", {busy} are between tasks")?;
        }
        Ok(())
    }
}

/// Writes a list under a title, unless it is empty.
fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    listed: &Listed<T>,
    mut each: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if listed.count() == 0 {
        return Ok(());
    }
    writeln!(f, "  {title}: {}", listed.count())?;
    for item in &listed.list {
        f.write_str("    ")?;
        each(f, item)?;
        f.write_str("\n")?;
    }
    match listed.more {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more"),
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StallReport { stalled, unfinished, .. } = self;
        writeln!(
            f,
            "millrace: no task has started or ended for {stalled:.1?}; {unfinished} are unfinished"
        )?;
        section(f, "running", &self.running, |f, place| write!(f, "{place}"))?;
        section(f, "waiting", &self.waiting, |f, WaitingTask { place, waits_for }| {
            write!(f, "{place}")?;
            for needed in &waits_for.list {
                write!(f, "\n      waits for {needed}")?;
            }
            match waits_for.more {
                0 => Ok(()),
                more => write!(f, "\n      and for {more} more"),
            }
        })?;
        if self.ready > 0 {
            writeln!(f, "  ready, waiting for a worker: {}", self.ready)?;
        }
        section(f, "held", &self.held, |f, place| write!(f, "{place}"))?;
        section(f, "replays", &self.replays, |f, (batch, left)| {
            if let Some(batch) = batch {
                write!(f, "batch {batch}: ")?;
            }
            write!(f, "at most {left} of its tasks have not ended")
        })?;
        writeln!(f, "  workers: {}", self.workers)?;
        section(f, "waiting threads", &self.threads, |f, thread| write!(f, "{thread}"))
    }
}
