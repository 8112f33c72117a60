//! The primitives that the lease protocol is built from.
//!
//! Under `--cfg loom` they are loom's, so that the model in `tests/loom_lease.rs` explores
//! every interleaving of the very sources that ship; otherwise they are the standard ones.

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Locks `mutex`, whether or not a holder panicked.
///
/// Nothing that is guarded in this crate is left half changed by a panic: each critical
/// section either finishes its bookkeeping before it calls out, or calls out to nobody.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
