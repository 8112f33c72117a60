//! A table of dot products between two sets of rows.

use super::Unit;
use crate::Element;

/// Rows of the left and of the right set that are multiplied together.
const LEFT: usize = 4;
const RIGHT: usize = 3;

/// Calls `put(i, j, value)` with the dot product of row `i` of `left`, which holds rows of `len`
/// values, with the `len` values of `right` from `right_at(j)`, once for each pair with
/// `j < columns`.
///
/// `len` is at least 1. A product is added up in several partial sums, which are then added pairwise; the order depends
/// on `len` and the vector unit alone.
#[inline(always)]
pub(crate) fn dots<U: Unit, E: Element>(
    left: &[E],
    right: &[E],
    columns: usize,
    right_at: impl Fn(usize) -> usize,
    len: usize,
    put: impl FnMut(usize, usize, E),
) {
    if U::WIDE {
        table::<U, E, 8>(left, right, columns, right_at, len, put);
    } else {
        table::<U, E, 4>(left, right, columns, right_at, len, put);
    }
}

#[inline(always)]
fn table<U: Unit, E: Element, const L: usize>(
    left: &[E],
    right: &[E],
    columns: usize,
    right_at: impl Fn(usize) -> usize,
    len: usize,
    mut put: impl FnMut(usize, usize, E),
) {
    for (block, left) in left.chunks(LEFT * len).enumerate() {
        let rows = left.len() / len;
        // Missing rows of the last block repeat the last one; their products are not put.
        let lefts: [&[E]; LEFT] = std::array::from_fn(|i| {
            let at = i.min(rows - 1) * len;
            &left[at..at + len]
        });
        for column in (0..columns).step_by(RIGHT) {
            let rights: [&[E]; RIGHT] = std::array::from_fn(|j| {
                let at = right_at((column + j).min(columns - 1));
                &right[at..at + len]
            });
            let products = tile::<U, E, L>(lefts, rights, len);
            for (i, products) in products.iter().enumerate().take(rows) {
                for (j, &product) in products.iter().enumerate().take(columns - column) {
                    put(block * LEFT + i, column + j, product);
                }
            }
        }
    }
}

#[inline(always)]
fn tile<U: Unit, E: Element, const L: usize>(
    lefts: [&[E]; LEFT],
    rights: [&[E]; RIGHT],
    len: usize,
) -> [[E; RIGHT]; LEFT] {
    let mut sums = [[[E::zero(); L]; RIGHT]; LEFT];
    let whole = len - len % L;
    let mut at = 0;
    while at < whole {
        let rights: [[E; L]; RIGHT] = rights.map(|row| chunk(row, at));
        for (left, sums) in lefts.iter().zip(&mut sums) {
            let left: [E; L] = chunk(left, at);
            for (right, sums) in rights.iter().zip(sums) {
                for ((sum, &l), &r) in sums.iter_mut().zip(&left).zip(right) {
                    *sum = U::mul_add(l, r, *sum);
                }
            }
        }
        at += L;
    }
    let mut products = sums.map(|sums| sums.map(add_up));
    for at in whole..len {
        for (left, products) in lefts.iter().zip(&mut products) {
            for (right, product) in rights.iter().zip(products) {
                *product = U::mul_add(left[at], right[at], *product);
            }
        }
    }
    products
}

#[inline(always)]
fn chunk<E: Element, const L: usize>(row: &[E], at: usize) -> [E; L] {
    let row = &row[at..at + L];
    std::array::from_fn(|i| row[i])
}

/// The sum of the lanes by halving: `L` is a power of two.
#[inline(always)]
fn add_up<E: Element, const L: usize>(mut lanes: [E; L]) -> E {
    let mut half = L / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The sum of `values`, in an order that depends on their number alone.
#[inline(always)]
pub(crate) fn sum<E: Element>(values: &[E]) -> E {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut lanes = [E::zero(); 8];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    rest.iter().fold(add_up(lanes), |sum, &value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kernel, dispatch};
    use proptest::prelude::*;

    struct Dots<'a> {
        left: &'a [f64],
        right: &'a [f64],
        right_at: &'a [usize],
        rows: usize,
        len: usize,
    }

    impl Kernel for Dots<'_> {
        type Output = Vec<f64>;

        #[inline(always)]
        fn run<U: Unit>(self) -> Vec<f64> {
            let columns = self.right_at.len();
            let mut out = vec![f64::NAN; self.rows * columns];
            let at = |j: usize| self.right_at[j];
            dots::<U, f64>(self.left, self.right, columns, at, self.len, |i, j, value| {
                assert!(out[i * columns + j].is_nan(), "{i} {j} was put twice");
                out[i * columns + j] = value;
            });
            out
        }
    }

    proptest! {
        #[test]
        fn equals_the_plain_sum(rows in 1usize..10, columns in 1usize..8, len in 1usize..40) {
            let left: Vec<f64> = (0..rows * len).map(|i| ((i * 31) % 17) as f64 - 8.0).collect();
            let right: Vec<f64> = (0..len + columns * 2).map(|i| ((i * 7) % 19) as f64).collect();
            let right_at: Vec<usize> = (0..columns).map(|j| j * 2).collect();
            let mut wanted = Vec::new();
            for i in 0..rows {
                for &at in &right_at {
                    wanted.push((0..len).map(|q| left[i * len + q] * right[at + q]).sum::<f64>());
                }
            }
            let run = || Dots { left: &left, right: &right, right_at: &right_at, rows, len };
            prop_assert_eq!(&dispatch(run()), &wanted);
            prop_assert_eq!(&run().run::<dispatch::Baseline>(), &wanted);
        }
    }
}
