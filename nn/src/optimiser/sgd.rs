//! Stochastic gradient descent.

use serde::{Deserialize, Serialize};

use super::{BELOW_ONE, NOT_NEGATIVE, Rule, Step, check, update};
use crate::guard::BadGradient;
use crate::{Element, NnError};

/// Stochastic gradient descent: each parameter goes down its gradient by `learning_rate`.
///
/// With `g` for the gradient plus `weight_decay` times the parameter, and a velocity `v` that is 0
/// before the first update:
///
/// | setting | update |
/// |---|---|
/// | no momentum | `parameter -= learning_rate * g` |
/// | momentum | `v = momentum * v + g`, `parameter -= learning_rate * v` |
/// | Nesterov | `v = momentum * v + g`, `parameter -= learning_rate * (g + momentum * v)` |
///
/// ```
/// use millrace_nn::Sgd;
///
/// let plain = Sgd::new(0.1)?;
/// let with_all = Sgd { momentum: 0.9, nesterov: true, weight_decay: 5e-4, ..plain };
/// with_all.check()?;
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    /// Step size, finite and not negative.
    pub learning_rate: f64,
    /// Share of the velocity that is kept, at least 0 and below 1; 0 for none.
    #[serde(default)]
    pub momentum: f64,
    /// Whether a step looks ahead by the velocity it is about to have. It needs momentum.
    #[serde(default)]
    pub nesterov: bool,
    /// How strongly parameters are drawn to 0, finite and not negative; 0 for not at all.
    #[serde(default)]
    pub weight_decay: f64,
}

impl Sgd {
    /// The optimiser with this step size, without momentum and weight decay.
    ///
    /// # Errors
    /// [`NnError::Setting`] when the step size is negative or not finite.
    pub fn new(learning_rate: f64) -> Result<Self, NnError> {
        let sgd = Self { learning_rate, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
        sgd.check()?;
        Ok(sgd)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        let not_negative = |value| value >= 0.0;
        check("sgd", "learning_rate", self.learning_rate, not_negative, NOT_NEGATIVE)?;
        check("sgd", "momentum", self.momentum, |value| (0.0..1.0).contains(&value), BELOW_ONE)?;
        check("sgd", "weight_decay", self.weight_decay, not_negative, NOT_NEGATIVE)?;
        if self.nesterov && self.momentum == 0.0 {
            return Err(NnError::setting("sgd", "nesterov", true, "false without momentum"));
        }
        Ok(())
    }

    /// Goes one step without momentum, by the sum of `gradients`: [`Optimiser::update`] at this
    /// step size.
    ///
    /// # Errors
    /// [`BadGradient`] when a value of the sum is NaN or infinite.
    ///
    /// # Panics
    /// When there is no gradient, when a gradient and `parameters` differ in length, or when there
    /// is momentum, which needs memory.
    ///
    /// [`Optimiser::update`]: crate::Optimiser::update
    pub fn update<E: Element>(
        &self,
        parameters: &mut [E],
        gradients: &[&[E]],
    ) -> Result<(), BadGradient> {
        let step = Step { number: 1, learning_rate: self.learning_rate, factor: 1.0 };
        self.apply(step, parameters, &mut [], gradients)
    }

    pub(super) fn apply<E: Element>(
        &self,
        Step { learning_rate, factor, .. }: Step,
        parameters: &mut [E],
        memory: &mut [&mut [E]],
        gradients: &[&[E]],
    ) -> Result<(), BadGradient> {
        let [step, factor] = [learning_rate, factor].map(E::narrow);
        let [decay, momentum] = [self.weight_decay, self.momentum].map(E::narrow);
        let plain = Plain { step, factor, decay };
        if self.momentum == 0.0 {
            update(plain, parameters, memory, gradients)
        } else if self.nesterov {
            update(Heavy::<E, true> { plain, momentum }, parameters, memory, gradients)
        } else {
            update(Heavy::<E, false> { plain, momentum }, parameters, memory, gradients)
        }
    }
}

struct Plain<E> {
    step: E,
    factor: E,
    decay: E,
}

impl<E: Element> Rule<E, 0> for Plain<E> {
    #[inline(always)]
    fn apply(&self, parameters: &mut [E], []: [&mut [E]; 0], gradient: &[E]) {
        let &Self { step, factor, decay } = self;
        for (parameter, &gradient) in parameters.iter_mut().zip(gradient) {
            let gradient = gradient * factor + decay * *parameter;
            *parameter -= step * gradient;
        }
    }
}

struct Heavy<E, const NESTEROV: bool> {
    plain: Plain<E>,
    momentum: E,
}

impl<E: Element, const NESTEROV: bool> Rule<E, 1> for Heavy<E, NESTEROV> {
    #[inline(always)]
    fn apply(&self, parameters: &mut [E], [velocity]: [&mut [E]; 1], gradient: &[E]) {
        let &Self { plain: Plain { step, factor, decay }, momentum } = self;
        let values = parameters.iter_mut().zip(velocity).zip(gradient);
        for ((parameter, velocity), &gradient) in values {
            let gradient = gradient * factor + decay * *parameter;
            *velocity = momentum * *velocity + gradient;
            let down = if NESTEROV { gradient + momentum * *velocity } else { *velocity };
            *parameter -= step * down;
        }
    }
}
