//! Which samples go into which batch.

use std::ops::Range;
use std::sync::Arc;

use crate::{LoaderConfig, sample_order};

/// The order of one epoch; cheap to clone into every task.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// As in the data set.
    File,
    /// A permutation of the sample indices.
    Shuffled(Arc<[u32]>),
}

impl Order {
    /// Index of the sample at a place of the epoch.
    pub(crate) fn sample(&self, place: usize) -> usize {
        match self {
            Order::File => place,
            Order::Shuffled(order) => order[place] as usize,
        }
    }
}

/// One batch that is to be loaded.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) epoch: u32,
    /// Over the whole run.
    pub(crate) index: u32,
    /// Within the epoch.
    pub(crate) index_in_epoch: u32,
    /// Places of the epoch.
    pub(crate) places: Range<usize>,
    pub(crate) order: Order,
}

/// The batches of a whole run, one after the other across epochs.
#[derive(Debug)]
pub(crate) struct Plan {
    samples: usize,
    batch_size: usize,
    epochs: u32,
    seed: Option<u64>,
    /// The next step; `None` after the last.
    next: Option<Step>,
}

impl Plan {
    /// `config` has been checked: the batches of a run can be counted in 32 bits.
    pub(crate) fn new(samples: usize, config: &LoaderConfig) -> Self {
        let seed = config.shuffle.then_some(config.seed);
        let mut plan = Plan {
            samples,
            batch_size: config.batch_size,
            epochs: config.epochs,
            seed,
            next: None,
        };
        plan.next = plan.epoch(0, 0);
        plan
    }

    /// The next batch, without taking it.
    pub(crate) fn peek(&self) -> Option<&Step> {
        self.next.as_ref()
    }

    /// Goes on to the batch after that.
    pub(crate) fn advance(&mut self) {
        let Some(mut step) = self.next.take() else { return };
        let start = step.places.end;
        self.next = if start == self.samples {
            self.epoch(step.epoch + 1, step.index + 1)
        } else {
            step.index += 1;
            step.index_in_epoch += 1;
            step.places = self.places(start);
            Some(step)
        };
    }

    /// The first batch of an epoch, if there is such an epoch; `index` is the batch's.
    fn epoch(&self, epoch: u32, index: u32) -> Option<Step> {
        if epoch >= self.epochs || self.samples == 0 {
            return None;
        }
        let order = match self.seed {
            None => Order::File,
            Some(seed) => Order::Shuffled(sample_order(seed, epoch, self.samples).into()),
        };
        Some(Step { epoch, index, index_in_epoch: 0, places: self.places(0), order })
    }

    fn places(&self, start: usize) -> Range<usize> {
        start..self.samples.min(start.saturating_add(self.batch_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(samples: usize, config: LoaderConfig) -> Vec<Step> {
        let mut plan = Plan::new(samples, &config);
        let mut steps = Vec::new();
        while let Some(step) = plan.peek() {
            steps.push(step.clone());
            plan.advance();
        }
        steps
    }

    #[test]
    fn batches_go_on_across_epochs() {
        let config = LoaderConfig { batch_size: 4, epochs: 2, ..LoaderConfig::default() };
        let steps: Vec<_> = steps(9, config)
            .into_iter()
            .map(|s| (s.epoch, s.index, s.index_in_epoch, s.places))
            .collect();
        assert_eq!(
            steps,
            [
                (0, 0, 0, 0..4),
                (0, 1, 1, 4..8),
                (0, 2, 2, 8..9),
                (1, 3, 0, 0..4),
                (1, 4, 1, 4..8),
                (1, 5, 2, 8..9)
            ]
        );
    }

    #[test]
    fn edges() {
        let config =
            |batch_size, epochs| LoaderConfig { batch_size, epochs, ..LoaderConfig::default() };
        assert_eq!(steps(0, config(4, 3)).len(), 0);
        assert_eq!(steps(5, config(4, 0)).len(), 0);
        assert_eq!(steps(4, config(4, 3)).len(), 3);
        assert_eq!(steps(4, config(usize::MAX, 1))[0].places, 0..4);
    }

    #[test]
    fn each_epoch_has_its_own_order() {
        let config =
            LoaderConfig { batch_size: 50, epochs: 2, shuffle: true, ..LoaderConfig::default() };
        let orders: Vec<Vec<usize>> = steps(50, config)
            .iter()
            .map(|step| step.places.clone().map(|place| step.order.sample(place)).collect())
            .collect();
        assert_ne!(orders[0], orders[1]);
        assert!(orders[0].iter().map(|&i| i as u32).eq(sample_order(0, 0, 50)));
    }
}
