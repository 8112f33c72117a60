//! Fences for two sides of which one passes often and the other seldom.
//!
//! Each side writes one word, fences, then reads the other's. As with two sequentially consistent
//! fences, one of them sees what the other wrote. The side that passes often pays nothing: the
//! other one makes every running thread of the process pass a fence (`membarrier(2)`, where the
//! system has it; else, and in models, both are plain fences).

#[cfg(all(target_os = "linux", not(loom)))]
use std::sync::atomic::{AtomicBool, compiler_fence};

#[cfg(all(target_os = "linux", not(loom)))]
use rustix::thread::{MembarrierCommand, membarrier};

use super::{Ordering, fence};

#[cfg(all(target_os = "linux", not(loom)))]
static AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Finds out what the system offers; before any thread passes the fences together with others.
pub(crate) fn prepare() {
    #[cfg(all(target_os = "linux", not(loom)))]
    if membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() {
        AVAILABLE.store(true, Ordering::SeqCst);
    }
}

/// The side that passes often.
#[inline]
pub(crate) fn light() {
    #[cfg(all(target_os = "linux", not(loom)))]
    if AVAILABLE.load(Ordering::Relaxed) {
        super::point();
        return compiler_fence(Ordering::SeqCst);
    }
    fence(Ordering::SeqCst);
}

/// The side that passes seldom: takes about a microsecond.
///
/// # Panics
/// When the system refuses what it has offered.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    #[cfg(all(target_os = "linux", not(loom)))]
    if AVAILABLE.load(Ordering::Relaxed) {
        let done = membarrier(MembarrierCommand::PrivateExpedited);
        assert!(done.is_ok(), "the process is registered for it: {done:?}");
    }
}
