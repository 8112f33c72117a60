//! What threads note for the watchdog while there is one.

use std::panic::Location;
use std::sync::Mutex;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::report::WaitingThread;
use crate::pool::Reason;
use crate::sync::{AtomicU32, AtomicU64, Ordering, lock_plain};

/// Which tasks run, and which threads wait.
pub(crate) struct Watch {
    /// By lane.
    running: Vec<CachePadded<Running>>,
    waits: Mutex<Waits>,
}

/// What a thread runs. One writer at a time.
#[derive(Default)]
struct Running {
    /// 0, or one more than the number of the task's slot.
    slot: AtomicU32,
    since: AtomicU64,
}

#[derive(Default)]
struct Waits {
    list: Vec<Wait>,
    tickets: u64,
}

/// A thread that waits.
struct Wait {
    ticket: u64,
    since: u64,
    facts: WaitingThread,
}

impl Watch {
    pub(crate) fn new(workers: usize) -> Self {
        Watch {
            running: (0..=workers).map(|_| CachePadded::default()).collect(),
            waits: Mutex::default(),
        }
    }

    /// The thread of `lane` begins to run the task in `slot`.
    #[inline]
    pub(crate) fn body_begins(&self, lane: usize, slot: u32, now: u64) {
        let running = &self.running[lane];
        running.since.store(now, Ordering::Relaxed);
        running.slot.store(slot + 1, Ordering::Release);
    }

    /// It has run it.
    #[inline]
    pub(crate) fn body_ended(&self, lane: usize) {
        self.running[lane].slot.store(0, Ordering::Relaxed);
    }

    /// What the thread of `lane` runs, in which slot, and since when.
    pub(super) fn running(&self, lane: usize) -> Option<(u32, u64)> {
        let Running { slot, since } = &*self.running[lane];
        let slot = slot.load(Ordering::Acquire).checked_sub(1)?;
        Some((slot, since.load(Ordering::Relaxed)))
    }

    pub(super) fn lanes(&self) -> usize {
        self.running.len()
    }

    /// The calling thread begins to wait; returns what [`wait_ends`](Self::wait_ends) wants.
    pub(crate) fn wait_begins(&self, reason: Reason<'_>, now: u64) -> u64 {
        let thread = std::thread::current();
        let facts = WaitingThread {
            thread: thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned),
            call: reason.call.map(|call| call.name),
            location: reason.call.and_then(|call| call.location),
            reason: reason.name.to_owned(),
            time: Duration::ZERO,
        };
        let mut waits = lock_plain(&self.waits);
        let ticket = waits.tickets;
        waits.tickets += 1;
        waits.list.push(Wait { ticket, since: now, facts });
        ticket
    }

    pub(crate) fn wait_ends(&self, ticket: u64) {
        let mut waits = lock_plain(&self.waits);
        let place = waits.list.iter().position(|wait| wait.ticket == ticket);
        let wait = place.map(|place| waits.list.swap_remove(place));
        drop(waits);
        drop(wait);
    }

    /// Whether a thread waits.
    pub(super) fn has_waits(&self) -> bool {
        !lock_plain(&self.waits).list.is_empty()
    }

    /// Calls `each` for the threads that wait, first come first.
    pub(super) fn waits(&self, now: u64, mut each: impl FnMut(WaitingThread)) {
        let mut waits = lock_plain(&self.waits);
        waits.list.sort_unstable_by_key(|wait| wait.ticket);
        for Wait { since, facts, .. } in &waits.list {
            let time = Duration::from_nanos(now.saturating_sub(*since));
            each(WaitingThread { time, ..facts.clone() });
        }
    }
}

/// What a thread called, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) location: Option<&'static Location<'static>>,
}

impl Call {
    /// The call that the caller's caller makes.
    #[track_caller]
    pub(crate) fn here(name: &'static str) -> Self {
        Call { name, location: Some(Location::caller()) }
    }
}
