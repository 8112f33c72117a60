//! What is computed for a batch, before anything is: steps, stages, groups of parameters.
//!
//! A plan is made once per trainer. It is a pure function of the network and of the
//! [`Granularity`], and so is what it computes: neither workers nor memory decide anything.

mod cuts;
mod groups;
mod names;
mod stages;
mod steps;

use std::sync::Arc;

pub use cuts::Granularity;
pub(super) use groups::{BLOCK, Groups};
pub(super) use stages::{NodeOperands, Operand, Outside, Stage};
pub(super) use steps::{BackwardStep, BufId, ForwardStep, IMAGES, PlanNode, Step};

use crate::layer::{Layer, ToChannelsLast};
use crate::{Network, Shape, Source};

use steps::{Goal, Program};

/// What a trainer does with a batch.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<PlanNode>,
    /// Values of a sample of the images.
    pub(super) image_len: usize,
    pub(super) groups: Groups,
    pub(super) train: Work,
    pub(super) evaluate: Work,
}

/// Stages that each shard goes through, in order.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) stages: Vec<Stage>,
    /// The buffers that several stages use, and their values per sample.
    pub(super) kept: Vec<(BufId, usize)>,
    /// By group: the last stage that adds to its gradient.
    pub(super) last_stage: Vec<Option<usize>>,
}

impl Plan {
    pub(super) fn new(network: &Network, granularity: Granularity) -> Self {
        let nodes = nodes(network);
        let groups = Groups::new(&nodes);
        let image_len = network.input().len();
        let work = |goal| {
            let program = Program::new(&nodes, image_len, goal);
            let cuts = match goal {
                Goal::Train => cuts::cuts(&program, &nodes, &groups, granularity),
                Goal::Evaluate => Vec::new(),
            };
            Work::new(program, &nodes, &groups, &cuts)
        };
        let (train, evaluate) = (work(Goal::Train), work(Goal::Evaluate));
        Self { nodes, image_len, groups, train, evaluate }
    }
}

impl Work {
    fn new(program: Program, nodes: &[PlanNode], groups: &Groups, cuts: &[usize]) -> Self {
        let stages = stages::stages(&program, nodes, groups, cuts);
        let last = |group| {
            let gradient = Outside::Gradient(group);
            stages.iter().rposition(|stage| {
                stage.changes.contains(&gradient) || stage.defines.contains(&gradient)
            })
        };
        let last_stage = (0..groups.len()).map(last).collect();
        let defined = stages.iter().flat_map(|stage| &stage.defines);
        let kept = defined.filter_map(|outside| match *outside {
            Outside::Buffer(buf) => Some((buf, program.lens[buf])),
            Outside::Parameters(_) | Outside::Packed(_) | Outside::Gradient(_) => None,
        });
        Self { kept: kept.collect(), last_stage, stages }
    }
}

/// The layers of `network`, after one that turns its images, where they have several channels.
fn nodes(network: &Network) -> Vec<PlanNode> {
    let turn: Option<Arc<dyn Layer<f32>>> = match network.input() {
        Shape::Image { channels, height, width } if channels > 1 && height * width > 1 => {
            Some(Arc::new(ToChannelsLast::new(channels, height, width)))
        }
        _ => None,
    };
    let before = usize::from(turn.is_some());
    let turn = turn.map(|layer| PlanNode { layer, inputs: vec![0], place: 0 });
    let layers = network.layers().iter().enumerate().map(|(place, node)| {
        let value = |source: &Source| match *source {
            Source::Input => before,
            Source::Node(index) => before + index + 1,
        };
        let inputs = node.inputs().iter().map(value).collect();
        PlanNode { layer: Arc::clone(node.layer()), inputs, place }
    });
    turn.into_iter().chain(layers).collect()
}
