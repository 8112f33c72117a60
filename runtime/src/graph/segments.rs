//! Storage of the tables: it grows, and what is in it stays where it is.
//!
//! # Invariant
//! `segments[s]` is null, or points to the first of `FIRST << s` values that live until the table
//! is dropped. An index is handed out only after [`Segments::grow`] made its segment, and reaches
//! other threads by a release and an acquire (through a queue, a list of edges, or a lock).
#![allow(unsafe_code, reason = "every step of a task looks up slots, without checks")]

use std::ptr::{null_mut, slice_from_raw_parts_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A table whose entries never move: segments of doubling size.
pub(crate) struct Segments<T> {
    segments: [AtomicPtr<T>; SEGMENTS],
    /// The table owns its entries.
    owned: std::marker::PhantomData<T>,
}

/// Entries in the first segment; small under loom, where every atomic is tracked.
const FIRST: u32 = if cfg!(loom) { 4 } else { 256 };
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
            let values: Box<[T]> = (0..FIRST << segment).map(|_| make()).collect();
            place.store(Box::into_raw(values).cast(), Ordering::Release);
        }
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for (segment, values) in self.segments.iter_mut().enumerate() {
            let values = *values.get_mut();
            if !values.is_null() {
                let values = slice_from_raw_parts_mut(values, (FIRST << segment) as usize);
                // SAFETY: `grow` made it from a box of that length, and nobody else has it now.
                drop(unsafe { Box::from_raw(values) });
            }
        }
    }
}
