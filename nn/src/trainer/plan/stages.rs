//! From steps to stages: what one task does with one shard, and where its buffers are.
//!
//! A buffer that only one stage uses is scratch of that stage; buffers that live at different times
//! share their memory there. All others are in the arena of the batch.

use super::groups::Groups;
use super::names::{self, Direction};
use super::regions::{lives, regions};
use super::steps::{BufId, Goal, IMAGES, PlanNode, Program, Step, Touch};
use crate::layer::Way;

/// Something that a stage is handed, from outside of its scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outside {
    /// A buffer of the batch; [`IMAGES`] is that of the images.
    Buffer(BufId),
    /// The parameters of a group.
    Parameters(usize),
    /// The packed parameters of a node.
    Packed(usize),
    /// The gradient by a group, of this shard.
    Gradient(usize),
    /// What a node has learned from batches.
    State(usize),
}

/// Something in double precision that a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WideRead {
    /// What the parts of a node came to.
    Total(usize, Way),
    /// The backward part of this shard.
    Part(usize),
}

/// What one task does with one shard.
///
/// The operands of `steps` are first the regions of the scratch, then what is read, what is changed
/// and what is overwritten outside.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Index of the first layer in the network.
    pub(crate) layer: usize,
    pub(crate) steps: Vec<Step<Operand>>,
    /// By step: the operands of its node's parameters.
    pub(crate) parameters: Vec<NodeOperands>,
    /// Values per sample of each region.
    pub(crate) regions: Vec<usize>,
    pub(crate) reads: Vec<Outside>,
    pub(crate) changes: Vec<Outside>,
    pub(crate) defines: Vec<Outside>,
    /// Whether the loss is among the steps.
    pub(crate) has_loss: bool,
    /// What it reads in double precision.
    pub(crate) wide: Vec<WideRead>,
    /// The node whose part of this shard is the last step.
    pub(crate) part: Option<(usize, Way)>,
}

/// Where a buffer is among what a stage works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) at: usize,
    /// Values per sample.
    pub(crate) len: usize,
}

/// Where the parameters of a step's node are.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeOperands {
    /// The operand of its group's parameters.
    pub(crate) group: Option<usize>,
    pub(crate) packed: Option<usize>,
    /// The operand of the gradient by the group.
    pub(crate) gradient: Option<usize>,
    pub(crate) state: Option<usize>,
    /// Among what the stage reads in double precision: the total forward, the total backward, and
    /// this shard's part backward.
    pub(crate) wide: [Option<usize>; 3],
}

/// The stages of `program`, which is cut at `cuts`: each is the index of a stage's last step, plus
/// one.
pub(crate) fn stages(
    program: &Program,
    nodes: &[PlanNode],
    groups: &Groups,
    cuts: &[usize],
) -> Vec<Stage> {
    let lives = lives(program);
    let stage_of = |step: usize| cuts.iter().filter(|&&cut| cut <= step).count();
    let is_scratch =
        |buf: BufId| buf != IMAGES && stage_of(lives[buf].start) == stage_of(lives[buf].end - 1);
    let mut stages = Vec::new();
    let mut defined = vec![false; groups.len()];
    let mut start = 0;
    for &end in cuts.iter().chain([&program.steps.len()]) {
        if start < end {
            let (regions, region_of) = regions(program, &lives, start..end, is_scratch);
            let writer = Writer { program, nodes, groups, region_of, regions };
            stages.push(writer.stage(&program.steps[start..end], &mut defined));
        }
        start = end;
    }
    stages
}

/// What a stage needs from outside, in the order in which its steps come to it, and how.
#[derive(Debug, Default)]
struct Needs(Vec<(Outside, Touch)>);

impl Needs {
    fn add(&mut self, outside: Outside, how: Touch) {
        match self.0.iter_mut().find(|(other, _)| *other == outside) {
            Some((_, Touch::Define)) => {}
            Some((_, known)) if how != Touch::Read => *known = Touch::Change,
            Some(_) => {}
            None => self.0.push((outside, how)),
        }
    }

    fn of(&self, wanted: Touch) -> Vec<Outside> {
        self.0.iter().filter(|(_, how)| *how == wanted).map(|(outside, _)| *outside).collect()
    }
}

struct Writer<'a> {
    program: &'a Program,
    nodes: &'a [PlanNode],
    groups: &'a Groups,
    /// By buffer: its region, if it is scratch of this stage.
    region_of: Vec<Option<usize>>,
    regions: Vec<usize>,
}

impl Writer<'_> {
    /// The stage of `steps`. `defined` tells which gradients earlier stages have begun.
    fn stage(&self, steps: &[Step], defined: &mut [bool]) -> Stage {
        let needs = self.needs(steps, defined);
        let [reads, changes, defines] =
            [Touch::Read, Touch::Change, Touch::Define].map(|how| needs.of(how));
        let outside: Vec<Outside> =
            [&reads, &changes, &defines].into_iter().flatten().copied().collect();
        let operand = |wanted: Outside| {
            let place = outside.iter().position(|&outside| outside == wanted);
            self.regions.len() + place.expect("all that a stage uses was counted")
        };
        let name = |buf: BufId, _| {
            let at = self.region_of[buf].unwrap_or_else(|| operand(Outside::Buffer(buf)));
            Operand { at, len: self.program.lens[buf] }
        };
        let mut wide = Vec::new();
        let parameters =
            steps.iter().map(|step| self.parameters(step, &operand, &mut wide)).collect();
        let first = steps.iter().find_map(Step::node);
        let part = match steps.last() {
            Some(Step::Part(step)) => Some((step.node, step.way())),
            _ => None,
        };
        Stage {
            name: self.name(steps),
            layer: first.map_or(0, |node| self.nodes[node].place),
            steps: steps.iter().map(|step| step.map(name)).collect(),
            parameters,
            regions: self.regions.clone(),
            reads,
            changes,
            defines,
            has_loss: steps.iter().any(|step| matches!(step, Step::Loss { .. })),
            wide,
            part,
        }
    }

    fn needs(&self, steps: &[Step], defined: &mut [bool]) -> Needs {
        let mut needs = Needs::default();
        for step in steps {
            step.touches(|buf, how| {
                if self.region_of[buf].is_none() {
                    needs.add(Outside::Buffer(buf), how);
                }
            });
            let Some(node) = step.node() else { continue };
            if self.reads_state(step) {
                needs.add(Outside::State(node), Touch::Read);
            }
            let Some(group) = self.group(step) else { continue };
            needs.add(Outside::Parameters(group), Touch::Read);
            if self.nodes[node].layer.packed_len() > 0 {
                needs.add(Outside::Packed(node), Touch::Read);
            }
            if matches!(step, Step::Backward(_)) {
                let begun = std::mem::replace(&mut defined[group], true);
                let how = if begun { Touch::Change } else { Touch::Define };
                needs.add(Outside::Gradient(group), how);
            }
        }
        needs
    }

    /// The group of the parameters that a step uses.
    fn group(&self, step: &Step) -> Option<usize> {
        let uses = !matches!(step, Step::Part(_));
        step.node().filter(|_| uses).and_then(|node| self.groups.of_node(node))
    }

    /// Whether a step uses what its layer has learned from batches.
    fn reads_state(&self, step: &Step) -> bool {
        let learns = |node: usize| !self.nodes[node].layer.state().is_empty();
        self.program.goal == Goal::Evaluate && step.node().is_some_and(learns)
    }

    fn parameters(
        &self,
        step: &Step,
        operand: &impl Fn(Outside) -> usize,
        wide: &mut Vec<WideRead>,
    ) -> NodeOperands {
        let Some(node) = step.node() else { return NodeOperands::default() };
        let group = self.group(step);
        let packs = group.is_some() && self.nodes[node].layer.packed_len() > 0;
        let gradient = group.filter(|_| matches!(step, Step::Backward(_)));
        let mut place = |read| {
            let known = wide.iter().position(|other| *other == read);
            known.unwrap_or_else(|| {
                wide.push(read);
                wide.len() - 1
            })
        };
        NodeOperands {
            group: group.map(|group| operand(Outside::Parameters(group))),
            packed: packs.then(|| operand(Outside::Packed(node))),
            gradient: gradient.map(|group| operand(Outside::Gradient(group))),
            state: self.reads_state(step).then(|| operand(Outside::State(node))),
            wide: self.wide_reads(step, node).map(|read| read.map(&mut place)),
        }
    }

    /// What a step reads in double precision: the total forward, the total backward, and the part
    /// of its shard backward.
    fn wide_reads(&self, step: &Step, node: usize) -> [Option<WideRead>; 3] {
        let is_wide = self.nodes[node].layer.batch_wide().is_some();
        let [forward, backward] =
            [Way::Forward, Way::Backward].map(|way| WideRead::Total(node, way));
        match step {
            _ if !is_wide || self.program.goal == Goal::Evaluate => [None; 3],
            Step::Part(step) if step.way() == Way::Forward => [None; 3],
            Step::Backward(_) => [Some(forward), Some(backward), Some(WideRead::Part(node))],
            _ => [Some(forward), None, None],
        }
    }

    /// A name that tells what a stage is for: that of its layer and direction if there is but one.
    fn name(&self, steps: &[Step]) -> &'static str {
        let forward = steps.iter().filter(|step| matches!(step, Step::Forward(_))).count();
        let backward = steps.iter().filter(|step| matches!(step, Step::Backward(_))).count();
        let has_loss = steps.iter().any(|step| matches!(step, Step::Loss { .. }));
        let node = steps.iter().find_map(Step::node);
        let kind = node.map_or("", |node| self.nodes[node].layer.kind());
        match (forward, has_loss, backward) {
            (0, true, 0) => "loss",
            (0, false, 0) if node.is_some() => names::of(kind, Direction::Part),
            (0, false, 0) => "add",
            (1, false, 0) => names::of(kind, Direction::Forward),
            (0, false, 1) => names::of(kind, Direction::Backward),
            (_, false, 0) => "forward",
            (0, false, _) => "backward",
            (_, true, 0) => "forward and loss",
            (0, true, _) => "loss and backward",
            _ => "train",
        }
    }
}
