//! What the tests of the losses share.

use super::{Compared, Loss, Target};
use crate::Shape;
use crate::check::{assert_close, numbers, slope};

/// A shard that begins its batch.
pub(super) const fn compared<'a, E>(output: &'a [E], target: Target<'a, E>) -> Compared<'a, E> {
    Compared { output, target, first: 0 }
}

/// Fails when the gradient of `loss` is not the slope of the mean, or when what the samples
/// contribute depends on how many are looked at together.
#[track_caller]
pub(super) fn check_gradient(
    loss: &dyn Loss<f64>,
    output: Shape,
    samples: usize,
    target: Target<'_, f64>,
) {
    let values = numbers(samples * output.len(), 1);
    // The shard is half of its batch.
    let weight = 2.0 * loss.weight(samples, target);
    let sum = |values: &[f64]| loss.forward(compared(values, target)).unwrap();
    let mut gradient = vec![f64::NAN; values.len()];
    let shard = compared(&values, target);
    let partial = loss.forward_backward(shard, weight, &mut gradient).unwrap();
    assert_eq!(partial, sum(&values));
    assert_close(&[partial.weight * 2.0], &[weight], 1e-14);
    assert_close(&gradient, &slope(&values, |values| sum(values).loss / weight), 1e-8);
}
