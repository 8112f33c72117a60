//! What the main thread waited for, and since when that starved the workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::trace::Cause;

/// Nanoseconds per cause, in the order of [`Cause::ALL`].
pub(crate) type CauseTimes = [u64; Cause::ALL.len()];

/// For how long, so far, workers were starved by each cause for which the main thread waited.
///
/// A wait *starves* the workers from the moment when every submitted task has been started:
/// until then, an idle worker lacks a ready task because of dependencies, not because of the
/// wait. (A full window, of tasks or of memory, starves from its beginning: only the window keeps
/// further tasks out.)
///
/// A worker reads the clock when an idle interval begins and when it ends: the difference is
/// how that interval divides among the causes, and the rest is for want of a ready task.
#[derive(Default)]
pub(crate) struct CauseClock {
    /// How often a wait has begun while none was in progress, or the last one ended: odd while a
    /// thread waits.
    turns: AtomicU32,
    state: Mutex<CauseClockState>,
}

#[derive(Default)]
struct CauseClockState {
    times: CauseTimes,
    /// Waits in progress; the first one counts.
    depth: u32,
    current: Option<Waiting>,
    starved_since: Option<u64>,
    /// When the wait in progress began or workers were last fed: they starve later than that.
    fed: u64,
}

/// A wait in progress: its cause, and the name that it has in a trace.
#[derive(Clone, Copy)]
struct Waiting {
    cause: Cause,
    name: u32,
}

/// An interval in which a wait starved the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    pub(crate) cause: Cause,
    pub(crate) name: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl CauseClockState {
    fn feed(&mut self, now: u64) -> Option<Starved> {
        let Waiting { cause, name } = self.current?;
        self.fed = self.fed.max(now);
        let start = self.starved_since.take()?;
        if let Some(index) = cause.index() {
            self.times[index] += now.saturating_sub(start);
        }
        Some(Starved { cause, name, start, end: now.max(start) })
    }
}

impl CauseClock {
    fn state(&self) -> MutexGuard<'_, CauseClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread waits. Exact only after a fence.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.turns.load(Ordering::Relaxed) & 1 == 1
    }

    /// Another number whenever a thread begins to wait and none did, or none waits any more.
    #[inline]
    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Only with the state locked.
    fn turn(&self) {
        self.turns.store(self.turns().wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn begin(&self, cause: Cause, name: u32, now: u64) {
        let mut state = self.state();
        state.depth += 1;
        if state.depth == 1 {
            state.current = Some(Waiting { cause, name });
            state.fed = now;
            let full = matches!(cause, Cause::Window | Cause::Memory);
            state.starved_since = full.then_some(now);
            self.turn();
        }
    }

    /// Every submitted task has been started: if a thread waits, workers starve from now on.
    pub(crate) fn starve(&self, now: u64) {
        let mut state = self.state();
        if state.current.is_some() {
            // Whoever noticed may have been held up since, even since before the wait.
            let since = now.max(state.fed);
            state.starved_since.get_or_insert(since);
        }
    }

    /// A task was submitted during a wait: workers starve no longer.
    pub(crate) fn feed(&self, now: u64) -> Option<Starved> {
        self.state().feed(now)
    }

    pub(crate) fn end(&self, now: u64) -> Option<Starved> {
        let mut state = self.state();
        state.depth -= 1;
        if state.depth > 0 {
            return None;
        }
        self.turn();
        let starved = state.feed(now);
        state.current = None;
        starved
    }

    pub(crate) fn read(&self, now: u64) -> CauseTimes {
        let state = self.state();
        let mut times = state.times;
        if let (Some(waiting), Some(since)) = (state.current, state.starved_since)
            && let Some(index) = waiting.cause.index()
        {
            times[index] += now.saturating_sub(since);
        }
        times
    }
}
