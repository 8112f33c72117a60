//! A data set where tasks can read it.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer};
use millrace_runtime::Runtime;

use crate::bad_samples::{BadSample, Decoder};
use crate::error::{LoaderError, SampleError};
use crate::plan::{Order, Step};
use crate::samples::scale;
use crate::{BadSamples, Batch, Dataset, SamplePlace, Samples};

/// Where samples come from, and what they are like.
#[derive(Debug)]
pub(crate) struct Source {
    origin: Origin,
    sample_len: usize,
    labels_per_sample: usize,
    decoder: Arc<Decoder>,
}

#[derive(Debug)]
enum Origin {
    /// Images in memory.
    Copied(Box<Copy>),
    /// A data set that decodes each sample when it is wanted.
    Decoded(Arc<dyn Samples>),
}

/// A copy of a data set, in an arena of its own.
#[derive(Debug)]
struct Copy {
    arena: Arena,
    images: Buffer<u8>,
    labels: Buffer<u8>,
}

impl Source {
    /// Copies the data set. The calling thread does it: nothing else could run before.
    pub(crate) fn copied(rt: &Runtime, dataset: &Dataset) -> Result<Self, LoaderError> {
        let bytes = dataset.images().len() + dataset.labels().len();
        // One chunk holds both buffers, with room for their alignment.
        let arena = Arena::builder(rt, "dataset").chunk_size(bytes + 2 * ALIGNMENT).build();
        let (images, labels) =
            (arena.alloc(dataset.images().len())?, arena.alloc(dataset.labels().len())?);
        images.acquire_mut()?.copy_from_slice(dataset.images());
        labels.acquire_mut()?.copy_from_slice(dataset.labels());
        let origin = Origin::Copied(Box::new(Copy { arena, images, labels }));
        Ok(Source {
            origin,
            sample_len: dataset.sample_len(),
            labels_per_sample: 1,
            decoder: Arc::new(Decoder::new(BadSamples::Fail)),
        })
    }

    /// Asks the data set for each sample.
    pub(crate) fn decoded(samples: Arc<dyn Samples>, policy: BadSamples) -> Self {
        Source {
            sample_len: samples.sample_len(),
            labels_per_sample: samples.label_kind().per_sample(),
            origin: Origin::Decoded(samples),
            decoder: Arc::new(Decoder::new(policy)),
        }
    }

    /// The arena that holds the copy, if there is one.
    pub(crate) fn arena(&self) -> Option<&Arena> {
        match &self.origin {
            Origin::Copied(copy) => Some(&copy.arena),
            Origin::Decoded(_) => None,
        }
    }

    /// What was bad so far.
    pub(crate) fn bad_samples(&self) -> Vec<BadSample> {
        self.decoder.bad_samples()
    }

    /// Bytes of a batch in a slot, at most.
    pub(crate) fn batch_bytes(&self, samples: usize) -> usize {
        let images = samples.saturating_mul(self.sample_len).saturating_mul(size_of::<f32>());
        let labels = samples.saturating_mul(self.labels_per_sample);
        images.saturating_add(labels).saturating_add(2 * ALIGNMENT)
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
            labels: slot.alloc_sharded(samples, self.labels_per_sample, shards)?,
        };
        for shard in 0..shards {
            self.submit(rt, step, &batch, shard)?;
        }
        Ok(batch)
    }

    fn submit(
        &self,
        rt: &Runtime,
        step: &Step,
        batch: &Batch,
        shard: usize,
    ) -> Result<(), LoaderError> {
        let order = step.order.clone();
        let first = step.places.start + batch.images.shard_rows(shard).start;
        let (to_images, to_labels) =
            (batch.images.shard(shard).overwrite(), batch.labels.shard(shard).overwrite());
        let task = rt.task("load").batch(step.index).shard(shard as u16);
        match &self.origin {
            Origin::Copied(copy) => {
                let len = self.sample_len;
                let access = (copy.images.read(), copy.labels.read(), to_images, to_labels);
                task.spawn(access, move |(from_images, from_labels, to_images, to_labels)| {
                    let batch = to_images.chunks_exact_mut(len).zip(to_labels);
                    for (place, (image, label)) in (first..).zip(batch) {
                        let sample = order.sample(place);
                        scale(&from_images[sample * len..][..len], image);
                        *label = from_labels[sample];
                    }
                })?;
            }
            Origin::Decoded(samples) => {
                let load = Load {
                    samples: Arc::clone(samples),
                    decoder: Arc::clone(&self.decoder),
                    order,
                    epoch: step.epoch,
                    first,
                };
                task.spawn((to_images, to_labels), move |(images, labels)| {
                    load.run(images, labels)
                })?;
            }
        }
        Ok(())
    }
}

/// The body of a task that decodes a shard of a batch.
struct Load {
    samples: Arc<dyn Samples>,
    decoder: Arc<Decoder>,
    order: Order,
    epoch: u32,
    /// The place of the shard's first sample in the epoch.
    first: usize,
}

impl Load {
    fn run(&self, images: &mut [f32], labels: &mut [u8]) -> Result<(), SampleError> {
        let samples = &*self.samples;
        let images = images.chunks_exact_mut(samples.sample_len());
        let labels = labels.chunks_exact_mut(samples.label_kind().per_sample());
        for (place, (image, labels)) in (self.first..).zip(images.zip(labels)) {
            let place = SamplePlace { epoch: self.epoch, index: self.order.sample(place) };
            self.decoder.decode(samples, place, image, labels)?;
        }
        Ok(())
    }
}

/// What arenas align buffers to, in bytes.
const ALIGNMENT: usize = 64;
