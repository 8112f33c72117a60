//! Figures of execution traces.
//!
//! A [`Trace`](millrace_runtime::trace::Trace) holds what every thread of a run did and when.
//! This crate draws it: [`Chart`] one trace, [`compare`] several on one time axis, both as SVG,
//! [`Page`] either as an interactive HTML page; and [`Summary`] says in nanoseconds where the time went. It knows traces only: no task, no
//! arena, no file.
//!
//! In a figure each thread has a lane, the main thread above the workers. Tasks are green, one
//! shade per kind; a worker without work is red, one shade per cause; the main thread's waits
//! are blue or violet, one shade per cause. Batches and epochs are lines through all lanes.
//!
//! # Invariants
//! - Time is a partition: every nanosecond of a lane belongs to its innermost span or to none,
//!   so that `busy + idle + scheduling` is the makespan times the number of workers.
//! - Area is time: where more spans meet than pixels can show, a column of pixels shows each
//!   kind by its share. The red area is the idle time at every resolution.
//! - The size of a document depends on its lanes and pixels, not on the number of spans.
//! - No trace makes this crate panic; one that contradicts itself is a [`GanttError`].
//!
//! # Example
//! ```
//! use millrace_gantt::{Chart, Comparison, Summary, compare};
//! use millrace_runtime::trace::{Cause, Trace};
//!
//! let document = r#"{
//!     "format": "millrace-trace", "version": 1, "title": "single/naive",
//!     "meta": {"workers": "1", "batch size": "32"}, "origin": 0.0,
//!     "lanes": [{"name": "main", "kind": "main"}, {"name": "worker 0", "kind": "worker"}],
//!     "names": ["dense.forward", "arena batch"],
//!     "spans": [
//!         {"lane": 0, "kind": "wait", "name": 1, "start": 200, "end": 900, "cause": "barrier"},
//!         {"lane": 1, "kind": "task", "name": 0, "start": 100, "end": 800, "batch": 0},
//!         {"lane": 1, "kind": "idle", "name": 1, "start": 850, "end": 1000, "cause": "barrier"}
//!     ],
//!     "marks": [{"time": 0, "kind": "batch", "index": 0}], "dropped": 0
//! }"#;
//! let trace = Trace::read_json(document.as_bytes()).expect("a document of this version");
//!
//! let summary = Summary::of(&trace)?;
//! assert_eq!(summary.makespan, 900);
//! assert_eq!(summary.busy(), 700);
//! assert_eq!(summary.idle().get(Cause::Barrier), 150);
//! assert_eq!(summary.scheduling(), 50);
//! assert_eq!(summary.waits().get(Cause::Barrier), 700);
//!
//! let svg = Chart::new(&trace).width(1000).render()?;
//! assert!(svg.starts_with("<svg width=\"1000\""));
//! let both = compare(&[&trace, &trace], &Comparison::default().title("Twice the same"))?;
//! assert_eq!(both.matches("worker 0").count(), 2);
//! # Ok::<(), millrace_gantt::GanttError>(())
//! ```

#![forbid(unsafe_code)]

mod axis;
mod band;
mod canvas;
mod chart;
mod compare;
mod error;
mod legend;
mod page;
mod palette;
mod segment;
mod summary;
mod theme;
mod view;
mod window;

pub use chart::Chart;
pub use compare::{Comparison, compare};
pub use error::GanttError;
pub use page::Page;
pub use segment::Activity;
pub use summary::{CauseTimes, LaneSummary, Summary, Total};
pub use theme::Theme;
pub use window::middle_batches;
