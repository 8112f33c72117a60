//! Which worker runs which ready task next.
//!
//! | [`Schedule`] | ready tasks are kept | order |
//! |---|---|---|
//! | `work-stealing` (default) | in a queue per worker; idle workers take half of another's | oldest first; urgent tasks before, deferred ones after all others |
//! | `priority` | in one queue | highest priority first, oldest among equals |
//! | `fifo` | in one queue | oldest first |
//! | `static` | per worker, by a [`Placement`], of a trace or of one's own | exactly as placed |
//!
//! Anything else can be had by implementing [`Scheduler`]. A central queue costs a lock per task,
//! and each task that became ready wakes a worker if one sleeps: it is for comparisons, for
//! graphs whose critical path matters, and for long tasks.
//!
//! ```
//! use millrace_runtime::{Runtime, scheduler::Schedule};
//!
//! // By name, as it would come from a command line.
//! let rt = Runtime::builder().workers(2).scheduler("priority".parse::<Schedule>()?).build()?;
//! for step in 0..10 {
//!     rt.task("background").priority(-1).spawn((), |()| ())?;
//!     rt.task("on the critical path").priority(step).spawn((), |()| ())?;
//! }
//! rt.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod central;
mod placement;
mod ranked;

pub(crate) use central::ByPriority;
pub use central::{Fifo, Priority};
use placement::Static;
pub use placement::{Placement, PlacementError};
pub(crate) use ranked::Ranked;

/// A ready task, as a scheduler sees it: to be handed out once.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadyTask {
    pub(crate) slot: u32,
    pub(crate) priority: i16,
    pub(crate) sequence: u64,
}

impl ReadyTask {
    /// The task's priority; 0 unless it was given another.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// The task's place in submission order.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Keeps ready tasks until workers ask for them. Called by all workers at once.
///
/// ```
/// use std::sync::Mutex;
/// use millrace_runtime::Runtime;
/// use millrace_runtime::scheduler::{ReadyTask, Schedule, Scheduler};
///
/// /// The task that became ready last runs first.
/// #[derive(Default)]
/// struct Stack(Mutex<Vec<ReadyTask>>);
///
/// impl Scheduler for Stack {
///     fn push(&self, task: ReadyTask, _worker: Option<usize>) {
///         self.0.lock().unwrap().push(task);
///     }
///     fn pop(&self, _worker: usize) -> Option<ReadyTask> {
///         self.0.lock().unwrap().pop()
///     }
/// }
///
/// let schedule = Schedule::custom(Stack::default());
/// let rt = Runtime::builder().workers(2).scheduler(schedule).build()?;
/// rt.spawn("task", (), |()| ())?;
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scheduler: Send + Sync {
    /// Takes a task that has become ready: on `worker`, by the end of its last predecessor, or
    /// (`None`) outside the pool.
    fn push(&self, task: ReadyTask, worker: Option<usize>);

    /// Hands out a task for `worker` to run now; each task that was pushed once. A worker asks
    /// again only after a further push, so a task that may run must not be held back.
    ///
    /// A task that finds data in use on which it [commutes](crate::Mode::Commute) is pushed once
    /// more when it may find it free.
    fn pop(&self, worker: usize) -> Option<ReadyTask>;

    /// Whether every worker may be handed every task; if not, each push wakes all that sleep.
    fn any_worker(&self) -> bool {
        true
    }

    /// Whether tasks are ready, none runs, and no worker would be handed one. A thread that waits
    /// asks for it, and if what it waits for has not come about calls
    /// [`go_on`](Self::go_on).
    fn is_stuck(&self) -> bool {
        false
    }

    /// If it [is stuck](Self::is_stuck), hands out a ready task to whichever worker asks next.
    fn go_on(&self) {}

    /// `worker` will ask no more.
    fn leaves(&self, _worker: usize) {}

    /// How many tasks were handed out otherwise than planned.
    fn displaced(&self) -> u64 {
        0
    }
}

/// A choice of scheduler; parsed from `work-stealing`, `priority` or `fifo`.
#[derive(Default)]
pub struct Schedule {
    /// None for work stealing.
    pub(crate) scheduler: Option<Box<dyn Scheduler>>,
    /// For how many workers it is, if that is not left open.
    pub(crate) workers: Option<usize>,
}

impl Schedule {
    /// The names that can be parsed.
    pub const NAMES: [&str; 3] = ["work-stealing", "priority", "fifo"];

    /// A queue per worker, from which idle workers take; the default.
    ///
    /// Most tasks have priority 0 and are run oldest first, by the worker that made them ready if
    /// it comes to that. Those above 0 are urgent: workers take them first, highest first. Those
    /// below 0 are deferred until nothing else is ready.
    pub fn work_stealing() -> Self {
        Self::default()
    }

    /// One queue, highest priority first, oldest first among equals.
    pub fn priority() -> Self {
        Self::custom(Priority::default())
    }

    /// One queue, oldest first.
    pub fn fifo() -> Self {
        Self::custom(Fifo::default())
    }

    /// Each task on the worker and in the order that `placement` says. A runtime with another
    /// number of workers is not built.
    ///
    /// Where that cannot be, the rest is kept: a task that has no place runs on any worker whose
    /// next task is not ready; and while a thread outside the pool waits, nothing runs, and no
    /// worker's next task is ready, the oldest ready task runs out of its turn, and those that
    /// stand before it lose their places. A task that commutes and finds its data in use loses its
    /// place, too. [`Runtime::displaced_tasks`] counts all of them.
    ///
    /// [`Runtime::displaced_tasks`]: crate::Runtime::displaced_tasks
    pub fn placed(placement: Placement) -> Self {
        let workers = Some(placement.workers().len());
        Schedule { workers, ..Self::custom(Static::new(placement)) }
    }

    /// Any other.
    pub fn custom(scheduler: impl Scheduler + 'static) -> Self {
        Schedule { scheduler: Some(Box::new(scheduler)), workers: None }
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.scheduler.is_some() {
            "Schedule(central)"
        } else {
            "Schedule(work-stealing)"
        })
    }
}

/// There is no scheduler of that name.
#[derive(Debug, thiserror::Error)]
#[error("no scheduler is called `{name}`; there are {}", Schedule::NAMES.join(", "))]
pub struct UnknownSchedule {
    name: String,
}

impl std::str::FromStr for Schedule {
    type Err = UnknownSchedule;

    fn from_str(name: &str) -> Result<Self, UnknownSchedule> {
        match name {
            "work-stealing" => Ok(Self::work_stealing()),
            "priority" => Ok(Self::priority()),
            "fifo" => Ok(Self::fifo()),
            _ => Err(UnknownSchedule { name: name.to_owned() }),
        }
    }
}
