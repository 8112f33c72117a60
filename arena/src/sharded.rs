//! Buffers that are cut into shards when they are allocated.

use std::ops::Range;

use bytemuck::Pod;

use crate::buffer::Buffer;

/// A buffer of rows that is cut into disjoint shards of near-equal numbers of rows.
///
/// A task may take single shards, or the whole as one contiguous slice; dependencies follow the
/// shards, and nothing has to be cut or joined in between.
#[derive(Clone, Copy, Debug)]
pub struct Sharded<T> {
    whole: Buffer<T>,
    rows: usize,
    row_len: usize,
}

impl<T: Pod> Sharded<T> {
    /// `whole` has `rows * row_len` elements and a handle per shard.
    pub(crate) fn new(whole: Buffer<T>, rows: usize, row_len: usize) -> Sharded<T> {
        Sharded { whole, rows, row_len }
    }

    /// Number of shards, at least 1.
    pub fn shards(&self) -> usize {
        self.whole.handles() as usize
    }

    /// Number of rows of all shards together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of one row.
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// The rows of shard `index`: from `index * rows / shards` up to
    /// `(index + 1) * rows / shards`. Empty for some shards if there are more shards than rows.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard_rows(&self, index: usize) -> Range<usize> {
        let shards = self.shards();
        assert!(index < shards, "shard {index} of {shards}");
        let cut = |i: usize| (i as u128 * self.rows as u128 / shards as u128) as usize;
        cut(index)..cut(index + 1)
    }

    /// Shard `index` as a buffer of its own, `shard_rows(index).len() * row_len` elements.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard(&self, index: usize) -> Buffer<T> {
        let rows = self.shard_rows(index);
        self.whole.part(index as u32, rows.start * self.row_len, rows.len() * self.row_len)
    }

    /// All rows as one contiguous buffer. Tasks that use it depend on all shards.
    pub fn whole(&self) -> Buffer<T> {
        self.whole
    }
}
