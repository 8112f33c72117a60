//! Data sets whose samples are known, and streams that must come out of loaders.

use millrace_loader::{Batch, Dataset, Loader, LoaderConfig, LoaderKind, sample_order};
use millrace_runtime::Runtime;

/// Height and width of the images of [`dataset`].
pub(crate) const SHAPE: [usize; 3] = [2, 3, 5];

pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Samples that all differ, in an order that is not sorted by label.
pub(crate) fn dataset(samples: usize) -> Dataset {
    let len = SHAPE.iter().product();
    let pixel = |sample: usize, i: usize| (sample * 31 + i * 7 + sample * i) as u8;
    let images = (0..samples).flat_map(|s| (0..len).map(move |i| pixel(s, i))).collect();
    let labels = (0..samples).map(|s| (s * 7 % 10) as u8).collect();
    Dataset::new("known", SHAPE, images, labels, 10).unwrap()
}

pub(crate) fn loader(
    rt: &Runtime,
    kind: LoaderKind,
    set: &Dataset,
    config: &LoaderConfig,
) -> Loader {
    Loader::new(rt, kind, set, config.clone()).unwrap()
}

/// What one batch holds, comparable bit by bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) place: (u32, u32, u32),
    pub(crate) images: Vec<u32>,
    pub(crate) labels: Vec<u8>,
}

/// Waits for a batch, and copies it.
pub(crate) fn content(batch: &Batch) -> Content {
    let images = batch.images.whole().acquire().unwrap();
    let labels = batch.labels.whole().acquire().unwrap();
    assert_eq!((images.len(), labels.len()), (batch.samples * 30, batch.samples));
    Content {
        place: (batch.epoch, batch.index, batch.index_in_epoch),
        images: images.iter().map(|value| value.to_bits()).collect(),
        labels: labels.to_vec(),
    }
}

/// The stream as the documentation describes it, without a loader.
pub(crate) fn expected(set: &Dataset, config: &LoaderConfig) -> Vec<Content> {
    let mut batches = Vec::new();
    for epoch in 0..config.epochs {
        let order = match config.shuffle {
            true => sample_order(config.seed, epoch, set.len()),
            false => (0..set.len() as u32).collect(),
        };
        for (i, samples) in order.chunks(config.batch_size).enumerate() {
            let samples = samples.iter().map(|&sample| sample as usize);
            let pixels = samples.clone().flat_map(|sample| set.image(sample));
            batches.push(Content {
                place: (epoch, batches.len() as u32, i as u32),
                images: pixels.map(|&p| (f32::from(p) / 255.0).to_bits()).collect(),
                labels: samples.map(|sample| set.labels()[sample]).collect(),
            });
        }
    }
    batches
}
