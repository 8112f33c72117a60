//! Steps that are scaled by what the gradient has been.

use serde::{Deserialize, Serialize};

use super::{BELOW_ONE, NOT_NEGATIVE, Rule, Step, check, update};
use crate::guard::BadGradient;
use crate::{Element, NnError};

/// Adam and AdamW: the running mean of the gradient over the root of the running mean of its
/// square (D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015).
///
/// In update `n`, with `g` for the gradient (plus decay times the parameter, if the decay is
/// [coupled](Decay::Coupled)):
///
/// * `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) * g * g`, from 0 on;
/// * `parameter *= 1 - learning_rate * decay`, if the decay is [decoupled](Decay::Decoupled);
/// * `parameter -= learning_rate * (m / (1 - beta1^n)) / (sqrt(v / (1 - beta2^n)) + epsilon)`.
///
/// ```
/// use millrace_nn::{Adam, Decay};
///
/// let adam = Adam::new(1e-3)?;
/// assert_eq!((adam.beta1, adam.beta2, adam.epsilon), (0.9, 0.999, 1e-8));
/// let adam_w = Adam { decay: Decay::Decoupled(0.01), ..adam };
/// adam_w.check()?;
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// Step size, finite and not negative.
    pub learning_rate: f64,
    /// Share of the mean gradient that is kept, at least 0 and below 1; usually 0.9.
    #[serde(default = "usual_beta1")]
    pub beta1: f64,
    /// Share of the mean square that is kept, at least 0 and below 1; usually 0.999.
    #[serde(default = "usual_beta2")]
    pub beta2: f64,
    /// Added to the root of the mean square, positive; usually 1e-8.
    #[serde(default = "usual_epsilon")]
    pub epsilon: f64,
    /// How parameters are drawn to 0.
    #[serde(default)]
    pub decay: Decay,
}

/// How [`Adam`] draws parameters to 0: a finite number, not negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// As a part of the gradient: Adam with weight decay.
    Coupled(f64),
    /// Beside the gradient, in proportion to the step size: AdamW (I. Loshchilov and F. Hutter,
    /// "Decoupled weight decay regularization", 2019).
    Decoupled(f64),
}

impl Default for Decay {
    fn default() -> Self {
        Self::Coupled(0.0)
    }
}

const fn usual_beta1() -> f64 {
    0.9
}

const fn usual_beta2() -> f64 {
    0.999
}

const fn usual_epsilon() -> f64 {
    1e-8
}

impl Adam {
    /// Adam with this step size, the usual other settings and no decay.
    ///
    /// # Errors
    /// [`NnError::Setting`] when the step size is negative or not finite.
    pub fn new(learning_rate: f64) -> Result<Self, NnError> {
        let [beta1, beta2, epsilon] = [usual_beta1(), usual_beta2(), usual_epsilon()];
        let adam = Self { learning_rate, beta1, beta2, epsilon, decay: Decay::default() };
        adam.check()?;
        Ok(adam)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        let (Decay::Coupled(decay) | Decay::Decoupled(decay)) = self.decay;
        let not_negative = |value| value >= 0.0;
        let share = |value| (0.0..1.0).contains(&value);
        check("adam", "learning_rate", self.learning_rate, not_negative, NOT_NEGATIVE)?;
        check("adam", "beta1", self.beta1, share, BELOW_ONE)?;
        check("adam", "beta2", self.beta2, share, BELOW_ONE)?;
        check("adam", "epsilon", self.epsilon, |value| value > 0.0, "a finite positive number")?;
        check("adam", "decay", decay, not_negative, NOT_NEGATIVE)
    }

    pub(super) fn apply<E: Element>(
        &self,
        Step { number, learning_rate, factor }: Step,
        parameters: &mut [E],
        memory: &mut [&mut [E]],
        gradients: &[&[E]],
    ) -> Result<(), BadGradient> {
        let [coupled, decoupled] = match self.decay {
            Decay::Coupled(decay) => [decay, 0.0],
            Decay::Decoupled(decay) => [0.0, decay],
        };
        let unbiased = |beta: f64| 1.0 - beta.powf(number as f64);
        let rule = Scaled {
            factor: E::narrow(factor),
            coupled: E::narrow(coupled),
            kept: E::narrow(1.0 - learning_rate * decoupled),
            beta2: E::narrow(self.beta2),
            new1: E::narrow(1.0 - self.beta1),
            new2: E::narrow(1.0 - self.beta2),
            step: E::narrow(learning_rate / unbiased(self.beta1)),
            root: E::narrow(1.0 / unbiased(self.beta2).sqrt()),
            epsilon: E::narrow(self.epsilon),
        };
        update(rule, parameters, memory, gradients)
    }
}

struct Scaled<E> {
    factor: E,
    coupled: E,
    kept: E,
    beta2: E,
    new1: E,
    new2: E,
    step: E,
    root: E,
    epsilon: E,
}

impl<E: Element> Rule<E, 2> for Scaled<E> {
    #[inline(always)]
    fn apply(&self, parameters: &mut [E], [mean, square]: [&mut [E]; 2], gradient: &[E]) {
        let &Self { factor, coupled, kept, beta2, new1, new2, step, root, epsilon } = self;
        let values = parameters.iter_mut().zip(mean).zip(square).zip(gradient);
        for (((parameter, mean), square), &gradient) in values {
            let gradient = gradient * factor + coupled * *parameter;
            *mean += (gradient - *mean) * new1;
            *square = beta2 * *square + new2 * (gradient * gradient);
            let scale = square.sqrt() * root + epsilon;
            *parameter = *parameter * kept - step * (*mean / scale);
        }
    }
}
