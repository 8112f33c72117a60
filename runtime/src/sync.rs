//! The synchronisation primitives of the protocols, so that `--cfg loom` can model them.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::{Thread, current, park},
};

#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::{Thread, current, park},
};

/// Locks; a poisoned lock is taken all the same, since no code that may panic runs under ours.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
