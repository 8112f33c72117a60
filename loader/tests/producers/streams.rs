//! The stream is the same for any number and kind of producers, and can be resumed anywhere.

use millrace_loader::producers::{
    BadSamples, Delivery, LastBatch, Producers, ProducersConfig, sample_seed,
};
use millrace_loader::sample_order;

use crate::common::{Content, config, content, expected, fill, layout, rest};

#[test]
fn inline_the_stream_is_the_documented_one() {
    let config = config();
    let batches = expected(&config);
    let samples: Vec<_> = batches.iter().flat_map(|batch| &batch.samples).collect();
    let orders = (0..3).map(|epoch| (epoch, sample_order(5, epoch, 23)));
    let places: Vec<_> = orders
        .flat_map(|(epoch, order)| order.into_iter().map(move |index| (epoch, index)))
        .collect();
    assert_eq!(samples.len(), places.len());
    for ((index, x, y), (epoch, wanted)) in samples.into_iter().zip(places) {
        let seed = (sample_seed(5, epoch, wanted) >> 40) as f32;
        let values = vec![epoch as f32, wanted as f32, seed];
        assert_eq!((*index, x, *y), (wanted, &values, wanted as u8));
    }
    let sizes: Vec<_> = batches.iter().map(|batch| batch.samples.len()).collect();
    assert_eq!(sizes, [[4, 4, 4, 4, 4, 3]; 3].concat());
    let place = |batch: &Content| (batch.epoch, batch.index_in_epoch);
    assert_eq!(place(&batches[6]), (1, 0));
}

#[test]
fn any_number_of_threads_makes_the_same_stream() {
    for last in [LastBatch::Keep, LastBatch::Drop, LastBatch::Pad] {
        let config = ProducersConfig { last, ..config() };
        let expected = expected(&config);
        for threads in [1, 2, 7] {
            let mut producers =
                Producers::threads(threads, layout(), config.clone(), fill).unwrap();
            assert_eq!(rest(&mut producers), expected, "{threads} threads, {last:?}");
            let status = producers.stop();
            assert!(status.counts.is_balanced(), "{status:?}");
            assert_eq!((status.counts.lost, status.counts.duplicates), (0, 0));
        }
    }
}

#[test]
fn as_ready_every_epoch_has_its_samples_before_the_next_begins() {
    let config = ProducersConfig { delivery: Delivery::AsReady, ..config() };
    let mut producers = Producers::threads(4, layout(), config, fill).unwrap();
    let batches = rest(&mut producers);
    assert!(batches.is_sorted_by_key(|batch| (batch.epoch, batch.index_in_epoch)));
    for epoch in 0..3 {
        let of_epoch = batches.iter().filter(|batch| batch.epoch == epoch);
        let mut samples: Vec<_> = of_epoch.flat_map(|batch| &batch.samples).collect();
        samples.sort_by_key(|sample| sample.0);
        assert!(samples.iter().map(|sample| sample.0).eq(0..23));
        assert!(samples.iter().all(|sample| sample.1[0] == epoch as f32));
    }
}

/// Numbers of samples around the batch size, and more producers than samples.
#[test]
fn small_numbers() {
    for samples in [0, 1, 3, 4, 5] {
        for threads in 1..=8 {
            let config = ProducersConfig { samples, epochs: 2, ..config() };
            let mut producers =
                Producers::threads(threads, layout(), config.clone(), fill).unwrap();
            assert_eq!(rest(&mut producers), expected(&config));
            assert!(producers.next().unwrap().is_none());
        }
    }
}

/// Stopped after any number of batches, twice, with another number of producers each time.
#[test]
fn a_run_is_resumed_where_it_was() {
    let expected = expected(&config());
    for (first, second) in [(0, 2), (1, 1), (2, 3), (5, 1), (6, 7), (13, 4), (18, 0)] {
        let mut batches = Vec::new();
        let mut config = config();
        for (stop, threads) in [(first, 1), (second, 5), (usize::MAX, 2)] {
            let mut producers =
                Producers::threads(threads, layout(), config.clone(), fill).unwrap();
            for _ in 0..stop {
                let Some(batch) = producers.next().unwrap() else { break };
                batches.push(content(&batch));
            }
            config.start = Some(producers.position());
        }
        assert_eq!(batches, expected, "stopped after {first} and {second} batches");
    }
}

/// What was ready but not given out is made again by the run that resumes.
#[test]
fn a_run_is_resumed_from_the_position_that_its_stop_tells() {
    let mut config = ProducersConfig { delivery: Delivery::AsReady, epochs: 1, ..config() };
    let mut samples = Vec::new();
    for stop in [2, 1, usize::MAX] {
        let mut producers = Producers::threads(3, layout(), config.clone(), fill).unwrap();
        for _ in 0..stop {
            let Some(batch) = producers.next().unwrap() else { break };
            samples.extend(batch.samples().map(|sample| sample.index()));
        }
        while stop < 3 && producers.status().slots.ready == 0 {
            std::thread::yield_now();
        }
        config.start = Some(producers.stop().position);
    }
    samples.sort();
    assert!(samples.into_iter().eq(0..23));
}

#[test]
fn a_position_of_another_stream_is_refused() {
    let mut producers = Producers::inline(layout(), config(), fill).unwrap();
    producers.next().unwrap();
    let position = producers.position();
    let error = |change: fn(&mut ProducersConfig)| {
        let mut config = ProducersConfig { start: Some(position.clone()), ..config() };
        change(&mut config);
        Producers::inline(layout(), config, fill).unwrap_err().to_string()
    };
    assert!(error(|config| config.seed = 6).contains("another stream"));
    assert!(error(|config| config.samples = 22).contains("another stream"));
    assert!(error(|config| config.shuffle = false).contains("another stream"));
    let far = error(|config| config.start.as_mut().unwrap().next = 24);
    assert_eq!(far, "no position of this stream: place 24 of an epoch of 23 samples");
    let twice = error(|config| config.start.as_mut().unwrap().ahead = vec![7, 7]);
    assert!(twice.contains("no position"), "{twice}");
}

#[test]
fn settings_that_make_no_sense_are_told() {
    let error = |change: fn(&mut ProducersConfig)| {
        let mut config = config();
        change(&mut config);
        Producers::threads(2, layout(), config, fill).unwrap_err().to_string()
    };
    assert_eq!(error(|config| config.batch_size = 0), "0 samples of a batch: at least 1 is needed");
    assert_eq!(error(|config| config.held = 0), "0 batches that may be held: at least 1 is needed");
    assert_eq!(error(|config| config.attempts = 0), "0 attempts at a sample: at least 1 is needed");
    assert!(error(|config| config.claims = Some(0)).starts_with("0 claims of a process"));
    assert_eq!(
        error(|config| config.ahead = Some(3)),
        "3 slots ahead: a batch of 4 samples needs at least 4"
    );
    assert!(error(|config| config.ahead = Some(usize::MAX)).contains("slots ahead: at most"));
    assert!(error(|config| config.held = usize::MAX).contains("held batches: at most"));
    assert!(error(|config| config.samples = usize::MAX).contains("samples: at most 2147483647"));
    assert!(error(|config| config.batch_size = usize::MAX).contains("at most 2147483647"));
    let contradiction = error(|config| {
        config.last = LastBatch::Pad;
        config.bad = BadSamples::Skip { limit: 1 };
    });
    assert!(contradiction.contains("cannot be padded"), "{contradiction}");
    let none = Producers::threads(0, layout(), config(), fill).unwrap_err();
    assert_eq!(none.to_string(), "0 producers: at least 1 is needed");
}
