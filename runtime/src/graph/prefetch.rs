//! Hints to the processor to fetch memory that will be used soon.
#![allow(unsafe_code, reason = "calls the prefetch instruction")]

/// Fetches the line at `place` into this core's cache, for writing. Only a hint: it has no
/// effect but on time, and none at all on other architectures than x86-64.
#[inline]
pub(crate) fn prefetch_for_write<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: prefetching never faults, and the address is that of a live value.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Fetches the line at `place` into this core's cache, for reading; else as above.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching never faults, and the address is that of a live value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
