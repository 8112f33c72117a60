//! What the parts of all shards come to, for layers that work on a whole batch.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded, scratch};

use super::plan::{Direction, Plan, Stage, WideRead, task_name};
use super::{Place, Trainer};
use crate::NnError;
use crate::kernel::take;
use crate::layer::{BatchWide, Way, combine, part_len};

/// The parts and the total of one node in one direction.
#[derive(Clone, Copy, Debug)]
struct Parts {
    node: usize,
    way: Way,
    parts: Sharded<f64>,
    total: Buffer<f64>,
}

/// Those of a batch.
#[derive(Debug)]
pub(super) struct WideBuffers(Vec<Parts>);

impl WideBuffers {
    /// Memory for all parts and totals of a batch.
    pub(super) fn allocate(plan: &Plan, arena: &Arena, shards: usize) -> Result<Self, NnError> {
        let allocate = |(node, way)| {
            let len = part_len(plan.wide(node), way);
            let (parts, total) = (arena.alloc_sharded(shards, len, shards)?, arena.alloc(len)?);
            Ok(Parts { node, way, parts, total })
        };
        let wanted = plan.train.stages.iter().filter_map(|stage| stage.part);
        wanted.map(allocate).collect::<Result<_, NnError>>().map(Self)
    }

    fn of(&self, node: usize, way: Way) -> Parts {
        let found = self.0.iter().find(|parts| (parts.node, parts.way) == (node, way));
        *found.expect("all parts of the plan have memory")
    }

    /// What a stage reads.
    pub(super) fn read(&self, read: WideRead, shard: usize) -> Buffer<f64> {
        match read {
            WideRead::Total(node, way) => self.of(node, way).total,
            WideRead::Part(node) => self.of(node, Way::Backward).parts.shard(shard),
        }
    }

    /// The part with which a stage ends, if it does.
    pub(super) fn part(&self, stage: &Stage, shard: usize) -> Option<Buffer<f64>> {
        stage.part.map(|(node, way)| self.of(node, way).parts.shard(shard))
    }
}

impl Trainer {
    /// Submits the task that combines the parts of all shards. Forward, the layer learns from what
    /// they come to.
    pub(super) fn submit_total(
        &self,
        place: Place<'_>,
        buffers: &WideBuffers,
        node: usize,
        way: Way,
    ) -> Result<(), NnError> {
        let Parts { parts, total, .. } = buffers.of(node, way);
        let state = self.parameters.states[node].filter(|_| way == Way::Forward);
        let access = (
            parts.whole().read(),
            total.overwrite(),
            state.map(|state| state.write()),
            scratch::<f64>(parts.rows() * parts.row_len()),
        );
        let plan = Arc::clone(&self.plan);
        let name = task_name(self.plan.nodes[node].layer.kind(), Direction::Total);
        place.task(name).spawn(access, move |(parts, total, state, space)| {
            space.copy_from_slice(parts);
            plan.total(node, way, space, total, state);
        })?;
        Ok(())
    }
}

impl Plan {
    /// The layer of `node`, which works on whole batches.
    fn wide(&self, node: usize) -> &dyn BatchWide<f32> {
        self.nodes[node].layer.batch_wide().expect("only such layers have parts")
    }

    /// Combines `parts` to the `total`, and lets the layer learn from it.
    fn total(
        &self,
        node: usize,
        way: Way,
        parts: &mut [f64],
        total: &mut [f64],
        state: Option<&mut [f32]>,
    ) {
        let layer = self.wide(node);
        combine(layer, way, parts);
        total.copy_from_slice(&parts[..total.len()]);
        if let Some(mut values) = state {
            let lens = &self.states[node];
            let mut states: Vec<_> = lens.iter().map(|&len| take(&mut values, len)).collect();
            layer.learn(total, &mut states);
        }
    }
}
