//! Storage of the tables: it grows, and what is in it stays where it is.
//!
//! # Invariant
//! Entries live in blocks, each as large as all before it together, and are looked up by pages of
//! `PAGE` entries. `pages[p]` is null, or points to the first entry of page `p`, which lies in a
//! block from the global allocator that lives until the table is dropped. The first `made` pages
//! have values, and no others are pointed to. An index is handed out only after [`Segments::grow`]
//! made its value, and reaches other threads by a release and an acquire (through a queue, a list
//! of edges, or a lock).
//!
//! Memory that has no values yet is not touched: a table weighs what its entries weigh, and
//! growing it never takes longer than a page of values does.
#![allow(unsafe_code, reason = "every step of a task looks up slots, without checks")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::needs_drop;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A table whose entries never move, in pages of `PAGE` entries.
pub(crate) struct Segments<T, const PAGE: u32> {
    /// As many as the largest table needs. The system gives memory for those that are used.
    pages: *const AtomicPtr<T>,
    count: usize,
    /// Pages that have values; written by who grows the table.
    made: AtomicUsize,
    /// The table owns its entries.
    owned: std::marker::PhantomData<T>,
}

// SAFETY: the pages are atomics, and entries are handed out as shared references.
unsafe impl<T: Send + Sync, const PAGE: u32> Sync for Segments<T, PAGE> {}
// SAFETY: the table owns what it points to.
unsafe impl<T: Send, const PAGE: u32> Send for Segments<T, PAGE> {}

/// The size of pages that are to have `entries`; small under loom, where every atomic is tracked.
pub(crate) const fn page(entries: u32) -> u32 {
    if cfg!(loom) { 4 } else { entries }
}

/// A table of many entries is walked in no order: with pages of 4 KiB each step would miss the
/// translation cache as well.
const HUGE_PAGE: usize = 2 << 20;

impl<T, const PAGE: u32> Segments<T, PAGE> {
    /// A table for indices below `most`.
    pub(crate) fn new(most: u32) -> Self {
        let count = if cfg!(loom) { 1 } else { most.div_ceil(PAGE) as usize };
        let layout = Self::directory(count);
        // SAFETY: there is at least one page.
        let pages = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<T>>();
        if pages.is_null() {
            handle_alloc_error(layout);
        }
        Segments { pages, count, made: AtomicUsize::new(0), owned: std::marker::PhantomData }
    }

    fn directory(count: usize) -> Layout {
        Layout::array::<AtomicPtr<T>>(count.max(1)).expect("less than 2^63")
    }

    fn page(&self, page: usize) -> &AtomicPtr<T> {
        debug_assert!(page < self.count, "an index below the most");
        // SAFETY: the directory has `count` pages, and zeros are null pointers.
        unsafe { &*self.pages.add(page) }
    }

    /// The entry of an index that was handed out.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        // Relaxed: see the invariant.
        let page = self.page((index / PAGE) as usize).load(Ordering::Relaxed);
        debug_assert!(!page.is_null(), "an index that was handed out");
        // SAFETY: by the invariant the page exists.
        unsafe { &*page.add((index % PAGE) as usize) }
    }

    /// Makes the entry exist, and all before it; one caller at a time.
    ///
    /// # Panics
    /// When the index is not below the most.
    #[inline]
    pub(crate) fn grow(&self, index: u32, make: impl Fn() -> T) {
        while self.made.load(Ordering::Relaxed) <= (index / PAGE) as usize {
            self.make_page(&make);
        }
    }

    #[cold]
    fn make_page(&self, make: impl Fn() -> T) {
        let page = self.made.load(Ordering::Relaxed);
        assert!(page < self.count, "an index below the most");
        let first = Self::first_of_block(page);
        let block = match page - first {
            0 => self.allocate_block(first),
            _ => self.page(first).load(Ordering::Relaxed),
        };
        // SAFETY: the block has room for all its pages.
        let memory = unsafe { block.add((page - first) * PAGE as usize) };
        for index in 0..PAGE as usize {
            // SAFETY: as above.
            unsafe { memory.add(index).write(make()) };
        }
        self.page(page).store(memory, Ordering::Release);
        self.made.store(page + 1, Ordering::Relaxed);
    }

    fn allocate_block(&self, first: usize) -> *mut T {
        let layout = self.block(first);
        // SAFETY: entries have a size.
        let memory = unsafe { alloc(layout) }.cast::<T>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        ask_for_huge_pages(memory.cast(), layout);
        memory
    }

    /// The first page of the block that `page` lies in: 0, 1, 2, 4, 8, and so on.
    fn first_of_block(page: usize) -> usize {
        if page == 0 { 0 } else { 1 << page.ilog2() }
    }

    /// The layout of the block that begins with page `first`. A large one begins where a huge page
    /// may.
    fn block(&self, first: usize) -> Layout {
        let pages = first.max(1).min(self.count - first);
        let entries = Layout::array::<T>(pages * PAGE as usize).expect("less than 2^63");
        let align = if entries.size() >= HUGE_PAGE { HUGE_PAGE } else { 1 };
        entries.align_to(align).expect("a power of two").pad_to_align()
    }
}

impl<T, const PAGE: u32> Drop for Segments<T, PAGE> {
    fn drop(&mut self) {
        let made = *self.made.get_mut();
        if needs_drop::<T>() {
            for page in 0..made {
                let memory = self.page(page).load(Ordering::Relaxed);
                for index in 0..PAGE as usize {
                    // SAFETY: the page has values, and nobody else has them now.
                    unsafe { memory.add(index).drop_in_place() };
                }
            }
        }
        for first in (0..made).filter(|page| Self::first_of_block(*page) == *page) {
            let block = self.page(first).load(Ordering::Relaxed);
            // SAFETY: `allocate_block` took it from the allocator with that layout.
            unsafe { dealloc(block.cast(), self.block(first)) };
        }
        // SAFETY: `new` took it from the allocator with that layout.
        unsafe { dealloc(self.pages.cast_mut().cast(), Self::directory(self.count)) };
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
        const PAGE: u32 = 256;
        for last in [0, PAGE - 1, PAGE, 3 * PAGE - 1, 3 * PAGE, 5 * PAGE + 7] {
            let (made, dropped) = (Cell::new(0), Cell::new(0));
            let table = Segments::<_, PAGE>::new(10 * PAGE - 1);
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
            assert_eq!(made.get(), (last / PAGE + 1) * PAGE);
            drop(table);
            assert_eq!(dropped.get(), made.get());
        }
    }
}
