//! A table of dot products between two sets of rows: the fully connected layer, forward.

use pulp::{Simd, WithSimd};

use crate::Element;

/// `out[sample][row] = bias[row] + left[row] . right[sample]`.
///
/// Vectors run along the rows, so that nothing has to be packed. A product is added up lane by
/// lane, then over the lanes, in an order that depends on `len` and the unit alone.
pub(crate) struct Dots<'a, E> {
    /// Rows of `len` values.
    pub(crate) left: &'a [E],
    /// Samples of `len` values.
    pub(crate) right: &'a [E],
    pub(crate) len: usize,
    /// One value per row.
    pub(crate) bias: &'a [E],
    /// Whether negative values become 0.
    pub(crate) rectify: bool,
    /// Sample by sample, one value per row.
    pub(crate) out: &'a mut [E],
}

impl<E: Element> WithSimd for Dots<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.tiles::<S, 6, 4>(simd);
        } else {
            self.tiles::<S, 2, 4>(simd);
        }
    }
}

impl<E: Element> Dots<'_, E> {
    #[inline(always)]
    fn tiles<S: Simd, const A: usize, const B: usize>(self, simd: S) {
        let Self { left, right, len, bias, rectify, out } = self;
        let (rows, samples) = (bias.len(), right.len() / len);
        for row in (0..rows).step_by(A) {
            // A tile that is too large repeats its last row or sample, with the same bits.
            let row_of = |i: usize| (row + i).min(rows - 1);
            let lefts: [&[E]; A] = std::array::from_fn(|i| &left[row_of(i) * len..][..len]);
            for sample in (0..samples).step_by(B) {
                let sample_of = |j: usize| (sample + j).min(samples - 1);
                let rights = std::array::from_fn(|j| &right[sample_of(j) * len..][..len]);
                let table = products::<E, S, A, B>(simd, lefts, rights);
                for (j, products) in table.into_iter().enumerate() {
                    for (i, product) in products.into_iter().enumerate() {
                        let value = bias[row_of(i)] + E::sum_of_lanes(simd, product);
                        let below = rectify && value < E::zero();
                        out[sample_of(j) * rows + row_of(i)] =
                            if below { E::zero() } else { value };
                    }
                }
            }
        }
    }
}

/// The products of each pair, lane by lane: by sample, then by row.
#[inline(always)]
fn products<E: Element, S: Simd, const A: usize, const B: usize>(
    simd: S,
    lefts: [&[E]; A],
    rights: [&[E]; B],
) -> [[E::Vector<S>; A]; B] {
    let mut sums = [[E::splat(simd, E::zero()); A]; B];
    let whole = lefts[0].len() / E::lanes::<S>();
    let (left_tails, right_tails) =
        (lefts.map(|row| E::vectors::<S>(row).1), rights.map(|row| E::vectors::<S>(row).1));
    let lefts = lefts.map(|row| &E::vectors::<S>(row).0[..whole]);
    let rights = rights.map(|row| &E::vectors::<S>(row).0[..whole]);
    for at in 0..whole {
        let rights: [_; B] = std::array::from_fn(|j| rights[j][at]);
        accumulate::<E, S, A, B>(simd, |i| lefts[i][at], rights, &mut sums);
    }
    if !left_tails[0].is_empty() {
        let rights = right_tails.map(|tail| E::load_part(simd, tail));
        accumulate::<E, S, A, B>(simd, |i| E::load_part(simd, left_tails[i]), rights, &mut sums);
    }
    sums
}

#[inline(always)]
fn accumulate<E: Element, S: Simd, const A: usize, const B: usize>(
    simd: S,
    left: impl Fn(usize) -> E::Vector<S>,
    rights: [E::Vector<S>; B],
    sums: &mut [[E::Vector<S>; A]; B],
) {
    for i in 0..A {
        let left = left(i);
        for (sums, &right) in sums.iter_mut().zip(&rights) {
            sums[i] = E::add_product(simd, left, right, sums[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers};
    use crate::kernel::VectorUnit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_unit_computes_the_plain_sums(
            (rows, samples, len) in (1usize..14, 1usize..10, 1usize..70),
            rectify: bool,
        ) {
            let (left, right) = (numbers(rows * len, 1), numbers(samples * len, 2));
            let bias = numbers(rows, 3);
            let mut wanted = Vec::new();
            for right in right.chunks(len) {
                for (left, bias) in left.chunks(len).zip(&bias) {
                    let sum = bias + left.iter().zip(right).map(|(l, r)| l * r).sum::<f64>();
                    wanted.push(if rectify { sum.max(0.0) } else { sum });
                }
            }
            let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
            let (left32, right32, bias32) = (narrow(&left), narrow(&right), narrow(&bias));
            for unit in VectorUnit::all() {
                let mut out = vec![f64::NAN; rows * samples];
                let (left, right, bias) = (&left, &right, &bias);
                unit.run(Dots { left, right, len, bias, rectify, out: &mut out });
                assert_close(&out, &wanted, 1e-12);
                let mut out = vec![f32::NAN; rows * samples];
                let (left, right, bias) = (&left32, &right32, &bias32);
                unit.run(Dots { left, right, len, bias, rectify, out: &mut out });
                let out: Vec<f64> = out.into_iter().map(f64::from).collect();
                assert_close(&out, &wanted, 1e-5);
            }
        }
    }
}
