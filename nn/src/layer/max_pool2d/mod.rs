//! Maximum of each window of an image.

mod layer;

use crate::kernel::{Kernel, Unit, dispatch};
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
    /// `x`: samples x channels x height x width; `y` and `winners`: samples x channels x output
    /// height x output width; both are overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(&self, x: &[E], y: &mut [E], winners: &mut [u8]) {
        self.check(x.len(), y.len(), winners.len());
        dispatch(Forward { layer: self, x, y, winners });
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
        dispatch(Backward { layer: self, winners, dy, dx });
    }

    fn check(&self, x: usize, y: usize, winners: usize) {
        let [_, height, width] = self.input;
        let planes = x / (height * width);
        assert_eq!(x, planes * height * width, "max_pool2d: length of the input");
        assert_eq!(planes % self.input[0], 0, "max_pool2d: length of the input");
        assert_eq!(y, planes * self.output[1] * self.output[2], "max_pool2d: length of the output");
        assert_eq!(y, winners, "max_pool2d: number of winners");
    }
}

/// Whether `new` takes the place of `best`: it is larger, or the first that is not a number. Without
/// a branch, for the loops over many windows.
#[inline(always)]
#[expect(clippy::eq_op, reason = "a number equals itself, and what is none does not")]
fn beats<E: Element>(new: E, best: E) -> bool {
    (new > best) | ((new != new) & (best == best))
}

struct Forward<'a, E> {
    layer: &'a MaxPool2d,
    x: &'a [E],
    y: &'a mut [E],
    winners: &'a mut [u8],
}

impl<E: Element> Kernel for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, x, y, winners } = self;
        let [_, height, width] = layer.input;
        let [_, out_height, out_width] = layer.output;
        let [down, right] = layer.window;
        let rows = y.chunks_exact_mut(out_width).zip(winners.chunks_exact_mut(out_width));
        for (i, (y, winners)) in rows.enumerate() {
            let at = (i / out_height * height + i % out_height * down) * width;
            if layer.window == [2, 2] {
                let (upper, lower) = x[at..at + 2 * width].split_at(width);
                pairs(upper, lower, y, winners);
            } else {
                windows(&x[at..at + down * width], width, right, y, winners);
            }
        }
    }
}

/// One output row of windows of 2x2, without a branch in the loop.
#[inline(always)]
fn pairs<E: Element>(upper: &[E], lower: &[E], y: &mut [E], winners: &mut [u8]) {
    let (upper, lower) = (upper.as_chunks::<2>().0, lower.as_chunks::<2>().0);
    for (((y, winner), u), l) in y.iter_mut().zip(winners).zip(upper).zip(lower) {
        let (first, second) = (beats(u[1], u[0]), beats(l[1], l[0]));
        let above = if first { u[1] } else { u[0] };
        let below = if second { l[1] } else { l[0] };
        let lower_wins = beats(below, above);
        *y = if lower_wins { below } else { above };
        *winner = if lower_wins { 2 + u8::from(second) } else { u8::from(first) };
    }
}

/// One output row of windows of any size; `rows` are the input rows under it.
#[inline(always)]
fn windows<E: Element>(rows: &[E], width: usize, right: usize, y: &mut [E], winners: &mut [u8]) {
    for (column, (y, winner)) in y.iter_mut().zip(winners).enumerate() {
        let mut best = rows[column * right];
        let mut place = 0;
        for (r, row) in rows.chunks_exact(width).enumerate() {
            for (c, &value) in row[column * right..][..right].iter().enumerate() {
                if beats(value, best) {
                    best = value;
                    place = r * right + c;
                }
            }
        }
        *y = best;
        // A window has at most 256 places.
        *winner = place as u8;
    }
}

struct Backward<'a, E> {
    layer: &'a MaxPool2d,
    winners: &'a [u8],
    dy: &'a [E],
    dx: &'a mut [E],
}

impl<E: Element> Kernel for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, winners, dy, dx } = self;
        let [_, height, width] = layer.input;
        let [_, out_height, out_width] = layer.output;
        let [down, right] = layer.window;
        // Where each place of a window is from its corner. A byte always finds an entry.
        let mut places = [0; 256];
        for (place, at) in places.iter_mut().enumerate().take(down * right) {
            *at = place / right * width + place % right;
        }
        dx.fill(E::zero());
        let rows = dy.chunks_exact(out_width).zip(winners.chunks_exact(out_width));
        for (i, (dy, winners)) in rows.enumerate() {
            let at = (i / out_height * height + i % out_height * down) * width;
            let dx = &mut dx[at..at + down * width];
            for (column, (&dy, &winner)) in dy.iter().zip(winners).enumerate() {
                dx[column * right + places[usize::from(winner)]] = dy;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers, slope};
    use proptest::prelude::*;

    fn forward(layer: &MaxPool2d, x: &[f64]) -> (Vec<f64>, Vec<u8>) {
        let planes = x.len() / (layer.input[1] * layer.input[2]);
        let len = planes * layer.output[1] * layer.output[2];
        let (mut y, mut winners) = (vec![f64::NAN; len], vec![255; len]);
        layer.forward(x, &mut y, &mut winners);
        (y, winners)
    }

    proptest! {
        #[test]
        fn gradient_matches_finite_differences(
            (c, h, w) in (1usize..5, 1usize..9, 1usize..9),
            window in (1usize..4, 1usize..4),
            samples in 1usize..4,
        ) {
            let input = Shape::image(c, h, w);
            let window = [window.0, window.1];
            let Ok(layer) = MaxPool2dConfig::new(window).build("pool", input) else {
                prop_assert!(window[0] > h || window[1] > w);
                return Ok(());
            };
            prop_assert_eq!(layer.output(), Shape::image(c, h / window[0], w / window[1]));
            let x = numbers(samples * input.len(), 1);
            let (y, winners) = forward(&layer, &x);
            let dy = numbers(y.len(), 2);
            let mut dx = vec![f64::NAN; x.len()];
            layer.backward(&winners, &dy, &mut dx);
            let loss = |x: &[f64]| forward(&layer, x).0.iter().zip(&dy).map(|(y, dy)| y * dy).sum();
            assert_close(&dx, &slope(&x, loss), 1e-6);
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
