//! Rectified linear unit.

use super::{Backward, Forward, Layer, Uses};
use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, Shape};

/// `max(x, 0)`, value by value, for any shape. It has no settings and no parameters, and works in
/// place in both directions: nobody needs its input, nor the gradient by its output, afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Relu {
    shape: Shape,
}

impl Relu {
    /// The layer for samples of any shape.
    pub const fn new(shape: Shape) -> Self {
        Self { shape }
    }

    /// `max(value, 0)`, or not a number if the value is none.
    #[inline(always)]
    pub(crate) fn of<E: Element>(value: E) -> E {
        if value < E::zero() { E::zero() } else { value }
    }

    /// Replaces each value by `max(value, 0)`. Not a number stays what it is, so that it shows in
    /// the loss.
    pub fn forward<E: Element>(&self, values: &mut [E]) {
        dispatch(Rectify { values });
    }

    /// Turns the gradient by the output `y` into that by the input: where `y` is not above 0, it
    /// becomes 0.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn backward<E: Element>(&self, y: &[E], gradient: &mut [E]) {
        assert_eq!(y.len(), gradient.len(), "relu: length of the gradient");
        dispatch(Gate { y, gradient });
    }
}

impl<E: Element> Layer<E> for Relu {
    fn kind(&self) -> &'static str {
        "relu"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn uses(&self) -> Uses {
        Uses { x: false, y: true }
    }

    fn in_place(&self) -> bool {
        true
    }

    fn is_relu(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, E>) {
        self.forward(io.y);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        self.backward(io.y, io.dx[0]);
    }
}

struct Rectify<'a, E> {
    values: &'a mut [E],
}

impl<E: Element> Kernel for Rectify<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        for chunk in self.values.chunks_mut(LANES) {
            let mut before = [E::zero(); LANES];
            let before = &mut before[..chunk.len()];
            before.copy_from_slice(chunk);
            for (value, &before) in chunk.iter_mut().zip(&*before) {
                *value = Relu::of(before);
            }
        }
    }
}

/// Values that are copied aside before they are overwritten. Read and written in place, the compiler
/// makes each store depend on a branch that half of the values mispredict.
const LANES: usize = 64;

#[inline(always)]
fn gate<E: Element>(y: E, gradient: E) -> E {
    if y > E::zero() { gradient } else { E::zero() }
}

struct Gate<'a, E> {
    y: &'a [E],
    gradient: &'a mut [E],
}

impl<E: Element> Kernel for Gate<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        for (chunk, y) in self.gradient.chunks_mut(LANES).zip(self.y.chunks(LANES)) {
            let mut before = [E::zero(); LANES];
            let before = &mut before[..chunk.len()];
            before.copy_from_slice(chunk);
            for ((gradient, &before), &y) in chunk.iter_mut().zip(&*before).zip(y) {
                *gradient = gate(y, before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use std::sync::Arc;

    #[test]
    fn gradients_match_finite_differences() {
        let shape = Shape::image(3, 2, 5);
        check_gradients(Arc::new(Relu::new(shape)), &[shape], 3);
    }

    #[test]
    fn not_a_number_passes_and_zero_has_no_slope() {
        let relu = Relu::new(Shape::Features(1));
        let mut values = [f32::NAN, 0.0, -1.0];
        relu.forward(&mut values);
        assert!(values[0].is_nan());
        assert_eq!(values[1..], [0.0, 0.0]);
        let mut gradient = [5.0f32, 5.0];
        relu.backward(&[0.0, 1.0], &mut gradient);
        assert_eq!(gradient, [0.0, 5.0]);
    }
}
