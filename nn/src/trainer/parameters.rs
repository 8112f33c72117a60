//! Where the parameters are, and their update.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded};

use super::Place;
use super::plan::{BLOCK, Outside, Plan, PlanNode};
use crate::guard::BadGradient;
use crate::kernel::take;
use crate::{NnError, Sgd};

/// The parameters of a network, by group, and their packed form.
#[derive(Debug)]
pub(super) struct Parameters {
    /// Cut into the group's blocks.
    pub(super) groups: Vec<Sharded<f32>>,
    /// By node: the packed parameters, where the layer has such a form.
    pub(super) packed: Vec<Option<Buffer<f32>>>,
    /// By node: what the layer has learned from batches, one kind after the other.
    pub(super) states: Vec<Option<Buffer<f32>>>,
}

/// Memory for the values of a group, or for their gradient, cut into blocks that are updated by one
/// task each.
pub(super) fn blocks(arena: &Arena, len: usize) -> Result<Sharded<f32>, NnError> {
    Ok(arena.alloc_sharded(len, 1, len.div_ceil(BLOCK))?)
}

impl Parameters {
    /// Memory for the parameters of `plan`, filled with `values`.
    pub(super) fn new(arena: &Arena, plan: &Plan, mut values: &[f32]) -> Result<Self, NnError> {
        let mut groups = Vec::with_capacity(plan.groups.len());
        for group in plan.groups.iter() {
            let (own, rest) = values.split_at(group.len);
            values = rest;
            let buffer = blocks(arena, group.len)?;
            buffer.whole().acquire_mut()?.copy_from_slice(own);
            groups.push(buffer);
        }
        let mut packed = Vec::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            let len = node.layer.packed_len();
            let (true, Some(group)) = (len > 0, plan.groups.of_node(index)) else {
                packed.push(None);
                continue;
            };
            let buffer = arena.alloc(len)?;
            plan.pack(index, &groups[group].whole().acquire()?, &mut buffer.acquire_mut()?);
            packed.push(Some(buffer));
        }
        let states = plan.nodes.iter().map(|node| state(arena, node)).collect::<Result<_, _>>()?;
        Ok(Self { groups, packed, states })
    }

    /// What a stage is handed that outlives a batch; `None` for all else.
    pub(super) fn buffer(&self, outside: Outside) -> Option<Buffer<f32>> {
        match outside {
            Outside::Parameters(group) => Some(self.groups[group].whole()),
            Outside::Packed(node) => Some(self.packed[node].expect("the layer packs")),
            Outside::State(node) => Some(self.states[node].expect("the layer learns")),
            Outside::Buffer(_) | Outside::Gradient(_) => None,
        }
    }

    /// Submits the update of a group by the sum of `gradients`, one per shard of the batch, and the
    /// packing of what has changed.
    pub(super) fn update(
        &self,
        plan: &Arc<Plan>,
        place: Place<'_>,
        group: usize,
        sgd: Sgd,
        gradients: &[Sharded<f32>],
    ) -> Result<(), NnError> {
        let values = self.groups[group];
        let mut nodes = plan.groups.nodes(group).to_vec();
        nodes.retain(|&node| self.packed[node].is_some());
        let packed: Vec<_> =
            nodes.iter().flat_map(|&node| self.packed[node]).map(|p| p.overwrite()).collect();
        let plan = Arc::clone(plan);
        let pack = move |values: &[f32], packed: Vec<&mut [f32]>| {
            nodes.iter().zip(packed).for_each(|(&node, packed)| plan.pack(node, values, packed));
        };
        let blocks = values.shards();
        if blocks == 1 {
            let read: Vec<_> = gradients.iter().map(|gradient| gradient.whole().read()).collect();
            place.task("sgd.update").spawn(
                (values.whole().write(), read, packed),
                move |(values, gradients, packed)| {
                    sgd.update(values, &gradients)?;
                    pack(values, packed);
                    Ok::<(), BadGradient>(())
                },
            )?;
            return Ok(());
        }
        for block in 0..blocks {
            let read = gradients.iter().map(|gradient| gradient.shard(block).read());
            let access = (values.shard(block).write(), read.collect::<Vec<_>>());
            Place { shard: block, ..place }
                .task("sgd.update")
                .spawn(access, move |(values, gradients)| sgd.update(values, &gradients))?;
        }
        if !packed.is_empty() {
            let access = (values.whole().read(), packed);
            place.task("pack").spawn(access, move |(values, packed)| pack(values, packed))?;
        }
        Ok(())
    }
}

/// Memory for what a node learns from batches, with what it begins with.
fn state(arena: &Arena, node: &PlanNode) -> Result<Option<Buffer<f32>>, NnError> {
    let states = node.layer.state();
    if states.is_empty() {
        return Ok(None);
    }
    let buffer = arena.alloc::<f32>(states.iter().map(|state| state.len).sum())?;
    let mut values = buffer.acquire_mut()?;
    let mut rest = &mut values[..];
    for state in states {
        take(&mut rest, state.len).fill(state.initial as f32);
    }
    Ok(Some(buffer))
}

impl Plan {
    /// Packs the parameters of `node`, which are in the `values` of its group.
    fn pack(&self, node: usize, values: &[f32], packed: &mut [f32]) {
        let ranges = self.groups.ranges(node);
        let parameters: Vec<&[f32]> = ranges.iter().map(|range| &values[range.clone()]).collect();
        self.nodes[node].layer.pack(&parameters, packed);
    }
}
