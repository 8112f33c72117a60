//! Settings that become layers.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Conv2dConfig, DenseConfig, Flatten, Layer, MaxPool2dConfig, Relu};
use crate::{NnError, Shape};

/// Settings that build a layer for the shapes that reach it: what a network is described by.
///
/// ```
/// use millrace_nn::layer::{Config, Conv2dConfig};
/// use millrace_nn::Shape;
///
/// let config = Conv2dConfig::new(8, [3, 3]);
/// let layer = config.build_layer("conv1", &[Shape::image(1, 28, 28)])?;
/// assert_eq!((layer.kind(), layer.output()), ("conv2d", Shape::image(8, 26, 26)));
///
/// let error = config.build_layer("conv1", &[]).unwrap_err();
/// assert_eq!(error.to_string(), "layer conv1: got 0 inputs, wanted one");
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
pub trait Config: Debug + Send + Sync + 'static {
    /// The kind of layer that it builds, as [`Layer::kind`].
    fn kind(&self) -> &'static str;

    /// The layer for inputs of these shapes. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Inputs`] for another number of inputs than the layer takes, [`NnError::Shape`]
    /// for shapes that it does not fit, [`NnError::Setting`] for settings without meaning.
    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError>;
}

/// The shape of the only input of layer `name`.
///
/// # Errors
/// [`NnError::Inputs`] when there is none, or more than one.
pub fn one_input(name: &str, inputs: &[Shape]) -> Result<Shape, NnError> {
    match inputs {
        [input] => Ok(*input),
        _ => Err(NnError::inputs(name, inputs.len(), "one")),
    }
}

impl Config for Conv2dConfig {
    fn kind(&self) -> &'static str {
        "conv2d"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

impl Config for MaxPool2dConfig {
    fn kind(&self) -> &'static str {
        "max_pool2d"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

impl Config for DenseConfig {
    fn kind(&self) -> &'static str {
        "dense"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

/// A [`Flatten`], which has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlattenConfig;

impl Config for FlattenConfig {
    fn kind(&self) -> &'static str {
        "flatten"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(Flatten::build(name, one_input(name, inputs)?)?))
    }
}

/// A [`Relu`], which has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReluConfig;

impl Config for ReluConfig {
    fn kind(&self) -> &'static str {
        "relu"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        let input = one_input(name, inputs)?;
        input.check_values(name)?;
        Ok(Arc::new(Relu::new(input)))
    }
}
