//! Gradients that are not longer than they should be.

use serde::{Deserialize, Serialize};

use super::sum::{PIECE, Sum};
use super::{NOT_NEGATIVE, check};
use crate::guard::BadGradient;
use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, NnError};

/// Clipping by the global norm: when the gradient of all parameters together, as one vector, is
/// longer than `max_norm`, it is scaled down to that length.
///
/// The length is known only once all gradients are. So there are three steps: for each block of
/// each parameter [`Clip::gather`], which leaves the sum of the block's gradients in the first of
/// them; one [`Clip::factor`] of the results, in a fixed order; and the updates, by one gradient
/// each and [`Step::factor`](crate::Step::factor).
///
/// ```
/// use millrace_nn::Clip;
///
/// let clip = Clip::new(2.5)?;
/// let (mut weights, mut bias) = ([1.0f32, 2.0], [4.0f32]);
/// let squares = [
///     Clip::gather(&mut weights, &[&[2.0, -2.0]])?, // the sum is (3, 0)
///     Clip::gather(&mut bias, &[])?,
/// ];
/// assert_eq!(Clip::norm(&squares), 5.0);
/// assert!((clip.factor(&squares) - 0.5).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// The greatest length, finite and not negative.
    pub max_norm: f64,
}

/// Keeps the factor of a short gradient finite; PyTorch's.
const EPSILON: f64 = 1e-6;

impl Clip {
    /// Clipping to this length.
    ///
    /// # Errors
    /// [`NnError::Setting`] when it is negative or not finite.
    pub fn new(max_norm: f64) -> Result<Self, NnError> {
        let clip = Self { max_norm };
        clip.check()?;
        Ok(clip)
    }

    /// Checks the setting.
    ///
    /// # Errors
    /// [`NnError::Setting`] when it has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        check("clip", "max_norm", self.max_norm, |value| value >= 0.0, NOT_NEGATIVE)
    }

    /// Adds the gradients `others` to `first`, with the bits that
    /// [`Optimiser::update`](crate::Optimiser::update) would add up, and gives the sum of the
    /// squares of the result. The order in which these are added depends on the length alone.
    ///
    /// # Errors
    /// [`BadGradient`] when a value of the sum is NaN or infinite; it then says which gradient has
    /// it, 0 for `first`.
    ///
    /// # Panics
    /// When the gradients differ in length.
    pub fn gather<E: Element>(first: &mut [E], others: &[&[E]]) -> Result<f64, BadGradient> {
        for other in others {
            assert_eq!(other.len(), first.len(), "gather: length of a gradient");
        }
        dispatch(Gather { first, others })
    }

    /// The length of the gradient whose sums of squares these are. They are added up as a fixed
    /// binary tree.
    pub fn norm(squares: &[f64]) -> f64 {
        fn tree(values: &[f64]) -> f64 {
            match values {
                [] => 0.0,
                [value] => *value,
                _ => {
                    let (first, rest) = values.split_at(values.len().next_power_of_two() / 2);
                    tree(first) + tree(rest)
                }
            }
        }
        tree(squares).sqrt()
    }

    /// What the gradient is to be multiplied by: 1 where it is short enough.
    pub fn factor(&self, squares: &[f64]) -> f64 {
        (self.max_norm / (Self::norm(squares) + EPSILON)).min(1.0)
    }
}

struct Gather<'a, E> {
    first: &'a mut [E],
    others: &'a [&'a [E]],
}

/// Sums of squares that are kept side by side.
const LANES: usize = 16;

impl<E: Element> Kernel for Gather<'_, E> {
    type Output = Result<f64, BadGradient>;

    #[inline(always)]
    fn run<U: Unit>(self) -> Self::Output {
        let Self { first, others } = self;
        let mut sum = Sum::new(1 + others.len());
        let mut lanes = [0.0; LANES];
        let len = first.len();
        let mut at = 0;
        while at < len {
            let end = len.min(at + PIECE);
            let piece = |gradient: usize| match gradient {
                0 => &first[at..end],
                _ => &others[gradient - 1][at..end],
            };
            let sum = sum.piece(1 + others.len(), end - at, at, piece)?;
            add_squares(&mut lanes, sum);
            first[at..end].copy_from_slice(sum);
            at = end;
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        Ok(lanes[0])
    }
}

#[inline(always)]
fn add_squares<E: Element>(lanes: &mut [f64; LANES], values: &[E]) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value.widen() * value.widen();
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value.widen() * value.widen();
    }
}
