//! Storage of the tables: it grows, and what is in it stays where it is.
//!
//! # Invariant
//! `segments[s]` is null, or points to the first of `FIRST << s` places, in a block of
//! `layout(s)` from the global allocator, that live until the table is dropped. The first `made`
//! places, in the order of the segments, have values. An index is handed out only after
//! [`Segments::grow`] made its value, and reaches other threads by a release and an acquire
//! (through a queue, a list of edges, or a lock).
//!
//! Memory that has no values yet is not touched: a table weighs what its entries weigh, and
//! growing it never takes longer than `FIRST` values do.
#![allow(unsafe_code, reason = "every step of a task looks up slots, without checks")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::needs_drop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A table whose entries never move: segments of doubling size.
pub(crate) struct Segments<T> {
    segments: [AtomicPtr<T>; SEGMENTS],
    /// How many values there are, a multiple of `FIRST`; written by who grows the table.
    made: AtomicU32,
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
        Segments { segments, made: AtomicU32::new(0), owned: std::marker::PhantomData }
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
    #[inline]
    pub(crate) fn grow(&self, index: u32, make: impl Fn() -> T) {
        while self.made.load(Ordering::Relaxed) <= index {
            self.make_some(&make);
        }
    }

    /// Makes the next `FIRST` entries: all of one segment, for each has a multiple of that.
    #[cold]
    fn make_some(&self, make: impl Fn() -> T) {
        let made = self.made.load(Ordering::Relaxed);
        let (segment, offset) = Self::locate(made);
        let mut memory = self.segments[segment].load(Ordering::Relaxed);
        if memory.is_null() {
            let layout = Self::layout(segment);
            // SAFETY: entries have a size.
            memory = unsafe { alloc(layout) }.cast::<T>();
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            ask_for_huge_pages(memory.cast(), layout);
        }
        for index in offset..offset + FIRST as usize {
            // SAFETY: the block has room for so many entries.
            unsafe { memory.add(index).write(make()) };
        }
        self.made.store(made + FIRST, Ordering::Relaxed);
        self.segments[segment].store(memory, Ordering::Release);
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
        let mut left = *self.made.get_mut() as usize;
        for (segment, values) in self.segments.iter_mut().enumerate() {
            let values = *values.get_mut();
            if values.is_null() {
                continue;
            }
            let made = left.min((FIRST << segment) as usize);
            left -= made;
            if needs_drop::<T>() {
                for index in 0..made {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Counts how often values are dropped.
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
        }
    }

    #[test]
    fn every_value_up_to_the_index_is_made_once_and_dropped_once() {
        for last in [0, FIRST - 1, FIRST, 3 * FIRST - 1, 3 * FIRST, 5 * FIRST + 7] {
            let (made, dropped) = (Cell::new(0), Cell::new(0));
            let table = Segments::new();
            let make = || {
                made.set(made.get() + 1);
                Counted(made.get() - 1, &dropped)
            };
            // Not in order, as by who looks at some of the indices only.
            for index in [last / 2, 0, last, last / 3] {
                table.grow(index, make);
            }
            assert!((0..=last).all(|index| table.get(index).0 == index));
            // No more than the next few.
            assert_eq!(made.get(), (last / FIRST + 1) * FIRST);
            drop(table);
            assert_eq!(dropped.get(), made.get());
        }
    }
}
