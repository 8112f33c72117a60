//! A data set where tasks can read it.

use millrace_arena::{Arena, Buffer, Sharded};
use millrace_runtime::Runtime;

use crate::error::LoaderError;
use crate::plan::Step;
use crate::{Batch, Dataset};

/// A copy of a data set in an arena of its own.
#[derive(Debug)]
pub(crate) struct Source {
    arena: Arena,
    images: Buffer<u8>,
    labels: Buffer<u8>,
    sample_len: usize,
}

impl Source {
    /// Copies the data set. The calling thread does it: nothing else could run before.
    pub(crate) fn new(rt: &Runtime, dataset: &Dataset) -> Result<Self, LoaderError> {
        let bytes = dataset.images().len() + dataset.labels().len();
        // One chunk holds both buffers, with room for their alignment.
        let arena = Arena::builder(rt, "dataset").chunk_size(bytes + 2 * ALIGNMENT).build();
        let (images, labels) =
            (arena.alloc(dataset.images().len())?, arena.alloc(dataset.labels().len())?);
        images.acquire_mut()?.copy_from_slice(dataset.images());
        labels.acquire_mut()?.copy_from_slice(dataset.labels());
        Ok(Source { arena, images, labels, sample_len: dataset.sample_len() })
    }

    /// The arena that holds the copy.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Bytes of a batch in a slot, at most.
    pub(crate) fn batch_bytes(&self, samples: usize) -> usize {
        let images = samples.saturating_mul(self.sample_len).saturating_mul(size_of::<f32>());
        images.saturating_add(samples).saturating_add(2 * ALIGNMENT)
    }

    /// Takes memory for a batch from `slot`, and submits the tasks that fill it.
    pub(crate) fn load(
        &self,
        rt: &Runtime,
        slot: &Arena,
        step: &Step,
        shards: usize,
    ) -> Result<Batch, LoaderError> {
        let samples = step.places.len();
        let shards = shards.min(samples);
        let batch = Batch {
            epoch: step.epoch,
            index: step.index,
            index_in_epoch: step.index_in_epoch,
            samples,
            images: slot.alloc_sharded(samples, self.sample_len, shards)?,
            labels: slot.alloc_sharded(samples, 1, shards)?,
        };
        for shard in 0..shards {
            self.submit(rt, step, &batch.images, &batch.labels, shard)?;
        }
        Ok(batch)
    }

    fn submit(
        &self,
        rt: &Runtime,
        step: &Step,
        images: &Sharded<f32>,
        labels: &Sharded<u8>,
        shard: usize,
    ) -> Result<(), LoaderError> {
        let order = step.order.clone();
        let first = step.places.start + images.shard_rows(shard).start;
        let len = self.sample_len;
        let access = (
            self.images.read(),
            self.labels.read(),
            images.shard(shard).overwrite(),
            labels.shard(shard).overwrite(),
        );
        rt.task("load").batch(step.index).shard(shard as u16).spawn(
            access,
            move |(from_images, from_labels, to_images, to_labels)| {
                let batch = to_images.chunks_exact_mut(len).zip(to_labels);
                for (place, (image, label)) in (first..).zip(batch) {
                    let sample = order.sample(place);
                    decode(&from_images[sample * len..][..len], image);
                    *label = from_labels[sample];
                }
            },
        )?;
        Ok(())
    }
}

/// What arenas align buffers to, in bytes.
const ALIGNMENT: usize = 64;

/// Scales 0..=255 to 0..=1: each value is the 32-bit number nearest to pixel / 255.
fn decode(pixels: &[u8], values: &mut [f32]) {
    for (value, &pixel) in values.iter_mut().zip(pixels) {
        *value = f32::from(pixel) / 255.0;
    }
}
