//! Terms times output channels: the gradient by weights.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{Blocks, Grid, Sweep, rows};
use crate::Element;

/// `sums[term][channel] += sum over places of x[place][term] * dy[place][channel]`, and
/// `bias_sums[channel] += sum over places of dy[place][channel]`, over `samples` samples.
///
/// The places are added up in order, first among themselves and then to what was there.
pub(crate) struct Sums<'a, E> {
    /// The sweep of the forward direction, whose `from` says where the places are in `x`.
    pub(crate) sweep: &'a Sweep,
    pub(crate) samples: usize,
    /// Output channels.
    pub(crate) channels: usize,
    pub(crate) x: &'a [E],
    /// Whole vectors are read from it, so that it has to end a vector after the last place's last
    /// whole one. The lanes that are too many are never looked at.
    pub(crate) dy: &'a [E],
    /// Where the first channel of a place is in `dy`.
    pub(crate) at: Grid,
    /// In the order of [`Blocks`] for the lanes of the unit that runs this; channels that fill up
    /// the last vector get values without meaning.
    pub(crate) sums: &'a mut [E],
    /// One value per channel, and those that fill up the last vector.
    pub(crate) bias_sums: &'a mut [E],
}

impl<E: Element> WithSimd for Sums<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let blocks = Blocks { channels: self.channels, lanes: E::lanes::<S>() };
        for (first, two) in blocks.each() {
            match (S::REGISTER_COUNT >= 32, two) {
                (true, true) => self.block::<S, 12, 2>(simd, first),
                (true, false) => self.block::<S, 14, 1>(simd, first),
                (false, true) => self.block::<S, 6, 2>(simd, first),
                (false, false) => self.block::<S, 12, 1>(simd, first),
            }
        }
    }
}

impl<E: Element> Sums<'_, E> {
    /// The block of `N` vectors from channel `first`.
    #[inline(always)]
    fn block<S: Simd, const Q: usize, const N: usize>(&mut self, simd: S, first: usize) {
        self.bias::<S, N>(simd, first);
        if self.sweep.run >= Q {
            self.touching::<S, Q, N>(simd, first);
        } else {
            self.scattered::<S, Q, N>(simd, first);
        }
    }

    /// Where the rows of places begin in `x` and in `dy`.
    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + use<E> {
        rows([self.sweep.from, self.at], self.samples, self.sweep.size[0])
    }

    #[inline(always)]
    fn bias<S: Simd, const N: usize>(&mut self, simd: S, first: usize) {
        let (columns, step) = (self.sweep.size[1], self.at.column);
        let mut sums = [E::splat(simd, E::zero()); N];
        for (_, dy) in self.rows() {
            let dy = &self.dy[dy + first..];
            for column in 0..columns {
                let dy: [_; N] = load::<E, S, N>(&dy[column * step..]);
                for (sum, dy) in sums.iter_mut().zip(dy) {
                    *sum = E::sum(simd, *sum, dy);
                }
            }
        }
        let (to, _) = E::vectors_mut::<S>(&mut self.bias_sums[first..]);
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = E::sum(simd, *to, sum);
        }
    }

    /// Tiles of terms that lie side by side in `x`.
    #[inline(always)]
    fn touching<S: Simd, const Q: usize, const N: usize>(&mut self, simd: S, first: usize) {
        let Sweep { size: [_, columns], from, taps, run, .. } = self.sweep;
        let (columns, run, steps) = (*columns, *run, [from.column, self.at.column]);
        for (tap, &offset) in taps.iter().enumerate() {
            for term in (0..run).step_by(Q) {
                // The last tile begins earlier; what it computes again is not added again.
                let begin = term.min(run - Q);
                let mut table = [[E::splat(simd, E::zero()); N]; Q];
                for (x, dy) in self.rows() {
                    let (x, dy) = (&self.x[x + offset + begin..], &self.dy[dy + first..]);
                    for column in 0..columns {
                        let dy: [_; N] = load::<E, S, N>(&dy[column * steps[1]..]);
                        let (x, _) = x[column * steps[0]..].as_chunks::<Q>();
                        accumulate::<E, S, Q, N>(simd, &x[0], dy, &mut table);
                    }
                }
                self.add::<S, Q, N>(simd, first, tap * run + begin, term - begin..Q, table);
            }
        }
    }

    /// Tiles of terms wherever they lie, for runs that are shorter than a tile.
    #[inline(always)]
    fn scattered<S: Simd, const Q: usize, const N: usize>(&mut self, simd: S, first: usize) {
        let Sweep { size: [_, columns], from, taps, run, .. } = self.sweep;
        let (columns, run, steps) = (*columns, *run, [from.column, self.at.column]);
        let terms = taps.len() * run;
        for term in (0..terms).step_by(Q) {
            let offsets: [usize; Q] = std::array::from_fn(|q| {
                let term = (term + q).min(terms - 1);
                taps[term / run] + term % run
            });
            let mut table = [[E::splat(simd, E::zero()); N]; Q];
            for (x, dy) in self.rows() {
                let len = (columns - 1) * steps[0] + 1;
                let rows: [&[E]; Q] = offsets.map(|offset| &self.x[x + offset..][..len]);
                let dy = &self.dy[dy + first..];
                for column in 0..columns {
                    let dy: [_; N] = load::<E, S, N>(&dy[column * steps[1]..]);
                    for (sums, row) in table.iter_mut().zip(&rows) {
                        let x = E::splat(simd, row[column * steps[0]]);
                        for (sum, &dy) in sums.iter_mut().zip(&dy) {
                            *sum = E::add_product(simd, x, dy, *sum);
                        }
                    }
                }
            }
            self.add::<S, Q, N>(simd, first, term, 0..Q.min(terms - term), table);
        }
    }

    /// Adds the `wanted` rows of a table to the sums from `term` on.
    #[inline(always)]
    fn add<S: Simd, const Q: usize, const N: usize>(
        &mut self,
        simd: S,
        first: usize,
        term: usize,
        wanted: Range<usize>,
        table: [[E::Vector<S>; N]; Q],
    ) {
        let width = N * E::lanes::<S>();
        let sums = &mut self.sums[first * self.sweep.terms() + term * width..];
        // Rows are picked one by one: a table of which a slice is taken would not stay in registers.
        for (q, row) in table.into_iter().enumerate() {
            if wanted.contains(&q) {
                let (sums, _) = E::vectors_mut::<S>(&mut sums[q * width..][..width]);
                for (sum, row) in sums.iter_mut().zip(row) {
                    *sum = E::sum(simd, *sum, row);
                }
            }
        }
    }
}

#[inline(always)]
fn load<E: Element, S: Simd, const N: usize>(values: &[E]) -> [E::Vector<S>; N] {
    let (vectors, _) = E::vectors::<S>(&values[..N * E::lanes::<S>()]);
    std::array::from_fn(|n| vectors[n])
}

#[inline(always)]
fn accumulate<E: Element, S: Simd, const Q: usize, const N: usize>(
    simd: S,
    x: &[E; Q],
    dy: [E::Vector<S>; N],
    table: &mut [[E::Vector<S>; N]; Q],
) {
    for (sums, &x) in table.iter_mut().zip(x) {
        let x = E::splat(simd, x);
        for (sum, &dy) in sums.iter_mut().zip(&dy) {
            *sum = E::add_product(simd, x, dy, *sum);
        }
    }
}
