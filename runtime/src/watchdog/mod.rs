//! A watchdog: says who waits for whom when nothing moves any more.
//!
//! Waits that could never end are errors where the runtime can know it
//! ([`WaitError`](crate::WaitError)). It cannot know of a body that waits for a channel, of a guard
//! that is never dropped, or of two threads that each hold what the other wants: the program just
//! stands still. With [`Builder::watchdog`](crate::Builder::watchdog), a thread looks at the counts
//! of started and ended tasks. When there are unfinished tasks, or threads that wait, and no task
//! has started or ended for the given time, it makes a [`StallReport`]; and again after twice that
//! time, four times, and so on, until something moves.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use millrace_runtime::{Runtime, watchdog::Watchdog};
//!
//! let (tell, told) = mpsc::channel();
//! let watchdog = Watchdog::after(Duration::from_millis(10))
//!     .on_stall(move |report| _ = tell.send(report.to_string()));
//! let rt = Runtime::builder().workers(1).watchdog(watchdog).build()?;
//!
//! let data = rt.handles(1).expect("a handle");
//! let guard = rt.acquire(data.write(0))?;
//! rt.task("sum").batch(3).spawn(data.read(0), |()| ())?;
//! let report = told.recv()?; // The task waits for the guard.
//! assert!(report.contains("`sum` (batch 3), submitted at"));
//! assert!(report.contains("waits for data held since `acquire` at"));
//! drop(guard);
//! rt.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it costs
//! Without a watchdog, nothing. With one, each thread notes which task it runs, in memory of its
//! own, and times are taken as for [`Builder::timing`](crate::Builder::timing). The watchdog's thread
//! reads the counts four times in the given time; only for a report it takes the lock that
//! submissions take, for as long as it takes to look at every task that was ever unfinished at once.

mod patrol;
mod report;
mod survey;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;
mod watch;

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

pub use report::{Listed, Place, StallReport, State, WaitingTask, WaitingThread, Workers};
pub(crate) use thread::Patrolling;
pub(crate) use watch::{Call, Watch};

/// Writes to standard error.
fn complain(text: fmt::Arguments<'_>) {
    // Whoever closed it does not want to know.
    let _ = io::stderr().write_fmt(text);
}

/// What is told of a stall.
type Callback = Box<dyn FnMut(&StallReport) + Send>;

/// Describes a watchdog: [`Builder::watchdog`](crate::Builder::watchdog).
#[must_use = "it has to be given to `Builder::watchdog`"]
pub struct Watchdog {
    after: Duration,
    tell: Callback,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Reports when nothing has moved for `time` (at least a millisecond), to standard error.
    ///
    /// Choose it longer than the longest body: a task that runs for longer is a stall if nothing
    /// else starts or ends meanwhile.
    pub fn after(time: Duration) -> Self {
        let tell = |report: &StallReport| complain(format_args!("{report}"));
        Watchdog { after: time.max(Duration::from_millis(1)), tell: Box::new(tell) }
    }

    /// Calls `tell` instead, on the watchdog's thread. It must not hold a [`Runtime`] that it
    /// watches: that would never be dropped; its drop waits for a call that is under way. A panic
    /// in it is told on standard error, and the watchdog goes on.
    ///
    /// [`Runtime`]: crate::Runtime
    pub fn on_stall(mut self, tell: impl FnMut(&StallReport) + Send + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }
}
