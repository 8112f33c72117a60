//! Where the parameters are, and their update.

use millrace_arena::{Arena, Sharded};

use super::Place;
use crate::{Network, NnError, Sgd};

/// Parameters of one layer. The "shards" are blocks: pieces that are updated by one task each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) weights: Sharded<f32>,
    pub(super) bias: Sharded<f32>,
}

/// Values of a block. Shorter parameters are updated by one task.
const BLOCK: usize = 1 << 16;

/// Memory for `len` parameters, or for their gradient, cut into the same blocks.
fn blocks(arena: &Arena, len: usize) -> Result<Sharded<f32>, NnError> {
    Ok(arena.alloc_sharded(len, 1, len.div_ceil(BLOCK))?)
}

/// The parameters of each layer, filled with `values`.
pub(super) fn allocate(
    arena: &Arena,
    network: &Network,
    mut values: &[f32],
) -> Result<Vec<Option<Parameters>>, NnError> {
    let mut fill = |len: usize| -> Result<Sharded<f32>, NnError> {
        let (own, rest) = values.split_at(len);
        values = rest;
        let parameter = blocks(arena, len)?;
        parameter.whole().acquire_mut()?.copy_from_slice(own);
        Ok(parameter)
    };
    network
        .layers()
        .iter()
        .map(|node| {
            let Some([weights, bias]) = node.parameters() else { return Ok(None) };
            Ok(Some(Parameters { weights: fill(weights)?, bias: fill(bias)? }))
        })
        .collect()
}

impl Parameters {
    /// Memory for a gradient of these parameters.
    pub(super) fn gradient(&self, arena: &Arena) -> Result<Self, NnError> {
        Ok(Self {
            weights: blocks(arena, self.weights.rows())?,
            bias: blocks(arena, self.bias.rows())?,
        })
    }

    /// Submits the updates by the sum of `gradients`, one per shard of the batch.
    pub(super) fn update(
        &self,
        place: Place<'_>,
        sgd: Sgd,
        gradients: &[Self],
    ) -> Result<(), NnError> {
        let of_weights = gradients.iter().map(|gradient| gradient.weights).collect::<Vec<_>>();
        let of_bias = gradients.iter().map(|gradient| gradient.bias).collect::<Vec<_>>();
        for (parameter, gradients) in [(self.weights, of_weights), (self.bias, of_bias)] {
            for block in 0..parameter.shards() {
                let read = gradients.iter().map(|gradient| gradient.shard(block).read());
                let access = (parameter.shard(block).write(), read.collect::<Vec<_>>());
                Place { shard: block, ..place }
                    .task("sgd.update")
                    .spawn(access, move |(parameter, gradients)| {
                        sgd.update(parameter, &gradients)
                    })?;
            }
        }
        Ok(())
    }
}
