//! One piece of backing memory, and the offset that moves through it.
//!
//! # Invariants
//! 1. A chunk never grows and never moves: [`Chunk::alloc`] returns pointers into one
//!    allocation, valid until the chunk is dropped.
//! 2. Every byte that was handed out is initialised, and stays so: a mapping and a zeroed heap
//!    block are zero from the start, a bump block is zeroed when the offset first passes over
//!    it (`touched`). Nothing ever makes a byte uninitialised again.
//! 3. Blocks handed out between two rewinds are disjoint, 64-byte aligned, and multiples of 64
//!    bytes.
//! 4. [`Chunk::rewind`] and drop require that nobody uses the blocks any more; the lease
//!    protocol gives that (`lease.rs`). They take `&mut self`, so they never race with `alloc`.
#![allow(unsafe_code, reason = "owns raw memory that outlives any borrow of the chunk")]

use std::alloc::Layout;
use std::io;
use std::ptr::NonNull;

/// Alignment of every buffer and the unit of every block, in bytes: one cache line.
pub(crate) const ALIGN: usize = 64;
/// Chunks from this size on ask for huge pages.
const HUGE: usize = 4 << 20;
const PAGE: usize = 4096;
/// No system gives a process more address space; asking for it is refused without trying.
const MOST: usize = isize::MAX as usize >> if usize::BITS == 64 { 16 } else { 1 };
/// What debug builds fill ended memory with: a NaN in every float width.
#[cfg(any(test, debug_assertions))]
pub(crate) const POISON: u8 = 0xFF;

/// Where an arena's chunks come from.
///
/// Both are always initialised and 64-byte aligned; `arena/benches/BACKING.md` has the figures
/// that the default follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backing {
    /// One `bumpalo::Bump` per chunk, from the process's allocator; zeroed when first used.
    Bump,
    /// An anonymous memory mapping per chunk: pages come, zeroed, with the first touch, on the
    /// thread that touches; huge pages are asked for from 4 MB on.
    #[default]
    Mapped,
}

enum Memory {
    #[cfg(not(miri))]
    Bump(bumpalo::Bump),
    #[cfg(not(miri))]
    Mapped(#[expect(dead_code, reason = "kept for its drop, which unmaps")] memmap2::MmapRaw),
    #[cfg(miri)]
    Heap(Layout),
}

/// A piece of memory of fixed size with an allocation offset.
pub(crate) struct Chunk {
    memory: Memory,
    /// Lowest address of the block.
    base: NonNull<u8>,
    size: usize,
    used: usize,
    touched: usize,
}

// SAFETY: the chunk owns its memory and gives out raw pointers only; `&mut self` guards every
// change of its fields, and `Bump` and `MmapRaw` are themselves `Send`.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Makes a chunk of at least `size` bytes.
    ///
    /// # Errors
    /// The system's reason for refusing the memory.
    pub(crate) fn new(backing: Backing, size: usize) -> io::Result<Chunk> {
        let unit = if size >= HUGE { PAGE } else { ALIGN };
        let size = size.max(ALIGN).checked_next_multiple_of(unit);
        let size = size.filter(|size| *size <= MOST);
        let size = size.ok_or(io::ErrorKind::OutOfMemory)?;
        Self::provide(backing, size)
    }

    #[cfg(not(miri))]
    fn provide(backing: Backing, size: usize) -> io::Result<Chunk> {
        let (memory, base) = match backing {
            Backing::Bump => Self::bump(size)?,
            Backing::Mapped => Self::map(size)?,
        };
        Ok(Chunk { memory, base, size, used: 0, touched: 0 })
    }

    #[cfg(not(miri))]
    fn bump(size: usize) -> io::Result<(Memory, NonNull<u8>)> {
        let refused = |_| io::ErrorKind::OutOfMemory;
        // A bump aligns its blocks from the top down, and its own alignment is 16.
        let mut bump = bumpalo::Bump::try_with_capacity(size + ALIGN).map_err(refused)?;
        // A limit below what is there would mean "no limit"; exactly that much means "no more".
        bump.set_allocation_limit(Some(bump.allocated_bytes()));
        // One block of the full size shows where the memory lies; a bump of one chunk keeps it.
        let layout = Layout::from_size_align(size, ALIGN).map_err(io::Error::other)?;
        let base = bump.try_alloc_layout(layout).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bump.reset();
        Ok((Memory::Bump(bump), base))
    }

    #[cfg(not(miri))]
    fn map(size: usize) -> io::Result<(Memory, NonNull<u8>)> {
        let map = memmap2::MmapOptions::new().len(size).no_reserve_swap().map_anon()?;
        let map = memmap2::MmapRaw::from(map);
        #[cfg(target_os = "linux")]
        if size >= HUGE {
            // Advice only: a kernel without huge pages refuses it, and small ones do as well.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let base = NonNull::new(map.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((Memory::Mapped(map), base))
    }

    #[cfg(miri)]
    fn provide(_: Backing, size: usize) -> io::Result<Chunk> {
        let layout = Layout::from_size_align(size, ALIGN).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Chunk { memory: Memory::Heap(layout), base, size, used: 0, touched: 0 })
    }

    /// Takes the next `bytes`, a multiple of 64 and not zero, or `None` if they do not fit.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(ALIGN), "{bytes} is not a block size");
        if bytes > self.free() {
            return None;
        }
        let block = match &self.memory {
            #[cfg(not(miri))]
            Memory::Bump(bump) => {
                let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
                let block = bump.try_alloc_layout(layout).ok()?;
                let low = self.size - self.used - bytes;
                debug_assert_eq!(block, self.at(low), "a bump moves from the top down");
                let fresh = (self.used + bytes).saturating_sub(self.touched);
                // SAFETY: the block reaches from `low` over `bytes`; of it, the part under the
                // lowest address handed out so far, `fresh` bytes from `low` on, is zeroed.
                unsafe { block.write_bytes(0, fresh.min(bytes)) };
                block
            }
            #[cfg(not(miri))]
            Memory::Mapped(_) => self.at(self.used),
            #[cfg(miri)]
            Memory::Heap(_) => self.at(self.used),
        };
        self.used += bytes;
        self.touched = self.touched.max(self.used);
        Some(block)
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.size);
        // SAFETY: at most `size` is added to the base of an allocation of `size` bytes.
        unsafe { self.base.add(offset) }
    }

    /// Takes every block back. Nobody uses them. Debug builds poison them first.
    pub(crate) fn rewind(&mut self) {
        #[cfg(debug_assertions)]
        self.poison();
        match &mut self.memory {
            #[cfg(not(miri))]
            Memory::Bump(bump) => bump.reset(),
            #[cfg(not(miri))]
            Memory::Mapped(_) => {}
            // Fresh memory lets Miri tell the generations apart.
            #[cfg(miri)]
            Memory::Heap(_) => {
                if let Ok(fresh) = Self::provide(Backing::Mapped, self.size) {
                    *self = fresh;
                }
            }
        }
        self.used = 0;
    }

    #[cfg(debug_assertions)]
    fn poison(&mut self) {
        let low = match &self.memory {
            #[cfg(not(miri))]
            Memory::Bump(_) => self.size - self.used,
            #[cfg(not(miri))]
            Memory::Mapped(_) => 0,
            #[cfg(miri)]
            Memory::Heap(_) => 0,
        };
        let block = self.at(low);
        // SAFETY: these are the bytes handed out since the last rewind; nobody uses them.
        unsafe { block.write_bytes(POISON, self.used) };
    }

    /// Bytes in all.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes handed out since the last rewind.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that are still to be had.
    pub(crate) fn free(&self) -> usize {
        self.size - self.used
    }

    /// The most bytes that were ever handed out: what can be resident.
    pub(crate) fn touched(&self) -> usize {
        self.touched
    }
}

#[cfg(miri)]
impl Drop for Chunk {
    fn drop(&mut self) {
        let Memory::Heap(layout) = self.memory;
        // SAFETY: allocated in `provide` with this layout, and nobody uses it (invariant 4).
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk")
            .field("size", &self.size)
            .field("used", &self.used)
            .field("touched", &self.touched)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BACKINGS: [Backing; 2] = [Backing::Bump, Backing::Mapped];

    fn bytes(block: NonNull<u8>, len: usize) -> &'static mut [u8] {
        // SAFETY: every test passes a live block and its length, once at a time.
        unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) }
    }

    #[test]
    fn blocks_are_zero_aligned_and_disjoint() {
        for backing in BACKINGS {
            let mut chunk = Chunk::new(backing, 1000).unwrap();
            assert_eq!(chunk.size(), 1024);
            let mut blocks = Vec::new();
            for len in [64, 128, 64, 512, 256] {
                let block = chunk.alloc(len).unwrap();
                assert_eq!(block.as_ptr() as usize % ALIGN, 0);
                assert!(bytes(block, len).iter().all(|b| *b == 0), "{backing:?}: not zero");
                bytes(block, len).fill(len as u8 | 1);
                blocks.push((block.as_ptr() as usize, len));
            }
            assert!(chunk.alloc(64).is_none(), "{backing:?}: the chunk is exactly full");
            blocks.sort_unstable();
            assert!(blocks.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        }
    }

    #[test]
    fn a_rewound_chunk_gives_the_same_blocks_and_zeroes_only_new_ones() {
        for backing in BACKINGS {
            let mut chunk = Chunk::new(backing, 4096).unwrap();
            let first = chunk.alloc(192).unwrap();
            bytes(first, 192).fill(7);
            chunk.rewind();
            assert_eq!((chunk.used(), chunk.touched()), (0, 192));
            assert_eq!(chunk.alloc(192), Some(first), "the memory is kept");
            let old = if cfg!(debug_assertions) { POISON } else { 7 };
            assert!(bytes(first, 192).iter().all(|b| *b == old), "{backing:?}");
            let more = chunk.alloc(256).unwrap();
            assert!(bytes(more, 256).iter().all(|b| *b == 0), "{backing:?}: first use is zero");
            chunk.rewind();
            let wider = chunk.alloc(512).unwrap();
            let zeros = bytes(wider, 512).iter().filter(|b| **b == 0).count();
            let expected = if cfg!(debug_assertions) { 64 } else { 64 + 256 };
            assert_eq!(zeros, expected, "{backing:?}: only what was never used is zeroed");
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for backing in BACKINGS {
            for size in [usize::MAX, isize::MAX as usize, MOST + 1] {
                assert!(Chunk::new(backing, size).is_err(), "{backing:?} {size}");
            }
        }
    }

    #[test]
    fn a_large_chunk_costs_nothing_until_it_is_used() {
        for backing in BACKINGS {
            let mut chunk = Chunk::new(backing, 1 << 30).unwrap();
            let block = chunk.alloc(64).unwrap();
            assert_eq!(bytes(block, 64), [0; 64]);
        }
    }
}
