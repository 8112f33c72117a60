//! What an arena counts.

use std::time::Duration;

/// What was allocated, in one generation or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Buffers; one that is cut into shards counts once.
    pub buffers: u64,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes added so that every buffer begins on a cache line of its own.
    pub padding: u64,
    /// Bytes at the ends of chunks that were left because the next buffer did not fit.
    pub tail_waste: u64,
}

impl Usage {
    pub(crate) fn add(&mut self, other: Usage) {
        self.buffers += other.buffers;
        self.asked += other.asked;
        self.padding += other.padding;
        self.tail_waste += other.tail_waste;
    }
}

/// A snapshot of what an arena has counted; see [`Arena::statistics`](crate::Arena::statistics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// The arena's name.
    pub name: String,
    /// Slots of the ring.
    pub depth: usize,
    /// The limit in bytes, if there is one.
    pub limit: Option<usize>,
    /// What the generations that are not reclaimed yet have allocated.
    pub live: Usage,
    /// What all generations together have allocated.
    pub total: Usage,
    /// The most bytes (asked and padding) that one generation took.
    pub high_water: usize,
    /// Bytes that the arena holds: over all slots and chunks, the most that was ever handed out
    /// there. This bounds what is resident, and it is what the limit bounds.
    pub held: usize,
    /// Chunks of all slots.
    pub chunks: usize,
    /// Address space of all chunks, in bytes. Of a mapped chunk only what was used is resident.
    pub chunk_bytes: usize,
    /// Generations begun.
    pub generations: u64,
    /// Generations that were ended by `reset`.
    pub resets: u64,
    /// Generations that were ended by `recycle` or `next`.
    pub recycles: u64,
    /// Times that `reset` or `next` had to wait.
    pub waits: u64,
    /// How long these waits took together.
    pub wait_time: Duration,
    /// Submissions and acquisitions that were refused because they named a stale buffer.
    pub stale_refusals: u64,
    /// Allocations that were refused because of the limit.
    pub limit_refusals: u64,
}
