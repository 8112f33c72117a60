//! The synchronisation primitives of the protocols, so that `--cfg loom` can model them, and
//! `--cfg millrace_delays` disturb them.

pub(crate) mod asymmetric;
#[cfg(millrace_delays)]
mod delays;

use std::sync::{Mutex as PlainMutex, MutexGuard as PlainGuard, TryLockError};
use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use parking::{Thread, current, park};

#[cfg(millrace_delays)]
pub(crate) use delays::{AtomicU32, AtomicU64, fence, park, point};
#[cfg(not(any(loom, millrace_delays)))]
pub(crate) use std::{
    sync::atomic::{AtomicU32, AtomicU64, fence},
    thread::park,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Mutex, MutexGuard, atomic::Ordering},
    thread::{Thread, current},
};

/// A place where a thread may stand still, beside the operations above.
#[cfg(not(millrace_delays))]
#[inline]
pub(crate) fn point() {}

/// A point in time at which a wait ends at the latest, if any.
pub(crate) type Deadline = Option<Instant>;

/// Whether the deadline has passed.
pub(crate) fn has_passed(deadline: Deadline) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Parks until unparked, or until the deadline. Models know no time.
pub(crate) fn park_until(deadline: Deadline) {
    point();
    #[cfg(not(loom))]
    if let Some(deadline) = deadline {
        return std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
    }
    let _ = deadline;
    park();
}

/// Locks; a poisoned lock is taken all the same, since no code that may panic runs under ours.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    point();
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The same if nobody has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    point();
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The same for a lock that no model looks at.
pub(crate) fn lock_plain<T>(mutex: &PlainMutex<T>) -> PlainGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Parking for loom, whose own wakes a thread even out of a lock that it waits for.
#[cfg(loom)]
mod parking {
    use loom::sync::{Arc, Condvar, Mutex};

    /// A thread's token, and where it waits for it.
    #[derive(Clone)]
    pub(crate) struct Thread(Arc<(Mutex<bool>, Condvar)>);

    loom::thread_local! {
        static CURRENT: Thread = Thread(Arc::new((Mutex::new(false), Condvar::new())));
    }

    pub(crate) fn current() -> Thread {
        CURRENT.with(Clone::clone)
    }

    pub(crate) fn park() {
        let Thread(place) = current();
        let mut token = place.0.lock().expect("no panics here");
        while !*token {
            token = place.1.wait(token).expect("no panics here");
        }
        *token = false;
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            *self.0.0.lock().expect("no panics here") = true;
            self.0.1.notify_one();
        }
    }
}
