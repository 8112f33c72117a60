//! What a network is: an input shape, and layers that take what earlier ones give.

mod builder;
mod ready;

use std::sync::Arc;

pub use builder::NetworkBuilder;

use crate::Shape;
use crate::layer::{Layer, Parameter, State};

/// Where a layer takes a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The sample.
    Input,
    /// The output of the layer of this index.
    Node(usize),
}

/// A layer in its place in a network.
#[derive(Clone, Debug)]
pub struct Node {
    name: String,
    /// The name that was given, if one was.
    given: Option<String>,
    layer: Arc<dyn Layer<f32>>,
    parameters: Vec<Parameter>,
    states: Vec<State>,
    inputs: Vec<Source>,
}

impl Node {
    /// The name that was given, or place in the network and kind, such as `0 (conv2d)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of layer it is, such as `conv2d`.
    pub fn kind(&self) -> &'static str {
        self.layer.kind()
    }

    /// What it computes.
    pub fn layer(&self) -> &Arc<dyn Layer<f32>> {
        &self.layer
    }

    /// Where its inputs come from.
    pub fn inputs(&self) -> &[Source] {
        &self.inputs
    }

    /// Shape of a sample after the layer.
    pub fn output(&self) -> Shape {
        self.layer.output()
    }

    /// Its parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// What it learns from batches otherwise than by gradients.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// Number of values of its parameters.
    pub fn parameters_len(&self) -> usize {
        self.parameters.iter().map(Parameter::len).sum()
    }

    /// The name of something that it has, at place `index` of its network.
    fn name_of(&self, index: usize, own: &str) -> String {
        match &self.given {
            Some(layer) => format!("{layer}.{own}"),
            None => format!("{index}.{own}"),
        }
    }

    /// Floating point operations of the products of one sample, forward; each of the two gradients
    /// takes as many. Layers without products count as none.
    pub fn flops(&self) -> u64 {
        self.layer.flops()
    }
}

/// Layers from a sample to an output, each of which takes one or more values that the sample and
/// earlier layers give. It is a description; a [`Trainer`](crate::Trainer) gives it parameters and
/// runs it.
///
/// ```
/// use millrace_nn::layer::{Conv2dConfig, DenseConfig, MaxPool2dConfig};
/// use millrace_nn::{Network, Shape};
///
/// let network = Network::builder(Shape::image(1, 28, 28))
///     .conv2d(Conv2dConfig::new(4, [3, 3]))
///     .relu()
///     .max_pool2d(MaxPool2dConfig::new([2, 2]))
///     .flatten()
///     .dense(DenseConfig::new(10))
///     .build()?;
/// assert_eq!(network.output(), Shape::Features(10));
/// assert_eq!(network.parameters_len(), 6810);
///
/// let error = Network::builder(Shape::image(1, 28, 28)).dense(DenseConfig::new(10)).build();
/// assert_eq!(
///     error.unwrap_err().to_string(),
///     "layer 0 (dense): got shape 1x28x28, wanted a row of features (put a flatten layer before)"
/// );
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    input: Shape,
    nodes: Vec<Node>,
}

impl Network {
    /// Begins a network for samples of shape `input`.
    pub const fn builder(input: Shape) -> NetworkBuilder {
        NetworkBuilder::new(input)
    }

    /// Shape of a sample.
    pub const fn input(&self) -> Shape {
        self.input
    }

    /// The layers, each after those whose outputs it takes.
    pub fn layers(&self) -> &[Node] {
        &self.nodes
    }

    /// Shape of the output for one sample, which is that of the last layer.
    pub fn output(&self) -> Shape {
        self.nodes.last().map_or(self.input, Node::output)
    }

    /// Shape of a sample of what `source` gives.
    pub fn shape_of(&self, source: Source) -> Shape {
        match source {
            Source::Input => self.input,
            Source::Node(index) => self.nodes[index].output(),
        }
    }

    /// The parameters of all layers in their order, each with the name that it has elsewhere: that
    /// of its layer (or, if none was given, its index), a dot, and its own, such as `conv1.weight`
    /// or `0.bias`.
    pub fn parameters(&self) -> impl Iterator<Item = (String, &Parameter)> {
        self.nodes.iter().enumerate().flat_map(|(index, node)| {
            let named = move |parameter: &Parameter| node.name_of(index, parameter.name);
            node.parameters.iter().map(move |parameter| (named(parameter), parameter))
        })
    }

    /// What the layers learn from batches otherwise than by gradients, in their order, named in the
    /// same way, such as `bn1.running_mean`.
    pub fn states(&self) -> impl Iterator<Item = (String, &State)> {
        self.nodes.iter().enumerate().flat_map(|(index, node)| {
            node.states.iter().map(move |state| (node.name_of(index, state.name), state))
        })
    }

    /// Number of values of the parameters of all layers.
    pub fn parameters_len(&self) -> usize {
        self.nodes.iter().map(Node::parameters_len).sum()
    }

    /// Floating point operations of the products of one sample, forward and backward.
    pub fn flops(&self) -> u64 {
        let wants = self.gradients_wanted();
        let passes = |node: &Node| {
            let by_data = node.inputs.iter().any(|input| match input {
                Source::Input => false,
                Source::Node(index) => wants[*index],
            });
            1 + u64::from(!node.parameters.is_empty()) + u64::from(by_data)
        };
        self.nodes.iter().map(|node| passes(node) * node.flops()).sum()
    }

    /// By layer: whether training needs the gradient by its output, because there are parameters
    /// in it or before it.
    pub(crate) fn gradients_wanted(&self) -> Vec<bool> {
        let mut wants: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let before = |input: &Source| matches!(*input, Source::Node(index) if wants[index]);
            wants.push(!node.parameters.is_empty() || node.inputs.iter().any(before));
        }
        wants
    }

    /// The shards into which a batch of `batch_size` samples is best cut.
    ///
    /// The number depends on the network and the batch alone and never on the workers, because the
    /// gradients of the shards are added up as a tree: another number of shards gives other bits.
    /// It is such that a shard has about [`SHARD_FLOPS`](Self::SHARD_FLOPS) to compute, at most one
    /// shard per sample and at most [`MAX_SHARDS`](Self::MAX_SHARDS). Every shard writes a gradient
    /// of all parameters, so a network with many parameters gets fewer, down to 4.
    pub fn default_shards(&self, batch_size: usize) -> usize {
        let flops = self.flops().saturating_mul(batch_size as u64);
        let shards = usize::try_from(flops / Self::SHARD_FLOPS).unwrap_or(usize::MAX);
        let affordable = Self::GRADIENTS_LEN / self.parameters_len().max(1);
        let most = affordable.clamp(4, Self::MAX_SHARDS).min(batch_size.max(1));
        shards.clamp(1, most)
    }

    /// What a shard of a batch should have to compute, so that its tasks are long against the cost
    /// of a task: some microseconds each.
    pub const SHARD_FLOPS: u64 = 500_000;

    /// Values that the gradients of all shards together should not pass.
    pub const GRADIENTS_LEN: usize = 1 << 22;

    /// More shards than this are never the default: each has its own copy of the gradient.
    pub const MAX_SHARDS: usize = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_at_least_one_and_at_most_the_samples() {
        let network = Network::n3();
        assert_eq!(network.default_shards(0), 1);
        assert_eq!(network.default_shards(1), 1);
        assert_eq!(network.default_shards(3), 3);
        assert_eq!(network.default_shards(usize::MAX), 4);
        assert_eq!(Network::n1().default_shards(usize::MAX), Network::MAX_SHARDS);
        assert_eq!(Network::reference().default_shards(10), 2);
    }
}
