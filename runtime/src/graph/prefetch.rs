//! Hints to the processor to fetch memory that will be used soon.
#![allow(unsafe_code, reason = "calls the prefetch instruction")]

/// Fetches the line at `place` into this core's cache, for writing: from another core, if that one
/// has written it, and for good. Only a hint: it has no effect but on time, and none at all on
/// other architectures than x86-64.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(place: &T) {
    // The compiler's own hint for writing means reading where the processor's kind is not known;
    // then the first write would fetch the line once more. Who does not know this one passes it.
    // SAFETY: prefetching never faults, and changes nothing.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!(
            "prefetchw byte ptr [{place}]",
            place = in(reg) std::ptr::from_ref(place),
            options(nostack, preserves_flags, readonly),
        );
    }
    let _ = place;
}

/// Fetches the line at `place` into this core's cache, for reading; else as above.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    // SAFETY: as above.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    let _ = place;
}
