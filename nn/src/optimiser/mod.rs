//! Updates of the parameters.
//!
//! An [`Optimiser`] is a set of numbers. What it remembers of a parameter from update to update is
//! the caller's memory: as many slices as [`Optimiser::memory`] names, each as long as the
//! parameter, all zeros before the first update. An update works value by value, so a parameter may
//! be cut into blocks that are updated by different tasks: that changes no bit. It reads each
//! gradient once and goes over parameter and memory once.
//!
//! The rules and their defaults are those of PyTorch, whose names the memory has. No product is
//! fused with a sum, so the bits do not depend on the processor's vector unit.

mod adam;
mod clip;
mod sgd;
mod sum;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

pub use adam::{Adam, Decay};
pub use clip::Clip;
pub use sgd::Sgd;

use crate::guard::BadGradient;
use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, NnError};
use sum::{PIECE, Sum};

/// How parameters are updated.
///
/// ```
/// use millrace_nn::{Adam, Optimiser, Sgd, Step};
///
/// let optimiser = Optimiser::from(Sgd { momentum: 0.5, ..Sgd::new(0.1)? });
/// assert_eq!(optimiser.memory(), ["momentum_buffer"]);
/// let (mut parameters, mut momentum) = ([1.0f64, 2.0], [0.0; 2]);
/// for number in 1..=2 {
///     // The gradient of the batch is the sum of those of its two shards.
///     let gradients: [&[f64]; 2] = [&[1.0, 0.0], &[1.0, -4.0]];
///     let step = Step { number, learning_rate: 0.1, factor: 1.0 };
///     optimiser.update(step, &mut parameters, &mut [&mut momentum], &gradients)?;
/// }
/// assert_eq!(momentum, [3.0, -6.0]);
/// assert!((parameters[0] - 0.5).abs() < 1e-15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Optimiser {
    /// See [`Sgd`].
    Sgd(Sgd),
    /// See [`Adam`].
    Adam(Adam),
}

impl From<Sgd> for Optimiser {
    fn from(sgd: Sgd) -> Self {
        Self::Sgd(sgd)
    }
}

impl From<Adam> for Optimiser {
    fn from(adam: Adam) -> Self {
        Self::Adam(adam)
    }
}

/// What one update needs to know beside the settings of the optimiser. It is plain memory, so that
/// tasks that are recorded once can read it from a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    /// How many updates there have been, this one included: 1 for the first.
    pub number: u64,
    /// The size of the step: what a [`Schedule`](crate::Schedule) makes of the optimiser's.
    pub learning_rate: f64,
    /// What the gradient is multiplied by first: 1, or what [`Clip::factor`] gives.
    pub factor: f64,
}

impl Optimiser {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        match self {
            Self::Sgd(sgd) => sgd.check(),
            Self::Adam(adam) => adam.check(),
        }
    }

    /// The size of a step, before any schedule.
    pub const fn learning_rate(&self) -> f64 {
        match self {
            Self::Sgd(sgd) => sgd.learning_rate,
            Self::Adam(adam) => adam.learning_rate,
        }
    }

    /// The names of what is remembered of each parameter, in the order in which
    /// [`update`](Self::update) wants it.
    pub const fn memory(&self) -> &'static [&'static str] {
        match self {
            Self::Sgd(sgd) if sgd.momentum == 0.0 => &[],
            Self::Sgd(_) => &["momentum_buffer"],
            Self::Adam(_) => &["exp_avg", "exp_avg_sq"],
        }
    }

    /// Updates a parameter, or a block of one, by the sum of `gradients`, one per shard of the
    /// batch.
    ///
    /// The gradients are added up as a fixed binary tree: the first half (of the largest power of
    /// two below the number of shards) plus the rest, and so on within each. So the bits do not
    /// depend on which shard was done first: they are those of a
    /// [`Reduction`](millrace_arena::Reduction).
    ///
    /// # Errors
    /// [`BadGradient`] when a value of the sum is NaN or infinite. Values before it may be updated
    /// already; none is made NaN.
    ///
    /// # Panics
    /// When there is no gradient, when `memory` has not one slice per name of
    /// [`memory`](Self::memory), or when a length differs from that of `parameters`.
    pub fn update<E: Element>(
        &self,
        step: Step,
        parameters: &mut [E],
        memory: &mut [&mut [E]],
        gradients: &[&[E]],
    ) -> Result<(), BadGradient> {
        match self {
            Self::Sgd(sgd) => sgd.apply(step, parameters, memory, gradients),
            Self::Adam(adam) => adam.apply(step, parameters, memory, gradients),
        }
    }
}

/// What becomes of a piece of a parameter, `S` pieces of memory and the summed gradient, all of one
/// length.
trait Rule<E, const S: usize> {
    fn apply(&self, parameters: &mut [E], memory: [&mut [E]; S], gradient: &[E]);
}

/// Applies a rule to a parameter.
fn update<E: Element, R: Rule<E, S>, const S: usize>(
    rule: R,
    parameters: &mut [E],
    memory: &mut [&mut [E]],
    gradients: &[&[E]],
) -> Result<(), BadGradient> {
    assert!(!gradients.is_empty(), "update: no gradient");
    for gradient in gradients {
        assert_eq!(gradient.len(), parameters.len(), "update: length of a gradient");
    }
    assert_eq!(memory.len(), S, "update: slices of memory");
    for memory in &*memory {
        assert_eq!(memory.len(), parameters.len(), "update: length of the memory");
    }
    let mut memory = memory.iter_mut();
    let memory = std::array::from_fn(|_| &mut **memory.next().expect("it has S slices"));
    dispatch(Update { rule, parameters, memory, gradients })
}

struct Update<'a, E, R, const S: usize> {
    rule: R,
    parameters: &'a mut [E],
    memory: [&'a mut [E]; S],
    gradients: &'a [&'a [E]],
}

impl<E: Element, R: Rule<E, S>, const S: usize> Kernel for Update<'_, E, R, S> {
    type Output = Result<(), BadGradient>;

    #[inline(always)]
    fn run<U: Unit>(mut self) -> Self::Output {
        let gradients = self.gradients;
        let mut sum = Sum::new(gradients.len());
        let len = self.parameters.len();
        let mut at = 0;
        while at < len {
            let piece = at..len.min(at + PIECE);
            let part = |gradient: usize| &gradients[gradient][piece.clone()];
            let gradient = sum.piece(gradients.len(), piece.len(), at, part)?;
            let memory = self.memory.each_mut().map(|memory| &mut memory[piece.clone()]);
            self.rule.apply(&mut self.parameters[piece.clone()], memory, gradient);
            at = piece.end;
        }
        Ok(())
    }
}

/// Checks that a setting is in a range.
fn check(
    place: &str,
    setting: &'static str,
    value: f64,
    fits: impl Fn(f64) -> bool,
    wanted: &'static str,
) -> Result<(), NnError> {
    if value.is_finite() && fits(value) {
        Ok(())
    } else {
        Err(NnError::setting(place, setting, value, wanted))
    }
}

const NOT_NEGATIVE: &str = "a finite number of at least 0";
const BELOW_ONE: &str = "a number of at least 0 and below 1";

#[cfg(test)]
mod tests;
