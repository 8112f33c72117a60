//! Convolution of each channel by itself. Vectors run over the channels on both sides.

use pulp::{Simd, WithSimd};

use super::{Cursor, Grid, Sweep, rows};
use crate::Element;

/// Places, or taps, that are held in registers together.
const TILE: usize = 8;

/// `to[place][channel] = bias[channel] + sum over taps of from[place + tap][channel] *
/// weight[tap][channel]` for all places of `samples` samples.
pub(crate) struct DepthwiseProducts<'a, E> {
    pub(crate) sweep: &'a Sweep,
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) from: &'a [E],
    /// Tap by tap, one value per channel.
    pub(crate) weights: &'a [E],
    /// One value per channel, or none at all, which counts as zeros.
    pub(crate) bias: &'a [E],
    /// Whether negative values become 0.
    pub(crate) rectify: bool,
    pub(crate) to: &'a mut [E],
}

impl<E: Element> WithSimd for DepthwiseProducts<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = E::lanes::<S>();
        let Self { sweep, channels, from, weights, .. } = self;
        let places = self.samples * sweep.places();
        for index in (0..places).step_by(TILE) {
            let [at, to] = Cursor::tile::<TILE>(sweep, index, places);
            for first in (0..channels).step_by(lanes) {
                let end = channels.min(first + lanes);
                let bias = &self.bias[first.min(self.bias.len())..end.min(self.bias.len())];
                let mut sums = [E::load_part(simd, bias); TILE];
                for (&tap, weights) in sweep.taps.iter().zip(weights.chunks_exact(channels)) {
                    let weight = part(simd, &weights[first..end]);
                    for (sum, at) in sums.iter_mut().zip(at) {
                        let values = part(simd, &from[at + tap..][first..end]);
                        *sum = E::add_product(simd, values, weight, *sum);
                    }
                }
                for (sum, to) in sums.into_iter().zip(to) {
                    let sum = if self.rectify { E::rectified(simd, sum) } else { sum };
                    E::store_part(simd, &mut self.to[to..][first..end], sum);
                }
            }
        }
    }
}

/// `sums[tap][channel] += sum over places of x[place + tap][channel] * dy[place][channel]`, and
/// `bias_sums[channel] += sum over places of dy[place][channel]`, over `samples` samples.
pub(crate) struct DepthwiseSums<'a, E> {
    /// The sweep of the forward direction, whose `from` says where the places are in `x`.
    pub(crate) sweep: &'a Sweep,
    pub(crate) samples: usize,
    pub(crate) channels: usize,
    pub(crate) x: &'a [E],
    pub(crate) dy: &'a [E],
    /// Where the first channel of a place is in `dy`.
    pub(crate) at: Grid,
    /// Tap by tap, one value per channel.
    pub(crate) sums: &'a mut [E],
    /// One value per channel.
    pub(crate) bias_sums: &'a mut [E],
}

impl<E: Element> WithSimd for DepthwiseSums<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sweep, samples, channels, x, dy, at, sums, bias_sums } = self;
        let lanes = E::lanes::<S>();
        let [height, columns] = sweep.size;
        for first in (0..channels).step_by(lanes) {
            let end = channels.min(first + lanes);
            for tile in (0..sweep.taps.len()).step_by(TILE) {
                let taps = &sweep.taps[tile..sweep.taps.len().min(tile + TILE)];
                // A tile that is not full repeats its last tap, whose copies are not added.
                let taps: [usize; TILE] = std::array::from_fn(|q| taps[q.min(taps.len() - 1)]);
                let mut table = [E::splat(simd, E::zero()); TILE];
                let mut bias = E::splat(simd, E::zero());
                for (from, at_dy) in rows([sweep.from, at], samples, height) {
                    for column in 0..columns {
                        let dy = part(simd, &dy[at_dy + column * at.column..][first..end]);
                        let from = from + column * sweep.from.column;
                        for (sum, tap) in table.iter_mut().zip(taps) {
                            let values = part(simd, &x[from + tap..][first..end]);
                            *sum = E::add_product(simd, values, dy, *sum);
                        }
                        bias = E::sum(simd, bias, dy);
                    }
                }
                let sums = sums[tile * channels..].chunks_exact_mut(channels);
                for (sums, table) in sums.zip(table) {
                    add(simd, &mut sums[first..end], table);
                }
                if tile == 0 {
                    add(simd, &mut bias_sums[first..end], bias);
                }
            }
        }
    }
}

#[inline(always)]
fn add<E: Element, S: Simd>(simd: S, to: &mut [E], vector: E::Vector<S>) {
    let sum = E::sum(simd, E::load_part(simd, to), vector);
    E::store_part(simd, to, sum);
}

/// As many values as fit a vector or fewer.
#[inline(always)]
fn part<E: Element, S: Simd>(simd: S, values: &[E]) -> E::Vector<S> {
    if values.len() == E::lanes::<S>() { E::load(values) } else { E::load_part(simd, values) }
}
