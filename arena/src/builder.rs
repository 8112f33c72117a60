//! Describing an arena.

use millrace_runtime::Runtime;

use crate::arena::Arena;
use crate::chunk::Backing;
use crate::memory::Plan;

/// An arena that is being described; see [`Arena::builder`].
#[derive(Debug)]
#[must_use = "an arena is made by `build`"]
pub struct Builder<'a> {
    runtime: &'a Runtime,
    name: &'a str,
    depth: usize,
    plan: Plan,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(runtime: &'a Runtime, name: &'a str) -> Self {
        Builder { runtime, name, depth: 1, plan: Plan::default() }
    }

    /// Number of slots in the ring: 1 (the default) waits at each turn, 2 lets one generation
    /// be used while the next is filled. 0 counts as 1. A slot costs nothing before its turn.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth.max(1);
        self
    }

    /// The most bytes that all slots together may hold, padding included. Each slot counts with
    /// the most that it ever handed out, so a ring of depth `d` whose generations need `n`
    /// bytes fits exactly into `d * n`.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.plan.limit = Some(bytes);
        self
    }

    /// Size of each chunk in bytes; a larger buffer gets a chunk of its own.
    ///
    /// By default the first chunk has 1 MB and each further one twice that of the one before,
    /// up to 64 MB. With a limit it is one chunk per slot, as large as the limit, of which only
    /// what is used takes memory; that wastes no tail.
    pub fn chunk_size(mut self, bytes: usize) -> Self {
        self.plan.chunk_size = Some(bytes);
        self
    }

    /// Where the chunks come from.
    pub fn backing(mut self, backing: Backing) -> Self {
        self.plan.backing = backing;
        self
    }

    /// Makes the arena.
    pub fn build(self) -> Arena {
        Arena::from_parts(self.runtime, self.name, self.depth, self.plan)
    }
}
