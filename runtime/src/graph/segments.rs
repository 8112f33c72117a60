//! Storage of the tables: it grows, and what is in it stays where it is.

use std::sync::OnceLock;

/// A table whose entries never move: segments of doubling size.
pub(super) struct Segments<T> {
    segments: Vec<OnceLock<Box<[T]>>>,
}

/// Entries in the first segment; small under loom, where every atomic is tracked.
const FIRST: u32 = if cfg!(loom) { 4 } else { 256 };

impl<T> Segments<T> {
    pub(super) fn new() -> Self {
        let count = if cfg!(loom) { 1 } else { 23 };
        Segments { segments: (0..count).map(|_| OnceLock::new()).collect() }
    }

    fn locate(index: u32) -> (usize, usize) {
        let place = index + FIRST;
        let segment = place.ilog2() - FIRST.ilog2();
        (segment as usize, (place - (FIRST << segment)) as usize)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        let (segment, offset) = Self::locate(index);
        &self.segments[segment].get().expect("an index that was handed out")[offset]
    }

    /// Makes the entry exist.
    pub(super) fn grow(&self, index: u32, make: impl Fn() -> T) {
        let (segment, _) = Self::locate(index);
        self.segments[segment].get_or_init(|| (0..FIRST << segment).map(|_| make()).collect());
    }
}
