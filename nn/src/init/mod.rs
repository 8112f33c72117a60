//! Initial values of parameters.
//!
//! What a parameter begins with depends on the seed, on its own name, sizes and fans, and on
//! nothing else: not on the order in which parameters are filled, nor on which others there are.
//! The values are the same on every machine.
//!
//! ```
//! use millrace_nn::init::{Distribution, Fan, Init, Initial};
//! use millrace_nn::layer::Parameter;
//!
//! let weight = Parameter::weight(&[16, 8, 3, 3], [8 * 9, 16 * 9]);
//! let mut values = vec![0.0f32; weight.len()];
//! // As PyTorch begins: between minus and plus one over the root of the fan in.
//! Initial::default().fill(42, "conv1.weight", &weight, &mut values);
//! assert!(values.iter().all(|value| value.abs() <= (72f32).sqrt().recip()));
//!
//! let kaiming = Init::Kaiming { distribution: Distribution::Normal, fan: Fan::Out, gain: 2f64.sqrt() };
//! let initial = Initial { weights: kaiming, biases: Init::ZEROS };
//! initial.check()?;
//! initial.fill(42, "conv1.weight", &weight, &mut values);
//! # Ok::<(), millrace_nn::NnError>(())
//! ```

mod gnu;
mod numbers;

use serde::{Deserialize, Serialize};

pub use gnu::{GnuRand, RAND_MAX, gnu_uniform};

use crate::layer::{Parameter, Role};
use crate::{Element, NnError};
use numbers::Numbers;

/// How the values of a parameter are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Init {
    /// All the same; 0 for zeros.
    Constant {
        /// That value, finite.
        value: f64,
    },
    /// Each as likely as any other from `low` to `high`, finite numbers.
    Uniform {
        /// The smallest.
        low: f64,
        /// The largest, not below `low`.
        high: f64,
    },
    /// Normally distributed.
    Normal {
        /// The mean, finite.
        mean: f64,
        /// The standard deviation, finite and not negative.
        deviation: f64,
    },
    /// With mean 0 and a standard deviation of `gain / sqrt(fan)` (K. He and others, "Delving deep
    /// into rectifiers", 2015): values, or with [`Fan::Out`] gradients, keep their size through the
    /// layer.
    Kaiming {
        /// How they are distributed.
        distribution: Distribution,
        /// What the deviation is taken by.
        fan: Fan,
        /// What makes up for the activation, finite and not negative: `sqrt(2)` for ReLU, 1 for
        /// none.
        gain: f64,
    },
    /// With mean 0 and a standard deviation of `gain * sqrt(2 / (fan in + fan out))` (X. Glorot and
    /// Y. Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    /// 2010).
    Xavier {
        /// How they are distributed.
        distribution: Distribution,
        /// What makes up for the activation, finite and not negative: 5/3 for tanh, 1 for none.
        gain: f64,
    },
}

/// How values of a given deviation are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Each as likely as any other, up to `sqrt(3)` deviations.
    Uniform,
    /// Normally.
    Normal,
}

/// Which end of a layer is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fan {
    /// The values of the input that one value of the output depends on.
    In,
    /// The values of the output that depend on one value of the input.
    Out,
}

impl Init {
    /// All zeros.
    pub const ZEROS: Self = Self::Constant { value: 0.0 };

    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        const NOT_NEGATIVE: &str = "a finite number of at least 0";
        let finite = |value: f64| value.is_finite();
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let (setting, value, fits, wanted) = match *self {
            Self::Constant { value } => ("value", value, finite(value), "a finite number"),
            Self::Uniform { low, high } => {
                let fits = finite(high - low) && low <= high;
                ("high", high, fits, "a number not below `low`, finite as their distance is")
            }
            Self::Normal { mean, .. } if !finite(mean) => ("mean", mean, false, "a finite number"),
            Self::Normal { deviation, .. } => {
                ("deviation", deviation, not_negative(deviation), NOT_NEGATIVE)
            }
            Self::Kaiming { gain, .. } | Self::Xavier { gain, .. } => {
                ("gain", gain, not_negative(gain), NOT_NEGATIVE)
            }
        };
        if fits { Ok(()) } else { Err(NnError::setting("init", setting, value, wanted)) }
    }

    /// Fills `values` with those of a parameter called `name`, whose fans are those of `parameter`.
    pub fn fill<E: Element>(&self, seed: u64, name: &str, parameter: &Parameter, values: &mut [E]) {
        let (fan_in, fan_out) = (parameter.fan_in.max(1) as f64, parameter.fan_out.max(1) as f64);
        let mut numbers = Numbers::new(seed, name);
        match *self {
            Self::Constant { value } => values.fill(E::narrow(value)),
            Self::Uniform { low, high } => numbers.uniform(low, high, values),
            Self::Normal { mean, deviation } => numbers.normal(mean, deviation, values),
            Self::Kaiming { distribution, fan, gain } => {
                let fan = match fan {
                    Fan::In => fan_in,
                    Fan::Out => fan_out,
                };
                distribution.fill(gain / fan.sqrt(), numbers, values);
            }
            Self::Xavier { distribution, gain } => {
                distribution.fill(gain * (2.0 / (fan_in + fan_out)).sqrt(), numbers, values);
            }
        }
    }
}

impl Distribution {
    fn fill<E: Element>(self, deviation: f64, mut numbers: Numbers, values: &mut [E]) {
        match self {
            Self::Uniform => {
                let bound = 3f64.sqrt() * deviation;
                numbers.uniform(-bound, bound, values);
            }
            Self::Normal => numbers.normal(0.0, deviation, values),
        }
    }
}

/// How the parameters of a network begin, by what they do. Those that scale or shift normalised
/// values begin with 1 and 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Initial {
    /// Parameters that are multiplied with values.
    pub weights: Init,
    /// Parameters that are added to products.
    pub biases: Init,
}

impl Default for Initial {
    /// What PyTorch's layers begin with: both between minus and plus `1 / sqrt(fan in)`.
    fn default() -> Self {
        let (distribution, fan) = (Distribution::Uniform, Fan::In);
        let both = Init::Kaiming { distribution, fan, gain: (1f64 / 3.0).sqrt() };
        Self { weights: both, biases: both }
    }
}

impl Initial {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        self.weights.check()?;
        self.biases.check()
    }

    /// Fills `values` with those of `parameter`, whose full name in the network is `name`.
    pub fn fill<E: Element>(&self, seed: u64, name: &str, parameter: &Parameter, values: &mut [E]) {
        match parameter.role {
            Role::Weight => self.weights.fill(seed, name, parameter, values),
            Role::Bias => self.biases.fill(seed, name, parameter, values),
            Role::Scale => values.fill(E::one()),
            Role::Shift => values.fill(E::zero()),
        }
    }
}

#[cfg(test)]
mod tests;
