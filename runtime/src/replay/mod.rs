//! Graphs that are the same each time: recorded once, replayed with other data.
//!
//! A program that submits the same tasks for every batch pays for each of them each time: its
//! dependencies are inferred, its body is stored, its memory secured. A recording does that once.
//! A replay submits the whole graph: it secures what is bound to each *parameter*, finds out, per
//! handle, what the graph's first users of it have to wait for outside, and lets the graph go.
//! Once as many replays have been under way at once as ever are, it allocates nothing, and neither
//! do its tasks; only the queues of ready tasks grow, where more than 64 are ready at once.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use millrace_runtime::Runtime;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let handles = rt.handles(2).expect("fewer than 2^32 handles");
//! let sum = Arc::new(AtomicU32::new(0));
//!
//! let mut recording = rt.record();
//! let data = recording.parameter(handles.block())?;
//! for half in 0..2 {
//!     let sum = sum.clone();
//!     recording.spawn("half", data.write(half), move |()| _ = sum.fetch_add(1, Ordering::Relaxed))?;
//! }
//! let seen = sum.clone();
//! recording.spawn("both", (data.read(0), data.read(1)), move |_| {
//!     assert_eq!(seen.load(Ordering::Relaxed) % 2, 0); // after both halves, before the next two
//! })?;
//! let mut graph = recording.finish();
//!
//! for batch in 0..10 {
//!     graph.set_batch(Some(batch));
//!     graph.replay()?;
//! }
//! rt.wait()?;
//! assert_eq!(sum.load(Ordering::Relaxed), 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a recording fixes
//! Tasks, bodies, edges, layers, shards and priorities; the shape of each parameter's data. What
//! may change from replay to replay is the data (a buffer of the same shape in another arena or
//! generation: [`RecordedGraph::bind`]) and the batch. Data of another shape is refused with
//! [`ReplayError::Shape`].
//!
//! # Other tasks
//! Tasks may be submitted before, between and after replays; the dependencies between them and
//! the graph's tasks are those that there would be if all were submitted one by one. Tasks that
//! [commute](crate::Mode::Commute) inside of a recording keep the order in which they were
//! recorded. A failure of a task, inside or outside, cancels what depends on it in that replay and
//! in others.

mod access;
mod cover;
mod error;
mod execute;
mod graph;
mod instance;
mod plan;
mod recording;
mod submitted;
mod survey;

pub use access::{Binding, Bound, HandleCount, Parameter, Part, RecordedAccess, RecordedHandle};
pub(crate) use cover::Cover;
pub use error::ReplayError;
pub(crate) use execute::Uncounted;
pub(crate) use graph::Entered;
pub use graph::RecordedGraph;
pub(crate) use instance::Instance;
pub use recording::{RecordedTask, RecordedTaskBuilder, Recording};
pub use submitted::Replay;
pub(crate) use submitted::ReplayName;
