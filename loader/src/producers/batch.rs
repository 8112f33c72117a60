//! A batch of samples, each where its producer wrote it.

use std::fmt;
use std::sync::Arc;

use super::ledger::TakenBatch;
use super::shared::Shared;
use super::slot::{Sample, Slot};

/// Samples that are given out together. Nothing was copied: each is a slot that its producer
/// wrote. Dropping the batch makes the slots free for further samples.
///
/// A batch may be sent to other threads, and may outlive its producers.
pub struct SampleBatch {
    shared: Arc<Shared>,
    taken: TakenBatch<Slot>,
}

impl SampleBatch {
    pub(crate) fn new(shared: Arc<Shared>, taken: TakenBatch<Slot>) -> Self {
        SampleBatch { shared, taken }
    }

    /// The epoch, counted from 0.
    pub fn epoch(&self) -> u32 {
        self.taken.epoch
    }

    /// The batch, counted from 0 in its epoch.
    pub fn index_in_epoch(&self) -> u32 {
        self.taken.index_in_epoch
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.taken.samples.len()
    }

    /// Whether it has no sample; that is never so.
    pub fn is_empty(&self) -> bool {
        self.taken.samples.is_empty()
    }

    /// Number of samples, without those at the end that only fill the last batch of an epoch
    /// ([`LastBatch::Pad`](super::LastBatch::Pad)).
    pub fn counted(&self) -> usize {
        self.taken.counted
    }

    /// One sample.
    ///
    /// # Panics
    /// When `place` is not below [`SampleBatch::len`].
    pub fn sample(&self, place: usize) -> Sample<'_> {
        let taken = &self.taken.samples[place];
        Sample::new(&self.shared.layout, taken.index, &taken.slot)
    }

    /// All samples in order.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'_>> {
        (0..self.len()).map(|place| self.sample(place))
    }
}

impl Drop for SampleBatch {
    fn drop(&mut self) {
        self.shared.give_back(self.taken.samples.drain(..).map(|sample| sample.slot));
    }
}

impl fmt::Debug for SampleBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleBatch")
            .field("epoch", &self.epoch())
            .field("index_in_epoch", &self.index_in_epoch())
            .field("samples", &self.len())
            .finish()
    }
}
