//! Data sets that decode each sample when it is wanted.

use std::sync::Arc;

use crate::common::{Content, content, dataset, expected, runtime};
use millrace_loader::{
    BadSample, BadSamples, DataError, LabelKind, Loader, LoaderConfig, LoaderError, LoaderKind,
    SamplePlace, Samples, sample_order,
};
use millrace_runtime::Runtime;

/// Samples of 2x2 pixels with a label for each, some of which are bad.
#[derive(Debug)]
struct Patchy {
    len: usize,
    bad: &'static [usize],
    panics: bool,
}

impl Samples for Patchy {
    fn name(&self) -> &str {
        "patchy"
    }

    fn len(&self) -> usize {
        self.len
    }

    fn shape(&self) -> [usize; 3] {
        [1, 2, 2]
    }

    fn label_kind(&self) -> LabelKind {
        LabelKind::Pixel { labels: 4 }
    }

    fn classes(&self) -> usize {
        200
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        let SamplePlace { epoch, index } = place;
        values.copy_from_slice(&[index as f32, epoch as f32, 0.5, -1.0]);
        labels.copy_from_slice(&[index as u8, epoch as u8, 1, 2]);
        if !self.bad.contains(&index) {
            return Ok(());
        }
        assert!(!self.panics, "no decoder for {index}");
        // As if the file held a class that is none.
        labels[2] = 200;
        Ok(())
    }
}

fn over(rt: &Runtime, kind: LoaderKind, samples: Patchy, config: LoaderConfig) -> Loader {
    Loader::over(rt, kind, Arc::new(samples), config).unwrap()
}

fn config(bad_samples: BadSamples) -> LoaderConfig {
    LoaderConfig { batch_size: 4, shards: 2, epochs: 2, bad_samples, ..LoaderConfig::default() }
}

#[test]
fn the_stream_is_that_of_the_copied_data_set() {
    for workers in [0, 1, 3] {
        let rt = runtime(workers);
        for samples in [0, 1, 9, 10, 11, 25] {
            let config = LoaderConfig {
                batch_size: 10,
                shards: 3,
                epochs: 3,
                seed: 7,
                shuffle: true,
                ..LoaderConfig::default()
            };
            let set = Arc::new(dataset(samples));
            for kind in LoaderKind::ALL {
                let mut loader = Loader::over(&rt, kind, set.clone(), config.clone()).unwrap();
                assert!(loader.arenas().all(|arena| arena.statistics().name.contains("images")));
                let mut batches: Vec<Content> = Vec::new();
                while let Some(batch) = loader.next().unwrap() {
                    batches.push(content(&batch));
                }
                assert!(batches == expected(&set, &config), "{kind}, {workers}, {samples}");
            }
        }
    }
}

#[test]
fn labels_of_pixels() {
    let rt = runtime(2);
    for kind in LoaderKind::ALL {
        let samples = Patchy { len: 6, bad: &[], panics: false };
        let config = LoaderConfig { shuffle: true, seed: 3, ..config(BadSamples::Fail) };
        let mut loader = over(&rt, kind, samples, config);
        let mut seen = Vec::new();
        while let Some(batch) = loader.next().unwrap() {
            assert_eq!((batch.labels.row_len(), batch.labels.rows()), (4, batch.samples));
            let labels = batch.labels.whole().acquire().unwrap();
            for label in labels.chunks(4) {
                assert_eq!((label[1], &label[2..]), (batch.epoch as u8, &[1, 2][..]));
                seen.push(u32::from(label[0]));
            }
        }
        assert_eq!(seen, [sample_order(3, 0, 6), sample_order(3, 1, 6)].concat());
    }
}

/// Indices of the samples of each epoch, as far as the loader gets.
fn indices(loader: &mut Loader) -> Result<Vec<f32>, String> {
    let mut indices = Vec::new();
    while let Some(batch) = loader.next().map_err(|error| error.to_string())? {
        let images = batch.images.whole().acquire().map_err(|error| error.to_string())?;
        indices.extend(images.chunks(4).map(|sample| sample[0]));
    }
    Ok(indices)
}

#[test]
fn a_bad_sample_fails_by_name() {
    for (panics, told) in [
        (false, r#"sample 5 of patchy: data set "patchy": sample 5 has label 200"#),
        (true, "sample 5 of patchy: the decoder panicked: no decoder for 5"),
    ] {
        for kind in LoaderKind::ALL {
            let rt = runtime(2);
            let samples = Patchy { len: 10, bad: &[5], panics };
            let error = indices(&mut over(&rt, kind, samples, config(BadSamples::Fail)));
            let error = error.unwrap_err();
            assert!(error.contains(told) && error.contains("`load`"), "{error}");
        }
    }
}

#[test]
fn a_substitute_is_the_next_good_sample_and_listed() {
    for workers in [0, 1, 3] {
        let rt = runtime(workers);
        for kind in LoaderKind::ALL {
            for panics in [false, true] {
                let samples = Patchy { len: 10, bad: &[5, 6, 9], panics };
                let mut loader =
                    over(&rt, kind, samples, config(BadSamples::Substitute { limit: 3 }));
                let epoch = [0., 1., 2., 3., 4., 7., 7., 7., 8., 0.];
                assert_eq!(indices(&mut loader).unwrap(), [epoch, epoch].concat());
                let bad = loader.bad_samples();
                let places: Vec<_> = bad.iter().map(|b| (b.index, b.substitute)).collect();
                assert_eq!(places, [(5, 7), (6, 7), (9, 0)]);
                let BadSample { message, .. } = &bad[2];
                assert!(message.starts_with("sample 9 of patchy: "), "{message}");
            }
        }
    }
}

#[test]
fn more_bad_samples_than_the_limit_fail() {
    let rt = runtime(0);
    let samples = Patchy { len: 10, bad: &[5, 6, 9], panics: false };
    let mut loader =
        over(&rt, LoaderKind::Naive, samples, config(BadSamples::Substitute { limit: 2 }));
    let error = indices(&mut loader).unwrap_err();
    assert!(error.contains("more than 2 bad samples; the last one: sample 9"), "{error}");
    assert_eq!(loader.bad_samples().len(), 2);
}

#[test]
fn where_all_are_bad_nothing_stands_in() {
    let rt = runtime(0);
    let samples = Patchy { len: 3, bad: &[0, 1, 2], panics: false };
    let config = LoaderConfig { shards: 1, ..config(BadSamples::Substitute { limit: 9 }) };
    let mut loader = over(&rt, LoaderKind::Naive, samples, config);
    let error = indices(&mut loader).unwrap_err();
    assert!(error.contains("sample 0 of patchy"), "{error}");
}

#[test]
fn samples_without_a_value_are_refused() {
    #[derive(Debug)]
    struct Nothing;
    impl Samples for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }
        fn len(&self) -> usize {
            1
        }
        fn shape(&self) -> [usize; 3] {
            [1, 0, 5]
        }
        fn classes(&self) -> usize {
            1
        }
        fn decode(&self, _: SamplePlace, _: &mut [f32], _: &mut [u8]) -> Result<(), DataError> {
            Ok(())
        }
    }
    let refused =
        Loader::over(&runtime(0), LoaderKind::Naive, Arc::new(Nothing), LoaderConfig::default());
    assert!(
        matches!(refused.unwrap_err(), LoaderError::EmptySamples { name } if name == "nothing")
    );
}
