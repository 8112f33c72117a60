//! Softmax as a layer.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer, Uses, one_input};
use crate::{Element, NnError, Shape};

/// A [`Softmax`], which has no settings.
///
/// ```
/// use millrace_nn::layer::{Alone, Config, Mode, SoftmaxConfig};
/// use millrace_nn::Shape;
///
/// let shape = Shape::Features(2);
/// let layer = SoftmaxConfig.build_layer("softmax", &[shape])?;
/// let mut softmax = Alone::new(layer, &[shape], Vec::new());
/// assert_eq!(softmax.forward(Mode::Evaluate, &[&[7.0, 7.0]]), [0.5, 0.5]);
/// assert_eq!(softmax.backward(&[1.0, 0.0]).x, [[0.25, -0.25]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftmaxConfig;

impl SoftmaxConfig {
    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` has no values or too many.
    pub fn build(self, name: &str, input: Shape) -> Result<Softmax, NnError> {
        input.check_values(name)?;
        Ok(Softmax { shape: input })
    }
}

impl Config for SoftmaxConfig {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const KIND: &str = "softmax";

/// The exponentials of the features, or of the channels at each place of an image, divided by their
/// sum: probabilities. The largest value is taken off first, so that nothing overflows.
///
/// A loss of cross-entropy has its own and wants logits: this layer is for what lies inside a
/// network, or for its use.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    shape: Shape,
}

impl Softmax {
    /// Values whose sum becomes 1.
    const fn channels(&self) -> usize {
        match self.shape {
            Shape::Image { channels, .. } => channels,
            Shape::Features(features) => features,
        }
    }
}

impl<E: Element> Layer<E> for Softmax {
    fn kind(&self) -> &'static str {
        KIND
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

    fn forward(&self, io: Forward<'_, E>) {
        for y in io.y.chunks_exact_mut(self.channels()) {
            let largest = y.iter().fold(y[0], |largest, &y| if y > largest { y } else { largest });
            let mut sum = E::zero();
            for y in &mut *y {
                *y = (*y - largest).exp();
                sum += *y;
            }
            y.iter_mut().for_each(|y| *y /= sum);
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let channels = self.channels();
        let places = io.y.chunks_exact(channels);
        for (y, dx) in places.zip(io.dx[0].chunks_exact_mut(channels)) {
            let pairs = y.iter().zip(&*dx);
            let mean = pairs.fold(E::zero(), |sum, (&y, &dy)| sum + y * dy);
            dx.iter_mut().zip(y).for_each(|(dx, &y)| *dx = y * (*dx - mean));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use crate::layer::{Alone, Mode};
    use proptest::prelude::*;

    #[test]
    fn gradients_match_finite_differences() {
        for shape in [
            Shape::Features(1),
            Shape::Features(17),
            Shape::image(1, 1, 1),
            Shape::image(3, 4, 1),
            Shape::image(5, 2, 3),
        ] {
            for samples in [1, 3] {
                check_gradients(
                    Arc::new(SoftmaxConfig.build("s", shape).unwrap()),
                    &[shape],
                    samples,
                );
            }
        }
    }

    #[test]
    fn large_values_do_not_overflow_and_not_a_number_shows() {
        let shape = Shape::Features(3);
        let layer = Arc::new(SoftmaxConfig.build("s", shape).unwrap());
        let mut softmax = Alone::<f32>::new(layer, &[shape], Vec::new());
        assert_eq!(softmax.forward(Mode::Evaluate, &[&[1e4, -1e4, 1e4]]), [0.5, 0.0, 0.5]);
        for place in 0..3 {
            let mut x = [0.0; 3];
            x[place] = f32::NAN;
            let y = softmax.forward(Mode::Evaluate, &[&x]);
            assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        }
        assert!(SoftmaxConfig.build("s", Shape::Features(0)).is_err());
    }

    proptest! {
        #[test]
        fn each_place_has_probabilities(
            (channels, height, width) in (1usize..9, 1usize..4, 1usize..4),
            values in proptest::collection::vec(-50.0..50.0f64, 72),
        ) {
            let shape = Shape::image(channels, height, width);
            let layer: Arc<dyn Layer<f64>> = Arc::new(SoftmaxConfig.build("s", shape).unwrap());
            prop_assert_eq!(layer.output(), shape);
            let mut softmax = Alone::new(layer, &[shape], Vec::new());
            let y = softmax.forward(Mode::Evaluate, &[&values[..shape.len()]]);
            for place in y.chunks(channels) {
                prop_assert!((place.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }
}
