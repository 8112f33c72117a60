//! Which classes are taken for which.

use crate::loss::first_largest;
use crate::{Element, NnError};

/// How often each class was taken for each: exact counts, which shards add up by themselves and
/// which are then added, in any order, to the same result.
///
/// ```
/// use millrace_nn::metrics::Confusion;
///
/// // Two shards of three classes, each with counts in memory of its own.
/// let mut shards = [[0; 9]; 2];
/// let logits = [0.9f32, 0.1, 0.0, 0.2, 0.7, 0.1];
/// Confusion::count(&logits, &[0, 1], 3, None, 0, &mut shards[0])?;
/// Confusion::count(&logits, &[1, 1], 3, None, 2, &mut shards[1])?;
///
/// let mut confusion = Confusion::new(3);
/// shards.iter().for_each(|shard| confusion.add(shard));
/// assert_eq!(confusion.of(1, 0), 1); // a sample of class 1 was taken for class 0
/// assert_eq!(confusion.accuracy(), Some(0.75));
/// assert_eq!(confusion.class_accuracy(1), Some(2.0 / 3.0));
/// assert_eq!((confusion.iou(0), confusion.iou(2)), (Some(0.5), None));
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

impl Confusion {
    /// Nothing counted yet, of so many classes.
    pub fn new(classes: usize) -> Self {
        Self { classes, counts: vec![0; classes * classes] }
    }

    /// Counts the samples of a shard, or its pixels: adds 1 to `counts[label * classes + class]`,
    /// where `class` has the largest logit (the first, if several have).
    ///
    /// # Shapes
    /// `logits`: labels x classes; `counts`: classes x classes. `first` is the place of the first
    /// label in the batch, for errors; what has the label `ignore` is not counted.
    ///
    /// # Errors
    /// [`NnError::Label`] for a label that names no class. Labels before it are counted.
    ///
    /// # Panics
    /// When the lengths do not fit each other.
    pub fn count<E: Element>(
        logits: &[E],
        labels: &[u8],
        classes: usize,
        ignore: Option<u8>,
        first: usize,
        counts: &mut [u64],
    ) -> Result<(), NnError> {
        assert_eq!(logits.len(), labels.len() * classes, "confusion: logits");
        assert_eq!(counts.len(), classes * classes, "confusion: counts");
        for (i, (logits, &label)) in logits.chunks_exact(classes).zip(labels).enumerate() {
            if Some(label) == ignore {
                continue;
            }
            if usize::from(label) >= classes {
                return Err(NnError::Label { sample: first + i, label, classes });
            }
            let best = first_largest(logits.iter().copied());
            counts[usize::from(label) * classes + best] += 1;
        }
        Ok(())
    }

    /// Adds the counts of a shard.
    ///
    /// # Panics
    /// When they are of another number of classes.
    pub fn add(&mut self, counts: &[u64]) {
        assert_eq!(counts.len(), self.counts.len(), "confusion: counts");
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// Number of classes.
    pub const fn classes(&self) -> usize {
        self.classes
    }

    /// How often class `label` was taken for `class`.
    ///
    /// # Panics
    /// When there is no such class.
    pub fn of(&self, label: usize, class: usize) -> u64 {
        assert!(label < self.classes && class < self.classes, "confusion: class");
        self.counts[label * self.classes + class]
    }

    /// How many samples or pixels were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The share that was taken for what it is; none if nothing was counted.
    pub fn accuracy(&self) -> Option<f64> {
        let hits = (0..self.classes).map(|class| self.of(class, class)).sum();
        share(hits, self.total())
    }

    /// The share of the members of `class` that were taken for such; none if there was no member.
    ///
    /// # Panics
    /// When there is no such class.
    pub fn class_accuracy(&self, class: usize) -> Option<f64> {
        share(self.of(class, class), self.members(class))
    }

    /// Intersection over union of `class`: of all that are of the class or were taken for such,
    /// the share that is both. None if there are none.
    ///
    /// # Panics
    /// When there is no such class.
    pub fn iou(&self, class: usize) -> Option<f64> {
        let both = self.of(class, class);
        let taken: u64 = (0..self.classes).map(|label| self.of(label, class)).sum();
        share(both, self.members(class) + taken - both)
    }

    /// The mean of [`iou`](Self::iou) over the classes that have one; none if no class has.
    pub fn mean_iou(&self) -> Option<f64> {
        let values: Vec<_> = (0..self.classes).filter_map(|class| self.iou(class)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn members(&self, label: usize) -> u64 {
        (0..self.classes).map(|class| self.of(label, class)).sum()
    }
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One logit of 1 for each class that is taken.
    fn logits(taken: &[usize], classes: usize) -> Vec<f32> {
        let one = |&class: &usize| (0..classes).map(move |c| if c == class { 1.0 } else { 0.0 });
        taken.iter().flat_map(one).collect()
    }

    proptest! {
        #[test]
        fn counts_are_those_of_sets(
            samples in proptest::collection::vec((0usize..4, 0u8..6), 0..60),
            cut in 0usize..60,
        ) {
            // Label 4 is ignored, class 3 never occurs as a label.
            let samples: Vec<_> = samples.into_iter().filter(|s| s.1 != 3 && s.1 != 5).collect();
            let (taken, labels): (Vec<_>, Vec<_>) = samples.iter().copied().unzip();
            let cut = cut.min(labels.len());
            let mut confusion = Confusion::new(4);
            for range in [cut..labels.len(), 0..cut] {
                let mut counts = [0; 16];
                let logits = logits(&taken[range.clone()], 4);
                Confusion::count(&logits, &labels[range], 4, Some(4), 0, &mut counts).unwrap();
                confusion.add(&counts);
            }
            let seen: Vec<_> = samples.iter().filter(|s| s.1 != 4).collect();
            let number = |fits: &dyn Fn(usize, usize) -> bool| {
                seen.iter().filter(|s| fits(usize::from(s.1), s.0)).count() as f64
            };
            let over = |part: f64, all: f64| (all > 0.0).then(|| part / all);
            prop_assert_eq!(confusion.total(), seen.len() as u64);
            prop_assert_eq!(confusion.accuracy(), over(number(&|l, t| l == t), seen.len() as f64));
            let mut ious = Vec::new();
            for c in 0..4 {
                let both = number(&|l, t| l == c && t == c);
                prop_assert_eq!(confusion.class_accuracy(c), over(both, number(&|l, _| l == c)));
                let iou = over(both, number(&|l, t| l == c || t == c));
                prop_assert_eq!(confusion.iou(c), iou);
                ious.extend(iou);
            }
            let mean = over(ious.iter().sum(), ious.len() as f64);
            prop_assert_eq!(confusion.mean_iou(), mean);
        }
    }

    #[test]
    fn the_first_of_the_largest_is_taken() {
        let mut counts = [0; 9];
        let logits = [1.0f64, 1.0, 0.0, f64::NAN, 2.0, 5.0, -3.0, -1.0, -1.0];
        Confusion::count(&logits, &[0, 0, 0], 3, None, 0, &mut counts).unwrap();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0], "a comparison with NaN is false");
    }

    #[test]
    fn a_label_that_names_no_class_is_an_error() {
        let error =
            Confusion::count(&[0.0f32; 6], &[1, 255], 3, None, 40, &mut [0; 9]).unwrap_err();
        assert!(matches!(error, NnError::Label { sample: 41, label: 255, classes: 3 }), "{error}");
        let counted = Confusion::count(&[0.0f32; 6], &[1, 255], 3, Some(255), 40, &mut [0; 9]);
        assert!(counted.is_ok());
    }
}
