//! Output rows as weighted sums of shifted input rows.

use super::Unit;
use crate::Element;

/// Output rows that are computed together: each loaded input value is used this often.
pub(crate) const BLOCK: usize = 4;

/// Weights for `rows` output rows in blocks of [`BLOCK`]: block by block, term by term, the weight
/// of each row of the block; the last block is filled up with zeros.
#[derive(Clone, Copy)]
pub(crate) struct Blocked<'a, E> {
    weights: &'a [E],
    rows: usize,
    terms: usize,
}

/// Values that [`Blocked::pack`] needs for `rows` output rows of `terms` terms each.
pub(crate) const fn block_len(rows: usize, terms: usize) -> usize {
    rows.div_ceil(BLOCK) * BLOCK * terms
}

impl<'a, E: Element> Blocked<'a, E> {
    /// Packs `weight(row, term)` into `space`, which holds [`block_len`] values.
    #[inline(always)]
    pub(crate) fn pack(
        space: &'a mut [E],
        rows: usize,
        terms: usize,
        weight: impl Fn(usize, usize) -> E,
    ) -> Self {
        for (block, space) in space.chunks_exact_mut(BLOCK * terms).enumerate() {
            for (term, lane) in space.chunks_exact_mut(BLOCK).enumerate() {
                for (i, lane) in lane.iter_mut().enumerate() {
                    let row = block * BLOCK + i;
                    *lane = if row < rows { weight(row, term) } else { E::zero() };
                }
            }
        }
        Self { weights: space, rows, terms }
    }
}

/// `out[r][q] = start(r) + sum over t of weight(r, t) * x[at(t) + q]` for `q < len`, where `at`
/// yields one place per term.
///
/// Each sum runs over the terms in order, so its bits depend on nothing else.
#[inline(always)]
pub(crate) fn combine_rows<U: Unit, E: Element>(
    x: &[E],
    at: impl Iterator<Item = usize> + Clone,
    weights: Blocked<'_, E>,
    len: usize,
    start: impl Fn(usize) -> E,
    out: &mut [E],
) {
    for (b, out) in out.chunks_mut(BLOCK * len).enumerate() {
        one_block::<U, E>(x, at.clone(), weights, b, len, &start, out);
    }
}

/// The same for output rows that have to be moved elsewhere: `done(first_row, rows, values)`
/// receives each finished block, `rows` rows of `len` values. `space` holds `BLOCK * len` values.
#[inline(always)]
pub(crate) fn combine<U: Unit, E: Element>(
    x: &[E],
    at: impl Iterator<Item = usize> + Clone,
    weights: Blocked<'_, E>,
    len: usize,
    start: impl Fn(usize) -> E,
    space: &mut [E],
    mut done: impl FnMut(usize, usize, &[E]),
) {
    for b in 0..weights.rows.div_ceil(BLOCK) {
        let rows = BLOCK.min(weights.rows - b * BLOCK);
        let out = &mut space[..rows * len];
        one_block::<U, E>(x, at.clone(), weights, b, len, &start, out);
        done(b * BLOCK, rows, out);
    }
}

#[inline(always)]
fn one_block<U: Unit, E: Element>(
    x: &[E],
    at: impl Iterator<Item = usize> + Clone,
    weights: Blocked<'_, E>,
    b: usize,
    len: usize,
    start: impl Fn(usize) -> E,
    out: &mut [E],
) {
    let rows = out.len() / len;
    let starts: [E; BLOCK] =
        std::array::from_fn(|i| if i < rows { start(b * BLOCK + i) } else { E::zero() });
    let terms = &weights.weights[b * BLOCK * weights.terms..(b + 1) * BLOCK * weights.terms];
    let (terms, _) = terms.as_chunks::<BLOCK>();
    // A last piece that does not fill a tile begins earlier and computes some values again.
    if U::WIDE && len >= 16 {
        tiles::<U, E, 16>(x, at, terms, len, starts, out);
    } else if len >= 8 {
        tiles::<U, E, 8>(x, at, terms, len, starts, out);
    } else if len >= 4 {
        tiles::<U, E, 4>(x, at, terms, len, starts, out);
    } else {
        tiles::<U, E, 1>(x, at, terms, len, starts, out);
    }
}

#[inline(always)]
fn tiles<U: Unit, E: Element, const L: usize>(
    x: &[E],
    at: impl Iterator<Item = usize> + Clone,
    terms: &[[E; BLOCK]],
    len: usize,
    starts: [E; BLOCK],
    out: &mut [E],
) {
    let mut q = 0;
    while q < len {
        let first = q.min(len - L);
        let tile = tile::<U, E, L>(&x[first..], at.clone(), terms, starts);
        for (out, values) in out.chunks_exact_mut(len).zip(&tile) {
            out[first..first + L].copy_from_slice(values);
        }
        q += L;
    }
}

#[inline(always)]
fn tile<U: Unit, E: Element, const L: usize>(
    x: &[E],
    at: impl Iterator<Item = usize>,
    terms: &[[E; BLOCK]],
    starts: [E; BLOCK],
) -> [[E; L]; BLOCK] {
    let mut sums = starts.map(|value| [value; L]);
    for (weights, at) in terms.iter().zip(at) {
        let x = &x[at..at + L];
        let x: [E; L] = std::array::from_fn(|i| x[i]);
        for (sums, &weight) in sums.iter_mut().zip(weights) {
            for (sum, &x) in sums.iter_mut().zip(&x) {
                *sum = U::mul_add(weight, x, *sum);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, dispatch};
    use proptest::prelude::*;

    struct Combine<'a> {
        x: &'a [f64],
        offsets: &'a [usize],
        weights: &'a [f64],
        rows: usize,
        len: usize,
        out: Vec<f64>,
    }

    impl Kernel for Combine<'_> {
        type Output = Vec<f64>;

        #[inline(always)]
        fn run<U: Unit>(mut self) -> Vec<f64> {
            let terms = self.offsets.len();
            let mut space = vec![0.0; block_len(self.rows, terms)];
            let mut block = vec![0.0; BLOCK * self.len];
            let packed =
                Blocked::pack(&mut space, self.rows, terms, |r, t| self.weights[r * terms + t]);
            let out = &mut self.out;
            let at = self.offsets.iter().copied();
            let start = |row| row as f64;
            let mut rows = vec![0.0; self.rows * self.len];
            combine_rows::<U, f64>(self.x, at.clone(), packed, self.len, start, &mut rows);
            combine::<U, f64>(self.x, at, packed, self.len, start, &mut block, |_, _, values| {
                out.extend_from_slice(values)
            });
            assert_eq!(self.out, rows);
            self.out
        }
    }

    proptest! {
        #[test]
        fn equals_the_plain_sum(rows in 1usize..10, len in 1usize..70, terms in 1usize..9) {
            let x: Vec<f64> = (0..len + 3 * terms).map(|i| ((i * 7919) % 101) as f64).collect();
            let offsets: Vec<usize> = (0..terms).map(|t| (t * 5) % (3 * terms)).collect();
            let weights: Vec<f64> = (0..rows * terms).map(|i| (i % 13) as f64 - 6.0).collect();
            let mut wanted = Vec::new();
            for r in 0..rows {
                for q in 0..len {
                    let sum: f64 = (0..terms).map(|t| weights[r * terms + t] * x[offsets[t] + q]).sum();
                    wanted.push(r as f64 + sum);
                }
            }
            let run = || Combine { x: &x, offsets: &offsets, weights: &weights, rows, len, out: vec![] };
            prop_assert_eq!(&dispatch(run()), &wanted);
            prop_assert_eq!(&run().run::<dispatch::Baseline>(), &wanted);
        }
    }
}
