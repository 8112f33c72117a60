//! Where the steps of a shard are cut into tasks.

use super::groups::{BLOCK, Groups};
use super::steps::{BackwardStep, ForwardStep, PlanNode, Program, Step};

/// How much of a shard one task does.
///
/// The results have the same bits whatever is chosen; only time and memory differ. Where a layer
/// works on the whole batch there is always a cut. Each costs a task, and the values that cross it leave scratch memory, which is likely in the cache, for the
/// batch arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// All that a shard has to do, cut only where others can begin with what was finished: after
    /// the gradient of a large parameter, which is then updated while the shards go on, if they
    /// have at least [`GOES_ON`](Self::GOES_ON) yet to compute per sample.
    #[default]
    Automatic,
    /// At least so many floating point operations per sample, as estimated. 0 makes each
    /// computation of each layer a task.
    Flops(u64),
    /// All that a shard has to do.
    Shard,
}

impl Granularity {
    /// What a shard has to compute per sample behind a cut that is worth its price.
    pub const GOES_ON: u64 = 1_000_000;
}

/// The cuts: the index of each stage's last step, plus one, but for the last stage.
pub(super) fn cuts(
    program: &Program,
    nodes: &[PlanNode],
    groups: &Groups,
    granularity: Granularity,
) -> Vec<usize> {
    let costs: Vec<u64> = program.steps.iter().map(|step| cost(step, nodes, program)).collect();
    let mut cuts = match granularity {
        Granularity::Shard => Vec::new(),
        Granularity::Flops(least) => by_cost(&costs, least),
        Granularity::Automatic => {
            let mut left: u64 = costs.iter().sum();
            let mut cuts = Vec::new();
            for (index, step) in program.steps.iter().enumerate() {
                left -= costs[index];
                if left >= Granularity::GOES_ON && finishes_large(step, groups) {
                    cuts.push(index + 1);
                }
            }
            cuts
        }
    };
    // All shards have to come here before any can go on.
    let parts = program.steps.iter().enumerate();
    cuts.extend(parts.filter(|(_, step)| matches!(step, Step::Part(_))).map(|(i, _)| i + 1));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Cuts as soon as a stage has `least` to do. What is left at the end joins the last stage.
fn by_cost(costs: &[u64], least: u64) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut done = 0;
    for (index, cost) in costs.iter().enumerate() {
        done += cost;
        if done >= least && costs[index + 1..].iter().sum::<u64>() >= least {
            cuts.push(index + 1);
            done = 0;
        }
    }
    cuts.retain(|&cut| cut < costs.len());
    cuts
}

/// Whether a step gives the last of a group's gradient, and the group is large.
fn finishes_large(step: &Step, groups: &Groups) -> bool {
    let Step::Backward(BackwardStep { node, .. }) = step else { return false };
    groups
        .iter()
        .any(|group| group.len >= BLOCK && group.nodes.first().is_some_and(|first| first == node))
}

/// What a step takes per sample, in floating point operations: those of products, and for each
/// value that passes as much as its way through the cache may take.
fn cost(step: &Step, nodes: &[PlanNode], program: &Program) -> u64 {
    const PER_VALUE: u64 = 4;
    let mut values = 0;
    step.touches(|buf, _| values += program.lens[buf] as u64);
    let products = match step {
        Step::Forward(ForwardStep { node, .. }) => nodes[*node].layer.flops(),
        Step::Backward(BackwardStep { node, dx, .. }) => {
            let layer = &nodes[*node].layer;
            let by_weights = u64::from(!layer.parameters().is_empty());
            (by_weights + u64::from(dx.iter().any(Option::is_some))) * layer.flops()
        }
        Step::Part(_) | Step::Loss { .. } | Step::Copy { .. } | Step::Add { .. } => 0,
    };
    products + PER_VALUE * values
}
