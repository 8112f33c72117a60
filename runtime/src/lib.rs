//! Sequential task flow on a worker pool.
//!
//! A program submits tasks in program order, each with the data that it reads and writes; the
//! runtime finds out which task depends on which, and a pool of workers runs them in parallel,
//! with the same result as if each had run where it was submitted.
//!
//! The runtime knows no memory and no tensor. What a task can declare is whatever implements
//! [`Access`]; the crate `millrace-arena` provides buffers that do. The example uses a few
//! lines of its own in their place:
//!
//! ```
//! # mod cells {
//! # use std::{cell::UnsafeCell, sync::Arc};
//! # use millrace_runtime::{Access, Claims, Mode, Runtime, SubmitError};
//! # pub struct Cell(Arc<UnsafeCell<f32>>, u32);
//! # pub struct Read(Arc<UnsafeCell<f32>>, u32);
//! # pub struct Write(Arc<UnsafeCell<f32>>, u32);
//! # pub struct Claim(Arc<UnsafeCell<f32>>);
//! # unsafe impl Send for Claim {}
//! # impl Cell {
//! #     pub fn new(rt: &Runtime, value: f32) -> Self {
//! #         Cell(Arc::new(value.into()), rt.register_handles(1).unwrap().start)
//! #     }
//! #     pub fn read(&self) -> Read { Read(self.0.clone(), self.1) }
//! #     pub fn write(&self) -> Write { Write(self.0.clone(), self.1) }
//! # }
//! # unsafe impl Access for Read {
//! #     type Claim = Claim;
//! #     type Data<'a> = &'a f32;
//! #     fn claim(self, claims: &mut Claims) -> Result<Claim, SubmitError> {
//! #         claims.declare(self.1..self.1 + 1, 0, Mode::Read);
//! #         Ok(Claim(self.0))
//! #     }
//! #     unsafe fn data<'a>(claim: &'a mut Claim) -> &'a f32 { unsafe { &*claim.0.get() } }
//! # }
//! # unsafe impl Access for Write {
//! #     type Claim = Claim;
//! #     type Data<'a> = &'a mut f32;
//! #     fn claim(self, claims: &mut Claims) -> Result<Claim, SubmitError> {
//! #         claims.declare(self.1..self.1 + 1, 0, Mode::Write);
//! #         Ok(Claim(self.0))
//! #     }
//! #     unsafe fn data<'a>(claim: &'a mut Claim) -> &'a mut f32 { unsafe { &mut *claim.0.get() } }
//! # }
//! # }
//! # use cells::Cell;
//! use millrace_runtime::Runtime;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let (x, y) = (Cell::new(&rt, 2.0), Cell::new(&rt, 1.0));
//!
//! rt.spawn("scale", (x.read(), y.write()), |(x, y)| *y += 3.0 * x)?;
//! rt.spawn("square", y.write(), |y| *y *= *y)?;
//!
//! assert_eq!(*rt.acquire(y.read())?.data(), 49.0); // waits for `square`, and only for it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * **The declared access is the only access.** A body is `'static + Send` and is handed what
//!   its access declares: shared references for reads, exclusive ones for writes.
//! * **Program order.** Conflicting tasks run in the order in which they were submitted; only
//!   those that [commute](Mode::Commute) run in any, one at a time.
//! * **Exactly once.** A submitted task is run once, or cancelled once because one that it
//!   depends on failed; no wake-up and no task is lost. `graph` and `pool::sleep` state the
//!   protocols; loom checks them (`RUSTFLAGS="--cfg loom" cargo test -p millrace-runtime --lib
//!   --release loom_`).
//! * **Errors name their task.** A panic or error in a body cancels what depends on its data
//!   and nothing else, comes back at the next wait, and leaves the runtime usable.
//! * **No wait without a cause.** Each wait and each idle interval is counted and, while a
//!   trace is recorded, becomes a span that says why.
//! * **Bounded ahead.** Submission waits while as many tasks ([`Builder::window`]), or as much
//!   memory ([`Builder::memory_window`]), are unfinished as was allowed.
//! * **No call waits for itself.** Waiting inside a body, or for data that the calling thread
//!   holds, is an error. A task may end after others that it spawned
//!   ([`TaskBuilder::child`]); one that could then never end fails. Where the runtime cannot know
//!   that nothing will move any more, a [`watchdog`] tells who waits for whom.
//! * **The order is free where the data leaves it free**: a [`scheduler`] chooses, by age,
//!   priority or a given placement.
//! * **Idle workers sleep,** and a thread that waits can help: with two or more workers, worker 0
//!   is then whichever thread outside the pool waits ([`Builder::main_helps`]).

mod access;
mod builder;
mod cancel;
mod claims;
mod clock;
mod error;
mod graph;
mod held;
mod memory;
mod pool;
pub mod replay;
mod runtime;
pub mod scenarios;
pub mod scheduler;
mod statistics;
mod submit;
mod sync;
mod task;
pub mod topology;
pub mod trace;
mod wait;
pub mod watchdog;
mod window;

pub use access::{Access, Handle, HandleAccess, HandleBlock, Handles, Mode};
pub use builder::Builder;
pub use claims::Claims;
pub use error::{BuildError, SubmitError, WaitError};
pub use held::Held;
pub use pool::in_task_body;
pub use runtime::Runtime;
pub use statistics::{Durations, KindStatistics, Statistics, WaitTotal, WorkerStatistics};
pub use submit::TaskBuilder;
pub use task::{Label, Outcome, TaskFailure, TaskHandle, TaskId};
