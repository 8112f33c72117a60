//! The three computations on a shard.

use super::geometry::Frame;
use super::pack::Layout;
use super::{Conv2d, Taps};
use crate::Element;
use crate::kernel::conv::{DepthwiseProducts, DepthwiseSums, Products, Sums};
use crate::kernel::take;

/// Places that are worked on together at least, if the shard has as many: small images leave the
/// kernel's tiles half empty, and read all weights for few places, one by one.
const PLACES: usize = 256;

impl Conv2d {
    /// Samples whose padded copies are in scratch together.
    fn together(&self, samples: usize) -> usize {
        let [_, height, width] = self.output;
        PLACES.div_ceil(height * width).min(samples)
    }

    fn padded_input_len(&self, together: usize) -> usize {
        if self.frame.is_padded() { together * self.frame.len() } else { 0 }
    }

    fn padded_gradient_len<E: Element>(&self, together: usize) -> usize {
        // Sums read whole vectors up to the end.
        together * self.gradient.len() + 2 * self.outputs::<E>().unit.lanes::<E>()
    }

    fn sums_len<E: Element>(&self) -> usize {
        self.outputs::<E>().len(self.forward.sweep.terms() + 1)
    }

    /// Values of scratch that each of the computations needs at most, for a shard of `samples`.
    pub fn scratch_len<E: Element>(&self, samples: usize) -> usize {
        let together = self.together(samples);
        self.padded_input_len(together)
            + self.padded_gradient_len::<E>(together)
            + self.sums_len::<E>()
    }

    /// `y = x * weights + bias` for every sample of the shard, and 0 where that is negative if
    /// `relu`.
    ///
    /// # Shapes
    /// `x`: samples x height x width x channels; `y`: samples x output height x output width x
    /// filters; `packed`: as [`pack`](Self::pack) made it. The content of `y` and of `scratch`
    /// before does not matter.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn forward<E: Element>(
        &self,
        x: &[E],
        packed: &[E],
        bias: &[E],
        relu: bool,
        y: &mut [E],
        mut scratch: &mut [E],
    ) {
        let samples = self.samples(x.len(), y.len());
        assert_eq!(packed.len(), self.packed_len::<E>(), "conv2d: number of packed weights");
        assert_eq!(bias.len(), self.bias_len(), "conv2d: number of biases");
        let together = self.together(samples);
        let space = take(&mut scratch, self.padded_input_len(together));
        space.fill(E::zero());
        let layout = self.outputs::<E>();
        let weights = &packed[..layout.len(self.forward.sweep.terms())];
        let pieces = x.chunks(together * self.input_len());
        for (x, y) in pieces.zip(y.chunks_mut(together * self.output_len())) {
            let from = self.pad(x, space);
            let samples = x.len() / self.input_len();
            products(layout, &self.forward, samples, [from, weights, bias], relu, y);
        }
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
        packed: &[E],
        dx: &mut [E],
        scratch: &mut [E],
    ) {
        self.transposed(dy, packed, &[], false, dx, scratch);
    }

    /// The same with a bias per input channel on the result, and 0 where that is negative if
    /// `relu`: what a transposed convolution gives.
    pub(in crate::layer) fn transposed<E: Element>(
        &self,
        dy: &[E],
        packed: &[E],
        bias: &[E],
        relu: bool,
        dx: &mut [E],
        mut scratch: &mut [E],
    ) {
        let samples = self.samples(dx.len(), dy.len());
        let together = self.together(samples);
        let space = take(&mut scratch, self.padded_gradient_len::<E>(together));
        space.fill(E::zero());
        let pieces = dy.chunks(together * self.output_len());
        for (dy, dx) in pieces.zip(dx.chunks_mut(together * self.input_len())) {
            place(self.gradient, dy, space);
            self.data(dx.len() / self.input_len(), [&*space, packed, bias], relu, dx);
        }
    }

    /// The gradients of the loss by weights and bias, summed over the samples of the shard, and
    /// that by the input unless `dx` is empty.
    ///
    /// # Shapes
    /// As in [`forward`](Self::forward); `dweights` and `dbias` are stored as the parameters, and
    /// all gradients are overwritten.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn backward<E: Element>(
        &self,
        [x, dy, packed]: [&[E]; 3],
        [dx, dweights, dbias]: [&mut [E]; 3],
        mut scratch: &mut [E],
    ) {
        let samples = self.samples(x.len(), dy.len());
        assert_eq!(dweights.len(), self.weights_len(), "conv2d: number of weights");
        assert_eq!(dbias.len(), self.bias_len(), "conv2d: number of biases");
        assert!(dx.is_empty() || dx.len() == x.len(), "conv2d: length of the gradient");
        let together = self.together(samples);
        let padded = take(&mut scratch, self.padded_input_len(together));
        let gradient = take(&mut scratch, self.padded_gradient_len::<E>(together));
        let sums = take(&mut scratch, self.sums_len::<E>());
        padded.fill(E::zero());
        gradient.fill(E::zero());
        sums.fill(E::zero());
        let layout = self.outputs::<E>();
        let (sums, bias_sums) = sums.split_at_mut(layout.len(self.forward.sweep.terms()));
        let pieces = dy.chunks(together * self.output_len());
        for (i, (x, dy)) in x.chunks(together * self.input_len()).zip(pieces).enumerate() {
            let samples = x.len() / self.input_len();
            place(self.gradient, dy, gradient);
            self.sum(samples, self.pad(x, padded), gradient, [&mut *sums, &mut *bias_sums]);
            if !dx.is_empty() {
                let first = i * together * self.input_len();
                let dx = &mut dx[first..first + x.len()];
                self.data(samples, [&*gradient, packed, &[]], false, dx);
            }
        }
        self.unpack(sums, dweights);
        let (channels, stride) = (layout.blocks.channels, layout.blocks.padded());
        for (to, from) in dbias.chunks_exact_mut(channels).zip(bias_sums.chunks_exact(stride)) {
            to.copy_from_slice(&from[..channels]);
        }
    }

    /// The samples with their padding: `x` itself if there is none, else a copy in `space`, whose
    /// border is zero already.
    fn pad<'a, E: Element>(&self, x: &'a [E], space: &'a mut [E]) -> &'a [E] {
        if !self.frame.is_padded() {
            return x;
        }
        place(self.frame, x, space);
        space
    }

    fn data<E: Element>(
        &self,
        samples: usize,
        [gradient, packed, bias]: [&[E]; 3],
        relu: bool,
        dx: &mut [E],
    ) {
        let layout = self.inputs::<E>();
        let mut weights = &packed[self.outputs::<E>().len(self.forward.sweep.terms())..];
        for taps in &self.data {
            let (part, rest) = weights.split_at(layout.len(taps.sweep.terms()));
            weights = rest;
            products(layout, taps, samples, [gradient, part, bias], relu, dx);
        }
    }

    fn sum<E: Element>(&self, samples: usize, x: &[E], dy: &[E], sums: [&mut [E]; 2]) {
        let layout = self.outputs::<E>();
        let (unit, channels) = (layout.unit, layout.blocks.channels);
        let (sweep, at) = (&self.forward.sweep, self.gradient.inside());
        let [sums, bias_sums] = sums;
        if self.is_depthwise() {
            unit.run(DepthwiseSums { sweep, samples, channels, x, dy, at, sums, bias_sums });
            return;
        }
        let pieces = sums.chunks_exact_mut(layout.group_len(sweep.terms()));
        let bias_pieces = bias_sums.chunks_exact_mut(layout.blocks.padded());
        for (group, (sums, bias_sums)) in pieces.zip(bias_pieces).enumerate() {
            let x = &x[group * self.group_inputs()..];
            let dy = &dy[group * channels..];
            unit.run(Sums { sweep, samples, channels, x, dy, at, sums, bias_sums });
        }
    }
}

fn products<E: Element>(
    layout: Layout,
    taps: &Taps,
    samples: usize,
    [from, weights, bias]: [&[E]; 3],
    rectify: bool,
    to: &mut [E],
) {
    let Layout { unit, blocks, groups } = layout;
    let (sweep, channels) = (&taps.sweep, blocks.channels);
    if taps.depthwise {
        unit.run(DepthwiseProducts { sweep, samples, channels, from, weights, bias, rectify, to });
        return;
    }
    let len = layout.group_len(sweep.terms());
    for group in 0..groups {
        unit.run(Products {
            sweep,
            samples,
            channels,
            from: &from[group * taps.channels..],
            weights: &weights[group * len..][..len],
            bias: bias.get(group * channels..(group + 1) * channels).unwrap_or(&[]),
            rectify,
            to: &mut to[group * channels..],
        });
    }
}

/// Copies dense samples into their frames.
fn place<E: Element>(frame: Frame, from: &[E], to: &mut [E]) {
    let [height, width] = frame.size;
    let row = width * frame.channels;
    for (from, to) in from.chunks_exact(height * row).zip(to.chunks_exact_mut(frame.len())) {
        let to = &mut to[frame.inside().origin..];
        for (from, to) in from.chunks_exact(row).zip(to.chunks_mut(frame.row())) {
            to[..row].copy_from_slice(from);
        }
    }
}
