//! Maximum of each window of an image.

mod kernels;
mod layer;

use kernels::{Best, Spread};

use crate::kernel::dispatch;
use crate::{Element, NnError, Shape};

/// Settings of a [`MaxPool2d`]. Windows do not overlap: the stride is the size of the window, and
/// rows and columns that fill no window are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2dConfig {
    /// Height and width of a window, at most 256 values.
    pub window: [usize; 2],
}

impl MaxPool2dConfig {
    /// Windows of this height and width.
    pub const fn new(window: [usize; 2]) -> Self {
        Self { window }
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image or smaller than the window;
    /// [`NnError::Setting`] when the window is empty or has more than 256 values.
    pub fn build(self, name: &str, input: Shape) -> Result<MaxPool2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let [down, right] = self.window;
        if !(1..=256).contains(&down.saturating_mul(right)) {
            let got = format!("{down}x{right}");
            return Err(NnError::setting(name, "window", got, "1 to 256 values"));
        }
        if down > height || right > width {
            let wanted = format!("an image of at least {channels}x{down}x{right}");
            return Err(NnError::shape(name, input, wanted));
        }
        Ok(MaxPool2d {
            window: self.window,
            input: [channels, height, width],
            output: [channels, height / down, width / right],
        })
    }
}

/// A maximum pooling for one input shape.
///
/// Where several values of a window are the maximum, the first in row order wins and alone gets the
/// gradient. The forward pass notes the winner of each window in one byte, which makes the backward
/// pass independent of input and output.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool2d {
    window: [usize; 2],
    input: [usize; 3],
    output: [usize; 3],
}

impl MaxPool2d {
    /// The settings.
    pub const fn config(&self) -> MaxPool2dConfig {
        MaxPool2dConfig { window: self.window }
    }

    /// Shape of one sample of the output.
    pub const fn output(&self) -> Shape {
        let [channels, height, width] = self.output;
        Shape::image(channels, height, width)
    }

    /// The maximum of each window, and its place in the window (row x window width + column).
    ///
    /// # Shapes
    /// `x`: samples x height x width x channels; `y` and `winners`: samples x output height x output
    /// width x channels; both are overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(&self, x: &[E], y: &mut [E], winners: &mut [u8]) {
        self.check(x.len(), y.len(), winners.len());
        dispatch(Best { layer: self, x, y, winners });
    }

    /// The gradient of the loss by the input, from that by the output.
    ///
    /// # Shapes
    /// As in [`forward`](Self::forward); `dx` is overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward<E: Element>(&self, winners: &[u8], dy: &[E], dx: &mut [E]) {
        self.check(dx.len(), dy.len(), winners.len());
        dispatch(Spread { layer: self, winners, dy, dx });
    }

    fn check(&self, x: usize, y: usize, winners: usize) {
        let (input, output) = (self.input.iter().product::<usize>(), self.output().len());
        let samples = x / input;
        assert_eq!(x, samples * input, "max_pool2d: length of the input");
        assert_eq!(y, samples * output, "max_pool2d: length of the output");
        assert_eq!(y, winners, "max_pool2d: number of winners");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_gradients, numbers};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn forward(layer: &MaxPool2d, x: &[f64]) -> (Vec<f64>, Vec<u8>) {
        let samples = x.len() / layer.input.iter().product::<usize>();
        let len = samples * layer.output().len();
        let (mut y, mut winners) = (vec![f64::NAN; len], vec![255; len]);
        layer.forward(x, &mut y, &mut winners);
        (y, winners)
    }

    /// The windows one by one.
    fn plain(layer: &MaxPool2d, x: &[f64]) -> (Vec<f64>, Vec<u8>) {
        let ([c, h, w], [_, rows, columns]) = (layer.input, layer.output);
        let [down, right] = layer.window;
        let mut best = Vec::new();
        for i in 0..x.len() / (c * h * w) * rows * columns * c {
            let (sample, row) = (i / (c * columns * rows), i / (c * columns) % rows);
            let (column, channel) = (i / c % columns, i % c);
            let value = |place: usize| {
                let (y, x_at) = (row * down + place / right, column * right + place % right);
                x[((sample * h + y) * w + x_at) * c + channel]
            };
            let larger = |a: f64, b: f64| a > b || (a.is_nan() && !b.is_nan());
            let winner = (1..down * right).fold(0, |best, place| {
                if larger(value(place), value(best)) { place } else { best }
            });
            best.push((value(winner), winner as u8));
        }
        best.into_iter().unzip()
    }

    proptest! {
        #[test]
        fn it_is_the_maximum_of_each_window(
            c in prop_oneof![1usize..6, Just(8usize), Just(17), Just(24), Just(33)],
            (h, w) in (1usize..9, 1usize..9),
            window in prop_oneof![Just((2usize, 2usize)), (1usize..4, 1usize..4)],
            samples in 1usize..4,
        ) {
            let input = Shape::image(c, h, w);
            let window = [window.0, window.1];
            let Ok(layer) = MaxPool2dConfig::new(window).build("pool", input) else {
                prop_assert!(window[0] > h || window[1] > w);
                return Ok(());
            };
            prop_assert_eq!(layer.output(), Shape::image(c, h / window[0], w / window[1]));
            // Values with ties, and a few that are not a number.
            let mut x: Vec<f64> =
                numbers(samples * input.len(), 1).iter().map(|x| (x * 3.0).round()).collect();
            x.iter_mut().step_by(29).for_each(|x| *x = f64::NAN);
            let (y, winners) = forward(&layer, &x);
            let (wanted, places) = plain(&layer, &x);
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&y), bits(&wanted));
            prop_assert_eq!(winners, places);
        }

        #[test]
        fn gradients_match_finite_differences(
            (c, h, w) in (1usize..20, 1usize..6, 1usize..6),
            window in prop_oneof![Just([2usize, 2]), Just([1, 3]), Just([3, 2])],
            samples in 1usize..3,
        ) {
            let input = Shape::image(c, h, w);
            if let Ok(layer) = MaxPool2dConfig::new(window).build("pool", input) {
                check_gradients(Arc::new(layer), &[input], samples);
            }
        }
    }

    #[test]
    fn the_first_maximum_wins_in_either_path() {
        let plane = |values: &[f64]| values.to_vec();
        let layer = MaxPool2dConfig::new([2, 2]).build("pool", Shape::image(1, 2, 2)).unwrap();
        assert_eq!(forward(&layer, &plane(&[1.0, 3.0, 3.0, 3.0])), (vec![3.0], vec![1]));
        assert_eq!(forward(&layer, &plane(&[1.0, 1.0, 3.0, 3.0])), (vec![3.0], vec![2]));
        assert_eq!(forward(&layer, &plane(&[0.0; 4])), (vec![0.0], vec![0]));
        let layer = MaxPool2dConfig::new([1, 3]).build("pool", Shape::image(1, 1, 3)).unwrap();
        assert_eq!(forward(&layer, &plane(&[1.0, 3.0, 3.0])), (vec![3.0], vec![1]));
    }

    #[test]
    fn not_a_number_wins() {
        for window in [[2, 2], [1, 4]] {
            let input = Shape::image(1, window[0], window[1]);
            let layer = MaxPool2dConfig::new(window).build("pool", input).unwrap();
            for place in 0..4 {
                let mut x = [1.0, 2.0, 3.0, 4.0];
                x[place] = f64::NAN;
                let (y, winners) = forward(&layer, &x);
                assert!(y[0].is_nan());
                assert_eq!(usize::from(winners[0]), place);
            }
        }
    }

    #[test]
    fn errors_name_layer_shape_and_need() {
        let build = |window, input| MaxPool2dConfig::new(window).build("1 (max_pool2d)", input);
        assert_eq!(
            build([2, 2], Shape::image(4, 1, 9)).unwrap_err().to_string(),
            "layer 1 (max_pool2d): got shape 4x1x9, wanted an image of at least 4x2x2"
        );
        assert_eq!(
            build([17, 17], Shape::image(4, 99, 99)).unwrap_err().to_string(),
            "1 (max_pool2d): window is 17x17, wanted 1 to 256 values"
        );
        assert!(build([0, 2], Shape::image(4, 99, 99)).is_err());
    }
}
