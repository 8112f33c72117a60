//! Two-dimensional convolution (cross-correlation, as in every deep learning library).
//!
//! # How it computes
//! All three directions avoid an unfolded copy of the input. Seen as one long row, an output plane
//! with the row length of the (padded) input is a weighted sum of shifted copies of that input, one
//! per channel and place in the kernel. The values computed between two output rows belong to no
//! output and are dropped; they are few, and the loops are long. The gradient by data is the same
//! computation on the padded output gradient with the kernel turned round, and the gradient by
//! weights is a table of dot products between output gradient and shifted input.
//!
//! A stride above 1 computes every place and keeps some of them, which is right but not fast.

mod kernels;
mod layer;

use kernels::{BackwardData, BackwardWeights, Forward};

use crate::kernel::{BLOCK, block_len, dispatch};
use crate::{Element, NnError, Shape};

/// What surrounds the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: the kernel stays inside the image, and the output is smaller.
    #[default]
    Valid,
    /// Zeros, so many that at stride 1 the output is as large as the image. When a kernel side is
    /// even, the odd row or column of zeros is at the bottom or at the right.
    Same,
}

/// Settings of a [`Conv2d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dConfig {
    /// Number of filters, which is the number of output channels.
    pub filters: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Steps down and to the right between two places of the kernel. Default: 1, 1.
    pub stride: [usize; 2],
    /// What surrounds the image. Default: nothing.
    pub padding: Padding,
}

impl Conv2dConfig {
    /// A convolution with stride 1 and without padding.
    pub const fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self { filters, kernel, stride: [1, 1], padding: Padding::Valid }
    }

    /// The same with another padding.
    #[must_use]
    pub const fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// The same with another stride.
    #[must_use]
    pub const fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image or smaller than the kernel; [`NnError::Setting`]
    /// when a setting is 0.
    pub fn build(self, name: &str, input: Shape) -> Result<Conv2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let Self { filters, kernel: [kh, kw], stride, padding } = self;
        for (setting, value) in
            [("filters", filters), ("kernel", kh.min(kw)), ("stride", stride[0].min(stride[1]))]
        {
            if value == 0 {
                return Err(NnError::setting(name, setting, 0, "at least 1"));
            }
        }
        let (total, before) = match padding {
            Padding::Valid => ([0, 0], [0, 0]),
            Padding::Same => ([kh - 1, kw - 1], [(kh - 1) / 2, (kw - 1) / 2]),
        };
        if kh > height.saturating_add(total[0]) || kw > width.saturating_add(total[1]) {
            let wanted = format!("an image of at least {channels}x{kh}x{kw}");
            return Err(NnError::shape(name, input, wanted));
        }
        let padded = [height + total[0], width + total[1]];
        let output = Shape::image(
            filters,
            (padded[0] - kh) / stride[0] + 1,
            (padded[1] - kw) / stride[1] + 1,
        );
        for shape in [
            output,
            Shape::image(channels, padded[0], padded[1]),
            Shape::image(filters, height + kh, width + kw),
            Shape::image(filters.saturating_mul(channels), kh, kw),
        ] {
            shape.check_size(name)?;
        }
        let [_, oh, ow] = output.as_image(name)?;
        let turned = [height + kh - 1, width + kw - 1];
        Ok(Conv2d {
            config: self,
            input: [channels, height, width],
            output: [filters, oh, ow],
            before,
            padded,
            turned,
            forward_at: offsets(channels, padded, self.kernel),
            turned_at: offsets(filters, turned, self.kernel),
        })
    }
}

/// Where the kernel's values meet planes of size `[height, width]`, from the place of its corner.
fn offsets(planes: usize, [height, width]: [usize; 2], [kh, kw]: [usize; 2]) -> Vec<usize> {
    (0..planes)
        .flat_map(|plane| (0..kh).map(move |ky| plane * height + ky))
        .flat_map(|row| (0..kw).map(move |kx| row * width + kx))
        .collect()
}

/// A convolution for one input shape. Weights are stored as (filter, channel, row, column), the
/// bias as one value per filter.
#[derive(Clone, Debug)]
pub struct Conv2d {
    config: Conv2dConfig,
    input: [usize; 3],
    output: [usize; 3],
    /// Rows of zeros above, columns of zeros to the left.
    before: [usize; 2],
    /// Height and width of a plane of the input with its padding.
    padded: [usize; 2],
    /// Height and width of a plane of the output gradient, padded for the gradient by data.
    turned: [usize; 2],
    forward_at: Vec<usize>,
    turned_at: Vec<usize>,
}

impl Conv2d {
    /// The settings.
    pub const fn config(&self) -> Conv2dConfig {
        self.config
    }

    /// Shape of one sample of the output.
    pub const fn output(&self) -> Shape {
        let [filters, height, width] = self.output;
        Shape::image(filters, height, width)
    }

    /// Number of weights: filters x channels x kernel height x kernel width.
    pub const fn weights_len(&self) -> usize {
        self.output[0] * self.terms()
    }

    /// Number of biases: one per filter.
    pub const fn bias_len(&self) -> usize {
        self.output[0]
    }

    /// Values of scratch that each of the three computations needs at most, for any number of
    /// samples.
    pub fn scratch_len(&self) -> usize {
        let [filters, ..] = self.output;
        let [channels, ..] = self.input;
        let kernel = self.config.kernel[0] * self.config.kernel[1];
        let forward =
            self.padded_input_len() + block_len(filters, self.terms()) + BLOCK * self.forward_row();
        let weights = self.padded_input_len() + filters * self.forward_row();
        let data = filters * self.turned[0] * self.turned[1]
            + block_len(channels, filters * kernel)
            + BLOCK * self.turned_row();
        forward.max(weights).max(data)
    }

    /// Floating point operations of one sample in one direction (forward, by data or by weights).
    pub const fn flops(&self) -> u64 {
        let [filters, height, width] = self.output;
        2 * (filters * height * width * self.terms()) as u64
    }

    /// `y = x * weights + bias` for every sample of the shard.
    ///
    /// # Shapes
    /// `x`: samples x channels x height x width; `y`: samples x filters x output height x output
    /// width. The content of `y` and of `scratch` before does not matter.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(
        &self,
        x: &[E],
        weights: &[E],
        bias: &[E],
        y: &mut [E],
        scratch: &mut [E],
    ) {
        self.check(x.len(), y.len(), weights.len(), bias.len());
        dispatch(Forward { layer: self, x, weights, bias, y, scratch });
    }

    /// The gradient of the loss by the input, from that by the output.
    ///
    /// # Shapes
    /// As in [`forward`](Self::forward); `dx` is overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward_data<E: Element>(
        &self,
        dy: &[E],
        weights: &[E],
        dx: &mut [E],
        scratch: &mut [E],
    ) {
        self.check(dx.len(), dy.len(), weights.len(), self.bias_len());
        dispatch(BackwardData { layer: self, dy, weights, dx, scratch });
    }

    /// The gradients of the loss by weights and bias, summed over the samples of the shard.
    ///
    /// # Shapes
    /// As in [`forward`](Self::forward); `dweights` and `dbias` are overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward_weights<E: Element>(
        &self,
        x: &[E],
        dy: &[E],
        dweights: &mut [E],
        dbias: &mut [E],
        scratch: &mut [E],
    ) {
        self.check(x.len(), dy.len(), dweights.len(), dbias.len());
        dispatch(BackwardWeights { layer: self, x, dy, dweights, dbias, scratch });
    }

    const fn terms(&self) -> usize {
        self.input[0] * self.config.kernel[0] * self.config.kernel[1]
    }

    const fn input_len(&self) -> usize {
        self.input[0] * self.input[1] * self.input[2]
    }

    const fn output_len(&self) -> usize {
        self.output[0] * self.output[1] * self.output[2]
    }

    /// Scratch for one padded sample; none if there is no padding.
    const fn padded_input_len(&self) -> usize {
        match self.config.padding {
            Padding::Valid => 0,
            Padding::Same => self.input[0] * self.padded[0] * self.padded[1],
        }
    }

    /// An output plane as one row with the row length of the padded input.
    const fn forward_row(&self) -> usize {
        let [_, height, width] = self.output;
        let [down, right] = self.config.stride;
        (height - 1) * down * self.padded[1] + (width - 1) * right + 1
    }

    /// An input plane as one row with the row length of the padded output gradient.
    const fn turned_row(&self) -> usize {
        (self.input[1] - 1) * self.turned[1] + self.input[2]
    }

    fn check(&self, x: usize, y: usize, weights: usize, bias: usize) {
        let samples = x / self.input_len();
        assert_eq!(x, samples * self.input_len(), "conv2d: length of the input");
        assert_eq!(y, samples * self.output_len(), "conv2d: length of the output");
        assert_eq!(weights, self.weights_len(), "conv2d: number of weights");
        assert_eq!(bias, self.bias_len(), "conv2d: number of biases");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers, slope};
    use proptest::prelude::*;

    fn case() -> impl Strategy<Value = (Conv2dConfig, Shape, usize)> {
        let sizes = (1usize..6, 1usize..8, 1usize..8);
        let config = (1usize..6, 1usize..5, 1usize..5, 1usize..3, 1usize..3, any::<bool>());
        (sizes, config, 1usize..4).prop_map(|((c, h, w), (f, kh, kw, sh, sw, same), samples)| {
            let padding = if same { Padding::Same } else { Padding::Valid };
            let config = Conv2dConfig { filters: f, kernel: [kh, kw], stride: [sh, sw], padding };
            (config, Shape::image(c, h, w), samples)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn gradients_match_finite_differences((config, input, samples) in case()) {
            let Ok(layer) = config.build("conv", input) else {
                // Only a kernel that leaves a small image is refused.
                prop_assert_eq!(config.padding, Padding::Valid);
                return Ok(());
            };
            let x = numbers(samples * input.len(), 1);
            let weights = numbers(layer.weights_len(), 2);
            let bias = numbers(layer.bias_len(), 3);
            let dy = numbers(samples * layer.output().len(), 4);
            let mut scratch = vec![f64::NAN; layer.scratch_len()];
            let loss = |x: &[f64], weights: &[f64], bias: &[f64]| {
                let mut y = vec![f64::NAN; dy.len()];
                layer.forward(x, weights, bias, &mut y, &mut vec![f64::NAN; layer.scratch_len()]);
                y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
            };
            let mut dx = vec![f64::NAN; x.len()];
            layer.backward_data(&dy, &weights, &mut dx, &mut scratch);
            assert_close(&dx, &slope(&x, |x| loss(x, &weights, &bias)), 1e-6);
            let mut dweights = vec![f64::NAN; weights.len()];
            let mut dbias = vec![f64::NAN; bias.len()];
            scratch.fill(f64::NAN);
            layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch);
            assert_close(&dweights, &slope(&weights, |weights| loss(&x, weights, &bias)), 1e-6);
            assert_close(&dbias, &slope(&bias, |bias| loss(&x, &weights, bias)), 1e-6);
        }

        #[test]
        fn same_padding_keeps_the_size((config, input, _) in case()) {
            let config = config.padding(Padding::Same).stride([1, 1]);
            let Shape::Image { height, width, .. } = input else { unreachable!() };
            let output = config.build("conv", input).unwrap().output();
            prop_assert_eq!(output, Shape::image(config.filters, height, width));
        }
    }

    #[test]
    fn errors_name_layer_shape_and_need() {
        let config = Conv2dConfig::new(4, [3, 3]);
        let message = |input| config.build("2 (conv2d)", input).unwrap_err().to_string();
        assert_eq!(
            message(Shape::image(4, 2, 9)),
            "layer 2 (conv2d): got shape 4x2x9, wanted an image of at least 4x3x3"
        );
        assert_eq!(
            message(Shape::Features(10)),
            "layer 2 (conv2d): got shape 10, wanted an image (channels x height x width)"
        );
        let error = Conv2dConfig::new(0, [3, 3]).build("0 (conv2d)", Shape::image(1, 9, 9));
        assert_eq!(error.unwrap_err().to_string(), "0 (conv2d): filters is 0, wanted at least 1");
    }

    #[test]
    fn huge_sizes_are_refused() {
        let huge = usize::MAX / 2;
        for (config, input) in [
            (Conv2dConfig::new(huge, [3, 3]), Shape::image(1, 9, 9)),
            (Conv2dConfig::new(1, [huge, 3]).padding(Padding::Same), Shape::image(1, 9, 9)),
            (Conv2dConfig::new(1, [3, 3]), Shape::image(huge, huge, 9)),
        ] {
            assert!(config.build("conv", input).is_err(), "{config:?} {input}");
        }
    }
}
