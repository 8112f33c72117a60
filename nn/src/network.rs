//! What a network is: an input shape and a list of layers.

use std::sync::Arc;

use crate::layer::{
    Conv2d, Conv2dConfig, Dense, DenseConfig, MaxPool2d, MaxPool2dConfig, Padding, flatten,
};
use crate::{NnError, Shape};

/// A layer of a [`Network`], built for the shape that reaches it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LayerKind {
    /// See [`Conv2d`].
    Conv2d(Arc<Conv2d>),
    /// See [`Relu`](crate::layer::Relu).
    Relu,
    /// See [`MaxPool2d`].
    MaxPool2d(MaxPool2d),
    /// See [`flatten`].
    Flatten,
    /// See [`Dense`].
    Dense(Dense),
}

/// A layer and the shapes of a sample before and after it.
#[derive(Clone, Debug)]
pub struct Node {
    name: String,
    kind: LayerKind,
    input: Shape,
    output: Shape,
}

impl Node {
    /// Place in the network and kind, such as `0 (conv2d)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the layer computes.
    pub const fn kind(&self) -> &LayerKind {
        &self.kind
    }

    /// Shape of a sample before the layer.
    pub const fn input(&self) -> Shape {
        self.input
    }

    /// Shape of a sample after the layer.
    pub const fn output(&self) -> Shape {
        self.output
    }

    /// Number of weights and of biases, for a layer that has them.
    pub fn parameters(&self) -> Option<[usize; 2]> {
        match &self.kind {
            LayerKind::Conv2d(layer) => Some([layer.weights_len(), layer.bias_len()]),
            LayerKind::Dense(layer) => Some([layer.weights_len(), layer.bias_len()]),
            LayerKind::Relu | LayerKind::MaxPool2d(_) | LayerKind::Flatten => None,
        }
    }

    /// Floating point operations of the products of one sample, forward; each of the two gradients
    /// takes as many. Layers without products count as none.
    pub fn flops(&self) -> u64 {
        match &self.kind {
            LayerKind::Conv2d(layer) => layer.flops(),
            LayerKind::Dense(layer) => layer.flops(),
            LayerKind::Relu | LayerKind::MaxPool2d(_) | LayerKind::Flatten => 0,
        }
    }
}

/// A classifier: layers from a sample to one logit per class. It is a description; a
/// [`Trainer`](crate::Trainer) gives it parameters and runs it.
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
/// assert_eq!(network.classes(), 10);
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
    classes: usize,
}

impl Network {
    /// Begins a network for samples of shape `input`.
    pub const fn builder(input: Shape) -> NetworkBuilder {
        NetworkBuilder { input, layers: Vec::new() }
    }

    /// The reference network, for images of 1x28x28 in 10 classes: convolution with 4 filters of
    /// 3x3, ReLU, maximum of 2x2, dense. DAHL, the C program that Millrace is measured against,
    /// trains the same.
    pub fn reference() -> Self {
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(Conv2dConfig::new(4, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A small network of two convolutions for images of 1x28x28 in 10 classes (1.06 MFLOP per
    /// image, forward and backward).
    pub fn n1() -> Self {
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(Conv2dConfig::new(8, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(Conv2dConfig::new(16, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A network of two wide convolutions of 5x5 for images of 1x28x28 in 10 classes (72 MFLOP per
    /// image, forward and backward).
    pub fn n2() -> Self {
        let conv2d = |filters| Conv2dConfig::new(filters, [5, 5]).padding(Padding::Same);
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(conv2d(32))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(conv2d(64))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(512))
            .relu()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A network of four convolutions of 3x3 for images of 3x32x32 in 10 classes (151 MFLOP per
    /// image, forward and backward).
    pub fn n3() -> Self {
        let conv2d = |filters| Conv2dConfig::new(filters, [3, 3]).padding(Padding::Same);
        Self::builder(Shape::image(3, 32, 32))
            .conv2d(conv2d(32))
            .relu()
            .conv2d(conv2d(32))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(conv2d(64))
            .relu()
            .conv2d(conv2d(64))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(256))
            .relu()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// Shape of a sample.
    pub const fn input(&self) -> Shape {
        self.input
    }

    /// The layers, in order.
    pub fn layers(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of classes: the features of the last layer.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    /// Number of parameters of all layers.
    pub fn parameters_len(&self) -> usize {
        self.nodes.iter().filter_map(Node::parameters).flatten().sum()
    }

    /// Floating point operations of the products of one sample, forward and backward.
    pub fn flops(&self) -> u64 {
        let first = self.first_trained();
        let passes = |index| match index {
            _ if index < first => 1,
            _ if index == first => 2,
            _ => 3,
        };
        self.nodes.iter().enumerate().map(|(i, node)| passes(i) * node.flops()).sum()
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

    /// Index of the first layer with parameters; layers before it need no gradient.
    pub(crate) fn first_trained(&self) -> usize {
        let trained = self.nodes.iter().position(|node| node.parameters().is_some());
        trained.unwrap_or(self.nodes.len())
    }
}

/// The layers of a [`Network`] that is being described. Shapes are checked by
/// [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "the network is made by `build`"]
pub struct NetworkBuilder {
    input: Shape,
    layers: Vec<LayerConfig>,
}

#[derive(Clone, Copy, Debug)]
enum LayerConfig {
    Conv2d(Conv2dConfig),
    Relu,
    MaxPool2d(MaxPool2dConfig),
    Flatten,
    Dense(DenseConfig),
}

impl LayerConfig {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Conv2d(_) => "conv2d",
            Self::Relu => "relu",
            Self::MaxPool2d(_) => "max_pool2d",
            Self::Flatten => "flatten",
            Self::Dense(_) => "dense",
        }
    }
}

impl NetworkBuilder {
    /// Adds a convolution.
    pub fn conv2d(self, config: Conv2dConfig) -> Self {
        self.add(LayerConfig::Conv2d(config))
    }

    /// Adds a rectified linear unit.
    pub fn relu(self) -> Self {
        self.add(LayerConfig::Relu)
    }

    /// Adds a maximum pooling.
    pub fn max_pool2d(self, config: MaxPool2dConfig) -> Self {
        self.add(LayerConfig::MaxPool2d(config))
    }

    /// Takes the values of an image as features from here on.
    pub fn flatten(self) -> Self {
        self.add(LayerConfig::Flatten)
    }

    /// Adds a fully connected layer.
    pub fn dense(self, config: DenseConfig) -> Self {
        self.add(LayerConfig::Dense(config))
    }

    fn add(mut self, layer: LayerConfig) -> Self {
        self.layers.push(layer);
        self
    }

    /// The network.
    ///
    /// # Errors
    /// [`NnError::Shape`] when a layer does not fit the shape that reaches it, or the last layer
    /// gives an image or more classes than a label can name; [`NnError::Setting`] when a setting
    /// has no meaning.
    pub fn build(self) -> Result<Network, NnError> {
        let mut shape = self.input;
        let mut nodes = Vec::with_capacity(self.layers.len());
        for (index, config) in self.layers.into_iter().enumerate() {
            let name = format!("{index} ({})", config.kind());
            let node = node(name, config, shape)?;
            shape = node.output;
            nodes.push(node);
        }
        let classes = shape.as_features("after the last")?;
        if classes > LABELS {
            let wanted = format!("at most {LABELS} classes, because a label is one byte");
            return Err(NnError::shape("after the last", shape, wanted));
        }
        Ok(Network { input: self.input, nodes, classes })
    }
}

/// Classes that a label of one byte can name.
const LABELS: usize = 256;

fn node(name: String, config: LayerConfig, input: Shape) -> Result<Node, NnError> {
    let (kind, output) = match config {
        LayerConfig::Conv2d(config) => {
            let layer = config.build(&name, input)?;
            let output = layer.output();
            (LayerKind::Conv2d(Arc::new(layer)), output)
        }
        LayerConfig::Relu => (LayerKind::Relu, input),
        LayerConfig::MaxPool2d(config) => {
            let layer = config.build(&name, input)?;
            (LayerKind::MaxPool2d(layer), layer.output())
        }
        LayerConfig::Flatten => (LayerKind::Flatten, flatten(&name, input)?),
        LayerConfig::Dense(config) => {
            let layer = config.build(&name, input)?;
            (LayerKind::Dense(layer), layer.output())
        }
    };
    Ok(Node { name, kind, input, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_networks_have_the_published_work() {
        let mega = |network: Network| network.flops() as f64 / 1e6;
        assert_eq!(Network::reference().parameters_len(), 6810);
        assert!((mega(Network::n1()) - 1.06).abs() < 0.01, "{}", mega(Network::n1()));
        assert!((mega(Network::n2()) - 72.38).abs() < 0.01, "{}", mega(Network::n2()));
        assert!((mega(Network::n3()) - 151.40).abs() < 0.01, "{}", mega(Network::n3()));
    }

    #[test]
    fn shapes_are_inferred() {
        let outputs: Vec<String> =
            Network::n1().layers().iter().map(|node| node.output().to_string()).collect();
        assert_eq!(
            outputs,
            ["8x26x26", "8x26x26", "8x13x13", "16x11x11", "16x11x11", "16x5x5", "400", "10"]
        );
    }

    #[test]
    fn the_end_must_be_classes() {
        let builder = Network::builder(Shape::image(1, 28, 28));
        assert_eq!(
            builder.clone().build().unwrap_err().to_string(),
            "layer after the last: got shape 1x28x28, wanted a row of features (put a flatten \
             layer before)"
        );
        assert_eq!(
            builder.flatten().build().unwrap_err().to_string(),
            "layer after the last: got shape 784, wanted at most 256 classes, because a label is \
             one byte"
        );
    }

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
