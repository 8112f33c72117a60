//! Rectified linear unit.

use crate::Element;
use crate::kernel::{Kernel, Unit, dispatch};

/// `y = max(x, 0)`, value by value, for any shape. It has no settings and no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relu;

impl Relu {
    /// `y = max(x, 0)`. Not a number stays what it is, so that it shows in the loss.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn forward<E: Element>(&self, x: &[E], y: &mut [E]) {
        assert_eq!(x.len(), y.len(), "relu: length of the output");
        dispatch(Forward { x, y });
    }

    /// The gradient by the input: that by the output where the output `y` is above 0, else 0.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn backward<E: Element>(&self, y: &[E], dy: &[E], dx: &mut [E]) {
        assert_eq!(y.len(), dy.len(), "relu: length of the output gradient");
        assert_eq!(y.len(), dx.len(), "relu: length of the input gradient");
        dispatch(Backward { y, dy, dx });
    }
}

struct Forward<'a, E> {
    x: &'a [E],
    y: &'a mut [E],
}

impl<E: Element> Kernel for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        for (y, &x) in self.y.iter_mut().zip(self.x) {
            *y = if x < E::zero() { E::zero() } else { x };
        }
    }
}

struct Backward<'a, E> {
    y: &'a [E],
    dy: &'a [E],
    dx: &'a mut [E],
}

impl<E: Element> Kernel for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        for ((dx, &dy), &y) in self.dx.iter_mut().zip(self.dy).zip(self.y) {
            *dx = if y > E::zero() { dy } else { E::zero() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers, slope};

    #[test]
    fn gradient_matches_finite_differences() {
        let (x, dy) = (numbers(50, 1), numbers(50, 2));
        let forward = |x: &[f64]| {
            let mut y = vec![f64::NAN; x.len()];
            Relu.forward(x, &mut y);
            y
        };
        let mut dx = vec![f64::NAN; x.len()];
        Relu.backward(&forward(&x), &dy, &mut dx);
        let loss = |x: &[f64]| forward(x).iter().zip(&dy).map(|(y, dy)| y * dy).sum();
        assert_close(&dx, &slope(&x, loss), 1e-6);
    }

    #[test]
    fn not_a_number_passes_and_zero_has_no_slope() {
        let mut y = [7.0f32; 3];
        Relu.forward(&[f32::NAN, 0.0, -1.0], &mut y);
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [0.0, 0.0]);
        let mut dx = [7.0f32; 2];
        Relu.backward(&[0.0, 1.0], &[5.0, 5.0], &mut dx);
        assert_eq!(dx, [0.0, 5.0]);
    }
}
