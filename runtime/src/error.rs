//! Errors of submission, waiting and building.

use std::sync::Arc;

use crate::access::Mode;
use crate::task::TaskFailure;
use crate::topology::PinError;

/// Why a task was not accepted. Nothing was submitted and no lease is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// One handle twice in a task, with a write among them.
    #[error(
        "task `{task}` declares the same data twice: access {first} ({first_mode}) and access \
         {second} ({second_mode})"
    )]
    Conflict {
        /// The task's name.
        task: &'static str,
        /// Position of one access, counted from 0 in the order of declaration.
        first: usize,
        /// Its mode.
        first_mode: Mode,
        /// Position of the other.
        second: usize,
        /// Its mode.
        second_mode: Mode,
    },
    /// The data's generation has ended.
    #[error(
        "task `{task}` uses a buffer of `{owner}` from generation {held}, which has ended \
         (now {current})"
    )]
    Stale {
        /// The task's name.
        task: &'static str,
        /// What owned the data, for example the arena's name.
        owner: String,
        /// Generation of the data.
        held: u32,
        /// Present generation of the owner.
        current: u32,
    },
    /// The data belongs to another runtime.
    #[error("task `{task}` uses data of `{owner}`, which belongs to another runtime")]
    WrongRuntime {
        /// The task's name.
        task: &'static str,
        /// What owns the data.
        owner: String,
    },
    /// A recorded task was given a parameter, or came after a task, of another recording.
    #[error("task `{task}` uses a parameter or a task of another recording")]
    WrongRecording {
        /// The task's name.
        task: &'static str,
    },
    /// A child was to be submitted outside of the body of a task that could be its parent.
    #[error(
        "task `{task}` has no parent: a child is submitted inside the body of a task that was \
         itself submitted to this runtime, and not recorded"
    )]
    NoParent {
        /// The task's name.
        task: &'static str,
    },
    /// A child would wait for the end of its parent, which waits for its children.
    #[error(
        "task `{task}` cannot be a child of `{parent}`, for it would wait for that one: it comes \
         after it, or declares data that its parent has declared, and one of them writes"
    )]
    NeedsParent {
        /// The task's name.
        task: &'static str,
        /// The parent's name.
        parent: &'static str,
    },
    /// More than 2^27 tasks are unfinished.
    #[error("task `{task}`: too many unfinished tasks")]
    TooManyTasks {
        /// The task's name.
        task: &'static str,
    },
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Read => "read",
            Mode::Write => "write",
            Mode::Overwrite => "overwrite",
            Mode::Commute => "commute",
        })
    }
}

/// Why a wait did not end well.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// A task failed. Waiting did take place: what is not cancelled is done.
    #[error("{failure}{}", more(*.others, *.cancelled))]
    Failed {
        /// The failed task that was submitted first.
        failure: Arc<TaskFailure>,
        /// Further failed tasks since the last report.
        others: usize,
        /// Tasks that were not run because they depend on failed ones.
        cancelled: u64,
    },
    /// Tasks were cancelled on request.
    #[error("tasks were cancelled on request")]
    Cancelled,
    /// The time was over before what was waited for came about.
    #[error("`{call}` gave up when its time was over")]
    TimedOut {
        /// What was called.
        call: &'static str,
    },
    /// The value of the task has been taken already.
    #[error("the value of the task was taken before")]
    Taken,
    /// The task was submitted to another runtime.
    #[error("`{call}` cannot wait for a task of another runtime")]
    WrongRuntime {
        /// What was called.
        call: &'static str,
    },
    /// What was asked for was never made, because a task failed.
    #[error("what was waited for was never made: {failure}")]
    Spoilt {
        /// The failure that is to blame.
        failure: Arc<TaskFailure>,
    },
    /// Waiting inside a task body could hold the worker that must finish first. What is to come
    /// after other tasks is a task itself; see [`TaskBuilder::child`](crate::TaskBuilder::child).
    #[error("`{call}` would wait inside the body of a task")]
    InsideTask {
        /// What was called.
        call: &'static str,
    },
    /// The calling thread holds acquired data that submitted tasks wait for.
    #[error(
        "`{call}` would wait for tasks that wait for data which this thread has acquired; drop \
         the guard first"
    )]
    HoldsGuard {
        /// What was called.
        call: &'static str,
    },
    /// The access was refused.
    #[error(transparent)]
    Refused(#[from] SubmitError),
}

fn more(others: usize, cancelled: u64) -> String {
    let mut text = String::new();
    if others > 0 {
        text += &format!("; {others} more failed");
    }
    if cancelled > 0 {
        text += &format!("; {cancelled} dependent tasks were cancelled");
    }
    text
}

/// Why a runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// More workers than [`Builder::MAX_WORKERS`](crate::Builder::MAX_WORKERS).
    #[error("{asked} workers: at most {most} are possible")]
    TooManyWorkers {
        /// What was asked for.
        asked: usize,
        /// The limit.
        most: usize,
    },
    /// The placement that tasks are to follow is for another number of workers.
    #[error("the placement is for {placed} workers, the runtime has {workers}")]
    Placement {
        /// Workers of the placement.
        placed: usize,
        /// Workers of the runtime.
        workers: usize,
    },
    /// A submission window of no task.
    #[error("a submission window of 0 tasks would never accept one")]
    EmptyWindow,
    /// The system refused a thread.
    #[error("worker {worker} could not be started: {source}")]
    Spawn {
        /// Index of the worker.
        worker: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system refused the watchdog's thread.
    #[error("the watchdog could not be started: {source}")]
    Watchdog {
        /// The system's reason.
        source: std::io::Error,
    },
    /// The workers could not be pinned as asked.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The start hook panicked.
    #[error("the start hook of worker {worker} panicked")]
    Hook {
        /// Index of the worker.
        worker: usize,
    },
}
