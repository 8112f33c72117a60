//! From steps to stages: what one task does with one shard, and where its buffers are.
//!
//! A buffer that only one stage uses is scratch of that stage; buffers that live at different times
//! share their memory there. All others are in the arena of the batch.

use std::ops::Range;

use super::groups::Groups;
use super::names::{self, Direction};
use super::steps::{BackwardStep, BufId, ForwardStep, IMAGES, PlanNode, Program, Step, Touch};

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
            let writer = Writer { nodes, groups, region_of, regions, lens: &program.lens };
            stages.push(writer.stage(&program.steps[start..end], &mut defined));
        }
        start = end;
    }
    stages
}

/// By buffer: the steps from the first to the last that use it.
fn lives(program: &Program) -> Vec<Range<usize>> {
    let mut lives = vec![0..0; program.lens.len()];
    for (index, step) in program.steps.iter().enumerate() {
        step.touches(|buf, _| {
            let life: &mut Range<usize> = &mut lives[buf];
            if life.end == 0 {
                life.start = index;
            }
            life.end = index + 1;
        });
    }
    lives
}

/// Regions for the scratch buffers of the steps in `range`, and by buffer its region.
fn regions(
    program: &Program,
    lives: &[Range<usize>],
    range: Range<usize>,
    is_scratch: impl Fn(BufId) -> bool,
) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut region_of = vec![None; lives.len()];
    let mut free: Vec<usize> = Vec::new();
    for index in range {
        let mut begun = Vec::new();
        program.steps[index].touches(|buf, _| {
            if lives[buf].start == index && is_scratch(buf) && !begun.contains(&buf) {
                begun.push(buf);
            }
        });
        for &buf in &begun {
            let region = region_for(&mut sizes, &mut free, program.lens[buf]);
            region_of[buf] = Some(region);
        }
        let mut ended = Vec::new();
        program.steps[index].touches(|buf, _| {
            if lives[buf].end == index + 1 && is_scratch(buf) && !ended.contains(&buf) {
                ended.push(buf);
            }
        });
        free.extend(ended.iter().filter_map(|&buf| region_of[buf]));
    }
    (sizes, region_of)
}

/// A region of at least `len`: of those that are free the smallest that is large enough, or else
/// the largest, which grows, or else a new one.
fn region_for(sizes: &mut Vec<usize>, free: &mut Vec<usize>, len: usize) -> usize {
    let fit = |&place: &usize| {
        let size = sizes[free[place]];
        (size < len, if size < len { usize::MAX - size } else { size }, free[place])
    };
    match (0..free.len()).min_by_key(fit) {
        Some(place) => {
            let region = free.swap_remove(place);
            sizes[region] = sizes[region].max(len);
            region
        }
        None => {
            sizes.push(len);
            sizes.len() - 1
        }
    }
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
    nodes: &'a [PlanNode],
    groups: &'a Groups,
    /// By buffer: its region, if it is scratch of this stage.
    region_of: Vec<Option<usize>>,
    regions: Vec<usize>,
    /// By buffer: its values per sample.
    lens: &'a [usize],
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
            Operand { at, len: self.lens[buf] }
        };
        let parameters = steps.iter().map(|step| self.parameters(step, &operand)).collect();
        let layer = steps.iter().find_map(|step| self.node_of(step)).map_or(0, |node| node.place);
        Stage {
            name: self.name(steps),
            layer,
            steps: steps.iter().map(|step| step.map(name)).collect(),
            parameters,
            regions: self.regions.clone(),
            reads,
            changes,
            defines,
            has_loss: steps.iter().any(|step| matches!(step, Step::Loss { .. })),
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
            let (Step::Forward(ForwardStep { node, .. })
            | Step::Backward(BackwardStep { node, .. })) = step
            else {
                continue;
            };
            let Some(group) = self.groups.of_node(*node) else { continue };
            needs.add(Outside::Parameters(group), Touch::Read);
            if self.nodes[*node].layer.packed_len() > 0 {
                needs.add(Outside::Packed(*node), Touch::Read);
            }
            if matches!(step, Step::Backward(_)) {
                let begun = std::mem::replace(&mut defined[group], true);
                let how = if begun { Touch::Change } else { Touch::Define };
                needs.add(Outside::Gradient(group), how);
            }
        }
        needs
    }

    fn parameters(&self, step: &Step, operand: &impl Fn(Outside) -> usize) -> NodeOperands {
        let (node, backward) = match step {
            Step::Forward(step) => (step.node, false),
            Step::Backward(step) => (step.node, true),
            Step::Loss { .. } | Step::Copy { .. } | Step::Add { .. } => {
                return NodeOperands::default();
            }
        };
        let Some(group) = self.groups.of_node(node) else { return NodeOperands::default() };
        let packs = self.nodes[node].layer.packed_len() > 0;
        NodeOperands {
            group: Some(operand(Outside::Parameters(group))),
            packed: packs.then(|| operand(Outside::Packed(node))),
            gradient: backward.then(|| operand(Outside::Gradient(group))),
        }
    }

    fn node_of(&self, step: &Step) -> Option<&PlanNode> {
        match step {
            Step::Forward(ForwardStep { node, .. }) | Step::Backward(BackwardStep { node, .. }) => {
                Some(&self.nodes[*node])
            }
            Step::Loss { .. } | Step::Copy { .. } | Step::Add { .. } => None,
        }
    }

    /// A name that tells what a stage is for: that of its layer and direction if there is but one.
    fn name(&self, steps: &[Step]) -> &'static str {
        let forward = steps.iter().filter(|step| matches!(step, Step::Forward(_))).count();
        let backward = steps.iter().filter(|step| matches!(step, Step::Backward(_))).count();
        let has_loss = steps.iter().any(|step| matches!(step, Step::Loss { .. }));
        let kind =
            || steps.iter().find_map(|step| self.node_of(step)).map(|node| node.layer.kind());
        match (forward, has_loss, backward) {
            (0, true, 0) => "loss",
            (0, false, 0) => "add",
            (1, false, 0) => names::of(kind().unwrap_or_default(), Direction::Forward),
            (0, false, 1) => names::of(kind().unwrap_or_default(), Direction::Backward),
            (_, false, 0) => "forward",
            (0, false, _) => "backward",
            (_, true, 0) => "forward and loss",
            (0, true, _) => "loss and backward",
            _ => "train",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_used_again_where_it_fits_best() {
        let (mut sizes, mut free) = (vec![5, 20, 10], vec![0, 1, 2]);
        assert_eq!(region_for(&mut sizes, &mut free, 8), 2);
        assert_eq!(region_for(&mut sizes, &mut free, 30), 1);
        assert_eq!(region_for(&mut sizes, &mut free, 1), 0);
        assert_eq!(region_for(&mut sizes, &mut free, 3), 3);
        assert_eq!((sizes, free), (vec![5, 30, 10, 3], vec![]));
    }
}
