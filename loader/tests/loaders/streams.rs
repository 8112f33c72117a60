//! Every kind of loader gives out the same stream, bit for bit.

use std::sync::{Arc, Mutex};

use crate::common::{Content, content, dataset, expected, loader, runtime};
use millrace_loader::{LoaderConfig, LoaderError, LoaderKind};
use millrace_runtime::Runtime;
use proptest::prelude::*;

/// The stream when the calling thread looks at each batch before it asks for the next.
fn acquired(rt: &Runtime, kind: LoaderKind, samples: usize, config: &LoaderConfig) -> Vec<Content> {
    let mut loader = loader(rt, kind, &dataset(samples), config);
    let mut batches = Vec::new();
    while let Some(batch) = loader.next().unwrap() {
        assert_eq!(batch.images.shards(), config.shards.min(batch.samples));
        assert_eq!(batch.labels.shards(), batch.images.shards());
        batches.push(content(&batch));
    }
    assert_eq!(batches.len(), loader.batches() as usize);
    assert!(loader.next().unwrap().is_none() && loader.next().unwrap().is_none());
    batches
}

/// The stream as tasks see it, while the calling thread runs ahead as far as it may.
fn consumed(rt: &Runtime, kind: LoaderKind, samples: usize, config: &LoaderConfig) -> Vec<Content> {
    let mut loader = loader(rt, kind, &dataset(samples), config);
    let batches = Arc::new(Mutex::new(Vec::new()));
    while let Some(batch) = loader.next().unwrap() {
        let batches = Arc::clone(&batches);
        let place = (batch.epoch, batch.index, batch.index_in_epoch);
        let access = (batch.images.whole().read(), batch.labels.whole().read());
        rt.spawn("consume", access, move |(images, labels)| {
            let images = images.iter().map(|value| value.to_bits()).collect();
            let content = Content { place, images, labels: labels.to_vec() };
            batches.lock().unwrap().push(content);
        })
        .unwrap();
    }
    rt.wait().unwrap();
    let mut batches = std::mem::take(&mut *batches.lock().unwrap());
    batches.sort_by_key(|content| content.place.1);
    batches
}

#[test]
fn all_kinds_workers_and_sizes() {
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers);
        for samples in [0, 1, 9, 10, 11, 101] {
            let config = LoaderConfig {
                batch_size: 10,
                shards: 3,
                epochs: 3,
                seed: 42,
                shuffle: true,
                ..LoaderConfig::default()
            };
            let expected = expected(&dataset(samples), &config);
            for kind in LoaderKind::ALL {
                let told = format!("{kind}, {workers} workers, {samples} samples");
                assert!(acquired(&rt, kind, samples, &config) == expected, "acquired: {told}");
                assert!(consumed(&rt, kind, samples, &config) == expected, "consumed: {told}");
            }
        }
    }
}

#[test]
fn without_shuffle_the_order_is_that_of_the_data_set() {
    let rt = runtime(2);
    let config = LoaderConfig { batch_size: 4, epochs: 2, ..LoaderConfig::default() };
    let labels = |contents: &[Content]| -> Vec<u8> {
        contents.iter().flat_map(|content| content.labels.clone()).collect()
    };
    let set = dataset(11);
    for kind in LoaderKind::ALL {
        let batches = acquired(&rt, kind, 11, &config);
        assert_eq!(labels(&batches[..3]), set.labels());
        assert_eq!(labels(&batches[3..]), set.labels());
        let samples: Vec<_> = batches.iter().map(|content| content.labels.len()).collect();
        assert_eq!(samples, [4, 4, 3, 4, 4, 3]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any settings: the stream is the documented one.
    #[test]
    fn any_settings(
        kind in prop::sample::select(&LoaderKind::ALL[..]),
        workers in 0usize..5,
        samples in 0usize..60,
        batch_size in 1usize..70,
        shards in 1usize..9,
        epochs in 0u32..4,
        seed: u64,
        shuffle: bool,
        ring in 2usize..6,
    ) {
        let config =
            LoaderConfig { batch_size, shards, epochs, seed, shuffle, ring, ..LoaderConfig::default() };
        let rt = runtime(workers);
        let expected = expected(&dataset(samples), &config);
        prop_assert!(consumed(&rt, kind, samples, &config) == expected);
        prop_assert!(acquired(&rt, kind, samples, &config) == expected);
    }
}

#[test]
fn settings_that_make_no_sense() {
    let rt = runtime(0);
    let error = |config: LoaderConfig| -> String {
        let error: LoaderError =
            millrace_loader::Loader::new(&rt, LoaderKind::Naive, &dataset(10), config).unwrap_err();
        error.to_string()
    };
    let default = LoaderConfig::default;
    assert_eq!(
        error(LoaderConfig { batch_size: 0, ..default() }),
        "a batch of 0 samples is none: the batch size is at least 1"
    );
    assert_eq!(
        error(LoaderConfig { shards: 0, ..default() }),
        "0 shards: a batch has from 1 to 65536"
    );
    assert_eq!(
        error(LoaderConfig { shards: 65537, ..default() }),
        "65537 shards: a batch has from 1 to 65536"
    );
    assert_eq!(
        error(LoaderConfig { ring: 1, ..default() }),
        "a ring of 1 slots: loading ahead needs at least 2"
    );
    assert_eq!(
        error(LoaderConfig { batch_size: 1, epochs: u32::MAX, ..default() }),
        "4294967295 epochs of 10 batches are more than 4294967295 batches"
    );
}
