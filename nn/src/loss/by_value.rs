//! The losses that compare value with value.

use super::{Compared, Loss, Partial, Target, Wanted, scale};
use crate::{Element, NnError, Shape};

/// The mean of the squares of the differences, over all values of the batch.
///
/// ```
/// use millrace_nn::Shape;
/// use millrace_nn::loss::{Compared, Loss, MeanSquaredErrorConfig, Target};
///
/// let loss = MeanSquaredErrorConfig.build(Shape::Features(2))?;
/// let shard =
///     Compared { output: &[1.0f32, 5.0], target: Target::Values(&[1.0, 2.0]), first: 0 };
/// let mut gradient = [0.0; 2];
/// assert_eq!(loss.forward_backward(shard, 2.0, &mut gradient)?.mean(), 4.5);
/// assert_eq!(gradient, [0.0, 3.0]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanSquaredErrorConfig;

impl MeanSquaredErrorConfig {
    /// The loss for outputs of shape `output`.
    ///
    /// # Errors
    /// [`NnError::Shape`] when it has no values.
    pub fn build(self, output: Shape) -> Result<ByValue, NnError> {
        ByValue::new(Rule::Square, output)
    }
}

/// The cross-entropy of single yes-or-no questions, of which the output gives the logits: the mean
/// over all values of the batch. The targets are the probabilities of yes.
///
/// ```
/// use millrace_nn::Shape;
/// use millrace_nn::loss::{BinaryCrossEntropyConfig, Compared, Loss, Target};
///
/// let loss = BinaryCrossEntropyConfig::new().build(Shape::Features(2))?;
/// let shard =
///     Compared { output: &[0.0f32, 100.0], target: Target::Values(&[1.0, 1.0]), first: 0 };
/// let partial = loss.forward(shard)?;
/// assert_eq!(partial.mean(), 2f64.ln() / 2.0);
/// assert_eq!((partial.correct, partial.counted), (1, 2));
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinaryCrossEntropyConfig {
    /// What a yes counts beside a no, one number per feature or channel. Default: 1 each.
    pub positive_weights: Option<Vec<f64>>,
}

impl BinaryCrossEntropyConfig {
    /// The loss in which yes and no count the same.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same where a yes counts as much as its weight says.
    #[must_use]
    pub fn positive_weights(mut self, weights: &[f64]) -> Self {
        self.positive_weights = Some(weights.to_vec());
        self
    }

    /// The loss for outputs of shape `output`.
    ///
    /// # Errors
    /// [`NnError::Shape`] when it has no values; [`NnError::Setting`] when there is not one
    /// weight per feature or channel, or one has no meaning.
    pub fn build(self, output: Shape) -> Result<ByValue, NnError> {
        let loss = ByValue::new(Rule::Binary(self.positive_weights), output)?;
        if let Rule::Binary(Some(weights)) = &loss.rule {
            super::check_weights(loss.rule.kind(), "positive_weights", weights, loss.channels)?;
        }
        Ok(loss)
    }
}

/// A loss that compares value with value: one that [`MeanSquaredErrorConfig`] or
/// [`BinaryCrossEntropyConfig`] built.
#[derive(Clone, Debug, PartialEq)]
pub struct ByValue {
    rule: Rule,
    channels: usize,
    places: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Square,
    Binary(Option<Vec<f64>>),
}

impl Rule {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Square => "mean_squared_error",
            Self::Binary(_) => "binary_cross_entropy",
        }
    }

    /// The loss of one value of `channel`, and its slope.
    fn term(&self, channel: usize, value: f64, wanted: f64) -> (f64, f64) {
        match self {
            Self::Square => {
                let off = value - wanted;
                (off * off, 2.0 * off)
            }
            Self::Binary(weights) => {
                let yes = wanted * weights.as_ref().map_or(1.0, |weights| weights[channel]);
                let both = yes + (1.0 - wanted);
                // Of the two exponentials, the one that does not overflow.
                let small = (-value.abs()).exp();
                let over = if value < 0.0 { -value } else { 0.0 };
                let probability = if value < 0.0 { small } else { 1.0 } / (1.0 + small);
                let loss = (1.0 - wanted) * value + both * (small.ln_1p() + over);
                (loss, both * probability - yes)
            }
        }
    }
}

impl ByValue {
    fn new(rule: Rule, output: Shape) -> Result<Self, NnError> {
        output.check_values(rule.kind())?;
        let (channels, places) = super::channels_and_places(output);
        Ok(Self { rule, channels, places })
    }

    /// Calls `visit` for each value in turn, with its channel, itself and what is wanted.
    fn each<E: Element>(
        &self,
        Compared { output, target, .. }: Compared<'_, E>,
        mut visit: impl FnMut(usize, E, E),
    ) {
        let Self { channels, places, .. } = *self;
        let Target::Values(wanted) = target else {
            panic!("{}: the target is of the other sort", self.rule.kind());
        };
        assert_eq!(output.len(), wanted.len(), "{}: length of the target", self.rule.kind());
        let samples = output.chunks_exact(channels * places);
        for (values, wanted) in samples.zip(wanted.chunks_exact(channels * places)) {
            for (place, values) in values.chunks_exact(channels).enumerate() {
                for (channel, &value) in values.iter().enumerate() {
                    visit(channel, value, wanted[channel * places + place]);
                }
            }
        }
    }

    /// Adds a value to `partial`; gives the slope of its loss.
    fn add<E: Element>(&self, partial: &mut Partial, channel: usize, value: E, wanted: E) -> f64 {
        let (value, wanted) = (value.widen(), wanted.widen());
        let (loss, slope) = self.rule.term(channel, value, wanted);
        partial.loss += loss;
        partial.weight += 1.0;
        if matches!(self.rule, Rule::Binary(_)) {
            partial.correct += u64::from((value > 0.0) == (wanted > 0.5));
            partial.counted += 1;
        }
        slope
    }
}

impl<E: Element> Loss<E> for ByValue {
    fn kind(&self) -> &'static str {
        self.rule.kind()
    }

    fn wants(&self) -> Wanted {
        Wanted::Values(self.channels * self.places)
    }

    fn sample_weight(&self) -> Option<f64> {
        Some((self.channels * self.places) as f64)
    }

    fn weight(&self, samples: usize, _: Target<'_, E>) -> f64 {
        (samples * self.channels * self.places) as f64
    }

    fn forward(&self, shard: Compared<'_, E>) -> Result<Partial, NnError> {
        let mut partial = Partial::default();
        self.each(shard, |channel, value, wanted| {
            self.add(&mut partial, channel, value, wanted);
        });
        Ok(partial)
    }

    fn forward_backward(
        &self,
        shard: Compared<'_, E>,
        weight: f64,
        gradient: &mut [E],
    ) -> Result<Partial, NnError> {
        assert_eq!(shard.output.len(), gradient.len(), "{}: gradient", self.rule.kind());
        let (mut partial, scale) = (Partial::default(), scale(weight));
        let mut gradient = gradient.iter_mut();
        self.each(shard, |channel, value, wanted| {
            let slope = self.add(&mut partial, channel, value, wanted);
            *gradient.next().expect("one for each value") = E::narrow(slope * scale);
        });
        Ok(partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers;
    use crate::loss::check::{check_gradient, compared};

    #[test]
    fn gradients_match_finite_differences() {
        for output in [
            Shape::Features(1),
            Shape::Features(17),
            Shape::image(1, 1, 1),
            Shape::image(3, 5, 1),
            Shape::image(5, 2, 3),
        ] {
            for samples in [1, 3] {
                let target = numbers(samples * output.len(), 3);
                let loss = MeanSquaredErrorConfig.build(output).unwrap();
                check_gradient(&loss, output, samples, Target::Values(&target));
                let target: Vec<f64> = target.iter().map(|value| value.abs()).collect();
                let config = BinaryCrossEntropyConfig::new();
                let loss = config.clone().build(output).unwrap();
                check_gradient(&loss, output, samples, Target::Values(&target));
                let weights: Vec<f64> = (0..loss.channels).map(|c| 0.5 + c as f64).collect();
                let loss = config.positive_weights(&weights).build(output).unwrap();
                check_gradient(&loss, output, samples, Target::Values(&target));
            }
        }
    }

    #[test]
    fn logits_of_any_size_give_numbers() {
        let loss = BinaryCrossEntropyConfig::new().build(Shape::Features(4)).unwrap();
        let logits = [1000.0f32, -1000.0, 1000.0, -1000.0];
        let shard = compared(&logits, Target::Values(&[1.0, 0.0, 0.0, 1.0]));
        let mut gradient = [f32::NAN; 4];
        let partial = loss.forward_backward(shard, 1.0, &mut gradient).unwrap();
        assert_eq!(partial, Partial { loss: 2000.0, weight: 4.0, correct: 2, counted: 4 });
        assert_eq!(gradient, [0.0, 0.0, 1.0, -1.0]);
    }

    #[test]
    fn not_a_number_shows_in_the_loss() {
        let output = Shape::Features(1);
        let losses = [
            MeanSquaredErrorConfig.build(output).unwrap(),
            BinaryCrossEntropyConfig::new().build(output).unwrap(),
        ];
        for loss in losses {
            for [value, wanted] in [[f32::NAN, 1.0], [1.0, f32::NAN]] {
                let partial = loss.forward(compared(&[value], Target::Values(&[wanted]))).unwrap();
                assert!(partial.loss.is_nan(), "{loss:?}");
            }
        }
    }

    #[test]
    fn bad_settings_are_errors() {
        let config = BinaryCrossEntropyConfig::new();
        assert_eq!(
            config.positive_weights(&[1.0]).build(Shape::image(2, 1, 1)).unwrap_err().to_string(),
            "binary_cross_entropy: positive_weights is 1 numbers, wanted one per class"
        );
        let message = MeanSquaredErrorConfig.build(Shape::Features(0)).unwrap_err().to_string();
        assert_eq!(message, "layer mean_squared_error: got shape 0, wanted at least one value");
    }
}
