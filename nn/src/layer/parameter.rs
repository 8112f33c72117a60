//! What a parameter is, for those who fill, train, save and list it.

/// One parameter of a layer: a block of values that are trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the layer, as elsewhere: `weight` or `bias`.
    pub name: &'static str,
    /// What it does, for initial values.
    pub role: Role,
    /// Its sizes, the outermost first, in the order in which it is stored.
    pub dims: Vec<usize>,
    /// Values of the input that one value of the output depends on.
    pub fan_in: usize,
    /// Values of the output that depend on one value of the input.
    pub fan_out: usize,
}

/// What a parameter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is multiplied with values of the input.
    Weight,
    /// It is added to the output of a product.
    Bias,
    /// It scales normalised values: 1 leaves them as they are.
    Scale,
    /// It is added to normalised values: 0 leaves them as they are.
    Shift,
}

/// Values of a layer that are learned otherwise than by gradients: from the batches of the
/// training. They are used when the network is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Their name in the layer, as elsewhere: `running_mean`, for example.
    pub name: &'static str,
    /// Number of values.
    pub len: usize,
    /// What each is before the first batch.
    pub initial: f64,
}

impl Parameter {
    /// A weight of these sizes and fans.
    pub fn weight(dims: &[usize], [fan_in, fan_out]: [usize; 2]) -> Self {
        Self { name: "weight", role: Role::Weight, dims: dims.to_vec(), fan_in, fan_out }
    }

    /// A scale of `len` values, which is called `weight` as elsewhere.
    pub fn scale(len: usize) -> Self {
        Self { name: "weight", role: Role::Scale, dims: vec![len], fan_in: 1, fan_out: 1 }
    }

    /// A shift of `len` values, which is called `bias` as elsewhere.
    pub fn shift(len: usize) -> Self {
        Self { name: "bias", role: Role::Shift, dims: vec![len], fan_in: 1, fan_out: 1 }
    }

    /// A bias of `len` values, with the fans of the weight beside it.
    pub fn bias(len: usize, [fan_in, fan_out]: [usize; 2]) -> Self {
        Self { name: "bias", role: Role::Bias, dims: vec![len], fan_in, fan_out }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
