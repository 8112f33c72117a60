//! Matrix products of the sizes for which packing pays.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::Element;

/// A matrix in a slice, row by row or (transposed) column by column.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, E> {
    values: &'a [E],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a, E> Matrix<'a, E> {
    /// The matrix of `rows` x `columns` whose rows follow each other in `values`.
    ///
    /// # Panics
    /// When `values` has another length.
    pub fn new(values: &'a [E], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "length of a matrix");
        Self { values, rows, columns, transposed: false }
    }

    /// The transposed matrix, on the same values.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }
}

impl<'a, E: Element> Matrix<'a, E> {
    fn view(self) -> MatRef<'a, E> {
        if self.transposed {
            MatRef::from_column_major_slice(self.values, self.rows, self.columns)
        } else {
            MatRef::from_row_major_slice(self.values, self.rows, self.columns)
        }
    }
}

/// `c = a b`, or `c = c + a b` when `accumulate`, on the calling thread. `c` is stored row by row.
///
/// The order of additions depends on the shapes alone. The product is that of `faer`;
/// `benches/GEMM.md` has the measurement that chose it.
///
/// ```
/// use millrace_nn::{Matrix, gemm};
/// let a = Matrix::new(&[1.0f32, 2.0, 3.0, 4.0], 2, 2);
/// let mut c = [0.0; 4];
/// gemm(a, a.transposed(), false, &mut c);
/// assert_eq!(c, [5.0, 11.0, 11.0, 25.0]);
/// ```
///
/// # Panics
/// When the sizes do not fit each other.
pub fn gemm<E: Element>(a: Matrix<'_, E>, b: Matrix<'_, E>, accumulate: bool, c: &mut [E]) {
    assert_eq!(c.len(), a.rows * b.columns, "length of the product");
    let how = if accumulate { Accum::Add } else { Accum::Replace };
    let c = MatMut::from_row_major_slice_mut(c, a.rows, b.columns);
    matmul(c, how, a.view(), b.view(), E::one(), Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_plain_sum(
            (m, n, k) in (1usize..20, 1usize..20, 1usize..20),
            (left, right, accumulate) in any::<(bool, bool, bool)>(),
        ) {
            let (a, b, before) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
            let mut wanted = before.clone();
            for row in 0..m {
                for column in 0..n {
                    let product: f64 = (0..k)
                        .map(|i| {
                            let a = if left { a[i * m + row] } else { a[row * k + i] };
                            a * if right { b[column * k + i] } else { b[i * n + column] }
                        })
                        .sum();
                    let start = if accumulate { before[row * n + column] } else { 0.0 };
                    wanted[row * n + column] = start + product;
                }
            }
            let a = if left { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
            let b = if right { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
            let mut c = before;
            gemm(a, b, accumulate, &mut c);
            assert_close(&c, &wanted, 1e-12);
        }

        #[test]
        fn not_a_number_before_is_overwritten(m in 1usize..20, n in 1usize..20) {
            let (a, b) = (numbers(m * 3, 1), numbers(3 * n, 2));
            let mut c = vec![f64::NAN; m * n];
            gemm(Matrix::new(&a, m, 3), Matrix::new(&b, 3, n), false, &mut c);
            prop_assert!(c.iter().all(|value| value.is_finite()));
        }
    }
}
