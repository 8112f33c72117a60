//! Scratch memory: lives for one body, comes from the thread that runs it.
//!
//! # Invariant
//! A [`ScratchBlock`] owns the block that it lends; it takes it from the free list of the thread
//! that runs the body, and whichever thread drops it puts it into its own. No block is in two
//! places, so scratch slices of one body are disjoint, and no handle is needed. Blocks are
//! ordinary, initialised vectors: nothing here needs unsafe code but the trait's signature.
#![allow(unsafe_code, reason = "implements the unsafe trait `Access`")]

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{Pod, Zeroable};
use millrace_runtime::{Access, Claims, SubmitError};

use crate::buffer::Buffer;
use crate::chunk::ALIGN;

/// Free blocks that a thread keeps. More are in use at once only if one body declares as many.
const KEPT: usize = 256;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Aligned, initialised memory; counted while it exists.
struct Block(Vec<Line>);

impl Block {
    fn new(lines: usize) -> Block {
        let mut memory = Vec::new();
        if memory.try_reserve_exact(lines).is_err() {
            // Inside a body: the task fails, and the next wait says so.
            panic!("no memory for {lines} cache lines of scratch");
        }
        memory.resize(lines, Line::zeroed());
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(lines * ALIGN, Ordering::Relaxed);
        Block(memory)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        BLOCKS.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.0.len() * ALIGN, Ordering::Relaxed);
    }
}

thread_local! {
    /// Free blocks, shortest first.
    static FREE: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Takes the shortest free block that is long enough, and not more than twice that, so that
/// requests of different sizes do not take each other's blocks; else makes one.
fn take(lines: usize) -> Block {
    let found = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        let place = free.partition_point(|block| block.0.len() < lines);
        let fits = free.get(place).is_some_and(|block| block.0.len() / 2 <= lines);
        fits.then(|| free.remove(place))
    });
    // A thread that is ending has no list any more.
    found.ok().flatten().unwrap_or_else(|| Block::new(lines))
}

fn give(block: Block) {
    let mut block = Some(block);
    let _ = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        if free.len() < KEPT
            && let Some(block) = block.take()
        {
            let place = free.partition_point(|other| other.0.len() < block.0.len());
            free.insert(place, block);
        }
    });
}

/// Scratch memory as an access: the body gets `&mut [T]`; see [`scratch`].
#[must_use = "an access is declared by a task"]
pub struct Scratch<T> {
    len: usize,
    elements: PhantomData<fn() -> T>,
}

/// Declares `len` elements of scratch memory for one body.
///
/// The slice is initialised, its content is arbitrary (a NaN pattern in debug builds). It comes
/// from blocks that the worker keeps between bodies, so that in the steady state nothing is
/// allocated. Several scratch accesses of one task are disjoint. Scratch orders nothing: tasks
/// that share only scratch are independent.
///
/// ```
/// # use millrace_arena::{Arena, scratch};
/// # use millrace_runtime::Runtime;
/// # let rt = Runtime::builder().workers(2).build()?;
/// # let arena = Arena::new(&rt, "numbers");
/// let x = arena.alloc::<f32>(100)?;
/// rt.spawn("reverse", (x.write(), scratch::<f32>(100)), |(x, copy)| {
///     copy.copy_from_slice(x);
///     x.iter_mut().zip(copy.iter().rev()).for_each(|(x, copy)| *x = *copy);
/// })?;
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn scratch<T: Pod>(len: usize) -> Scratch<T> {
    let () = Buffer::<T>::CHECKED;
    Scratch { len, elements: PhantomData }
}

impl<T> Scratch<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl<T> Clone for Scratch<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Scratch<T> {}

impl<T> fmt::Debug for Scratch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The block that a body has its scratch in, while it runs.
#[derive(Default)]
pub struct ScratchBlock(Option<Block>);

impl fmt::Debug for ScratchBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchBlock").finish_non_exhaustive()
    }
}

impl ScratchBlock {
    /// Scratch of `len` elements.
    pub(crate) fn lend<T: Pod>(&mut self, len: usize) -> &mut [T] {
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes == 0 {
            return &mut [];
        }
        let block = self.0.get_or_insert_with(|| take(bytes.div_ceil(ALIGN)));
        let bytes = &mut bytemuck::cast_slice_mut::<Line, u8>(&mut block.0)[..bytes];
        #[cfg(debug_assertions)]
        bytes.fill(crate::chunk::POISON);
        bytemuck::cast_slice_mut(bytes)
    }
}

impl Drop for ScratchBlock {
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            give(block);
        }
    }
}

/// What a task keeps of its scratch.
pub struct ScratchClaim<T> {
    len: usize,
    block: ScratchBlock,
    elements: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for ScratchClaim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScratchClaim").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: the memory handed out is owned by the claim, and borrowed from it.
unsafe impl<T: Pod> Access for Scratch<T> {
    type Claim = ScratchClaim<T>;
    type Data<'a> = &'a mut [T];

    fn claim(self, _: &mut Claims) -> Result<ScratchClaim<T>, SubmitError> {
        Ok(ScratchClaim { len: self.len, block: ScratchBlock::default(), elements: PhantomData })
    }

    unsafe fn data(claim: &mut ScratchClaim<T>) -> &mut [T] {
        claim.block.lend(claim.len)
    }
}

/// How much scratch memory the process holds, in use or kept by threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScratchStatistics {
    /// Blocks.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// Counts the scratch memory of all threads.
pub fn scratch_statistics() -> ScratchStatistics {
    ScratchStatistics {
        blocks: BLOCKS.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed),
    }
}
