//! Convolution on channels-last samples.
//!
//! # Sweeps
//! Forward, every output place is a sum over *terms*: for each tap of the kernel, a run of values
//! that lie side by side in the padded input, times a vector of weights over the output channels. A
//! [`Sweep`] says where the places are in source and target and where the taps are from there.
//! Channels last make the runs long: the taps of one kernel row touch each other and count as one,
//! so that a 3x3 kernel on 32 channels has 3 taps with runs of 96.
//!
//! The gradient by data is a sweep as well: over the padded gradient of the output, with the kernel
//! turned round, and for a stride above 1 one sweep for each place modulo the stride. The gradient by
//! weights goes over the same places as forward and adds up (term, output channel) instead of
//! (place, output channel).
//!
//! # Registers
//! [`Products`] and [`Sums`] hold a table of some places (or terms) by one or two vectors of output
//! channels in registers. In the innermost loop each value of the source is spread over a vector
//! once and each vector of weights is loaded once; all else is multiply-add. Places that lie in
//! several rows or samples share a table, so that no size of image leaves it half empty.
//!
//! # Packed weights
//! Weights are stored as [block of channels][term][channel of the block], so that the innermost loop
//! reads them in order; see [`Blocks`]. [`Sums`] leaves its result in the same form.

mod depthwise;
mod products;
mod sums;

pub(crate) use depthwise::{DepthwiseProducts, DepthwiseSums};
pub(crate) use products::Products;
pub(crate) use sums::Sums;

/// Where the value of a place lies: at `origin + sample * sample + row * row + column * column`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grid {
    pub(crate) origin: usize,
    pub(crate) sample: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl Grid {
    /// Where a row of places begins.
    #[inline(always)]
    const fn row_at(self, sample: usize, row: usize) -> usize {
        self.origin + sample * self.sample + row * self.row
    }
}

/// Where the rows of places of some samples begin in two grids, in order.
#[inline(always)]
fn rows([a, b]: [Grid; 2], samples: usize, rows: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..samples * rows).map(move |line| {
        let (sample, row) = (line / rows, line % rows);
        (a.row_at(sample, row), b.row_at(sample, row))
    })
}

/// Places and terms of a convolution in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    /// Rows and columns of places in a sample.
    pub(crate) size: [usize; 2],
    /// The first channel of each place in the source, at the first tap's origin.
    pub(crate) from: Grid,
    /// The first channel of each place in the target.
    pub(crate) to: Grid,
    /// Offset of each tap from the place in the source.
    pub(crate) taps: Vec<usize>,
    /// Values at each tap.
    pub(crate) run: usize,
}

impl Sweep {
    pub(crate) fn terms(&self) -> usize {
        self.taps.len() * self.run
    }

    pub(crate) const fn places(&self) -> usize {
        self.size[0] * self.size[1]
    }
}

/// Output channels in blocks of two vectors; the last block has one, if that is enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) channels: usize,
    pub(crate) lanes: usize,
}

impl Blocks {
    /// Channels with those that fill up the last vector.
    pub(crate) const fn padded(self) -> usize {
        self.channels.next_multiple_of(self.lanes)
    }

    /// The first channel of each block, and whether the block has two vectors.
    #[inline(always)]
    fn each(self) -> impl Iterator<Item = (usize, bool)> {
        let (padded, two) = (self.padded(), 2 * self.lanes);
        (0..padded).step_by(two).map(move |first| (first, padded - first >= two))
    }

    /// Where the value of the first term and `channel` is among those of `terms` terms, and how far
    /// it is from each term to the next.
    #[inline(always)]
    pub(crate) const fn column(self, terms: usize, channel: usize) -> (usize, usize) {
        let two = 2 * self.lanes;
        let first = channel / two * two;
        let rest = self.padded() - first;
        let width = if rest < two { rest } else { two };
        (first * terms + channel - first, width)
    }
}

/// The place that a kernel is at.
#[derive(Clone, Copy)]
struct Cursor {
    row: usize,
    column: usize,
    from: usize,
    to: usize,
}

impl Cursor {
    #[inline(always)]
    fn new(sweep: &Sweep, index: usize) -> Self {
        let [rows, columns] = sweep.size;
        let (sample, place) = (index / (rows * columns), index % (rows * columns));
        let (row, column) = (place / columns, place % columns);
        let at = |grid: Grid| grid.row_at(sample, row) + column * grid.column;
        Self { row, column, from: at(sweep.from), to: at(sweep.to) }
    }

    /// Where `P` places from the one with that index are, of `places` in all: in the source, and in
    /// the target. A tile that is too large repeats the last one.
    #[inline(always)]
    fn tile<const P: usize>(sweep: &Sweep, index: usize, places: usize) -> [[usize; P]; 2] {
        let mut cursor = Self::new(sweep, index);
        let mut to = [0; P];
        let from = std::array::from_fn(|p| {
            if p > 0 && index + p < places {
                cursor.advance(sweep);
            }
            to[p] = cursor.to;
            cursor.from
        });
        [from, to]
    }

    #[inline(always)]
    fn advance(&mut self, sweep: &Sweep) {
        let [rows, columns] = sweep.size;
        self.column += 1;
        self.from += sweep.from.column;
        self.to += sweep.to.column;
        if self.column == columns {
            self.column = 0;
            self.row += 1;
            self.from = self.from + sweep.from.row - columns * sweep.from.column;
            self.to = self.to + sweep.to.row - columns * sweep.to.column;
            if self.row == rows {
                self.row = 0;
                self.from = self.from + sweep.from.sample - rows * sweep.from.row;
                self.to = self.to + sweep.to.sample - rows * sweep.to.row;
            }
        }
    }
}
