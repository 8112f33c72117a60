//! The way forward: activations, and the tasks that compute them.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded, scratch};

use super::{Parameters, Place, Trainer};
use crate::layer::Relu;
use crate::{LayerKind, Network, NnError};

/// The values between the layers of a batch.
pub(super) struct Activations {
    /// What reaches layer `i`, and at the end the logits. A layer that works in place or does
    /// nothing has the same buffer before and after it.
    values: Vec<Sharded<f32>>,
    /// The winners of layer `i`, if it is a pooling.
    pub(super) winners: Vec<Option<Sharded<u8>>>,
    /// Whether layer `i` leaves its values in the buffer in which it found them.
    in_place: Vec<bool>,
}

/// What the task of one layer and shard works on.
pub(super) struct Values {
    pub(super) x: Buffer<f32>,
    pub(super) y: Buffer<f32>,
    pub(super) winners: Option<Buffer<u8>>,
    /// Whether `x` and `y` are the same buffer.
    pub(super) in_place: bool,
}

impl Activations {
    /// Memory for the activations of `rows` of the `images`, cut into `shards`.
    pub(super) fn allocate(
        arena: &Arena,
        network: &Network,
        images: Sharded<f32>,
        [rows, shards]: [usize; 2],
    ) -> Result<Self, NnError> {
        let mut values = vec![images];
        let mut winners = Vec::with_capacity(network.layers().len());
        let mut in_place = Vec::with_capacity(network.layers().len());
        for node in network.layers() {
            let before = values[values.len() - 1];
            let len = node.output().len();
            // The images belong to somebody else and are not worked on in place.
            let own = in_place.contains(&false);
            let stays = match node.kind() {
                LayerKind::Flatten => true,
                LayerKind::Relu => own,
                _ => false,
            };
            in_place.push(stays);
            let after = if stays { before } else { arena.alloc_sharded(rows, len, shards)? };
            values.push(after);
            winners.push(match node.kind() {
                LayerKind::MaxPool2d(_) => Some(arena.alloc_sharded(rows, len, shards)?),
                _ => None,
            });
        }
        Ok(Self { values, winners, in_place })
    }

    /// What reaches layer `layer` in shard `shard`, whose own activations are those of `slot`.
    pub(super) fn values(&self, layer: usize, shard: usize, slot: usize) -> Buffer<f32> {
        let still_the_images = self.in_place[..layer].iter().all(|&stays| stays);
        self.values[layer].shard(if still_the_images { shard } else { slot })
    }

    /// What layer `layer` works on in shard `shard`, whose own activations are those of `slot`.
    pub(super) fn of(&self, layer: usize, shard: usize, slot: usize) -> Values {
        Values {
            x: self.values(layer, shard, slot),
            y: self.values(layer + 1, shard, slot),
            winners: self.winners[layer].map(|winners| winners.shard(slot)),
            in_place: self.in_place[layer],
        }
    }

    /// The logits of shard `shard`, whose own activations are those of `slot`.
    pub(super) fn logits(&self, shard: usize, slot: usize) -> Buffer<f32> {
        self.values(self.in_place.len(), shard, slot)
    }
}

impl Trainer {
    /// Submits the task of one layer for one shard of `samples` samples. The buffers of `values`
    /// may be longer than the shard.
    pub(super) fn forward(
        &self,
        place: Place<'_>,
        samples: usize,
        values: &Values,
    ) -> Result<(), NnError> {
        let node = &self.network.layers()[place.layer];
        let (inputs, outputs) = (samples * node.input().len(), samples * node.output().len());
        let Values { x, y, winners, in_place } = *values;
        let parameters = || self.parameters[place.layer].expect("the layer has parameters");
        match node.kind() {
            LayerKind::Flatten => {}
            LayerKind::Relu if in_place => {
                let relu = Relu::new(node.output());
                place
                    .task("relu.forward")
                    .spawn(y.write(), move |y| relu.forward(&mut y[..outputs]))?;
            }
            LayerKind::Relu => {
                let relu = Relu::new(node.output());
                place.task("relu.forward").spawn((x.read(), y.overwrite()), move |(x, y)| {
                    y[..outputs].copy_from_slice(&x[..outputs]);
                    relu.forward(&mut y[..outputs]);
                })?;
            }
            LayerKind::Conv2d(layer) => {
                let layer = Arc::clone(layer);
                let Parameters { weights, bias } = parameters();
                let access = (
                    x.read(),
                    weights.whole().read(),
                    bias.whole().read(),
                    y.overwrite(),
                    scratch::<f32>(layer.scratch_len()),
                );
                place.task("conv2d.forward").spawn(
                    access,
                    move |(x, weights, bias, y, space)| {
                        layer.forward(&x[..inputs], weights, bias, &mut y[..outputs], space);
                    },
                )?;
            }
            LayerKind::MaxPool2d(layer) => {
                let layer = *layer;
                let winners = winners.expect("a pooling has winners");
                let access = (x.read(), y.overwrite(), winners.overwrite());
                place.task("max_pool2d.forward").spawn(access, move |(x, y, winners)| {
                    layer.forward(&x[..inputs], &mut y[..outputs], &mut winners[..outputs]);
                })?;
            }
            LayerKind::Dense(layer) => {
                let layer = *layer;
                let Parameters { weights, bias } = parameters();
                let access = (x.read(), weights.whole().read(), bias.whole().read(), y.overwrite());
                place.task("dense.forward").spawn(access, move |(x, weights, bias, y)| {
                    layer.forward(&x[..inputs], weights, bias, &mut y[..outputs]);
                })?;
            }
        }
        Ok(())
    }
}
