//! Several values side by side.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer};
use crate::{Element, NnError, Shape};

/// A [`Concat`], which has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConcatConfig;

impl ConcatConfig {
    /// The layer for inputs of these shapes. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Inputs`] for less than two inputs; [`NnError::Shape`] when they are not all
    /// images of one height and width, or all features, or too large together.
    pub fn build(self, name: &str, inputs: &[Shape]) -> Result<Concat, NnError> {
        let [first, _, ..] = *inputs else {
            return Err(NnError::inputs(name, inputs.len(), "two or more"));
        };
        let mut channels = Vec::with_capacity(inputs.len());
        for &input in inputs {
            input.check_values(name)?;
            channels.push(match (first, input) {
                (Shape::Features(_), Shape::Features(features)) => features,
                (
                    Shape::Image { height, width, .. },
                    Shape::Image { channels, height: h, width: w },
                ) if [height, width] == [h, w] => channels,
                (Shape::Image { height, width, .. }, _) => {
                    let wanted = format!("any channels x{height}x{width}, as the first input");
                    return Err(NnError::shape(name, input, wanted));
                }
                (Shape::Features(_), _) => {
                    return Err(NnError::shape(
                        name,
                        input,
                        "a row of features, as the first input",
                    ));
                }
            });
        }
        let total = channels.iter().fold(0usize, |sum, channels| sum.saturating_add(*channels));
        let output = match first {
            Shape::Image { height, width, .. } => Shape::image(total, height, width),
            Shape::Features(_) => Shape::Features(total),
        };
        output.check_size(name)?;
        Ok(Concat { channels, output })
    }
}

impl Config for ConcatConfig {
    fn kind(&self) -> &'static str {
        "concat"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, inputs)?))
    }
}

/// The channels of several images of one size, or several rows of features, one after the other.
#[derive(Clone, Debug)]
pub struct Concat {
    /// Of each input.
    channels: Vec<usize>,
    output: Shape,
}

impl Concat {
    fn total(&self) -> usize {
        self.channels.iter().sum()
    }
}

impl<E: Element> Layer<E> for Concat {
    fn kind(&self) -> &'static str {
        "concat"
    }

    fn output(&self) -> Shape {
        self.output
    }

    fn forward(&self, io: Forward<'_, E>) {
        let mut start = 0;
        for (x, &channels) in io.x.iter().zip(&self.channels) {
            let places = io.y.chunks_exact_mut(self.total()).zip(x.chunks_exact(channels));
            places.for_each(|(y, x)| y[start..start + channels].copy_from_slice(x));
            start += channels;
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let mut start = 0;
        for (dx, &channels) in io.dx.iter_mut().zip(&self.channels) {
            // One that nobody wants has no places.
            let places = io.dy.chunks_exact(self.total()).zip(dx.chunks_exact_mut(channels));
            places.for_each(|(dy, dx)| dx.copy_from_slice(&dy[start..start + channels]));
            start += channels;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use crate::layer::{Alone, Mode};

    #[test]
    fn gradients_match_finite_differences() {
        for shapes in [
            vec![Shape::image(1, 2, 3), Shape::image(4, 2, 3)],
            vec![Shape::image(2, 1, 1), Shape::image(1, 1, 1), Shape::image(3, 1, 1)],
            vec![Shape::Features(5), Shape::Features(1)],
        ] {
            let layer = ConcatConfig.build("concat", &shapes).unwrap();
            check_gradients(Arc::new(layer), &shapes, 3);
        }
    }

    #[test]
    fn the_channels_of_each_place_are_side_by_side() {
        let shapes = [Shape::image(1, 1, 2), Shape::image(2, 1, 2)];
        let layer = ConcatConfig.build("concat", &shapes).unwrap();
        let mut concat = Alone::<f32>::new(Arc::new(layer), &shapes, vec![]);
        let y = concat.forward(Mode::Evaluate, &[&[1.0, 2.0], &[10.0, 11.0, 20.0, 21.0]]);
        assert_eq!(y, [1.0, 10.0, 11.0, 2.0, 20.0, 21.0]);
    }

    #[test]
    fn errors_name_layer_shape_and_need() {
        let message = |shapes: &[Shape]| ConcatConfig.build("cat", shapes).unwrap_err().to_string();
        let image = Shape::image(3, 2, 5);
        assert_eq!(
            message(&[image, Shape::image(4, 2, 4)]),
            "layer cat: got shape 4x2x4, wanted any channels x2x5, as the first input"
        );
        assert_eq!(
            message(&[Shape::Features(3), image]),
            "layer cat: got shape 3x2x5, wanted a row of features, as the first input"
        );
        assert_eq!(message(&[image]), "layer cat: got 1 inputs, wanted two or more");
        let huge = Shape::Features(crate::shape::MAX_LEN);
        assert!(message(&[huge, huge]).contains("wanted at most"));
    }
}
