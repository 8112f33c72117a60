//! Two-dimensional transposed convolution, which makes images larger.
//!
//! # How it computes
//! It is a convolution backwards: its output is what the gradient by data of that convolution would
//! be, its gradient by data is that convolution forward, and the weights are the same, in the same
//! order. So all is done by a [`Conv2d`] from the output to the input.

use std::sync::Arc;

use super::{
    Backward, Config, Conv2d, Conv2dConfig, Forward, Layer, Padding, Parameter, Uses, one_input,
};
use crate::{Element, NnError, Shape};

/// Settings of a [`ConvTranspose2d`].
///
/// ```
/// use millrace_nn::layer::{Alone, Config, ConvTranspose2dConfig, Mode};
/// use millrace_nn::Shape;
///
/// // Each value becomes a square of 2x2, by a kernel of ones.
/// let shape = Shape::image(1, 1, 2);
/// let config = ConvTranspose2dConfig::new(1, [2, 2]).stride([2, 2]);
/// let layer = config.build_layer("up", &[shape])?;
/// let mut up = Alone::new(layer, &[shape], vec![vec![1.0; 4], vec![0.5]]);
/// let y = up.forward(Mode::Evaluate, &[&[1.0, 3.0]]);
/// assert_eq!(y, [1.5, 1.5, 3.5, 3.5, 1.5, 1.5, 3.5, 3.5]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose2dConfig {
    /// Number of output channels.
    pub filters: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Rows and columns of the output from what one place of the input adds to what the next one
    /// does. Default: 1, 1.
    pub stride: [usize; 2],
    /// Rows and columns that are cut off on each side of the output. Default: 0, 0.
    pub padding: [usize; 2],
    /// Rows and columns that are added at the bottom and at the right, fewer than the stride: of
    /// the sizes that a convolution would bring to that of the input, the stride leaves several.
    /// Default: 0, 0.
    pub output_padding: [usize; 2],
    /// Rows and columns of the output from one value of the kernel to the next. Default: 1, 1.
    pub dilation: [usize; 2],
    /// Groups into which input and output channels are cut; each is computed by itself. Default: 1.
    pub groups: usize,
}

impl ConvTranspose2dConfig {
    /// A transposed convolution with stride 1 of which nothing is cut off.
    pub const fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self {
            filters,
            kernel,
            stride: [1, 1],
            padding: [0, 0],
            output_padding: [0, 0],
            dilation: [1, 1],
            groups: 1,
        }
    }

    /// The same with another stride.
    #[must_use]
    pub const fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// The same with another padding.
    #[must_use]
    pub const fn padding(mut self, padding: [usize; 2]) -> Self {
        self.padding = padding;
        self
    }

    /// The same with another output padding.
    #[must_use]
    pub const fn output_padding(mut self, output_padding: [usize; 2]) -> Self {
        self.output_padding = output_padding;
        self
    }

    /// The same with another dilation.
    #[must_use]
    pub const fn dilation(mut self, dilation: [usize; 2]) -> Self {
        self.dilation = dilation;
        self
    }

    /// The same with another number of groups.
    #[must_use]
    pub const fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// The layer for images of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` is no image, or so small that nothing is left after cutting
    /// off; [`NnError::Setting`] when a setting is 0 that must not be, the groups do not divide the
    /// channels, or the output padding is not below the stride.
    pub fn build(self, name: &str, input: Shape) -> Result<ConvTranspose2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        let back = Conv2dConfig {
            filters: channels,
            kernel: self.kernel,
            stride: self.stride,
            padding: Padding::Zeros([
                self.padding[0],
                self.padding[1],
                self.padding[0],
                self.padding[1],
            ]),
            dilation: self.dilation,
            groups: self.groups,
            bias: false,
        };
        // The channels of this are the filters of the other, but for their names.
        back.check(name, self.filters)?;
        if self.filters == 0 {
            return Err(NnError::setting(name, "filters", 0, "at least 1"));
        }
        if (0..2).any(|i| self.output_padding[i] >= self.stride[i]) {
            let [down, right] = self.output_padding;
            let got = format!("{down}x{right}");
            return Err(NnError::setting(name, "output_padding", got, "less than the stride"));
        }
        let size = |i: usize, input: usize| {
            let reach = (self.kernel[i] - 1).saturating_mul(self.dilation[i]);
            let steps = (input - 1).saturating_mul(self.stride[i]);
            let all = steps.saturating_add(reach).saturating_add(1 + self.output_padding[i]);
            all.checked_sub(self.padding[i].saturating_mul(2)).filter(|&left| left > 0)
        };
        let (Some(rows), Some(columns)) = (size(0, height), size(1, width)) else {
            let wanted = "an image of which the padding leaves something";
            return Err(NnError::shape(name, input, wanted));
        };
        let conv = back.build(name, Shape::image(self.filters, rows, columns))?;
        Ok(ConvTranspose2d { config: self, conv })
    }
}

impl Config for ConvTranspose2dConfig {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

const KIND: &str = "conv_transpose2d";

/// A transposed convolution for one input shape. Weights are stored as (input channel, output
/// channel of the group, row, column), the bias as one value per output channel.
#[derive(Clone, Debug)]
pub struct ConvTranspose2d {
    config: ConvTranspose2dConfig,
    /// From the output to the input.
    conv: Conv2d,
}

impl ConvTranspose2d {
    /// The settings.
    pub const fn config(&self) -> ConvTranspose2dConfig {
        self.config
    }
}

impl<E: Element> Layer<E> for ConvTranspose2d {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn output(&self) -> Shape {
        self.conv.input()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let ConvTranspose2dConfig { filters, kernel, stride, groups, .. } = self.config;
        let channels = self.conv.config().filters;
        let area: usize = kernel.iter().product();
        // Of the kernel's values, each place of the output meets one per step.
        let met: usize = kernel.iter().zip(stride).map(|(k, stride)| k.div_ceil(stride)).product();
        let fans = [channels / groups * met, filters / groups * area];
        let dims = [channels, filters / groups, kernel[0], kernel[1]];
        vec![Parameter::weight(&dims, fans), Parameter::bias(filters, fans)]
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    fn scratch_len(&self, samples: usize) -> usize {
        self.conv.scratch_len::<E>(samples)
    }

    fn packed_len(&self) -> usize {
        self.conv.packed_len::<E>()
    }

    fn pack(&self, parameters: &[&[E]], packed: &mut [E]) {
        self.conv.pack(parameters[0], packed);
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn flops(&self) -> u64 {
        self.conv.flops()
    }

    fn forward(&self, io: Forward<'_, E>) {
        let bias = io.parameters[1];
        assert_eq!(bias.len(), self.config.filters, "{KIND}: number of biases");
        self.conv.transposed(io.x[0], io.packed, bias, io.relu, io.y, io.scratch);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let [dweights, dbias] = io.dparameters else { panic!("{KIND}: two gradients") };
        dbias.fill(E::zero());
        for dy in io.dy.chunks_exact(self.config.filters) {
            dbias.iter_mut().zip(dy).for_each(|(sum, &dy)| *sum += dy);
        }
        let gradients = [&mut [][..], &mut **dweights, &mut []];
        self.conv.backward([io.dy, io.x[0], io.packed], gradients, io.scratch);
        if !io.dx[0].is_empty() {
            self.conv.forward(io.dy, io.packed, &[], false, io.dx[0], io.scratch);
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
        let config = ConvTranspose2dConfig::new;
        for (config, shape) in [
            (config(1, [1, 1]), Shape::image(1, 1, 1)),
            (config(3, [2, 2]).stride([2, 2]), Shape::image(5, 3, 1)),
            (config(17, [3, 2]).stride([2, 3]).output_padding([1, 2]), Shape::image(1, 2, 2)),
            (config(2, [3, 3]).padding([1, 2]).dilation([1, 2]), Shape::image(3, 3, 4)),
            (config(4, [3, 3]).groups(2).stride([2, 1]).padding([1, 0]), Shape::image(6, 2, 3)),
            (config(5, [3, 3]).groups(5), Shape::image(5, 2, 2)),
            (config(2, [1, 1]).stride([3, 2]), Shape::image(3, 2, 2)),
        ] {
            for samples in [1, 3] {
                check_gradients(Arc::new(config.build("up", shape).unwrap()), &[shape], samples);
            }
        }
    }

    #[test]
    fn a_relu_on_the_output_is_one_after_it() {
        let shape = Shape::image(3, 4, 4);
        let config = ConvTranspose2dConfig::new(5, [3, 3]).stride([2, 2]);
        let layer: Arc<dyn Layer<f32>> = Arc::new(config.build("up", shape).unwrap());
        let weights = |len: usize| (0..len).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
        let parameters = vec![weights(3 * 5 * 9), weights(5)];
        let mut plain = Alone::new(Arc::clone(&layer), &[shape], parameters.clone());
        let mut rectified = Alone::new(layer, &[shape], parameters).relu();
        let mut wanted = plain.forward(Mode::Evaluate, &[&weights(48)]);
        assert!(wanted.iter().any(|&value| value < 0.0));
        wanted.iter_mut().for_each(|value| *value = value.max(0.0));
        assert_eq!(rectified.forward(Mode::Evaluate, &[&weights(48)]), wanted);
    }

    #[test]
    fn bad_settings_and_shapes_are_errors() {
        let message = |config: ConvTranspose2dConfig, shape| {
            config.build_layer("up", &[shape]).unwrap_err().to_string()
        };
        let (config, image) = (ConvTranspose2dConfig::new(4, [2, 2]), Shape::image(6, 3, 3));
        assert_eq!(
            message(config, Shape::Features(4)),
            "layer up: got shape 4, wanted an image (channels x height x width)"
        );
        let none = ConvTranspose2dConfig { filters: 0, ..config };
        assert_eq!(message(none, image), "up: filters is 0, wanted at least 1");
        assert_eq!(message(config.stride([0, 1]), image), "up: stride is 0, wanted at least 1");
        assert_eq!(
            message(config.groups(4), image),
            "up: groups is 4, wanted a divisor of the numbers of channels and of filters"
        );
        assert_eq!(
            message(config.stride([2, 1]).output_padding([1, 1]), image),
            "up: output_padding is 1x1, wanted less than the stride"
        );
        assert_eq!(
            message(config.padding([2, 0]), image),
            "layer up: got shape 6x3x3, wanted an image of which the padding leaves something"
        );
    }

    proptest! {
        /// The output is what a convolution brings back to the size of the input.
        #[test]
        fn shapes_fit_or_are_refused(
            size in [1..6usize, 1..6],
            kernel in [0..5usize, 1..5],
            stride in prop_oneof![Just([usize::MAX; 2]), [1..4usize, 0..4]],
            padding in prop_oneof![Just([usize::MAX; 2]), [0..4usize, 0..4]],
            output_padding in [0..3usize, 0..2],
            dilation in prop_oneof![Just([usize::MAX / 2; 2]), [1..4usize, 1..3]],
        ) {
            let config = ConvTranspose2dConfig {
                filters: 2, kernel, stride, padding, output_padding, dilation, groups: 1,
            };
            let input = Shape::image(3, size[0], size[1]);
            if let Ok(layer) = config.build("up", input) {
                prop_assert_eq!(layer.conv.output(), input);
                let Shape::Image { height, width, .. } = layer.conv.input() else { unreachable!() };
                for (i, got) in [height, width].into_iter().enumerate() {
                    let all = (size[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
                    prop_assert_eq!(got, all + output_padding[i] - 2 * padding[i]);
                }
            } else {
                let fits = (0..2).all(|i| {
                    let reach = |n: usize, step: usize| n.saturating_sub(1).saturating_mul(step);
                    let all = reach(size[i], stride[i]).saturating_add(reach(kernel[i], dilation[i]));
                    kernel[i] > 0
                        && output_padding[i] < stride[i]
                        && all < 1000
                        && all + 1 + output_padding[i] > padding[i].saturating_mul(2)
                });
                prop_assert!(!fits);
            }
        }
    }
}
