//! Hints to the processor to fetch memory that will be used soon.
#![allow(unsafe_code, reason = "calls the prefetch instruction")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_ET0 as WRITE, _MM_HINT_T0 as READ, _mm_prefetch};

#[cfg(not(target_arch = "x86_64"))]
const READ: i32 = 0;
#[cfg(not(target_arch = "x86_64"))]
const WRITE: i32 = 0;

/// Fetches the line at `place` into this core's cache, for writing. Only a hint: it has no
/// effect but on time, and none at all on other architectures than x86-64.
#[inline]
pub(crate) fn prefetch_for_write<T>(place: &T) {
    fetch::<WRITE, T>(place);
}

/// Fetches the line at `place` into this core's cache, for reading; else as above.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    fetch::<READ, T>(place);
}

#[inline]
fn fetch<const HINT: i32, T>(place: &T) {
    // SAFETY: prefetching never faults, and the address is that of a live value.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        _mm_prefetch::<HINT>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
