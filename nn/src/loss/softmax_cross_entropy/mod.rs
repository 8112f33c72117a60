//! Softmax with cross-entropy: the loss of a classifier, of samples or of pixels.

use super::{Compared, Loss, Partial, Target, Wanted};
use super::{channels_and_places, check_weights, first_largest, scale};
use crate::{Element, NnError, Shape};

/// Settings of a [`SoftmaxCrossEntropy`].
///
/// The default is the plain loss: a class number for each sample, or for each pixel if the output
/// is an image whose channels are the classes.
///
/// ```
/// use millrace_nn::Shape;
/// use millrace_nn::loss::{Compared, Loss, SoftmaxCrossEntropyConfig, Target};
///
/// // The second class counts three times as much, and no class is taken as quite certain.
/// let config = SoftmaxCrossEntropyConfig::new().class_weights(&[1.0, 3.0]).smoothing(0.1);
/// let loss = config.build(Shape::Features(2))?;
/// assert_eq!(loss.weight(3, Target::<f32>::Classes(&[0, 1, 1])), 7.0);
/// assert_eq!(Loss::<f32>::sample_weight(&loss), None);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoftmaxCrossEntropyConfig {
    /// What a class counts, one number per class. Default: 1 each.
    pub class_weights: Option<Vec<f64>>,
    /// The share of certainty that is spread evenly over all classes, at least 0 and below 1.
    /// Default: 0.
    pub smoothing: f64,
    /// The class number that marks what has no class and does not count. Default: none.
    pub ignore: Option<u8>,
    /// Whether the target is a probability for each class (one-hot, for example) instead of a class
    /// number. Default: no.
    pub probabilities: bool,
}

/// Classes that a number of one byte can name.
const MOST: usize = 256;

impl SoftmaxCrossEntropyConfig {
    /// The plain loss, with class numbers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same where each class counts as much as its weight says. With class numbers the mean is
    /// over the weights; with probabilities it is over the samples.
    #[must_use]
    pub fn class_weights(mut self, weights: &[f64]) -> Self {
        self.class_weights = Some(weights.to_vec());
        self
    }

    /// The same with targets that are less than certain: `smoothing` of each is spread over all
    /// classes.
    #[must_use]
    pub const fn smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = smoothing;
        self
    }

    /// The same where what has this class number does not count.
    #[must_use]
    pub const fn ignore(mut self, class: u8) -> Self {
        self.ignore = Some(class);
        self
    }

    /// The same with a probability for each class as target.
    #[must_use]
    pub const fn probabilities(mut self) -> Self {
        self.probabilities = true;
        self
    }

    /// The loss for outputs of shape `output`: one class per feature, or per channel.
    ///
    /// # Errors
    /// [`NnError::Shape`] when there are no classes, or more than a number of one byte can name;
    /// [`NnError::Setting`] when a setting has no meaning, or there is not one weight per class.
    pub fn build(self, output: Shape) -> Result<SoftmaxCrossEntropy, NnError> {
        output.check_values(KIND)?;
        let (classes, places) = channels_and_places(output);
        if classes > MOST && !self.probabilities {
            let wanted = format!("at most {MOST} classes, because a label is one byte");
            return Err(NnError::shape(KIND, output, wanted));
        }
        if !(0.0..1.0).contains(&self.smoothing) {
            let wanted = "at least 0 and below 1";
            return Err(NnError::setting(KIND, "smoothing", self.smoothing, wanted));
        }
        if self.probabilities
            && let Some(ignore) = self.ignore
        {
            return Err(NnError::setting(KIND, "ignore", ignore, "none, with probabilities"));
        }
        if let Some(weights) = &self.class_weights {
            check_weights(KIND, "class_weights", weights, classes)?;
        }
        let spread = self.smoothing / classes as f64;
        Ok(SoftmaxCrossEntropy { config: self, classes, places, spread })
    }
}

const KIND: &str = "softmax_cross_entropy";

/// The cross-entropy between the softmax of an output and what is wanted.
///
/// The largest logit is taken from all of its place first, so that no exponential overflows. A
/// probability below what a product with a value near 1 can hold is taken as 0 in the gradient:
/// denormal numbers there would slow down every later product and change nothing. A place is right
/// if its largest logit (the first, if several are) is that of its class, or of the most probable
/// one.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxCrossEntropy {
    config: SoftmaxCrossEntropyConfig,
    classes: usize,
    places: usize,
    /// What each class gets of the certainty.
    spread: f64,
}

/// What is wanted of one place.
#[derive(Clone, Copy)]
enum Wish<'a, E> {
    Class(usize),
    /// Probabilities of all classes of a sample, and which of the places it is.
    Each(&'a [E], usize),
}

impl SoftmaxCrossEntropy {
    /// Number of classes, which is the number of logits of a place.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    fn class_weight(&self, class: usize) -> f64 {
        self.config.class_weights.as_deref().map_or(1.0, |weights| weights[class])
    }

    /// The probability that `wish` gives to `class`, smoothed.
    fn probability<E: Element>(&self, wish: Wish<'_, E>, class: usize) -> f64 {
        let given = match wish {
            Wish::Class(wanted) => f64::from(u8::from(wanted == class)),
            Wish::Each(sample, place) => sample[class * self.places + place].widen(),
        };
        (1.0 - self.config.smoothing) * given + self.spread
    }

    /// Calls `visit` for each place that counts, with its number and what is wanted of it.
    fn each_place<E: Element>(
        &self,
        Compared { output, target, first }: Compared<'_, E>,
        mut visit: impl FnMut(usize, Wish<'_, E>),
    ) -> Result<(), NnError> {
        let (places, classes) = (output.len() / self.classes, self.classes);
        match (target, self.config.probabilities) {
            (Target::Classes(labels), false) => {
                assert_eq!(output.len(), labels.len() * classes, "{KIND}: labels");
                for (i, &label) in labels.iter().enumerate() {
                    if Some(label) == self.config.ignore {
                        continue;
                    }
                    if usize::from(label) >= classes {
                        let sample = first + i / self.places;
                        return Err(NnError::Label { sample, label, classes });
                    }
                    visit(i, Wish::Class(label.into()));
                }
            }
            (Target::Values(values), true) => {
                assert_eq!(output.len(), values.len(), "{KIND}: probabilities");
                for i in 0..places {
                    let sample = &values[i / self.places * self.places * classes..];
                    visit(i, Wish::Each(sample, i % self.places));
                }
            }
            _ => panic!("{KIND}: the target is of the other sort"),
        }
        Ok(())
    }

    /// Adds one place to `partial`, whose largest logit is that of class `best` and whose
    /// exponentials of the distances from it come to `sum`. Gives the sum of what the classes of
    /// `wish` weigh.
    fn add<E: Element>(
        &self,
        partial: &mut Partial,
        logits: &[E],
        wish: Wish<'_, E>,
        (best, sum): (usize, E),
    ) -> f64 {
        let (largest, log) = (logits[best], sum.widen().ln());
        let mut all = 0.0;
        for (class, &logit) in logits.iter().enumerate() {
            let part = self.class_weight(class) * self.probability(wish, class);
            // What does not count must not, be the logit infinite.
            if part != 0.0 {
                partial.loss += part * (log - (logit - largest).widen());
                all += part;
            }
        }
        let (weight, wanted) = match wish {
            Wish::Class(class) => (self.class_weight(class), class),
            Wish::Each(sample, place) => {
                let sample = &sample[..self.classes * self.places];
                let of_place = sample[place..].iter().step_by(self.places);
                (1.0, first_largest(of_place.copied()))
            }
        };
        partial.weight += weight;
        partial.correct += u64::from(best == wanted);
        partial.counted += 1;
        all
    }
}

impl<E: Element> Loss<E> for SoftmaxCrossEntropy {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn wants(&self) -> Wanted {
        let Self { places, classes, .. } = *self;
        match self.config.probabilities {
            true => Wanted::Values(places * classes),
            false => Wanted::Classes { places, classes, ignore: self.config.ignore },
        }
    }

    fn sample_weight(&self) -> Option<f64> {
        let plain = self.config.class_weights.is_none() && self.config.ignore.is_none();
        (plain || self.config.probabilities).then_some(self.places as f64)
    }

    fn weight(&self, samples: usize, target: Target<'_, E>) -> f64 {
        match (Loss::<E>::sample_weight(self), target) {
            (Some(weight), _) => weight * samples as f64,
            (None, Target::Classes(labels)) => {
                let counts = |&&label: &&u8| {
                    Some(label) != self.config.ignore && usize::from(label) < self.classes
                };
                labels.iter().filter(counts).map(|&label| self.class_weight(label.into())).sum()
            }
            (None, Target::Values(_)) => panic!("{KIND}: the target is of the other sort"),
        }
    }

    fn forward(&self, shard: Compared<'_, E>) -> Result<Partial, NnError> {
        let mut partial = Partial::default();
        self.each_place(shard, |i, wish| {
            let logits = &shard.output[i * self.classes..][..self.classes];
            let best = first_largest(logits.iter().copied());
            let largest = logits[best];
            let sum = logits.iter().fold(E::zero(), |sum, &logit| sum + (logit - largest).exp());
            self.add(&mut partial, logits, wish, (best, sum));
        })?;
        Ok(partial)
    }

    fn forward_backward(
        &self,
        shard: Compared<'_, E>,
        weight: f64,
        gradient: &mut [E],
    ) -> Result<Partial, NnError> {
        assert_eq!(shard.output.len(), gradient.len(), "{KIND}: length of the gradient");
        let (scale, smallest) = (scale(weight), E::min_positive_value() / E::epsilon());
        let mut partial = Partial::default();
        if self.config.ignore.is_some() {
            gradient.fill(E::zero());
        }
        self.each_place(shard, |i, wish| {
            let place = i * self.classes..(i + 1) * self.classes;
            let (logits, gradient) = (&shard.output[place.clone()], &mut gradient[place]);
            let best = first_largest(logits.iter().copied());
            let mut sum = E::zero();
            for (value, &logit) in gradient.iter_mut().zip(logits) {
                *value = (logit - logits[best]).exp();
                sum += *value;
            }
            let all = E::narrow(self.add(&mut partial, logits, wish, (best, sum)) * scale);
            for (class, value) in gradient.iter_mut().enumerate() {
                let probability = *value / sum;
                let wanted = self.class_weight(class) * self.probability(wish, class) * scale;
                let got = if probability < smallest { E::zero() } else { probability * all };
                *value = got - E::narrow(wanted);
            }
        })?;
        Ok(partial)
    }
}

#[cfg(test)]
mod tests;
