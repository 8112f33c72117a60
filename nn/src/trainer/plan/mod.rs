//! What is computed for a batch, before anything is: steps, stages, groups of parameters.
//!
//! A plan is made once per trainer. It is a pure function of the network and of the
//! [`Granularity`], and so is what it computes: neither workers nor memory decide anything.

mod cuts;
mod groups;
mod names;
mod regions;
mod stages;
mod steps;

use std::sync::Arc;

pub use cuts::Granularity;
pub(super) use groups::{BLOCK, Groups};
pub(super) use names::{Direction, of as task_name};
pub(super) use stages::{NodeOperands, Operand, Outside, Stage, WideRead};
pub(super) use steps::{BackwardStep, BufId, ForwardStep, IMAGES, PartStep, PlanNode, Step};

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
    /// By node: how many values of each kind it learns from batches.
    pub(super) states: Vec<Vec<usize>>,
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
        let lens = |node: &PlanNode| node.layer.state().iter().map(|state| state.len).collect();
        let states = nodes.iter().map(lens).collect();
        Self { nodes, image_len, groups, states, train, evaluate }
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
            Outside::Parameters(_)
            | Outside::Packed(_)
            | Outside::Gradient(_)
            | Outside::State(_) => None,
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::layer::{AddConfig, Conv2dConfig, DenseConfig, MaxPool2dConfig};
    use steps::Touch;

    fn branches() -> Network {
        Network::builder(Shape::image(2, 6, 6))
            .conv2d(Conv2dConfig::new(3, [3, 3]))
            .named("stem")
            .join(AddConfig, &["stem"])
            .relu()
            .named("a")
            .max_pool2d(MaxPool2dConfig::new([1, 1]))
            .join(AddConfig, &["a", "stem"])
            .relu()
            .flatten()
            .dense(DenseConfig::new(4))
            .named("x")
            .join(AddConfig, &["x"])
            .named("twice")
            .after("x")
            // In place, after the sum has read it.
            .relu()
            .join(AddConfig, &["twice"])
            .dense(DenseConfig::new(3))
            .build()
            .unwrap()
    }

    fn normalised() -> Network {
        Network::builder(Shape::image(2, 6, 6))
            .conv2d(Conv2dConfig::new(3, [3, 3]))
            .batch_norm()
            .relu()
            .named("a")
            .conv2d(Conv2dConfig::new(3, [1, 1]))
            .batch_norm()
            .plus("a")
            .relu()
            .flatten()
            .dense(DenseConfig::new(4))
            .build()
            .unwrap()
    }

    /// Follows the stages with what they may know: nothing is read before it was defined, nothing
    /// defined twice, and nothing written that was handed out for reading.
    fn follow(work: &Work, nodes: &[PlanNode]) {
        let mut defined = HashSet::from([Outside::Buffer(IMAGES)]);
        let given = |outside: &Outside| {
            matches!(outside, Outside::Parameters(_) | Outside::Packed(_) | Outside::State(_))
        };
        let mut wide = HashSet::new();
        for stage in &work.stages {
            assert!(stage.wide.iter().all(|read| wide.contains(read)), "{stage:?}");
            if let Some((node, way)) = stage.part {
                wide.extend([WideRead::Total(node, way), WideRead::Part(node)]);
            }
            for outside in stage.reads.iter().chain(&stage.changes) {
                assert!(given(outside) || defined.contains(outside), "{outside:?}: {stage:?}");
            }
            for outside in &stage.defines {
                assert!(defined.insert(*outside), "{outside:?} is defined again: {stage:?}");
            }
            let shared = stage.regions.len()..stage.regions.len() + stage.reads.len();
            for (step, own) in stage.steps.iter().zip(&stage.parameters) {
                let mut written = HashSet::new();
                step.touches(|operand, how| {
                    if how != Touch::Read {
                        assert!(!shared.contains(&operand.at), "{step:?}: {stage:?}");
                        assert!(written.insert(operand.at), "{step:?}: {stage:?}");
                    }
                });
                step.touches(|operand, how| {
                    assert!(how != Touch::Read || !written.contains(&operand.at), "{step:?}");
                });
                if let Step::Backward(step) = step {
                    let trained = !nodes[step.node].layer.parameters().is_empty();
                    assert_eq!(own.gradient.is_some(), trained);
                    assert!(own.gradient.is_none_or(|gradient| !shared.contains(&gradient)));
                }
            }
        }
    }

    #[test]
    fn every_cut_gives_stages_that_know_what_they_use() {
        for network in [branches(), normalised(), Network::n1(), Network::n2(), Network::n3()] {
            let mut counts = Vec::new();
            for granularity in [
                Granularity::Flops(0),
                Granularity::Flops(20),
                Granularity::Flops(100),
                Granularity::Flops(10_000),
                Granularity::Automatic,
                Granularity::Shard,
            ] {
                let plan = Plan::new(&network, granularity);
                follow(&plan.train, &plan.nodes);
                follow(&plan.evaluate, &plan.nodes);
                assert_eq!(plan.evaluate.stages.len(), 1);
                counts.push(plan.train.stages.len());
            }
            assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
            // Each normalisation stops the shards once forward and once backward.
            let wide = network.layers().iter().filter(|node| !node.states().is_empty()).count();
            assert_eq!(counts.last(), Some(&(1 + 2 * wide)));
        }
    }

    #[test]
    fn a_cut_comes_only_after_the_gradient_of_a_large_parameter() {
        let names = |network: &Network| {
            let plan = Plan::new(network, Granularity::Automatic);
            plan.train.stages.iter().map(|stage| stage.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&Network::reference()), ["train"]);
        assert_eq!(names(&Network::n1()), ["train"]);
        // The wide dense layer is updated while the convolutions go on.
        assert_eq!(names(&Network::n2()), ["train", "backward"]);
        assert_eq!(names(&Network::n3()), ["train", "backward"]);
    }

    #[test]
    fn one_step_is_named_after_its_layer() {
        let plan = Plan::new(&branches(), Granularity::Flops(0));
        let names: Vec<_> = plan.train.stages.iter().map(|stage| stage.name).collect();
        assert_eq!(
            names[..4],
            ["to_channels_last.forward", "conv2d.forward", "add.forward", "max_pool2d.forward"]
        );
        assert!(names.contains(&"loss") && names.contains(&"dense.backward"), "{names:?}");
        // The gradients by `stem`, `a` and `x` have three, two and three parts.
        assert_eq!(names.iter().filter(|name| **name == "add").count(), 2 + 1 + 2, "{names:?}");
    }

    #[test]
    fn a_relu_runs_in_the_layer_before_where_that_can() {
        let plan = Plan::new(&normalised(), Granularity::Flops(0));
        let names: Vec<_> = plan.train.stages.iter().map(|stage| stage.name).collect();
        assert!(!names.contains(&"relu.forward"), "{names:?}");
        assert_eq!(names.iter().filter(|name| **name == "relu.backward").count(), 2);
        assert_eq!(names.iter().filter(|name| **name == "batch_norm.part").count(), 4);
    }

    #[test]
    fn small_parameters_are_one_group() {
        let lens = |network: &Network| {
            let plan = Plan::new(network, Granularity::Automatic);
            plan.groups.iter().map(|group| group.len).collect::<Vec<_>>()
        };
        assert_eq!(lens(&Network::reference()), [6810]);
        assert_eq!(lens(&Network::n1()), [80 + 1168 + 4010]);
        assert_eq!(lens(&Network::n2()), [832 + 51_264, 3136 * 512 + 512, 5130]);
    }
}
