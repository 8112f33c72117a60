//! Describing a network.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Network, Node, Source};
use crate::layer::{
    Activation, AddConfig, AveragePool2dConfig, BatchNormConfig, ConcatConfig, Config,
    Conv2dConfig, ConvTranspose2dConfig, DenseConfig, DropoutConfig, FlattenConfig,
    GlobalMaxPool2dConfig, LayerNormConfig, MaxPool2dConfig, Parameter, ReluConfig, SoftmaxConfig,
    UpsampleConfig,
};
use crate::{NnError, Shape};

/// The name by which a layer takes the sample itself.
const INPUT: &str = "input";

/// The layers of a [`Network`] that is being described. All is checked by [`build`](Self::build).
///
/// Each layer takes the output of the one described before it, unless told otherwise:
/// [`after`](Self::after) goes on from another one, and [`join`](Self::join) takes further inputs.
/// Layers are referred to by the names that [`named`](Self::named) gives them; `input` is the
/// sample.
///
/// ```
/// use millrace_nn::layer::DenseConfig;
/// use millrace_nn::{Network, Shape, Source};
///
/// let builder = Network::builder(Shape::Features(8))
///     .dense(DenseConfig::new(4)).named("encoder")
///     .relu()
///     .dense(DenseConfig::new(2)).named("head");
/// let network = builder.clone().build()?;
/// assert_eq!(network.layers()[2].inputs(), [Source::Node(1)]);
/// let names: Vec<String> = network.parameters().map(|(name, _)| name).collect();
/// assert_eq!(names, ["encoder.weight", "encoder.bias", "head.weight", "head.bias"]);
///
/// let error = builder.after("encode").relu().build().unwrap_err();
/// assert_eq!(error.to_string(), "3 (relu): input is encode, wanted the name of an earlier layer");
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "the network is made by `build`"]
pub struct NetworkBuilder {
    input: Shape,
    layers: Vec<Described>,
    /// What the next layer takes.
    next: Reference,
}

#[derive(Clone, Debug)]
struct Described {
    name: Option<String>,
    config: Arc<dyn Config>,
    inputs: Vec<Reference>,
}

#[derive(Clone, Debug)]
enum Reference {
    Source(Source),
    Name(String),
}

impl NetworkBuilder {
    pub(super) const fn new(input: Shape) -> Self {
        Self { input, layers: Vec::new(), next: Reference::Source(Source::Input) }
    }

    /// Adds a layer of any kind.
    pub fn layer(self, config: impl Config) -> Self {
        self.join(config, &[])
    }

    /// Adds a layer that takes the outputs of the layers with these names besides, in this order.
    pub fn join(mut self, config: impl Config, others: &[&str]) -> Self {
        let next = Reference::Source(Source::Node(self.layers.len()));
        let mut inputs = vec![std::mem::replace(&mut self.next, next)];
        inputs.extend(others.iter().map(|name| Reference::Name((*name).to_owned())));
        self.layers.push(Described { name: None, config: Arc::new(config), inputs });
        self
    }

    /// Adds a convolution.
    pub fn conv2d(self, config: Conv2dConfig) -> Self {
        self.layer(config)
    }

    /// Adds a transposed convolution.
    pub fn conv_transpose2d(self, config: ConvTranspose2dConfig) -> Self {
        self.layer(config)
    }

    /// Adds a rectified linear unit.
    pub fn relu(self) -> Self {
        self.layer(ReluConfig)
    }

    /// Adds a batch normalisation with the default settings.
    pub fn batch_norm(self) -> Self {
        self.layer(BatchNormConfig::default())
    }

    /// Adds a layer normalisation with the default settings.
    pub fn layer_norm(self) -> Self {
        self.layer(LayerNormConfig::default())
    }

    /// Adds a softmax over the features, or over the channels of each place.
    pub fn softmax(self) -> Self {
        self.layer(SoftmaxConfig)
    }

    /// Adds an enlargement of images.
    pub fn upsample(self, config: UpsampleConfig) -> Self {
        self.layer(config)
    }

    /// Adds the output of the layer with this name to that of the last, as residual blocks do.
    pub fn plus(self, name: &str) -> Self {
        self.join(AddConfig, &[name])
    }

    /// Puts the channels or features of the layers with these names behind those of the last.
    pub fn concat(self, names: &[&str]) -> Self {
        self.join(ConcatConfig, names)
    }

    /// Adds a maximum pooling.
    pub fn max_pool2d(self, config: MaxPool2dConfig) -> Self {
        self.layer(config)
    }

    /// Adds a maximum over the whole image.
    pub fn global_max_pool2d(self) -> Self {
        self.layer(GlobalMaxPool2dConfig)
    }

    /// Adds an average pooling, of windows or of the whole image.
    pub fn average_pool2d(self, config: AveragePool2dConfig) -> Self {
        self.layer(config)
    }

    /// Adds a function of single values other than the rectified linear unit.
    pub fn activation(self, activation: Activation) -> Self {
        self.layer(activation)
    }

    /// Adds a dropout that leaves out each value with probability `rate`.
    pub fn dropout(self, rate: f64) -> Self {
        self.layer(DropoutConfig::new(rate))
    }

    /// Takes the values of an image as features from here on.
    pub fn flatten(self) -> Self {
        self.layer(FlattenConfig)
    }

    /// Adds a fully connected layer.
    pub fn dense(self, config: DenseConfig) -> Self {
        self.layer(config)
    }

    /// Gives the last layer a name, by which others may refer to it; its parameters are known
    /// under it. Names such as `layer1.0.conv1` make them those of other libraries.
    ///
    /// # Panics
    /// When there is no layer yet.
    pub fn named(mut self, name: &str) -> Self {
        let last = self.layers.last_mut().expect("a layer to be named");
        last.name = Some(name.to_owned());
        self
    }

    /// Goes on from the layer with this name: the next layer takes its output.
    pub fn after(mut self, name: &str) -> Self {
        self.next = Reference::Name(name.to_owned());
        self
    }

    /// The network.
    ///
    /// # Errors
    /// [`NnError::Shape`] when a layer does not fit the shape that reaches it;
    /// [`NnError::Inputs`] when it takes another number of inputs; [`NnError::Setting`] when a
    /// setting has no meaning, a name is used twice or names no earlier layer, the output of a
    /// layer other than the last is not used, or there is no layer.
    pub fn build(self) -> Result<Network, NnError> {
        let mut names = HashMap::from([(INPUT.to_owned(), Source::Input)]);
        let mut nodes: Vec<Node> = Vec::with_capacity(self.layers.len());
        for (index, described) in self.layers.into_iter().enumerate() {
            let Described { name: given, config, inputs } = described;
            let name = given.clone().unwrap_or_else(|| format!("{index} ({})", config.kind()));
            let inputs = resolve(&names, &name, inputs)?;
            let shape = |source: &Source| match *source {
                Source::Input => self.input,
                Source::Node(index) => nodes[index].output(),
            };
            let shapes: Vec<Shape> = inputs.iter().map(shape).collect();
            let layer = config.build_layer(&name, &shapes)?;
            if let Some(given) = &given
                && names.insert(given.clone(), Source::Node(index)).is_some()
            {
                return Err(NnError::setting(
                    name,
                    "name",
                    given,
                    "a name that no other layer has",
                ));
            }
            let (parameters, states) = (layer.parameters(), layer.state());
            nodes.push(Node { name, given, layer, parameters, states, inputs });
        }
        check_used(&nodes)?;
        check_parameters(&nodes)?;
        Ok(Network { input: self.input, nodes })
    }
}

fn resolve(
    names: &HashMap<String, Source>,
    layer: &str,
    inputs: Vec<Reference>,
) -> Result<Vec<Source>, NnError> {
    let resolve = |input| match input {
        Reference::Source(source) => Ok(source),
        Reference::Name(name) => names
            .get(&name)
            .copied()
            .ok_or_else(|| NnError::setting(layer, "input", name, "the name of an earlier layer")),
    };
    inputs.into_iter().map(resolve).collect()
}

/// A layer whose output is lost was described by mistake.
fn check_used(nodes: &[Node]) -> Result<(), NnError> {
    let Some((_, others)) = nodes.split_last() else {
        return Err(NnError::setting("network", "layers", 0, "at least 1"));
    };
    let mut uses = vec![0; nodes.len()];
    for source in nodes.iter().flat_map(Node::inputs) {
        if let Source::Node(index) = source {
            uses[*index] += 1;
        }
    }
    match others.iter().zip(uses).find(|(_, uses)| *uses == 0) {
        Some((node, _)) => {
            Err(NnError::setting(node.name(), "uses", 0, "a layer that takes its output"))
        }
        None => Ok(()),
    }
}

/// The values of all parameters together can be addressed.
fn check_parameters(nodes: &[Node]) -> Result<(), NnError> {
    let values = nodes.iter().flat_map(Node::parameters).map(Parameter::len);
    let total = values.fold(0usize, usize::saturating_add);
    Shape::Features(total).check_size("all together")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(builder: NetworkBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn branches_take_what_they_name() {
        let conv2d = |filters| Conv2dConfig::new(filters, [1, 1]);
        let network = Network::builder(Shape::image(2, 4, 4))
            .conv2d(conv2d(3))
            .named("stem")
            .relu()
            .after("input")
            .conv2d(conv2d(3))
            .join(AddConfig, &["stem"])
            .named("both")
            .build()
            .unwrap_err();
        // The ReLU between is used by nobody.
        assert_eq!(
            network.to_string(),
            "1 (relu): uses is 0, wanted a layer that takes its output"
        );

        let network = Network::builder(Shape::image(2, 4, 4))
            .conv2d(conv2d(3))
            .named("stem")
            .relu()
            .join(AddConfig, &["stem", "input"]);
        assert_eq!(
            message(network),
            "layer 2 (add): got shape 2x4x4, wanted 3x4x4, as the first input"
        );

        let network = Network::builder(Shape::image(2, 4, 4))
            .conv2d(conv2d(3))
            .named("stem")
            .relu()
            .join(AddConfig, &["stem"])
            .named("sum")
            .conv2d(conv2d(2))
            .join(AddConfig, &["input"])
            .build()
            .unwrap();
        let inputs: Vec<_> = network.layers().iter().map(|node| node.inputs().to_vec()).collect();
        let [input, stem, relu, sum, conv] =
            [Source::Input, Source::Node(0), Source::Node(1), Source::Node(2), Source::Node(3)];
        assert_eq!(
            inputs,
            [vec![input], vec![stem], vec![relu, stem], vec![sum], vec![conv, input]]
        );
        let names: Vec<_> = network.parameters().map(|(name, _)| name).collect();
        assert_eq!(names, ["stem.weight", "stem.bias", "3.weight", "3.bias"]);
        assert_eq!(network.output(), Shape::image(2, 4, 4));
    }

    #[test]
    fn errors_say_what_is_wrong_with_the_description() {
        let builder = || Network::builder(Shape::Features(4)).relu().named("a");
        assert_eq!(
            message(Network::builder(Shape::Features(4))),
            "network: layers is 0, wanted at least 1"
        );
        assert_eq!(
            message(builder().relu().named("a")),
            "a: name is a, wanted a name that no other layer has"
        );
        assert_eq!(
            message(builder().relu().named("input")),
            "input: name is input, wanted a name that no other layer has"
        );
        assert_eq!(
            message(builder().join(ReluConfig, &["a"])),
            "layer 1 (relu): got 2 inputs, wanted one"
        );
        assert_eq!(
            message(builder().after("b").relu().named("b")),
            "b: input is b, wanted the name of an earlier layer"
        );
        assert_eq!(
            message(
                builder()
                    .dense(DenseConfig::new(3))
                    .named("fc")
                    .conv2d(Conv2dConfig::new(1, [1, 1]))
            ),
            "layer 2 (conv2d): got shape 3, wanted an image (channels x height x width)"
        );
        assert_eq!(
            message(Network::builder(Shape::Features(0)).relu()),
            "layer 0 (relu): got shape 0, wanted at least one value"
        );
    }
}
