//! Values that are no numbers any more.
//!
//! A loss or a gradient that is NaN or infinite makes every later parameter so. The checks here say
//! where the first such value is, so that the run can stop and name the place. They cost no pass
//! over memory of their own where something else reads the values anyway: an update
//! ([`Optimiser::update`](crate::Optimiser::update)) checks the gradient that it has just added up.

use crate::Element;
use crate::kernel::{Kernel, Unit, dispatch};

/// The first value of a slice that is NaN or infinite.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("value {at} is {value}")]
pub struct NotFinite {
    /// Its place in the slice.
    pub at: usize,
    /// What it is.
    pub value: f64,
}

/// The first value of the sum of the gradients of a parameter that is NaN or infinite.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("value {at} of the gradient is {value}")]
pub struct BadGradient {
    /// Its place in the parameter, or in the block of it that was handed in.
    pub at: usize,
    /// What it is.
    pub value: f64,
    /// The first of the added gradients that has such a value there; none where all of them are
    /// finite and only their sum is not.
    pub shard: Option<usize>,
}

/// Checks that all `values` are finite.
///
/// ```
/// use millrace_nn::guard;
///
/// assert!(guard::check(&[1.0, -2.0]).is_ok());
/// let error = guard::check(&[1.0f32, f32::NAN, f32::INFINITY]).unwrap_err();
/// assert_eq!(error.to_string(), "value 1 is NaN");
/// ```
///
/// # Errors
/// [`NotFinite`] for the first one that is not.
pub fn check<E: Element>(values: &[E]) -> Result<(), NotFinite> {
    dispatch(Check { values })
}

struct Check<'a, E> {
    values: &'a [E],
}

/// Values that are looked at together, without a branch for each.
const CHUNK: usize = 256;

impl<E: Element> Kernel for Check<'_, E> {
    type Output = Result<(), NotFinite>;

    #[inline(always)]
    fn run<U: Unit>(self) -> Self::Output {
        for (chunk, values) in self.values.chunks(CHUNK).enumerate() {
            if !all_finite(values) {
                return Err(first(values, chunk * CHUNK));
            }
        }
        Ok(())
    }
}

/// Whether all values are finite, found without a branch per value.
#[inline(always)]
pub(crate) fn all_finite<E: Element>(values: &[E]) -> bool {
    // A value times 0 is 0, or NaN if it is not finite; NaN stays NaN in a sum.
    let (lanes, rest) = values.as_chunks::<16>();
    let mut sums = [E::zero(); 16];
    for lanes in lanes {
        for (sum, &value) in sums.iter_mut().zip(lanes) {
            *sum += value * E::zero();
        }
    }
    for (sum, &value) in sums.iter_mut().zip(rest) {
        *sum += value * E::zero();
    }
    sums.iter().fold(E::zero(), |all, &sum| all + sum) == E::zero()
}

/// The first value that is not finite, of values that begin at place `start` and hold one.
#[cold]
pub(crate) fn first<E: Element>(values: &[E], start: usize) -> NotFinite {
    let at = values.iter().position(|value| !value.is_finite()).unwrap_or_default();
    NotFinite { at: start + at, value: values[at].widen() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_place<E: Element>() {
        for len in [1, 15, 16, 17, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let mut values = vec![E::max_value(); len];
            values[0] = E::min_positive_value();
            assert!(check(&values).is_ok(), "{len}");
            for at in (0..len).rev() {
                for bad in [E::infinity(), E::neg_infinity(), E::nan()] {
                    values[at] = bad;
                    let found = check(&values).unwrap_err();
                    assert_eq!(found.at, at, "{len}");
                    assert_eq!(found.value.to_bits(), bad.widen().to_bits());
                }
                // What follows the first one does not matter.
                values[at] = if at % 2 == 0 { E::nan() } else { -E::one() };
            }
        }
        assert!(check::<E>(&[]).is_ok());
    }

    #[test]
    fn finds_the_first_bad_value_at_each_place() {
        each_place::<f32>();
        each_place::<f64>();
    }
}
