//! Softmax with cross-entropy: the loss of a classifier.

use crate::{Element, NnError};

/// What a shard contributes to the loss and the accuracy of its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Partial {
    /// Sum of the losses of the samples.
    pub loss: f64,
    /// Number of samples whose largest logit (the first, if several are) is that of their class.
    pub correct: u32,
}

/// Softmax cross-entropy with class indices, the mean over a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxCrossEntropy {
    /// Number of classes, which is the number of logits of a sample.
    pub classes: usize,
}

impl SoftmaxCrossEntropy {
    /// Loss and hits of a shard, and the gradient of the mean loss of its batch by its logits.
    ///
    /// The largest logit of each sample is taken from all of them first, so that no exponential
    /// overflows. A probability below what a product with a value near 1 can hold is taken as 0 in
    /// the gradient: denormal numbers there would slow down every later product and change nothing.
    ///
    /// # Shapes
    /// `logits` and `dlogits`: samples x classes; `labels`: one per sample. `dlogits` is
    /// overwritten. `batch` is the number of samples of the whole batch, by which the gradient is
    /// divided; `first` is the place of the shard's first sample in the batch, for errors.
    ///
    /// # Errors
    /// [`NnError::Label`] for a label that names no class.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn forward_backward<E: Element>(
        &self,
        logits: &[E],
        labels: &[u8],
        batch: usize,
        first: usize,
        dlogits: &mut [E],
    ) -> Result<Partial, NnError> {
        assert_eq!(logits.len(), dlogits.len(), "softmax_cross_entropy: length of the gradient");
        let scale = E::one() / E::narrow(batch as f64);
        let smallest = E::min_positive_value() / E::epsilon();
        let mut partial = Partial::default();
        let gradients = dlogits.chunks_exact_mut(self.classes);
        for ((logits, label, at), gradient) in self.samples(logits, labels, first).zip(gradients) {
            let label = self.check(label, at)?;
            let (largest, sum) = partial.add(logits, label);
            for (gradient, &logit) in gradient.iter_mut().zip(logits) {
                let probability = (logit - largest).exp() / sum;
                *gradient = if probability < smallest { E::zero() } else { probability * scale };
            }
            gradient[label] -= scale;
        }
        Ok(partial)
    }

    /// Loss and hits of a shard, without the gradient.
    ///
    /// # Shapes
    /// As in [`forward_backward`](Self::forward_backward).
    ///
    /// # Errors
    /// [`NnError::Label`] for a label that names no class.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn forward<E: Element>(
        &self,
        logits: &[E],
        labels: &[u8],
        first: usize,
    ) -> Result<Partial, NnError> {
        let mut partial = Partial::default();
        for (logits, label, at) in self.samples(logits, labels, first) {
            partial.add(logits, self.check(label, at)?);
        }
        Ok(partial)
    }

    fn samples<'a, E: Element>(
        &self,
        logits: &'a [E],
        labels: &'a [u8],
        first: usize,
    ) -> impl Iterator<Item = (&'a [E], u8, usize)> {
        assert_eq!(logits.len(), labels.len() * self.classes, "softmax_cross_entropy: labels");
        let samples = logits.chunks_exact(self.classes).zip(labels).enumerate();
        samples.map(move |(i, (logits, &label))| (logits, label, first + i))
    }

    fn check(&self, label: u8, sample: usize) -> Result<usize, NnError> {
        let classes = self.classes;
        if usize::from(label) < classes {
            Ok(usize::from(label))
        } else {
            Err(NnError::Label { sample, label, classes })
        }
    }
}

impl Partial {
    /// Adds one sample; gives its largest logit and the sum of the exponentials of the distances
    /// from it.
    fn add<E: Element>(&mut self, logits: &[E], label: usize) -> (E, E) {
        let mut best = 0;
        for (class, &logit) in logits.iter().enumerate() {
            if logit > logits[best] {
                best = class;
            }
        }
        let largest = logits[best];
        let sum = logits.iter().fold(E::zero(), |sum, &logit| sum + (logit - largest).exp());
        self.loss += sum.widen().ln() - (logits[label] - largest).widen();
        self.correct += u32::from(best == label);
        (largest, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_close, numbers, slope};

    #[test]
    fn gradient_matches_finite_differences() {
        let loss = SoftmaxCrossEntropy { classes: 5 };
        let (logits, labels) = (numbers(15, 1), [0, 4, 2]);
        let mut gradient = vec![f64::NAN; 15];
        let partial = loss.forward_backward(&logits, &labels, 7, 0, &mut gradient).unwrap();
        assert_eq!(partial, loss.forward(&logits, &labels, 0).unwrap());
        let mean = |logits: &[f64]| loss.forward(logits, &labels, 0).unwrap().loss / 7.0;
        assert_close(&gradient, &slope(&logits, mean), 1e-8);
    }

    #[test]
    fn equal_logits_cost_the_logarithm_of_the_classes_and_hit_the_first() {
        let loss = SoftmaxCrossEntropy { classes: 10 };
        let partial = loss.forward(&[3.0f32; 20], &[0, 1], 0).unwrap();
        assert!((partial.loss - 2.0 * 10f64.ln()).abs() < 1e-6);
        assert_eq!(partial.correct, 1);
    }

    #[test]
    fn large_logits_do_not_overflow_and_leave_no_denormal() {
        let loss = SoftmaxCrossEntropy { classes: 3 };
        let mut gradient = [f32::NAN; 3];
        let logits = [1000.0f32, -1000.0, 1000.0 - 100.0];
        let partial = loss.forward_backward(&logits, &[1], 1, 0, &mut gradient).unwrap();
        assert_eq!(partial, Partial { loss: 2000.0, correct: 0 });
        assert_eq!(gradient, [1.0, -1.0, 0.0]);
    }

    #[test]
    fn not_a_number_shows_in_the_loss() {
        let loss = SoftmaxCrossEntropy { classes: 3 };
        for place in 0..3 {
            let mut logits = [0.0f32; 3];
            logits[place] = f32::NAN;
            assert!(loss.forward(&logits, &[1], 0).unwrap().loss.is_nan(), "{place}");
        }
    }

    #[test]
    fn a_label_that_names_no_class_is_an_error() {
        let loss = SoftmaxCrossEntropy { classes: 3 };
        let error = loss.forward(&[0.0f32; 6], &[2, 3], 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sample 21 of the batch has label 3, but the network has 3 classes"
        );
    }
}
