//! The watchdog's thread.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::patrol::{Counts, Patrol};
use super::{Callback, StallReport, Watchdog, complain};
use crate::pool::guarded;
use crate::runtime::Inner;
use crate::sync::lock_plain;

/// How often the counts are looked at within the time after which a stall is reported.
const LOOKS: u32 = 4;

/// The running thread; dropping it ends it at once.
pub(crate) struct Patrolling {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for so long; true if the thread is to end.
    fn wait(&self, time: Duration) -> bool {
        let asked = lock_plain(&self.asked);
        let waited = self.changed.wait_timeout_while(asked, time, |asked| !*asked);
        *waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }
}

impl Patrolling {
    pub(crate) fn start(inner: &Arc<Inner>, watchdog: Watchdog) -> io::Result<Self> {
        let (inner, stop) = (inner.clone(), Arc::new(Stop::default()));
        let stopped = stop.clone();
        let run = move || patrol(&inner, watchdog, &stopped);
        let thread = thread::Builder::new().name("millrace-watchdog".to_owned()).spawn(run)?;
        Ok(Patrolling { stop, thread: Some(thread) })
    }
}

impl Drop for Patrolling {
    fn drop(&mut self) {
        *lock_plain(&self.stop.asked) = true;
        self.stop.changed.notify_one();
        if let Some(thread) =
            self.thread.take().filter(|it| it.thread().id() != thread::current().id())
        {
            // A panic of the callback's drop is nobody's here.
            let _ = thread.join();
        }
    }
}

fn patrol(inner: &Inner, watchdog: Watchdog, stop: &Stop) {
    let Watchdog { after, mut tell } = watchdog;
    let Some(watch) = &inner.watch else { return };
    let mut patrol = Patrol::new(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
    while !stop.wait(after / LOOKS) {
        let counts = inner.stall_counts();
        if let Some(stalled) = patrol.look(inner.recorder.now(), counts) {
            let report = inner.stall_report(watch, Duration::from_nanos(stalled));
            tell_all(&mut tell, &report);
        }
    }
}

fn tell_all(tell: &mut Callback, report: &StallReport) {
    if let Err(message) = guarded(|| tell(report)) {
        complain(format_args!("{report}millrace: the watchdog's callback panicked: {message}\n"));
    }
}

impl Inner {
    /// The tasks started and ended, if there are unfinished ones, or threads that wait.
    pub(super) fn stall_counts(&self) -> Option<Counts> {
        let waits = self.watch.as_ref().is_some_and(|watch| watch.has_waits());
        (waits || !self.is_drained()).then(|| (self.started(), self.finished()))
    }
}
