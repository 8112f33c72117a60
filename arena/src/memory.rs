//! The memory of one slot: its chunks, its data handles, and how far each is used.
//!
//! Both are kept when a generation ends, and given out again in the same order; so the same
//! allocations find the same places, and from the second round on nothing new is made.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use millrace_runtime::Runtime;

use crate::chunk::{ALIGN, Backing, Chunk};
use crate::gate::Reclaim;
use crate::statistics::Usage;

/// Without a limit, the first chunk of a slot has this size and each further one twice that of
/// the one before, up to [`LARGEST_CHUNK`].
const FIRST_CHUNK: usize = 1 << 20;
const LARGEST_CHUNK: usize = 64 << 20;
/// Handles that a slot takes from the runtime at a time, doubled up to six times.
const FIRST_HANDLES: u32 = 64;

/// How a slot's chunks are made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) backing: Backing,
    pub(crate) chunk_size: Option<usize>,
    pub(crate) limit: Option<usize>,
}

impl Plan {
    /// Sizes to try for a new chunk that has to hold `bytes`, best first.
    ///
    /// With a limit it is one chunk that could hold all of it: then no tail is wasted and the
    /// limit is exact. Its pages cost nothing before they are used. A system that does not
    /// reserve as much gets the ordinary size.
    fn chunk_sizes(&self, chunks: usize, bytes: usize) -> [usize; 3] {
        let doubled = FIRST_CHUNK << chunks.min(6);
        let ordinary = self.chunk_size.unwrap_or(doubled.min(LARGEST_CHUNK));
        let ordinary = ordinary.min(self.limit.unwrap_or(usize::MAX));
        let best = if self.chunk_size.is_none() { self.limit } else { None };
        [best.unwrap_or(ordinary).max(bytes), ordinary.max(bytes), bytes]
    }
}

/// What an allocation found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Start of the bytes; initialised, aligned, unused by others until the slot is reclaimed.
    pub(crate) data: NonNull<u8>,
    /// The first of its handles.
    pub(crate) handle: u32,
    /// Bytes that the slot did not hold before.
    pub(crate) growth: usize,
}

/// Why an allocation found no place.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// More than `headroom` new bytes would be held; `largest` would fit.
    Limit { largest: usize },
    /// The runtime gave no handles.
    Handles,
    /// The system gave no memory.
    System(io::Error),
}

/// Chunks and handles of one slot.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    runtime: Option<Runtime>,
    plan: Plan,
    chunks: Vec<Chunk>,
    /// The chunk that allocations come from; those before it are full.
    cursor: usize,
    handles: Vec<Range<u32>>,
    /// The block that handles come from, and how many of it are used.
    handle_cursor: (usize, u32),
    live: Usage,
    total: Usage,
    high_water: usize,
    /// The arena is gone: the next reclaim gives everything up.
    abandoned: bool,
}

/// What an abandoned slot gives up. Dropping it returns chunks and handles.
#[derive(Debug)]
pub(crate) struct Leftovers {
    runtime: Option<Runtime>,
    handles: Vec<Range<u32>>,
    chunks: Vec<Chunk>,
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.chunks.clear();
        if let Some(runtime) = &self.runtime {
            for block in self.handles.drain(..) {
                runtime.release_handles(block);
            }
        }
    }
}

impl Memory {
    /// The memory of a new slot: nothing yet.
    pub(crate) fn new(runtime: Runtime, plan: Plan) -> Memory {
        Memory { runtime: Some(runtime), plan, ..Memory::default() }
    }

    /// Finds a place for `asked` bytes (not zero) under `handles` handles. At most `headroom`
    /// bytes may be taken that the slot did not hold before.
    pub(crate) fn alloc(
        &mut self,
        asked: usize,
        handles: u32,
        headroom: usize,
    ) -> Result<Place, NoPlace> {
        let bytes = asked.next_multiple_of(ALIGN);
        let (index, growth) = self.find(bytes, headroom)?;
        // From here on only the handles can fail; they change nothing but themselves.
        let handle = self.take_handles(handles)?;
        let skipped: usize = self.chunks[self.cursor..index].iter().map(Chunk::free).sum();
        self.cursor = index;
        let data = self.chunks[index].alloc(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        self.count(Usage {
            buffers: 1,
            asked: asked as u64,
            padding: (bytes - asked) as u64,
            tail_waste: skipped as u64,
        });
        Ok(Place { data, handle, growth })
    }

    /// Handles for a buffer without bytes.
    pub(crate) fn alloc_empty(&mut self, handles: u32) -> Result<u32, NoPlace> {
        let handle = self.take_handles(handles)?;
        self.count(Usage { buffers: 1, ..Usage::default() });
        Ok(handle)
    }

    fn count(&mut self, usage: Usage) {
        self.live.add(usage);
        self.total.add(usage);
        self.high_water = self.high_water.max((self.live.asked + self.live.padding) as usize);
    }

    /// The chunk that takes `bytes` next, and how much more is held then.
    fn find(&mut self, bytes: usize, headroom: usize) -> Result<(usize, usize), NoPlace> {
        let fits = |index: &usize| self.chunks[*index].free() >= bytes;
        let index = (self.cursor..self.chunks.len()).find(fits);
        let growth = match index {
            Some(index) => {
                let chunk = &self.chunks[index];
                (chunk.used() + bytes).saturating_sub(chunk.touched())
            }
            None => bytes,
        };
        if growth > headroom {
            return Err(NoPlace::Limit { largest: self.largest(headroom) });
        }
        let index = match index {
            Some(index) => index,
            None => {
                let chunk = self.new_chunk(bytes)?;
                self.chunks.push(chunk);
                self.chunks.len() - 1
            }
        };
        Ok((index, growth))
    }

    /// The largest block that could still be had, a multiple of 64.
    fn largest(&self, headroom: usize) -> usize {
        let here = self.chunks[self.cursor..].iter();
        let here = here.map(|chunk| {
            let held = chunk.touched() - chunk.used();
            chunk.free().min(held.saturating_add(headroom))
        });
        here.max().unwrap_or(0).max(headroom) / ALIGN * ALIGN
    }

    fn new_chunk(&self, bytes: usize) -> io::Result<Chunk> {
        let [best, ordinary, least] = self.plan.chunk_sizes(self.chunks.len(), bytes);
        Chunk::new(self.plan.backing, best)
            .or_else(|_| Chunk::new(self.plan.backing, ordinary))
            .or_else(|_| Chunk::new(self.plan.backing, least))
    }

    fn take_handles(&mut self, count: u32) -> Result<u32, NoPlace> {
        let (mut block, mut used) = self.handle_cursor;
        while block < self.handles.len() && self.handles[block].len() as u32 - used < count {
            (block, used) = (block + 1, 0);
        }
        if block == self.handles.len() {
            let size = count.max(FIRST_HANDLES << block.min(6));
            let runtime = self.runtime.as_ref().ok_or(NoPlace::Handles)?;
            self.handles.push(runtime.register_handles(size).ok_or(NoPlace::Handles)?);
        }
        self.handle_cursor = (block, used + count);
        Ok(self.handles[block].start + used)
    }

    /// From now on the next reclaim gives everything up.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Moves the chunks and counts of a retired slot into the memory of its successor; the
    /// handles, whose epochs are used up, are returned.
    pub(crate) fn succeed(&mut self) -> (Memory, Leftovers) {
        let mut old = std::mem::take(self);
        let handles = std::mem::take(&mut old.handles);
        let left = Leftovers { runtime: old.runtime.clone(), handles, chunks: Vec::new() };
        (Memory { handle_cursor: (0, 0), ..old }, left)
    }

    pub(crate) fn runtime(&self) -> Option<Runtime> {
        self.runtime.clone()
    }

    pub(crate) fn live(&self) -> Usage {
        self.live
    }

    pub(crate) fn total(&self) -> Usage {
        self.total
    }

    pub(crate) fn high_water(&self) -> usize {
        self.high_water
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }
}

impl From<io::Error> for NoPlace {
    fn from(error: io::Error) -> NoPlace {
        NoPlace::System(error)
    }
}

impl From<io::ErrorKind> for NoPlace {
    fn from(kind: io::ErrorKind) -> NoPlace {
        NoPlace::System(kind.into())
    }
}

impl Reclaim for Memory {
    type Left = Option<Leftovers>;

    fn reclaim(&mut self) -> Option<Leftovers> {
        if self.abandoned {
            let Memory { runtime, handles, chunks, .. } = std::mem::take(self);
            return Some(Leftovers { runtime, handles, chunks });
        }
        self.chunks.iter_mut().for_each(Chunk::rewind);
        self.cursor = 0;
        self.handle_cursor = (0, 0);
        self.live = Usage::default();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_does_not_give_is_an_error() {
        let rt = Runtime::builder().workers(0).build().expect("a runtime");
        for backing in [Backing::Bump, Backing::Mapped] {
            let mut memory = Memory::new(rt.clone(), Plan { backing, ..Plan::default() });
            // More than any address space.
            let refused = memory.alloc(1 << 62, 1, usize::MAX);
            assert!(matches!(refused, Err(NoPlace::System(_))), "{refused:?}");
            memory.alloc(64, 1, usize::MAX).expect("still usable");
        }
    }
}
