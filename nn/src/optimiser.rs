//! Updates of the parameters.

use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, NnError};

/// Plain stochastic gradient descent: each parameter goes down its gradient by `learning_rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Step size, finite and not negative.
    pub learning_rate: f64,
}

impl Sgd {
    /// The optimiser with this step size.
    ///
    /// # Errors
    /// [`NnError::Setting`] when the step size is negative or not finite.
    pub fn new(learning_rate: f64) -> Result<Self, NnError> {
        if !learning_rate.is_finite() || learning_rate < 0.0 {
            return Err(NnError::setting(
                "sgd",
                "learning_rate",
                learning_rate,
                "a finite number of at least 0",
            ));
        }
        Ok(Self { learning_rate })
    }

    /// Goes one step. The gradient is the sum of `gradients`, one per shard of the batch, added up
    /// as a fixed binary tree: the first half (of the largest power of two below the number of
    /// shards) plus the rest, and so on within each. So the bits do not depend on which shard was
    /// done first: they are those of a [`Reduction`](millrace_arena::Reduction). The sums stay in
    /// registers, so that each gradient is read once and no partial sum is written.
    ///
    /// # Panics
    /// When there is no gradient, or when a gradient and `parameters` differ in length.
    pub fn update<E: Element>(&self, parameters: &mut [E], gradients: &[&[E]]) {
        assert!(!gradients.is_empty(), "sgd: no gradient");
        for gradient in gradients {
            assert_eq!(gradient.len(), parameters.len(), "sgd: length of a gradient");
        }
        dispatch(Update { step: E::narrow(self.learning_rate), parameters, gradients });
    }
}

struct Update<'a, E> {
    step: E,
    parameters: &'a mut [E],
    gradients: &'a [&'a [E]],
}

impl<E: Element> Kernel for Update<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { step, parameters, gradients } = self;
        if let &[gradient] = gradients {
            descend(step, parameters, |i| gradient[i]);
        } else if let &[a, b] = gradients {
            descend(step, parameters, |i| a[i] + b[i]);
        } else if let &[a, b, c, d] = gradients {
            descend(step, parameters, |i| (a[i] + b[i]) + (c[i] + d[i]));
        } else {
            descend(step, parameters, |i| tree(gradients, i));
        }
    }
}

#[inline(always)]
fn descend<E: Element>(step: E, parameters: &mut [E], gradient: impl Fn(usize) -> E) {
    for (i, parameter) in parameters.iter_mut().enumerate() {
        *parameter -= step * gradient(i);
    }
}

/// The sum of value `i` of each gradient, as a binary tree.
fn tree<E: Element>(gradients: &[&[E]], i: usize) -> E {
    match gradients {
        [gradient] => gradient[i],
        [a, b] => a[i] + b[i],
        _ => {
            let (first, rest) = gradients.split_at(gradients.len().next_power_of_two() / 2);
            tree(first, i) + tree(rest, i)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_down_the_sum_of_the_gradients() {
        for shards in 1..9 {
            let gradients: Vec<Vec<f64>> =
                (0..shards).map(|s| vec![f64::from(1 << s), 1.0, -1.0]).collect();
            let gradients: Vec<&[f64]> = gradients.iter().map(Vec::as_slice).collect();
            let mut parameters = [0.0, 1.0, 2.0];
            Sgd::new(0.5).unwrap().update(&mut parameters, &gradients);
            let sum = f64::from((1 << shards) - 1);
            let shards = f64::from(shards);
            assert_eq!(parameters, [-0.5 * sum, 1.0 - 0.5 * shards, 2.0 + 0.5 * shards]);
        }
    }

    #[test]
    fn adds_as_a_tree() {
        let gradients = [[1.0f32], [1e8], [-1e8], [1.0], [2.0]];
        let gradients: Vec<&[f32]> = gradients.iter().map(|g| &g[..]).collect();
        // (1 + 1e8) and (-1e8 + 1) each lose their 1, in order or pairwise with others they do not.
        for (shards, sum) in [(2, 1e8f32), (4, 0.0), (5, 2.0)] {
            let mut parameters = [0.0f32];
            Sgd::new(1.0).unwrap().update(&mut parameters, &gradients[..shards]);
            assert_eq!(parameters, [-sum], "{shards} shards");
            assert_eq!(tree(&gradients[..shards], 0), sum, "{shards} shards");
        }
    }

    #[test]
    fn the_sum_of_the_gradients_has_the_bits_of_a_reduction() {
        use millrace_arena::{Arena, Reduction};
        let rt = millrace_runtime::Runtime::builder().workers(2).build().unwrap();
        let arena = Arena::new(&rt, "gradients");
        let reduction = Reduction::new("sum", |sum: &mut [f32], part: &[f32]| {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        });
        for shards in 1u32..20 {
            let gradient =
                |shard: u32| (0..50u32).map(move |i| 1e6 / (1.0 + (shard * 7 + i) as f32));
            let gradients: Vec<Vec<f32>> = (0..shards).map(|s| gradient(s).collect()).collect();
            let parts = gradients.iter().map(|values| {
                let part = arena.alloc::<f32>(values.len()).unwrap();
                part.acquire_mut().unwrap().copy_from_slice(values);
                part
            });
            let parts: Vec<_> = parts.collect();
            let total = reduction.spawn(&parts).unwrap().unwrap();
            let gradients: Vec<&[f32]> = gradients.iter().map(Vec::as_slice).collect();
            let (mut fused, mut summed) = (vec![0.0f32; 50], vec![0.0f32; 50]);
            let sgd = Sgd::new(0.1).unwrap();
            sgd.update(&mut fused, &gradients);
            sgd.update(&mut summed, &[&*total.acquire().unwrap()]);
            assert_eq!(fused, summed, "{shards} shards");
        }
    }

    #[test]
    fn refuses_a_step_size_without_meaning() {
        for step in [f64::NAN, f64::INFINITY, -0.1] {
            assert!(Sgd::new(step).is_err(), "{step}");
        }
    }
}
