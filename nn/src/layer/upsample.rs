//! Larger images by repeating or blending values.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer, one_input};
use crate::{Element, NnError, Shape};

/// Settings of an [`Upsample`].
///
/// ```
/// use millrace_nn::layer::{Alone, Config, Mode, UpsampleConfig};
/// use millrace_nn::Shape;
///
/// let shape = Shape::image(1, 1, 2);
/// let layer = UpsampleConfig::bilinear([1, 2]).build_layer("up", &[shape])?;
/// let mut up = Alone::new(layer, &[shape], Vec::new());
/// assert_eq!(up.forward(Mode::Evaluate, &[&[0.0, 4.0]]), [0.0, 1.0, 3.0, 4.0]);
///
/// let layer = UpsampleConfig::nearest([1, 2]).build_layer("up", &[shape])?;
/// let mut up = Alone::new(layer, &[shape], Vec::new());
/// assert_eq!(up.forward(Mode::Evaluate, &[&[0.0, 4.0]]), [0.0, 0.0, 4.0, 4.0]);
/// assert_eq!(up.backward(&[1.0, 2.0, 3.0, 4.0]).x, [[3.0, 7.0]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpsampleConfig {
    /// How many times as high and as wide the image becomes.
    pub factor: [usize; 2],
    /// Whether values are blended; if not, each is repeated.
    pub bilinear: bool,
}

impl UpsampleConfig {
    /// Each value becomes a rectangle of this height and width.
    pub const fn nearest(factor: [usize; 2]) -> Self {
        Self { factor, bilinear: false }
    }

    /// Values are blended by their distance. Each stands for the middle of its square, as is the
    /// default elsewhere (corners are not aligned); beyond the outermost middles nothing changes.
    pub const fn bilinear(factor: [usize; 2]) -> Self {
        Self { factor, bilinear: true }
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image, or becomes too large; [`NnError::Setting`] when
    /// a factor is 0.
    pub fn build(self, name: &str, input: Shape) -> Result<Upsample, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let [down, right] = self.factor;
        if down == 0 || right == 0 {
            return Err(NnError::setting(
                name,
                "factor",
                format!("{down}x{right}"),
                "at least 1x1",
            ));
        }
        let (rows, columns) = (height.saturating_mul(down), width.saturating_mul(right));
        Shape::image(channels, rows, columns).check_size(name)?;
        let axis = |size, factor| match self.bilinear {
            true => (0..size * factor).map(|at| Blend::between(at, size, factor)).collect(),
            false => (0..size * factor).map(|at| Blend::of(at / factor)).collect(),
        };
        Ok(Upsample {
            config: self,
            channels,
            input: [height, width],
            rows: axis(height, down),
            columns: axis(width, right),
        })
    }
}

impl Config for UpsampleConfig {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const KIND: &str = "upsample";

/// What a row or column of the output is made of: two of the input, and the share of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Blend {
    first: usize,
    second: usize,
    share: f64,
}

impl Blend {
    /// One of the input alone.
    const fn of(first: usize) -> Self {
        Self { first, second: first, share: 0.0 }
    }

    /// The two whose middles are around that of `at`.
    fn between(at: usize, size: usize, factor: usize) -> Self {
        let place = ((at as f64 + 0.5) / factor as f64 - 0.5).max(0.0);
        let first = (place as usize).min(size - 1);
        Self { first, second: (first + 1).min(size - 1), share: place - first as f64 }
    }

    /// The input's rows or columns with what each counts; the second only if it does.
    fn parts<E: Element>(self) -> impl Iterator<Item = (usize, E)> {
        let Self { first, second, share } = self;
        let parts = [(first, E::narrow(1.0 - share)), (second, E::narrow(share))];
        parts.into_iter().take(if share == 0.0 { 1 } else { 2 })
    }
}

/// An enlargement for one input shape. A value of the output is the sum of at most four of the
/// input, in row order, each times its share.
#[derive(Clone, Debug)]
pub struct Upsample {
    config: UpsampleConfig,
    channels: usize,
    input: [usize; 2],
    rows: Vec<Blend>,
    columns: Vec<Blend>,
}

impl Upsample {
    /// The settings.
    pub const fn config(&self) -> UpsampleConfig {
        self.config
    }

    const fn input_len(&self) -> usize {
        self.input[0] * self.input[1] * self.channels
    }

    const fn output_len(&self) -> usize {
        self.rows.len() * self.columns.len() * self.channels
    }

    /// Calls `visit` for each place of the output and each place of the input that counts there:
    /// where the channels of both begin, and what the input's count.
    fn parts<E: Element>(&self, mut visit: impl FnMut(usize, usize, E)) {
        for (row, across) in self.rows.iter().enumerate() {
            for (column, along) in self.columns.iter().enumerate() {
                let to = (row * self.columns.len() + column) * self.channels;
                for (from_row, down) in across.parts::<E>() {
                    for (from_column, right) in along.parts::<E>() {
                        let from = (from_row * self.input[1] + from_column) * self.channels;
                        visit(to, from, down * right);
                    }
                }
            }
        }
    }
}

impl<E: Element> Layer<E> for Upsample {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn output(&self) -> Shape {
        Shape::image(self.channels, self.rows.len(), self.columns.len())
    }

    fn forward(&self, io: Forward<'_, E>) {
        io.y.fill(E::zero());
        let samples = io.x[0].chunks_exact(self.input_len());
        for (x, y) in samples.zip(io.y.chunks_exact_mut(self.output_len())) {
            self.parts(|to, from, share| add(&mut y[to..], &x[from..], self.channels, share));
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let dx = &mut *io.dx[0];
        dx.fill(E::zero());
        // Without a receiver there are no samples.
        let samples = dx.chunks_exact_mut(self.input_len());
        for (dx, dy) in samples.zip(io.dy.chunks_exact(self.output_len())) {
            self.parts(|to, from, share| add(&mut dx[from..], &dy[to..], self.channels, share));
        }
    }
}

/// Adds a share of the first `len` values.
#[inline]
fn add<E: Element>(to: &mut [E], from: &[E], len: usize, share: E) {
    to[..len].iter_mut().zip(&from[..len]).for_each(|(to, &from)| *to += share * from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use crate::layer::{Alone, Mode};
    use proptest::prelude::*;

    #[test]
    fn gradients_match_finite_differences() {
        for (factor, shape) in [
            ([1, 1], Shape::image(3, 1, 1)),
            ([2, 2], Shape::image(5, 3, 1)),
            ([3, 2], Shape::image(1, 2, 4)),
            ([1, 4], Shape::image(17, 2, 2)),
        ] {
            for config in [UpsampleConfig::nearest(factor), UpsampleConfig::bilinear(factor)] {
                for samples in [1, 3] {
                    let layer = config.build("up", shape).unwrap();
                    check_gradients(Arc::new(layer), &[shape], samples);
                }
            }
        }
    }

    #[test]
    fn bad_settings_and_shapes_are_errors() {
        let message = |factor, shape| {
            UpsampleConfig::nearest(factor).build("up", shape).unwrap_err().to_string()
        };
        let image = Shape::image(3, 4, 5);
        assert_eq!(message([0, 2], image), "up: factor is 0x2, wanted at least 1x1");
        assert_eq!(
            message([2, 2], Shape::Features(4)),
            "layer up: got shape 4, wanted an image (channels x height x width)"
        );
        assert!(message([usize::MAX, 2], image).contains("wanted at most"));
    }

    proptest! {
        /// Blending changes no image of equal values, and keeps a linear course between the
        /// outermost middles.
        #[test]
        fn it_is_linear(
            (channels, height, width) in (1usize..6, 1usize..5, 1usize..5),
            factor in [1usize..5, 1..5],
            bilinear: bool,
        ) {
            let shape = Shape::image(channels, height, width);
            let config = UpsampleConfig { factor, bilinear };
            let layer: Arc<dyn Layer<f64>> = Arc::new(config.build("up", shape).unwrap());
            prop_assert_eq!(
                layer.output(), Shape::image(channels, height * factor[0], width * factor[1])
            );
            let mut up = Alone::new(layer, &[shape], Vec::new());
            let value = |row: f64, column: f64, channel: usize| {
                10.0 * row - 3.0 * column + channel as f64
            };
            let x: Vec<f64> = (0..shape.len()).map(|i| {
                let place = i / channels;
                value((place / width) as f64, (place % width) as f64, i % channels)
            }).collect();
            for (i, &y) in up.forward(Mode::Evaluate, &[&x]).iter().enumerate() {
                let (place, columns) = (i / channels, width * factor[1]);
                let at = |i: usize, size: usize, factor: usize| match bilinear {
                    true => ((i as f64 + 0.5) / factor as f64 - 0.5).clamp(0.0, size as f64 - 1.0),
                    false => (i / factor) as f64,
                };
                let row = at(place / columns, height, factor[0]);
                let column = at(place % columns, width, factor[1]);
                let wanted = value(row, column, i % channels);
                prop_assert!((y - wanted).abs() < 1e-12, "{} {}", y, wanted);
            }
        }
    }
}
