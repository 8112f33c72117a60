//! Storage of the tables: it grows, and what is in it stays where it is.
//!
//! # Invariant
//! `segments[s]` is null, or points to the first of `FIRST << s` values, in a block of
//! `layout(s)` from the global allocator, that live until the table is dropped. An index is handed
//! out only after [`Segments::grow`] made its segment, and reaches other threads by a release and
//! an acquire (through a queue, a list of edges, or a lock).
#![allow(unsafe_code, reason = "every step of a task looks up slots, without checks")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::needs_drop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A table whose entries never move: segments of doubling size.
pub(crate) struct Segments<T> {
    segments: [AtomicPtr<T>; SEGMENTS],
    /// The table owns its entries.
    owned: std::marker::PhantomData<T>,
}

/// Entries in the first segment; small under loom, where every atomic is tracked.
const FIRST: u32 = if cfg!(loom) { 4 } else { 256 };
/// A table of many entries is walked in no order: with pages of 4 KiB each step would miss the
/// translation cache as well.
const HUGE_PAGE: usize = 2 << 20;
const SEGMENTS: usize = if cfg!(loom) { 1 } else { 23 };

impl<T> Segments<T> {
    pub(crate) fn new() -> Self {
        let segments = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        Segments { segments, owned: std::marker::PhantomData }
    }

    #[inline]
    fn locate(index: u32) -> (usize, usize) {
        let place = index + FIRST;
        let segment = place.ilog2() - FIRST.ilog2();
        (segment as usize, (place - (FIRST << segment)) as usize)
    }

    /// The entry of an index that was handed out.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        let (segment, offset) = Self::locate(index);
        // Relaxed: see the invariant.
        let segment = self.segments[segment].load(Ordering::Relaxed);
        debug_assert!(!segment.is_null(), "an index that was handed out");
        // SAFETY: by the invariant the segment exists, and `locate` stays within it.
        unsafe { &*segment.add(offset) }
    }

    /// Makes the entry exist; one caller at a time.
    pub(crate) fn grow(&self, index: u32, make: impl Fn() -> T) {
        let (segment, _) = Self::locate(index);
        let place = &self.segments[segment];
        if place.load(Ordering::Relaxed).is_null() {
            let layout = Self::layout(segment);
            // SAFETY: entries have a size.
            let memory = unsafe { alloc(layout) }.cast::<T>();
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            ask_for_huge_pages(memory.cast(), layout);
            for index in 0..(FIRST << segment) as usize {
                // SAFETY: the block has room for so many entries.
                unsafe { memory.add(index).write(make()) };
            }
            place.store(memory, Ordering::Release);
        }
    }

    /// The block of a segment. A large one begins where a huge page may.
    fn layout(segment: usize) -> Layout {
        let entries = Layout::array::<T>((FIRST << segment) as usize).expect("less than 2^63");
        let align = if entries.size() >= HUGE_PAGE { HUGE_PAGE } else { 1 };
        entries.align_to(align).expect("a power of two").pad_to_align()
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for (segment, values) in self.segments.iter_mut().enumerate() {
            let values = *values.get_mut();
            if values.is_null() {
                continue;
            }
            if needs_drop::<T>() {
                for index in 0..(FIRST << segment) as usize {
                    // SAFETY: `grow` has written so many, and nobody else has them now.
                    unsafe { values.add(index).drop_in_place() };
                }
            }
            // SAFETY: `grow` took it from the allocator with that layout.
            unsafe { dealloc(values.cast(), Self::layout(segment)) };
        }
    }
}

/// Advice only: a kernel without huge pages refuses it, and small ones do as well.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(memory: *mut u8, layout: Layout) {
    use rustix::mm::{Advice, madvise};
    if layout.align() >= HUGE_PAGE {
        // SAFETY: the range is the caller's block, whose content is not changed by it.
        let _ = unsafe { madvise(memory.cast(), layout.size(), Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: *mut u8, _: Layout) {}
