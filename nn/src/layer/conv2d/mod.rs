//! Two-dimensional convolution (cross-correlation, as in every deep learning library).
//!
//! # How it computes
//! Images are stored channels last, so that for each tap of the kernel the values of all channels
//! lie side by side. A sample is copied into a frame of zeros if there is padding; from there the
//! kernels read it in place, without unfolding it. The gradient by data is the same computation on
//! the output gradient in a frame of zeros, with the kernel turned round; above stride 1 the places
//! of the input fall into classes modulo the stride, each of which is reached by some of the taps.
//! [`kernel::conv`](crate::kernel::conv) says how the sums are held in registers, and in what order
//! the weights are packed for that.
//!
//! Groups are computed one by one. If each channel is a group of its own, vectors run over the
//! channels instead.

mod compute;
mod geometry;
mod layer;
mod pack;
#[cfg(test)]
mod tests;

use geometry::{Axis, Frame, Taps, gradient_frame};

use crate::kernel::VectorUnit;
use crate::{NnError, Shape};

/// What surrounds the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: the kernel stays inside the image, and the output is smaller.
    #[default]
    Valid,
    /// Zeros, so many that at stride 1 the output is as large as the image. When a kernel side is
    /// even, the odd row or column of zeros is at the bottom or at the right.
    Same,
    /// So many rows and columns of zeros: top, left, bottom, right.
    Zeros([usize; 4]),
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
    /// Steps down and to the right between two values that meet neighbours in the kernel. Default:
    /// 1, 1.
    pub dilation: [usize; 2],
    /// Groups into which input and output channels are cut; each filter sees the input channels of
    /// its group. Default: 1.
    pub groups: usize,
    /// Whether a learned value per filter is added to its output. Default: yes.
    pub bias: bool,
}

impl Conv2dConfig {
    /// A convolution with stride 1, with a bias and without padding.
    pub const fn new(filters: usize, kernel: [usize; 2]) -> Self {
        let padding = Padding::Valid;
        let (stride, dilation) = ([1, 1], [1, 1]);
        Self { filters, kernel, stride, padding, dilation, groups: 1, bias: true }
    }

    /// The same without a bias, as before a normalisation, which would take it away again.
    #[must_use]
    pub const fn without_bias(mut self) -> Self {
        self.bias = false;
        self
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
    /// [`NnError::Shape`] when `input` is no image or smaller than the kernel; [`NnError::Setting`]
    /// when a setting is 0, or the groups do not divide the channels.
    pub fn build(self, name: &str, input: Shape) -> Result<Conv2d, NnError> {
        let [channels, height, width] = input.as_image(name)?;
        self.check(name, channels)?;
        let Self { filters, kernel, stride, dilation, .. } = self;
        let reach = [0, 1].map(|i| (kernel[i] - 1).saturating_mul(dilation[i]));
        let border = match self.padding {
            Padding::Valid => [0; 4],
            Padding::Same => {
                let before = reach.map(|reach| reach / 2);
                [before[0], before[1], reach[0] - before[0], reach[1] - before[1]]
            }
            Padding::Zeros(border) => border,
        };
        let axis = |i: usize, input: usize| {
            let padded = input.saturating_add(border[i]).saturating_add(border[i + 2]);
            let output = padded.checked_sub(reach[i].saturating_add(1))? / stride[i] + 1;
            Some(Axis {
                input,
                output,
                kernel: kernel[i],
                // A longer one leads out of the image as well, and would overflow.
                stride: stride[i].min(padded),
                dilation: dilation[i],
                before: border[i],
            })
        };
        let (Some(y), Some(x)) = (axis(0, height), axis(1, width)) else {
            let [kh, kw] = reach.map(|reach| reach.saturating_add(1));
            let wanted = format!("an image of at least {channels}x{kh}x{kw}");
            return Err(NnError::shape(name, input, wanted));
        };
        let output = Shape::image(filters, y.output, x.output);
        let sum = |values: [usize; 3]| values.into_iter().fold(0, usize::saturating_add);
        for shape in [
            output,
            Shape::image(
                channels,
                sum([height, border[0], border[2]]),
                sum([width, border[1], border[3]]),
            ),
            Shape::image(
                filters,
                sum([y.output, height, reach[0]]),
                sum([x.output, width, reach[1]]),
            ),
            Shape::image(filters.saturating_mul(channels), kernel[0], kernel[1]),
        ] {
            shape.check_size(name)?;
        }
        let frame = Frame { size: [height, width], border, channels };
        let mut layer = Conv2d {
            config: self,
            input: [channels, height, width],
            output: [filters, y.output, x.output],
            axes: [y, x],
            frame,
            gradient: gradient_frame(filters, [y, x]),
            forward: Taps::default(),
            data: Vec::new(),
            unit: VectorUnit::best(),
        };
        layer.forward = layer.forward_taps();
        layer.data = layer.data_taps();
        Ok(layer)
    }

    pub(super) fn check(&self, name: &str, channels: usize) -> Result<(), NnError> {
        let Self { filters, kernel, stride, dilation, groups, .. } = *self;
        for (setting, value) in [
            ("filters", filters),
            ("kernel", kernel[0].min(kernel[1])),
            ("stride", stride[0].min(stride[1])),
            ("dilation", dilation[0].min(dilation[1])),
            ("groups", groups),
        ] {
            if value == 0 {
                return Err(NnError::setting(name, setting, 0, "at least 1"));
            }
        }
        if !channels.is_multiple_of(groups) || !filters.is_multiple_of(groups) {
            let wanted = "a divisor of the numbers of channels and of filters";
            return Err(NnError::setting(name, "groups", groups, wanted));
        }
        Ok(())
    }
}

/// A convolution for one input shape. Weights are stored as (filter, channel of the group, row,
/// column), the bias, if there is one, as
/// one value per filter.
#[derive(Clone, Debug)]
pub struct Conv2d {
    config: Conv2dConfig,
    input: [usize; 3],
    output: [usize; 3],
    axes: [Axis; 2],
    /// The input with its padding.
    frame: Frame,
    /// The output gradient with the zeros that the gradient by data reaches.
    gradient: Frame,
    forward: Taps,
    /// One per class of places modulo the stride.
    data: Vec<Taps>,
    unit: VectorUnit,
}

impl Conv2d {
    /// The settings.
    pub const fn config(&self) -> Conv2dConfig {
        self.config
    }

    /// Shape of one sample of the input.
    pub const fn input(&self) -> Shape {
        let [channels, height, width] = self.input;
        Shape::image(channels, height, width)
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

    /// Number of biases: one per filter, or none.
    pub const fn bias_len(&self) -> usize {
        if self.config.bias { self.output[0] } else { 0 }
    }

    /// Floating point operations of one sample in one direction (forward, by data or by weights).
    pub const fn flops(&self) -> u64 {
        let [filters, height, width] = self.output;
        2 * (filters * height * width * self.terms()) as u64
    }

    /// Values that each output depends on.
    const fn terms(&self) -> usize {
        self.group_inputs() * self.config.kernel[0] * self.config.kernel[1]
    }

    const fn group_inputs(&self) -> usize {
        self.input[0] / self.config.groups
    }

    const fn group_filters(&self) -> usize {
        self.output[0] / self.config.groups
    }

    /// Whether each channel is convolved by itself, to one output channel.
    const fn is_depthwise(&self) -> bool {
        self.config.groups > 1 && self.group_inputs() == 1 && self.group_filters() == 1
    }

    const fn input_len(&self) -> usize {
        self.input[0] * self.input[1] * self.input[2]
    }

    const fn output_len(&self) -> usize {
        self.output[0] * self.output[1] * self.output[2]
    }

    /// The number of samples of a shard.
    fn samples(&self, x: usize, y: usize) -> usize {
        let samples = x / self.input_len();
        assert_eq!(x, samples * self.input_len(), "conv2d: length of the input");
        assert_eq!(y, samples * self.output_len(), "conv2d: length of the output");
        samples
    }
}
