//! Batch normalisation.
//!
//! # How it computes
//! In training each shard gives, per channel, the mean and the sum of the squared distances from
//! it. They are found in two passes over the shard, in double precision, and combined pairwise by
//! the rule for two sets, which loses nothing where the mean is large against the deviation. From
//! there on each value is normalised by itself. On the way back the parts are the sums of the
//! gradients by the output, and of these times the normalised values.

use std::sync::Arc;

use super::{
    Backward, BatchWide, Config, Forward, Layer, Mode, Parameter, Relu, State, Uses, one_input,
};
use crate::kernel::{Kernel, Unit, dispatch, take};
use crate::{Element, NnError, Shape};

/// Settings of a [`BatchNorm`]. The defaults are those of other libraries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Is added to the variance, so that nothing is divided by 0. Default: 1e-5.
    pub epsilon: f64,
    /// How much of a batch's statistics goes into the running ones. Default: 0.1.
    pub momentum: f64,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        Self { epsilon: 1e-5, momentum: 0.1 }
    }
}

impl BatchNormConfig {
    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when the shape is empty or too large; [`NnError::Setting`] when the
    /// epsilon is not positive or the momentum not between 0 and 1.
    pub fn build(self, name: &str, input: Shape) -> Result<BatchNorm, NnError> {
        input.check_values(name)?;
        if !(self.epsilon.is_finite() && self.epsilon > 0.0) {
            return Err(NnError::setting(name, "epsilon", self.epsilon, "a number above 0"));
        }
        if !(0.0..=1.0).contains(&self.momentum) {
            return Err(NnError::setting(name, "momentum", self.momentum, "a number from 0 to 1"));
        }
        Ok(BatchNorm { config: self, shape: input })
    }
}

impl Config for BatchNormConfig {
    fn kind(&self) -> &'static str {
        "batch_norm"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

/// Normalises each channel of images, or each feature, to mean 0 and variance 1, and scales and
/// shifts it by what is learned: over the batch in training, by running statistics in evaluation.
///
/// The running mean and variance move towards those of each batch by the share
/// [`momentum`](BatchNormConfig::momentum); the batch's variance is taken as the unbiased estimate
/// there, and as that of the batch itself where it normalises, as in PyTorch.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    config: BatchNormConfig,
    shape: Shape,
}

impl BatchNorm {
    /// The settings.
    pub const fn config(&self) -> BatchNormConfig {
        self.config
    }

    const fn channels(&self) -> usize {
        match self.shape {
            Shape::Image { channels, .. } => channels,
            Shape::Features(features) => features,
        }
    }

    /// Mean and reciprocal deviation of each channel into `mean` and `scale`.
    fn normal<E: Element>(&self, total: &[f64], mean: &mut [E], scale: &mut [E]) {
        let Moments { count, means, squares } = Moments::of(total);
        for (((to_mean, to_scale), &mean), &square) in
            mean.iter_mut().zip(scale).zip(means).zip(squares)
        {
            *to_mean = E::narrow(mean);
            *to_scale = E::narrow(1.0 / (square / count + self.config.epsilon).sqrt());
        }
    }
}

/// A forward part: the number of values per channel, their means, and the sums of the squared
/// distances from these.
struct Moments<'a> {
    count: f64,
    means: &'a [f64],
    squares: &'a [f64],
}

impl<'a> Moments<'a> {
    fn of(part: &'a [f64]) -> Self {
        let (count, values) = part.split_at(1);
        let (means, squares) = values.split_at(values.len() / 2);
        Self { count: count[0], means, squares }
    }
}

impl<E: Element> BatchWide<E> for BatchNorm {
    fn forward_len(&self) -> usize {
        1 + 2 * self.channels()
    }

    fn backward_len(&self) -> usize {
        2 * self.channels()
    }

    fn least_samples(&self) -> usize {
        // One value alone has no variance.
        if self.shape.len() == self.channels() { 2 } else { 1 }
    }

    fn forward_part(&self, x: &[E], part: &mut [f64]) {
        dispatch(ForwardPart { x, channels: self.channels(), part });
    }

    fn combine_forward(&self, into: &mut [f64], from: &[f64]) {
        let other = Moments::of(from);
        let (count, values) = into.split_at_mut(1);
        let (means, squares) = values.split_at_mut(other.means.len());
        let (own, both) = (count[0], count[0] + other.count);
        for (channel, (mean, square)) in means.iter_mut().zip(squares).enumerate() {
            let distance = other.means[channel] - *mean;
            *mean += distance * (other.count / both);
            *square += other.squares[channel] + distance * distance * (own * other.count / both);
        }
        count[0] = both;
    }

    fn backward_part(&self, x: &[E], dy: &[E], total: &[f64], part: &mut [f64]) {
        let Moments { count, means, squares } = Moments::of(total);
        let (sums, products) = part.split_at_mut(self.channels());
        dispatch(BackwardPart { x, dy, means, sums, products: &mut *products });
        for (product, square) in products.iter_mut().zip(squares) {
            *product /= (square / count + self.config.epsilon).sqrt();
        }
    }

    fn learn(&self, total: &[f64], state: &mut [&mut [E]]) {
        let Moments { count, means, squares } = Moments::of(total);
        let [running_means, running_variances] = state else { panic!("batch_norm: two states") };
        let momentum = self.config.momentum;
        let learn = |running: &mut E, batch: f64| {
            *running = E::narrow(running.widen() * (1.0 - momentum) + batch * momentum);
        };
        running_means.iter_mut().zip(means).for_each(|(running, &mean)| learn(running, mean));
        for (running, square) in running_variances.iter_mut().zip(squares) {
            learn(running, square / (count - 1.0));
        }
    }
}

impl<E: Element> Layer<E> for BatchNorm {
    fn kind(&self) -> &'static str {
        "batch_norm"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::scale(self.channels()), Parameter::shift(self.channels())]
    }

    fn state(&self) -> Vec<State> {
        let len = self.channels();
        vec![
            State { name: "running_mean", len, initial: 0.0 },
            State { name: "running_var", len, initial: 1.0 },
        ]
    }

    fn batch_wide(&self) -> Option<&dyn BatchWide<E>> {
        Some(self)
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    fn scratch_len(&self, _: usize) -> usize {
        4 * self.channels()
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, E>) {
        let Forward { mode, x, y, parameters, state, wide, mut scratch, relu, .. } = io;
        let channels = self.channels();
        let (mean, scale) = (take(&mut scratch, channels), take(&mut scratch, channels));
        match mode {
            Mode::Train(_) => self.normal(wide.forward, mean, scale),
            Mode::Evaluate => {
                mean.copy_from_slice(state[0]);
                for (scale, variance) in scale.iter_mut().zip(state[1]) {
                    *scale = E::narrow(1.0 / (variance.widen() + self.config.epsilon).sqrt());
                }
            }
        }
        scale.iter_mut().zip(parameters[0]).for_each(|(scale, &weight)| *scale *= weight);
        dispatch(Apply { x: x[0], mean, scale, shift: parameters[1], relu, y });
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let Backward { mode, x, parameters, wide, dy, dx, dparameters, mut scratch, .. } = io;
        let channels = self.channels();
        let [dweight, dbias] = dparameters else { panic!("batch_norm: two gradients") };
        let (sums, products) = wide.part.split_at(channels);
        dweight.iter_mut().zip(products).for_each(|(to, &sum)| *to = E::narrow(sum));
        dbias.iter_mut().zip(sums).for_each(|(to, &sum)| *to = E::narrow(sum));
        if dx[0].is_empty() {
            return;
        }
        assert!(mode != Mode::Evaluate, "batch_norm: there is no way back from an evaluation");
        let count = wide.forward[0];
        let [mean, scale, slope, drift] = [(); 4].map(|()| take(&mut scratch, channels));
        self.normal(wide.forward, mean, scale);
        let (sums, products) = wide.backward.split_at(channels);
        for ((slope, scale), &product) in slope.iter_mut().zip(&*scale).zip(products) {
            *slope = E::narrow(product / count) * *scale;
        }
        drift.iter_mut().zip(sums).for_each(|(drift, &sum)| *drift = E::narrow(sum / count));
        scale.iter_mut().zip(parameters[0]).for_each(|(scale, &weight)| *scale *= weight);
        dispatch(Spread { x: x[0], dy, mean, scale, slope, drift, dx: dx[0] });
    }
}

struct ForwardPart<'a, E> {
    x: &'a [E],
    channels: usize,
    part: &'a mut [f64],
}

impl<E: Element> Kernel for ForwardPart<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { x, channels, part } = self;
        let count = (x.len() / channels) as f64;
        part.fill(0.0);
        let (counts, values) = part.split_at_mut(1);
        let (means, squares) = values.split_at_mut(channels);
        for x in x.chunks_exact(channels) {
            means.iter_mut().zip(x).for_each(|(sum, x)| *sum += x.widen());
        }
        means.iter_mut().for_each(|mean| *mean /= count);
        for x in x.chunks_exact(channels) {
            for ((square, mean), x) in squares.iter_mut().zip(&*means).zip(x) {
                let distance = x.widen() - mean;
                *square += distance * distance;
            }
        }
        counts[0] = count;
    }
}

struct BackwardPart<'a, E> {
    x: &'a [E],
    dy: &'a [E],
    means: &'a [f64],
    sums: &'a mut [f64],
    products: &'a mut [f64],
}

impl<E: Element> Kernel for BackwardPart<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { x, dy, means, sums, products } = self;
        let channels = means.len();
        sums.fill(0.0);
        products.fill(0.0);
        for (x, dy) in x.chunks_exact(channels).zip(dy.chunks_exact(channels)) {
            let sums = sums.iter_mut().zip(&mut *products);
            for ((((sum, product), mean), x), dy) in sums.zip(means).zip(x).zip(dy) {
                *sum += dy.widen();
                *product += dy.widen() * (x.widen() - mean);
            }
        }
    }
}

struct Apply<'a, E> {
    x: &'a [E],
    mean: &'a [E],
    scale: &'a [E],
    shift: &'a [E],
    relu: bool,
    y: &'a mut [E],
}

impl<E: Element> Kernel for Apply<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { x, mean, scale, shift, relu, y } = self;
        let channels = mean.len();
        for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
            let own = mean.iter().zip(scale).zip(shift);
            for ((y, &x), ((&mean, &scale), &shift)) in y.iter_mut().zip(x).zip(own) {
                let value = U::mul_add(x - mean, scale, shift);
                *y = if relu { Relu::of(value) } else { value };
            }
        }
    }
}

struct Spread<'a, E> {
    x: &'a [E],
    dy: &'a [E],
    mean: &'a [E],
    scale: &'a [E],
    /// By how much of its distance from the mean a value takes part in the mean gradient.
    slope: &'a [E],
    /// The mean gradient.
    drift: &'a [E],
    dx: &'a mut [E],
}

impl<E: Element> Kernel for Spread<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { x, dy, mean, scale, slope, drift, dx } = self;
        let channels = mean.len();
        let samples = x.chunks_exact(channels).zip(dy.chunks_exact(channels));
        for ((x, dy), dx) in samples.zip(dx.chunks_exact_mut(channels)) {
            let own = mean.iter().zip(scale).zip(slope).zip(drift);
            for (((dx, &x), &dy), (((&mean, &scale), &slope), &drift)) in
                dx.iter_mut().zip(x).zip(dy).zip(own)
            {
                *dx = (dy - drift - (x - mean) * slope) * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, check_gradients, numbers};
    use crate::layer::{Alone, Way, combine};
    use proptest::prelude::*;

    fn build(shape: Shape) -> BatchNorm {
        BatchNormConfig::default().build("norm", shape).unwrap()
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (shape, samples) in [
            (Shape::image(3, 2, 4), 3),
            (Shape::image(1, 5, 1), 1),
            (Shape::image(17, 1, 1), 3),
            (Shape::Features(5), 4),
        ] {
            check_gradients(Arc::new(build(shape)), &[shape], samples);
        }
    }

    proptest! {
        #[test]
        fn parts_come_to_the_moments_of_the_batch(
            channels in 1usize..6,
            shards in proptest::collection::vec(1usize..8, 1..10),
            offset in prop_oneof![Just(0.0), Just(1e5)],
        ) {
            let layer = build(Shape::Features(channels));
            let wide: &dyn BatchWide<f64> = &layer;
            let count: usize = shards.iter().sum();
            let x: Vec<f64> =
                numbers(count * channels, 1).into_iter().map(|x| x + offset).collect();
            let len = wide.forward_len();
            let mut parts = vec![f64::NAN; shards.len() * len];
            let mut rest = &x[..];
            for (part, samples) in parts.chunks_exact_mut(len).zip(&shards) {
                let (own, others) = rest.split_at(samples * channels);
                wide.forward_part(own, part);
                rest = others;
            }
            combine(wide, Way::Forward, &mut parts);
            prop_assert_eq!(parts[0], count as f64);
            for channel in 0..channels {
                let values = || x[channel..].iter().step_by(channels);
                let mean = values().sum::<f64>() / count as f64;
                let square = values().map(|x| (x - mean).powi(2)).sum::<f64>();
                assert_close(&[parts[1 + channel]], &[mean], 1e-14);
                assert_close(&[parts[1 + channels + channel]], &[square], 1e-9);
            }
        }
    }

    #[test]
    fn a_relu_may_be_put_on_the_output() {
        let shape = Shape::image(3, 2, 2);
        let x = numbers(2 * shape.len(), 1);
        let parameters = vec![numbers(3, 2), numbers(3, 3)];
        let mut plain = Alone::new(Arc::new(build(shape)), &[shape], parameters.clone());
        let mut fused = Alone::new(Arc::new(build(shape)), &[shape], parameters).relu();
        for mode in [Mode::train(0), Mode::Evaluate] {
            let mut wanted = plain.forward(mode, &[&x]);
            Relu::new(shape).forward(&mut wanted);
            assert_eq!(fused.forward(mode, &[&x]), wanted);
        }
    }

    #[test]
    fn settings_without_meaning_are_refused() {
        let message = |epsilon, momentum| {
            let config = BatchNormConfig { epsilon, momentum };
            config.build("norm", Shape::Features(2)).unwrap_err().to_string()
        };
        assert_eq!(message(0.0, 0.1), "norm: epsilon is 0, wanted a number above 0");
        assert_eq!(message(1e-5, f64::NAN), "norm: momentum is NaN, wanted a number from 0 to 1");
        assert_eq!(message(1e-5, 1.5), "norm: momentum is 1.5, wanted a number from 0 to 1");
        assert!(BatchNormConfig::default().build("norm", Shape::Features(0)).is_err());
    }
}
