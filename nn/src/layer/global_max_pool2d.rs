//! Maximum of each channel of an image.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer, Saved, one_input};
use crate::{Element, NnError, Shape};

/// A [`GlobalMaxPool2d`], which has no settings.
///
/// ```
/// use millrace_nn::layer::{Alone, Config, GlobalMaxPool2dConfig, Mode};
/// use millrace_nn::Shape;
///
/// let shape = Shape::image(2, 1, 2);
/// let layer = GlobalMaxPool2dConfig.build_layer("pool", &[shape])?;
/// let mut pool = Alone::new(layer, &[shape], Vec::new());
/// assert_eq!(pool.forward(Mode::Evaluate, &[&[1.0, 8.0, 3.0, 7.0]]), [3.0, 8.0]);
/// assert_eq!(pool.backward(&[0.5, 0.25]).x, [[0.0, 0.25, 0.5, 0.0]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalMaxPool2dConfig;

impl GlobalMaxPool2dConfig {
    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image, or has more places than 32 bits count.
    pub fn build(self, name: &str, input: Shape) -> Result<GlobalMaxPool2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        if u32::try_from(height * width).is_err() {
            let wanted = format!("at most {} places", u32::MAX);
            return Err(NnError::shape(name, input, wanted));
        }
        Ok(GlobalMaxPool2d { channels, places: height * width })
    }
}

impl Config for GlobalMaxPool2dConfig {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const KIND: &str = "global_max_pool2d";

/// The maximum of each channel over the whole image, whatever its size.
///
/// Where several values are the maximum, the first in row order wins and alone gets the gradient; the
/// first that is not a number wins over all. Forward notes the winners.
#[derive(Clone, Copy, Debug)]
pub struct GlobalMaxPool2d {
    channels: usize,
    places: usize,
}

/// Bytes of the number of a place.
const NOTE: usize = size_of::<u32>();

impl<E: Element> Layer<E> for GlobalMaxPool2d {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn output(&self) -> Shape {
        Shape::image(self.channels, 1, 1)
    }

    fn saved(&self) -> Saved {
        Saved { values: 0, bytes: NOTE * self.channels }
    }

    fn forward(&self, io: Forward<'_, E>) {
        let Self { channels, places } = *self;
        let samples = io.x[0].chunks_exact(channels * places).zip(io.y.chunks_exact_mut(channels));
        for ((x, y), notes) in samples.zip(io.saved_bytes.chunks_exact_mut(NOTE * channels)) {
            y.copy_from_slice(&x[..channels]);
            notes.fill(0);
            for (place, x) in x.chunks_exact(channels).enumerate().skip(1) {
                let best = y.iter_mut().zip(notes.chunks_exact_mut(NOTE));
                for (&x, (y, note)) in x.iter().zip(best) {
                    if x > *y || (x.is_nan() && !y.is_nan()) {
                        *y = x;
                        // It fits: the shape was checked.
                        note.copy_from_slice(&(place as u32).to_le_bytes());
                    }
                }
            }
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let Self { channels, places } = *self;
        let dx = &mut *io.dx[0];
        dx.fill(E::zero());
        // Without a receiver there are no samples.
        let samples = dx.chunks_exact_mut(channels * places).zip(io.dy.chunks_exact(channels));
        for ((dx, dy), notes) in samples.zip(io.saved_bytes.chunks_exact(NOTE * channels)) {
            for (channel, (&dy, note)) in dy.iter().zip(notes.chunks_exact(NOTE)).enumerate() {
                let place = u32::from_le_bytes(note.try_into().expect("so many bytes")) as usize;
                dx[place * channels + channel] = dy;
            }
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
            Shape::image(1, 1, 1),
            Shape::image(3, 5, 1),
            Shape::image(17, 2, 2),
            // More places than a byte counts.
            Shape::image(5, 20, 14),
        ] {
            for samples in [1, 3] {
                let layer = GlobalMaxPool2dConfig.build("pool", shape).unwrap();
                check_gradients(Arc::new(layer), &[shape], samples);
            }
        }
    }

    #[test]
    fn bad_shapes_are_errors() {
        let message = |shape| GlobalMaxPool2dConfig.build("pool", shape).unwrap_err().to_string();
        assert_eq!(
            message(Shape::Features(4)),
            "layer pool: got shape 4, wanted an image (channels x height x width)"
        );
        assert_eq!(
            message(Shape::image(1, 1 << 17, 1 << 16)),
            "layer pool: got shape 1x131072x65536, wanted at most 4294967295 places"
        );
    }

    proptest! {
        #[test]
        fn the_first_of_the_largest_wins_and_not_a_number_before_all(
            (channels, height, width) in (1usize..5, 1usize..5, 1usize..5),
            values in proptest::collection::vec(-3i8..4, 64),
        ) {
            let shape = Shape::image(channels, height, width);
            let layer: Arc<dyn Layer<f64>> =
                Arc::new(GlobalMaxPool2dConfig.build("pool", shape).unwrap());
            prop_assert_eq!(layer.output(), Shape::image(channels, 1, 1));
            let mut pool = Alone::new(layer, &[shape], Vec::new());
            let number = |&value: &i8| if value == 3 { f64::NAN } else { f64::from(value) };
            let x: Vec<f64> = values[..shape.len()].iter().map(number).collect();
            let y = pool.forward(Mode::Evaluate, &[&x]);
            let dx = pool.backward(&vec![1.0; channels]).x.remove(0);
            for channel in 0..channels {
                // Not a number was made of the largest.
                let of_channel = || values[..shape.len()].iter().skip(channel).step_by(channels);
                let best = *of_channel().max().unwrap();
                prop_assert_eq!(y[channel].to_bits(), number(&best).to_bits());
                let first = of_channel().position(|&value| value == best).unwrap();
                for place in 0..height * width {
                    let wanted = f64::from(u8::from(place == first));
                    prop_assert_eq!(dx[place * channels + channel], wanted);
                }
            }
        }
    }
}
