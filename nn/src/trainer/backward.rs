//! The way back: gradients, and the tasks that compute them.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded, scratch};

use super::forward::Activations;
use super::{BatchPlace, Parameters, Place, Trainer};
use crate::layer::{Conv2d, Dense, Relu};
use crate::{LayerKind, NnError};

/// What the task of one layer with parameters works on, for one shard.
struct Step<'a> {
    place: Place<'a>,
    parameters: Parameters,
    gradient: Parameters,
    x: Buffer<f32>,
    dy: Buffer<f32>,
    /// Nothing if no layer before this one needs a gradient.
    dx: Option<Buffer<f32>>,
}

impl Trainer {
    /// Submits the tasks from the gradient by the logits back to the first layer with parameters,
    /// and the update of each layer as soon as its gradients are submitted.
    pub(super) fn backward(
        &self,
        arena: &Arena,
        batch: BatchPlace,
        activations: &Activations,
        dlogits: Sharded<f32>,
    ) -> Result<(), NnError> {
        let (rows, shards) = (dlogits.rows(), dlogits.shards());
        let first = self.network.first_trained();
        let mut dy = dlogits;
        for (layer, node) in self.network.layers().iter().enumerate().skip(first).rev() {
            let dx = match node.kind() {
                LayerKind::Flatten => continue,
                LayerKind::Relu => dy,
                _ if layer == first => dy,
                _ => arena.alloc_sharded(rows, node.input().len(), shards)?,
            };
            let mut gradients = Vec::with_capacity(shards);
            for shard in 0..shards {
                let place = self.at(Some(batch.index), layer, shard);
                if let Some(parameters) = self.parameters[layer] {
                    let gradient = parameters.gradient(arena)?;
                    gradients.push(gradient);
                    let step = Step {
                        place,
                        parameters,
                        gradient,
                        x: activations.values(layer, shard, shard),
                        dy: dy.shard(shard),
                        dx: (layer > first).then(|| dx.shard(shard)),
                    };
                    match node.kind() {
                        LayerKind::Conv2d(layer) => step.conv2d(layer)?,
                        LayerKind::Dense(layer) => {
                            step.dense(*layer, dlogits.shard_rows(shard).len())?;
                        }
                        LayerKind::Relu | LayerKind::MaxPool2d(_) | LayerKind::Flatten => {}
                    }
                } else {
                    self.without_parameters(place, activations, dy, dx)?;
                }
            }
            if let Some(parameters) = self.parameters[layer] {
                let place = self.at(Some(batch.index), layer, 0);
                parameters.update(place, self.sgd, &gradients)?;
            }
            dy = dx;
        }
        Ok(())
    }

    fn without_parameters(
        &self,
        place: Place<'_>,
        activations: &Activations,
        dy: Sharded<f32>,
        dx: Sharded<f32>,
    ) -> Result<(), NnError> {
        let Place { layer, shard, .. } = place;
        let node = &self.network.layers()[layer];
        match node.kind() {
            LayerKind::Relu => {
                let relu = Relu::new(node.output());
                let y = activations.values(layer + 1, shard, shard);
                let access = (y.read(), dy.shard(shard).write());
                place
                    .task("relu.backward")
                    .spawn(access, move |(y, gradient)| relu.backward(y, gradient))?;
            }
            LayerKind::MaxPool2d(pool) => {
                let pool = *pool;
                let winners = activations.winners[layer].expect("a pooling has winners");
                let access = (
                    winners.shard(shard).read(),
                    dy.shard(shard).read(),
                    dx.shard(shard).overwrite(),
                );
                place.task("max_pool2d.backward").spawn(access, move |(winners, dy, dx)| {
                    pool.backward(winners, dy, dx);
                })?;
            }
            LayerKind::Flatten | LayerKind::Conv2d(_) | LayerKind::Dense(_) => {}
        }
        Ok(())
    }
}

impl Step<'_> {
    fn conv2d(self, layer: &Arc<Conv2d>) -> Result<(), NnError> {
        let Self { place, parameters, gradient, x, dy, dx } = self;
        let layer = Arc::clone(layer);
        let access = (
            x.read(),
            dy.read(),
            gradient.weights.whole().overwrite(),
            gradient.bias.whole().overwrite(),
            scratch::<f32>(layer.scratch_len()),
            dx.map(|dx| (parameters.weights.whole().read(), dx.overwrite())),
        );
        place.task("conv2d.backward").spawn(
            access,
            move |(x, dy, dweights, dbias, space, by_data)| {
                layer.backward_weights(x, dy, dweights, dbias, space);
                if let Some((weights, dx)) = by_data {
                    layer.backward_data(dy, weights, dx, space);
                }
            },
        )?;
        Ok(())
    }

    fn dense(self, layer: Dense, samples: usize) -> Result<(), NnError> {
        let Self { place, parameters, gradient, x, dy, dx } = self;
        let access = (
            x.read(),
            dy.read(),
            gradient.weights.whole().overwrite(),
            gradient.bias.whole().overwrite(),
            scratch::<f32>(layer.scratch_len(samples)),
            dx.map(|dx| (parameters.weights.whole().read(), dx.overwrite())),
        );
        place.task("dense.backward").spawn(
            access,
            move |(x, dy, dweights, dbias, space, by_data)| {
                layer.backward_weights(x, dy, dweights, dbias, space);
                if let Some((weights, dx)) = by_data {
                    layer.backward_data(dy, weights, dx, space);
                }
            },
        )?;
        Ok(())
    }
}
