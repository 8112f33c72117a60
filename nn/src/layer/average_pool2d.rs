//! Mean of each window of an image, or of the whole of it.

use std::ops::Range;
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
    /// Rows and columns of zeros on each side of the image, at most half of the window. Default: 0,
    /// 0.
    pub padding: [usize; 2],
    /// Whether these zeros count in the mean. Default: yes.
    pub count_padding: bool,
}

impl AveragePool2dConfig {
    /// Windows of this height and width, beside each other. Rows and columns that fill no window
    /// are left out.
    pub const fn new(window: [usize; 2]) -> Self {
        Self { window: Some(window), ..Self::global() }
    }

    /// One window over the whole image, whatever its size: each channel becomes one value.
    pub const fn global() -> Self {
        Self { window: None, stride: None, padding: [0, 0], count_padding: true }
    }

    /// Sets how far windows are from each other, in rows and columns; they may overlap.
    #[must_use]
    pub const fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = Some(stride);
        self
    }

    /// Puts rows and columns of zeros on each side of the image, which count in the mean.
    #[must_use]
    pub const fn padding(mut self, padding: [usize; 2]) -> Self {
        self.padding = padding;
        self
    }

    /// Divides by the number of values of the image in a window, without the zeros around it.
    #[must_use]
    pub const fn without_padding_in_mean(mut self) -> Self {
        self.count_padding = false;
        self
    }

    const fn kind(&self) -> &'static str {
        if self.window.is_some() { "average_pool2d" } else { "global_average_pool2d" }
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image or smaller than the window;
    /// [`NnError::Setting`] when the window or the stride is empty, or the padding is more than
    /// half of the window, or there is a padding and no window.
    pub fn build(self, name: &str, input: Shape) -> Result<AveragePool2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let window = self.window.unwrap_or([height, width]);
        let stride = self.stride.unwrap_or(window);
        for (setting, [a, b]) in [("window", window), ("stride", stride)] {
            if a == 0 || b == 0 {
                return Err(NnError::setting(name, setting, format!("{a}x{b}"), "at least 1x1"));
            }
        }
        let [down, right] = self.padding;
        let most = if self.window.is_some() { window.map(|size| size / 2) } else { [0, 0] };
        if down > most[0] || right > most[1] {
            let got = format!("{down}x{right}");
            return Err(NnError::setting(name, "padding", got, "at most half of the window"));
        }
        let axis = |i: usize, size: usize| {
            let room = size.saturating_add(2 * self.padding[i]).checked_sub(window[i])?;
            let first = |at: usize| (at * stride[i]).saturating_sub(self.padding[i]);
            let end = |at: usize| (at * stride[i] + window[i] - self.padding[i]).min(size);
            Some((0..=room / stride[i]).map(|at| first(at)..end(at)).collect())
        };
        let (Some(rows), Some(columns)) = (axis(0, height), axis(1, width)) else {
            let [h, w] = [0, 1].map(|i| window[i] - 2 * self.padding[i]);
            let wanted = format!("an image of at least {channels}x{}x{}", h.max(1), w.max(1));
            return Err(NnError::shape(name, input, wanted));
        };
        Ok(AveragePool2d { config: self, input: [channels, height, width], window, rows, columns })
    }
}

impl Config for AveragePool2dConfig {
    fn kind(&self) -> &'static str {
        self.kind()
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

/// An average pooling for one input shape. Values of a window are added up in row order.
#[derive(Clone, Debug)]
pub struct AveragePool2d {
    config: AveragePool2dConfig,
    input: [usize; 3],
    window: [usize; 2],
    /// By row of the output, the rows of the input in its windows; the same for columns.
    rows: Vec<Range<usize>>,
    columns: Vec<Range<usize>>,
}

impl AveragePool2d {
    /// Calls `visit` for each window of a sample: the place of its channels in the output, the
    /// number of values in the mean, and the ranges of its rows' values in the input.
    fn windows<E: Element>(
        &self,
        mut visit: impl FnMut(usize, E, &mut dyn Iterator<Item = Range<usize>>),
    ) {
        let [channels, _, width] = self.input;
        let places = self.rows.iter().flat_map(|rows| self.columns.iter().map(move |c| (rows, c)));
        for (place, (rows, columns)) in places.enumerate() {
            let count = match self.config.count_padding {
                true => self.window[0] * self.window[1],
                false => rows.len() * columns.len(),
            };
            let line = |row: usize| {
                let [start, end] =
                    [columns.start, columns.end].map(|column| (row * width + column) * channels);
                start..end
            };
            visit(place * channels, E::narrow(count as f64), &mut rows.clone().map(line));
        }
    }

    fn samples<'a, E>(&self, x: &'a [E], y: &'a [E]) -> (usize, usize) {
        let input: usize = self.input.iter().product();
        let output = self.rows.len() * self.columns.len() * self.input[0];
        assert_eq!(x.len() / input, y.len() / output, "average_pool2d: number of samples");
        (input, output)
    }
}

impl<E: Element> Layer<E> for AveragePool2d {
    fn kind(&self) -> &'static str {
        self.config.kind()
    }

    fn output(&self) -> Shape {
        Shape::image(self.input[0], self.rows.len(), self.columns.len())
    }

    fn forward(&self, io: Forward<'_, E>) {
        let (input, output) = self.samples(io.x[0], io.y);
        let channels = self.input[0];
        for (x, y) in io.x[0].chunks_exact(input).zip(io.y.chunks_exact_mut(output)) {
            self.windows(|place, count: E, rows| {
                let sums = &mut y[place..place + channels];
                sums.fill(E::zero());
                for x in rows.flat_map(|row| x[row].chunks_exact(channels)) {
                    sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += x);
                }
                sums.iter_mut().for_each(|sum| *sum /= count);
            });
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let dx = &mut *io.dx[0];
        if dx.is_empty() {
            return;
        }
        let (input, output) = self.samples(dx, io.dy);
        let channels = self.input[0];
        dx.fill(E::zero());
        for (dx, dy) in dx.chunks_exact_mut(input).zip(io.dy.chunks_exact(output)) {
            self.windows(|place, count: E, rows| {
                let dy = &dy[place..place + channels];
                for row in rows {
                    for dx in dx[row].chunks_exact_mut(channels) {
                        dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy / count);
                    }
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
            (AveragePool2dConfig::new([3, 2]).padding([1, 1]), Shape::image(3, 5, 4)),
            (
                AveragePool2dConfig::new([3, 3])
                    .stride([2, 1])
                    .padding([1, 1])
                    .without_padding_in_mean(),
                Shape::image(5, 4, 1),
            ),
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
            message(AveragePool2dConfig::new([2, 8]).padding([0, 1]), image),
            "layer pool: got shape 3x4x5, wanted an image of at least 3x2x6"
        );
        assert_eq!(
            message(AveragePool2dConfig::new([2, 3]).padding([1, 2]), image),
            "pool: padding is 1x2, wanted at most half of the window"
        );
        assert_eq!(
            message(AveragePool2dConfig::global().padding([1, 0]), image),
            "pool: padding is 1x0, wanted at most half of the window"
        );
        assert_eq!(
            message(AveragePool2dConfig::global(), Shape::Features(4)),
            "layer pool: got shape 4, wanted an image (channels x height x width)"
        );
    }

    proptest! {
        /// Every window of the output lies in the padded image, and one more would not.
        #[test]
        fn shapes_fit_or_are_refused(
            size in [0..9usize, 0..9],
            window in [0..6usize, 0..6],
            stride in prop_oneof![Just([usize::MAX; 2]), [0..5usize, 0..5]],
            padding in prop_oneof![Just([usize::MAX; 2]), [0..3usize, 0..3]],
        ) {
            let shape = Shape::image(3, size[0], size[1]);
            let config = AveragePool2dConfig::new(window).stride(stride).padding(padding);
            let built = config.build("pool", shape);
            let padded = [0, 1].map(|i| size[i].saturating_add(padding[i].saturating_mul(2)));
            let fits = (0..2).all(|i| {
                size[i] > 0
                    && (1..=padded[i]).contains(&window[i])
                    && stride[i] > 0
                    && padding[i] <= window[i] / 2
            });
            prop_assert_eq!(built.is_ok(), fits);
            if let Ok(layer) = built {
                for (i, ranges) in [&layer.rows, &layer.columns].into_iter().enumerate() {
                    let start = |n: usize| n.saturating_mul(stride[i]);
                    prop_assert!(start(ranges.len()).saturating_add(window[i]) > padded[i]);
                    for (n, range) in ranges.iter().enumerate() {
                        let end = start(n) + window[i];
                        prop_assert!(end <= padded[i]);
                        prop_assert_eq!(range.start, start(n).saturating_sub(padding[i]));
                        prop_assert_eq!(range.end, (end - padding[i]).min(size[i]));
                    }
                }
            }
        }
    }
}
