//! Sums of scaled rows: the fully connected layer by data and by weights.

use pulp::{Simd, WithSimd};

use crate::Element;

/// `out[p] = sum over k of a(p, k) * rows[k]`, where `out` and `rows` hold rows of `len` values.
///
/// Vectors run along the rows where they are, and the terms are added in order.
pub(crate) struct Outer<'a, E> {
    pub(crate) a: &'a [E],
    /// How far it is in `a` to the next `p`, and to the next `k`.
    pub(crate) steps: [usize; 2],
    pub(crate) rows: &'a [E],
    pub(crate) len: usize,
    pub(crate) out: &'a mut [E],
}

impl<E: Element> WithSimd for Outer<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.tiles::<S, 8, 3>(simd);
        } else {
            self.tiles::<S, 4, 2>(simd);
        }
    }
}

impl<E: Element> Outer<'_, E> {
    #[inline(always)]
    fn tiles<S: Simd, const P: usize, const N: usize>(mut self, simd: S) {
        let count = self.out.len() / self.len;
        let width = N * E::lanes::<S>();
        for p in (0..count).step_by(P) {
            let mut at = 0;
            while at + width <= self.len {
                self.tile::<S, P, N>(simd, p, at, width);
                at += width;
            }
            while at < self.len {
                let width = (self.len - at).min(E::lanes::<S>());
                self.tile::<S, P, 1>(simd, p, at, width);
                at += width;
            }
        }
    }

    /// The `width` values from `at` of `P` output rows from the `first`: `N` vectors, the last of
    /// which may be a part.
    #[inline(always)]
    fn tile<S: Simd, const P: usize, const N: usize>(
        &mut self,
        simd: S,
        first: usize,
        at: usize,
        width: usize,
    ) {
        let Self { a, steps, rows, len, ref mut out } = *self;
        // A tile that is too large repeats its last row, with the same bits.
        let last = out.len() / len - 1;
        let p_of = |p: usize| (first + p).min(last);
        let places: [usize; P] = std::array::from_fn(|p| p_of(p) * steps[0]);
        let mut table = [[E::splat(simd, E::zero()); N]; P];
        for (k, row) in rows.chunks_exact(len).enumerate() {
            let row = load::<E, S, N>(simd, &row[at..at + width]);
            for (sums, place) in table.iter_mut().zip(places) {
                let value = E::splat(simd, a[place + k * steps[1]]);
                for (sum, &row) in sums.iter_mut().zip(&row) {
                    *sum = E::add_product(simd, value, row, *sum);
                }
            }
        }
        for (p, sums) in table.into_iter().enumerate() {
            let out = &mut out[p_of(p) * len + at..][..width];
            if width == N * E::lanes::<S>() {
                E::vectors_mut::<S>(out).0.copy_from_slice(&sums);
            } else {
                E::store_part(simd, out, sums[0]);
            }
        }
    }
}

#[inline(always)]
fn load<E: Element, S: Simd, const N: usize>(simd: S, values: &[E]) -> [E::Vector<S>; N] {
    if values.len() == N * E::lanes::<S>() {
        let vectors = E::vectors::<S>(values).0;
        std::array::from_fn(|n| vectors[n])
    } else {
        [E::load_part(simd, values); N]
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
            (count, terms, len) in (1usize..20, 1usize..20, 1usize..120),
            turned: bool,
        ) {
            let (a, rows) = (numbers(count * terms, 1), numbers(terms * len, 2));
            let steps = if turned { [1, count] } else { [terms, 1] };
            let mut wanted = vec![0.0; count * len];
            for p in 0..count {
                for (k, row) in rows.chunks(len).enumerate() {
                    for (sum, row) in wanted[p * len..].iter_mut().zip(row) {
                        *sum += a[p * steps[0] + k * steps[1]] * row;
                    }
                }
            }
            let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
            let (a32, rows32) = (narrow(&a), narrow(&rows));
            for unit in VectorUnit::all() {
                let mut out = vec![f64::NAN; count * len];
                unit.run(Outer { a: &a, steps, rows: &rows, len, out: &mut out });
                assert_close(&out, &wanted, 1e-12);
                let mut out = vec![f32::NAN; count * len];
                unit.run(Outer { a: &a32, steps, rows: &rows32, len, out: &mut out });
                let out: Vec<f64> = out.into_iter().map(f64::from).collect();
                assert_close(&out, &wanted, 1e-5);
            }
        }
    }
}
