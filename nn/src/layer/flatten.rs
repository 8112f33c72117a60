//! An image as a row of features.

use super::planes::turn;
use super::{Backward, Forward, Layer};
use crate::{Element, NnError, Shape};

/// The shape of an image whose values are taken as features. `name` is used in errors.
///
/// ```
/// use millrace_nn::{Shape, layer};
/// let shape = layer::flatten("3 (flatten)", Shape::image(4, 13, 13))?;
/// assert_eq!(shape, Shape::Features(676));
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
///
/// # Errors
/// [`NnError::Shape`] when the shape is empty or too large.
pub fn flatten(name: &str, input: Shape) -> Result<Shape, NnError> {
    input.check_values(name)?;
    Ok(Shape::Features(input.len()))
}

/// The values of an image as features, in the order (channel, row, column) that other libraries
/// give them, so that a dense layer behind it has the weights that it has there. Where there is but
/// one channel or one place, that is the order in which they are stored, and nothing is moved.
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    channels: usize,
    places: usize,
}

impl Flatten {
    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when the shape is empty or too large.
    pub fn build(name: &str, input: Shape) -> Result<Self, NnError> {
        flatten(name, input)?;
        Ok(match input {
            Shape::Image { channels, height, width } => Self { channels, places: height * width },
            Shape::Features(features) => Self { channels: features, places: 1 },
        })
    }

    const fn moves(&self) -> bool {
        self.channels > 1 && self.places > 1
    }
}

impl<E: Element> Layer<E> for Flatten {
    fn kind(&self) -> &'static str {
        "flatten"
    }

    fn output(&self) -> Shape {
        Shape::Features(self.channels * self.places)
    }

    fn in_place(&self) -> bool {
        !self.moves()
    }

    fn is_identity(&self) -> bool {
        !self.moves()
    }

    fn forward(&self, io: Forward<'_, E>) {
        if self.moves() {
            turn(io.x[0], self.places, self.channels, io.y);
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        if self.moves() && !io.dx[0].is_empty() {
            turn(io.dy, self.channels, self.places, io.dx[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use crate::layer::{Alone, Mode};
    use std::sync::Arc;

    #[test]
    fn features_come_in_the_order_of_the_planes() {
        let shape = Shape::image(2, 1, 3);
        let layer = Flatten::build("flatten", shape).unwrap();
        let mut flatten = Alone::<f32>::new(Arc::new(layer), &[shape], Vec::new());
        // Place by place: channel 0 counts tens, channel 1 hundreds.
        let y = flatten.forward(Mode::Evaluate, &[&[10.0, 100.0, 20.0, 200.0, 30.0, 300.0]]);
        assert_eq!(y, [10.0, 20.0, 30.0, 100.0, 200.0, 300.0]);
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (shape, in_place) in [
            (Shape::image(3, 2, 5), false),
            (Shape::image(1, 4, 3), true),
            (Shape::image(17, 1, 1), true),
            (Shape::Features(7), true),
        ] {
            let layer = Flatten::build("flatten", shape).unwrap();
            assert_eq!(Layer::<f64>::in_place(&layer), in_place, "{shape}");
            check_gradients(Arc::new(layer), &[shape], 2);
        }
    }
}
