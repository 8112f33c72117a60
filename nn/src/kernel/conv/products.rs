//! Places times output channels: forward and by data.

use pulp::{Simd, WithSimd};

use super::{Blocks, Cursor, Sweep};
use crate::Element;

/// `to[place][channel] = bias[channel] + sum over terms of from[place][term] * weight[term][channel]`
/// for all places of `samples` samples.
///
/// Each sum runs over the terms in order.
pub(crate) struct Products<'a, E> {
    pub(crate) sweep: &'a Sweep,
    pub(crate) samples: usize,
    /// Output channels.
    pub(crate) channels: usize,
    pub(crate) from: &'a [E],
    /// In the order of [`Blocks`] for the lanes of the unit that runs this.
    pub(crate) weights: &'a [E],
    /// One value per channel, or none at all, which counts as zeros.
    pub(crate) bias: &'a [E],
    /// Whether negative values become 0.
    pub(crate) rectify: bool,
    pub(crate) to: &'a mut [E],
}

impl<E: Element> WithSimd for Products<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let blocks = Blocks { channels: self.channels, lanes: E::lanes::<S>() };
        let terms = self.sweep.terms();
        for (first, two) in blocks.each() {
            let weights = &self.weights[first * terms..];
            // As many places as registers allow: table, one row of weights, one value.
            match (S::REGISTER_COUNT >= 32, two) {
                (true, true) => self.block::<S, 14, 2>(simd, first, weights),
                (true, false) => self.block::<S, 14, 1>(simd, first, weights),
                (false, true) => self.block::<S, 6, 2>(simd, first, weights),
                (false, false) => self.block::<S, 13, 1>(simd, first, weights),
            }
        }
    }
}

impl<E: Element> Products<'_, E> {
    /// The block of `N` vectors from channel `first`.
    #[inline(always)]
    fn block<S: Simd, const P: usize, const N: usize>(
        &mut self,
        simd: S,
        first: usize,
        weights: &[E],
    ) {
        let lanes = E::lanes::<S>();
        let channels = (self.channels - first).min(N * lanes);
        let bias: [E::Vector<S>; N] = std::array::from_fn(|n| {
            let at = (first + n * lanes).min(self.bias.len());
            let end = (at + lanes).min(self.bias.len());
            E::load_part(simd, &self.bias[at..end])
        });
        let sweep = self.sweep;
        let places = self.samples * sweep.places();
        let mut index = 0;
        while index < places {
            // The last tile begins earlier and computes some places again, to the same bits; one
            // that is larger than all places computes the last one several times.
            let begin = index.min(places.saturating_sub(P));
            let [from, to] = Cursor::tile::<P>(sweep, begin, places);
            let mut table = [bias; P];
            accumulate::<E, S, P, N>(simd, self.from, &from, sweep, weights, &mut table);
            for (row, at) in table.iter().zip(to) {
                let row = if self.rectify { row.map(|row| E::rectified(simd, row)) } else { *row };
                put(simd, &mut self.to[at + first..][..channels], row);
            }
            index += P;
        }
    }
}

#[inline(always)]
fn accumulate<E: Element, S: Simd, const P: usize, const N: usize>(
    simd: S,
    from: &[E],
    places: &[usize; P],
    sweep: &Sweep,
    weights: &[E],
    table: &mut [[E::Vector<S>; N]; P],
) {
    let run = sweep.run;
    let mut sums = *table;
    for (tap, weights) in sweep.taps.iter().zip(weights.chunks_exact(run * N * E::lanes::<S>())) {
        let rows: [&[E]; P] = std::array::from_fn(|p| &from[places[p] + tap..][..run]);
        let weights = &E::vectors::<S>(weights).0.as_chunks::<N>().0[..run];
        for (i, weights) in weights.iter().enumerate() {
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let value = E::splat(simd, row[i]);
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum = E::add_product(simd, value, weight, *sum);
                }
            }
        }
    }
    *table = sums;
}

/// Writes the first lanes of `row`, as many as `to` has values.
#[inline(always)]
fn put<E: Element, S: Simd, const N: usize>(simd: S, to: &mut [E], row: [E::Vector<S>; N]) {
    let lanes = E::lanes::<S>();
    if to.len() == N * lanes {
        E::vectors_mut::<S>(to).0.copy_from_slice(&row);
    } else {
        for (to, row) in to.chunks_mut(lanes).zip(row) {
            E::store_part(simd, to, row);
        }
    }
}
