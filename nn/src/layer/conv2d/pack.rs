//! Weights in the order in which the kernels read them.

use super::Conv2d;
use super::geometry::Taps;
use crate::Element;
use crate::kernel::VectorUnit;
use crate::kernel::conv::Blocks;

/// How the weights between some channels and the channels of one group are packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) unit: VectorUnit,
    /// Channels of a group that vectors run over.
    pub(super) blocks: Blocks,
    pub(super) groups: usize,
}

impl Layout {
    /// Values for `terms` terms in each group.
    pub(super) const fn len(self, terms: usize) -> usize {
        self.groups * self.group_len(terms)
    }

    /// The same of one group.
    pub(super) const fn group_len(self, terms: usize) -> usize {
        self.blocks.padded() * terms
    }
}

impl Conv2d {
    /// The layout whose vectors run over the output channels.
    pub(super) fn outputs<E: Element>(&self) -> Layout {
        self.layout::<E>(self.group_filters())
    }

    /// The layout whose vectors run over the input channels.
    pub(super) fn inputs<E: Element>(&self) -> Layout {
        self.layout::<E>(self.group_inputs())
    }

    fn layout<E: Element>(&self, channels: usize) -> Layout {
        if self.is_depthwise() {
            // One group of all channels; nothing fills up a vector.
            let channels = self.input[0];
            let unit = self.unit.narrowed::<E>(channels);
            return Layout { unit, blocks: Blocks { channels, lanes: 1 }, groups: 1 };
        }
        let unit = self.unit.narrowed::<E>(channels);
        let blocks = Blocks { channels, lanes: unit.lanes::<E>() };
        Layout { unit, blocks, groups: self.config.groups }
    }

    /// Values of the packed weights: those for forward, then those for the gradient by data.
    pub fn packed_len<E: Element>(&self) -> usize {
        let data = self.data.iter().map(|taps| self.inputs::<E>().len(taps.sweep.terms()));
        self.outputs::<E>().len(self.forward.sweep.terms()) + data.sum::<usize>()
    }

    /// Packs `weights`, once for as many passes as use them.
    ///
    /// # Panics
    /// When a length does not fit the layer.
    pub fn pack<E: Element>(&self, weights: &[E], packed: &mut [E]) {
        assert_eq!(weights.len(), self.weights_len(), "conv2d: number of weights");
        assert_eq!(packed.len(), self.packed_len::<E>(), "conv2d: number of packed weights");
        packed.fill(E::zero());
        let layout = self.outputs::<E>();
        let (forward, mut rest) = packed.split_at_mut(layout.len(self.forward.sweep.terms()));
        self.each_forward(layout, |at, weight| forward[at] = weights[weight]);
        let layout = self.inputs::<E>();
        for taps in &self.data {
            let (part, after) = rest.split_at_mut(layout.len(taps.sweep.terms()));
            self.each_data(layout, taps, |at, weight| part[at] = weights[weight]);
            rest = after;
        }
    }

    /// Brings sums in the packed form of the forward direction into the order of the weights.
    pub(super) fn unpack<E: Element>(&self, sums: &[E], dweights: &mut [E]) {
        self.each_forward(self.outputs::<E>(), |at, weight| dweights[weight] = sums[at]);
    }

    /// Calls `each` with the packed place and the index of every weight.
    fn each_forward(&self, layout: Layout, mut each: impl FnMut(usize, usize)) {
        let [_, kx] = self.config.kernel;
        let (inputs, filters) = (self.group_inputs(), self.group_filters());
        let (terms, area) = (self.forward.sweep.terms(), self.forward.kernel.len());
        if self.is_depthwise() {
            for (tap, [y, x]) in self.forward.kernel.iter().enumerate() {
                for channel in 0..filters * layout.blocks.channels {
                    each(tap * layout.blocks.channels + channel, channel * area + y * kx + x);
                }
            }
            return;
        }
        for filter in 0..self.config.filters {
            let (start, step) = layout.blocks.column(terms, filter % filters);
            let start = start + filter / filters * layout.group_len(terms);
            for input in 0..inputs {
                for tap in 0..area {
                    let weight = (filter * inputs + input) * area + tap;
                    each(start + (tap * inputs + input) * step, weight);
                }
            }
        }
    }

    fn each_data(&self, layout: Layout, taps: &Taps, mut each: impl FnMut(usize, usize)) {
        let [ky, kx] = self.config.kernel;
        let (inputs, filters) = (self.group_inputs(), self.group_filters());
        let (terms, area) = (taps.sweep.terms(), ky * kx);
        if self.is_depthwise() {
            for (tap, [y, x]) in taps.kernel.iter().enumerate() {
                for channel in 0..layout.blocks.channels {
                    each(tap * layout.blocks.channels + channel, channel * area + y * kx + x);
                }
            }
            return;
        }
        for filter in 0..self.config.filters {
            let (group, in_group) = (filter / filters, filter % filters);
            for input in 0..inputs {
                let (start, step) = layout.blocks.column(terms, input);
                let start = start + group * layout.group_len(terms);
                for (tap, [y, x]) in taps.kernel.iter().enumerate() {
                    let weight = (filter * inputs + input) * area + y * kx + x;
                    each(start + (tap * filters + in_group) * step, weight);
                }
            }
        }
    }
}
