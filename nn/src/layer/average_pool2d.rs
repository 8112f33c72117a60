//! Mean of each window of an image, or of the whole of it.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer, one_input};
use crate::{Element, NnError, Shape};

/// Settings of an [`AveragePool2d`].
///
/// ```
/// use millrace_nn::layer::{Alone, AveragePool2dConfig, Config, Mode};
/// use millrace_nn::Shape;
///
/// let shape = Shape::image(1, 2, 4);
/// let layer = AveragePool2dConfig::new([2, 2]).build_layer("pool", &[shape])?;
/// let mut pool = Alone::new(layer, &[shape], Vec::new());
/// let x = [1.0, 2.0, 5.0, 5.0, 3.0, 6.0, 5.0, 5.0];
/// assert_eq!(pool.forward(Mode::Evaluate, &[&x]), [3.0, 5.0]);
/// assert_eq!(pool.backward(&[4.0, 8.0]).x, [[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AveragePool2dConfig {
    /// Height and width of a window; `None` is one window over the whole image.
    pub window: Option<[usize; 2]>,
    /// Rows and columns from one window to the next; `None` is the size of the window.
    pub stride: Option<[usize; 2]>,
}

impl AveragePool2dConfig {
    /// Windows of this height and width, beside each other. Rows and columns that fill no window
    /// are left out.
    pub const fn new(window: [usize; 2]) -> Self {
        Self { window: Some(window), stride: None }
    }

    /// One window over the whole image, whatever its size: each channel becomes one value.
    pub const fn global() -> Self {
        Self { window: None, stride: None }
    }

    /// Sets how far windows are from each other, in rows and columns; they may overlap.
    #[must_use]
    pub const fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = Some(stride);
        self
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image or smaller than the window;
    /// [`NnError::Setting`] when the window or the stride is empty.
    pub fn build(self, name: &str, input: Shape) -> Result<AveragePool2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let [down, right] = self.window.unwrap_or([height, width]);
        let [rows, columns] = self.stride.unwrap_or([down, right]);
        for (setting, [a, b]) in [("window", [down, right]), ("stride", [rows, columns])] {
            if a == 0 || b == 0 {
                return Err(NnError::setting(name, setting, format!("{a}x{b}"), "at least 1x1"));
            }
        }
        if down > height || right > width {
            let wanted = format!("an image of at least {channels}x{down}x{right}");
            return Err(NnError::shape(name, input, wanted));
        }
        let output = [channels, (height - down) / rows + 1, (width - right) / columns + 1];
        let global = self.window.is_none();
        Ok(AveragePool2d {
            global,
            window: [down, right],
            stride: [rows, columns],
            input: [channels, height, width],
            output,
        })
    }
}

impl Config for AveragePool2dConfig {
    fn kind(&self) -> &'static str {
        kind(self.window.is_none())
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const fn kind(global: bool) -> &'static str {
    if global { "global_average_pool2d" } else { "average_pool2d" }
}

/// An average pooling for one input shape. Values of a window are added up in row order.
#[derive(Clone, Copy, Debug)]
pub struct AveragePool2d {
    global: bool,
    window: [usize; 2],
    stride: [usize; 2],
    input: [usize; 3],
    output: [usize; 3],
}

impl AveragePool2d {
    /// Calls `visit` for each window of a sample and each row of it: the place of the window's
    /// channels in the output, and the range of the row's values in the input.
    fn rows(&self, mut visit: impl FnMut(usize, std::ops::Range<usize>)) {
        let [channels, _, width] = self.input;
        let [_, rows, columns] = self.output;
        for row in 0..rows {
            for column in 0..columns {
                let place = (row * columns + column) * channels;
                for down in 0..self.window[0] {
                    let line = (row * self.stride[0] + down) * width;
                    let start = (line + column * self.stride[1]) * channels;
                    visit(place, start..start + self.window[1] * channels);
                }
            }
        }
    }

    fn values<E: Element>(&self) -> E {
        E::narrow((self.window[0] * self.window[1]) as f64)
    }

    fn samples<'a, E>(&self, x: &'a [E], y: &'a [E]) -> (usize, usize) {
        let (input, output) = (self.input.iter().product(), self.output.iter().product());
        assert_eq!(x.len() / input, y.len() / output, "average_pool2d: number of samples");
        (input, output)
    }
}

impl<E: Element> Layer<E> for AveragePool2d {
    fn kind(&self) -> &'static str {
        kind(self.global)
    }

    fn output(&self) -> Shape {
        let [channels, height, width] = self.output;
        Shape::image(channels, height, width)
    }

    fn forward(&self, io: Forward<'_, E>) {
        let (input, output) = self.samples(io.x[0], io.y);
        let (channels, values) = (self.input[0], self.values::<E>());
        io.y.fill(E::zero());
        for (x, y) in io.x[0].chunks_exact(input).zip(io.y.chunks_exact_mut(output)) {
            self.rows(|place, row| {
                let sums = &mut y[place..place + channels];
                for x in x[row].chunks_exact(channels) {
                    sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += x);
                }
            });
        }
        io.y.iter_mut().for_each(|y| *y /= values);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let dx = &mut *io.dx[0];
        if dx.is_empty() {
            return;
        }
        let (input, output) = self.samples(dx, io.dy);
        let (channels, values) = (self.input[0], self.values::<E>());
        dx.fill(E::zero());
        for (dx, dy) in dx.chunks_exact_mut(input).zip(io.dy.chunks_exact(output)) {
            self.rows(|place, row| {
                let dy = &dy[place..place + channels];
                for dx in dx[row].chunks_exact_mut(channels) {
                    dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy / values);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use proptest::prelude::*;

    #[test]
    fn gradients_match_finite_differences() {
        for (config, shape) in [
            (AveragePool2dConfig::new([2, 2]), Shape::image(3, 5, 4)),
            (AveragePool2dConfig::new([3, 2]).stride([1, 1]), Shape::image(5, 4, 5)),
            (AveragePool2dConfig::new([1, 2]).stride([2, 3]), Shape::image(1, 4, 6)),
            (AveragePool2dConfig::new([2, 1]), Shape::image(17, 3, 1)),
            (AveragePool2dConfig::global(), Shape::image(3, 4, 5)),
            (AveragePool2dConfig::global(), Shape::image(1, 1, 1)),
        ] {
            for samples in [1, 3] {
                check_gradients(Arc::new(config.build("pool", shape).unwrap()), &[shape], samples);
            }
        }
    }

    #[test]
    fn bad_settings_and_shapes_are_errors() {
        let message = |config: AveragePool2dConfig, shape| {
            config.build_layer("pool", &[shape]).unwrap_err().to_string()
        };
        let image = Shape::image(3, 4, 5);
        assert_eq!(
            message(AveragePool2dConfig::new([0, 2]), image),
            "pool: window is 0x2, wanted at least 1x1"
        );
        assert_eq!(
            message(AveragePool2dConfig::new([2, 2]).stride([1, 0]), image),
            "pool: stride is 1x0, wanted at least 1x1"
        );
        assert_eq!(
            message(AveragePool2dConfig::new([2, 6]), image),
            "layer pool: got shape 3x4x5, wanted an image of at least 3x2x6"
        );
        assert_eq!(
            message(AveragePool2dConfig::global(), Shape::Features(4)),
            "layer pool: got shape 4, wanted an image (channels x height x width)"
        );
    }

    proptest! {
        /// Every window of the output lies in the image, and one more would not.
        #[test]
        fn shapes_fit_or_are_refused(
            size in [0..9usize, 0..9],
            window in [0..6usize, 0..6],
            stride in prop_oneof![Just([usize::MAX; 2]), [0..5usize, 0..5]],
        ) {
            let shape = Shape::image(3, size[0], size[1]);
            let built = AveragePool2dConfig::new(window).stride(stride).build("pool", shape);
            let fits = (0..2).all(|i| (1..=size[i]).contains(&window[i]) && stride[i] > 0);
            prop_assert_eq!(built.is_ok(), fits);
            if let Ok(layer) = built {
                for i in 0..2 {
                    let end = |n: usize| n.saturating_mul(stride[i]).saturating_add(window[i]);
                    prop_assert!(end(layer.output[i + 1] - 1) <= size[i]);
                    prop_assert!(end(layer.output[i + 1]) > size[i]);
                }
            }
        }
    }
}
