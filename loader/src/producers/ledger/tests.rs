//! Any order of events leaves the stream as it must be.

use proptest::prelude::*;

use super::*;
use crate::sample_order;

fn config(samples: usize, batch_size: usize, epochs: u32) -> ProducersConfig {
    ProducersConfig { samples, batch_size, epochs, shuffle: true, seed: 9, ..Default::default() }
}

fn expected(config: &ProducersConfig) -> Vec<Vec<u32>> {
    (0..config.epochs).map(|epoch| sample_order(config.seed, epoch, config.samples)).collect()
}

/// Samples with an index that is a multiple of 7 cannot be made.
fn is_bad(index: u32) -> bool {
    index.is_multiple_of(7)
}

/// A run with so many slots, driven by `choices`; what was given out, as (epoch, index).
struct Run {
    ledger: Ledger<usize>,
    free: Vec<usize>,
    /// Sequence number, producer, index and slot of what is in work.
    work: Vec<(u64, usize, u32, usize)>,
    out: Vec<(u32, u32)>,
    batches: Vec<usize>,
    has_bad: bool,
}

impl Run {
    fn new(config: &ProducersConfig, slots: usize, window: usize) -> Self {
        Run {
            ledger: Ledger::new(config, window),
            free: (0..slots).collect(),
            work: Vec::new(),
            out: Vec::new(),
            batches: Vec::new(),
            has_bad: config.bad != BadSamples::Fail,
        }
    }

    /// One event. Panics where nothing can happen any more although the run is not over.
    fn step(&mut self, choice: u32) {
        if let Some(batch) = self.ledger.take() {
            self.free.extend(batch.samples.iter().map(|sample| sample.slot));
            if !batch.dropped {
                self.out.extend(batch.samples.iter().map(|sample| (batch.epoch, sample.index)));
                self.batches.push(batch.samples.len());
            }
        } else if !self.free.is_empty()
            && self.ledger.is_claimable()
            && (self.work.is_empty() || !choice.is_multiple_of(3))
        {
            let producer = choice as usize % 5;
            let (sequence, claim) = self.ledger.claim(producer).expect("it is claimable");
            let slot = self.free.pop().expect("there is one");
            self.work.push((sequence, producer, claim.index, slot));
        } else {
            assert!(!self.work.is_empty(), "no progress is possible");
            let (sequence, producer, index, slot) =
                self.work.swap_remove(choice as usize / 8 % self.work.len());
            // Whoever it does not belong to cannot complete it.
            assert_eq!(self.ledger.complete(sequence, producer + 1, slot), Err(slot));
            if choice.is_multiple_of(11) {
                self.ledger.release(sequence, producer, "ended").expect("few attempts");
                self.free.push(slot);
            } else if self.has_bad && is_bad(index) {
                self.ledger.fail(sequence, producer, "bad".into()).expect("within the limit");
                self.free.push(slot);
            } else {
                assert_eq!(self.ledger.complete(sequence, producer, slot), Ok(()));
                assert_eq!(self.ledger.complete(sequence, producer, slot), Err(slot));
            }
        }
        let counts = self.ledger.counts();
        assert!(counts.is_balanced(), "{counts:?}");
        assert_eq!((counts.duplicates, counts.lost), (0, 0));
    }

    fn run_out(&mut self, seed: u64) {
        let mut choices = choices(seed);
        while !self.ledger.is_over() {
            self.step(choices.next().expect("without end"));
        }
    }
}

/// Numbers that decide what happens next.
fn choices(seed: u64) -> impl Iterator<Item = u32> {
    (0..).map(move |place| crate::producers::sample_seed(seed, 0, place) as u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn in_order_the_stream_is_the_documented_one(
        samples in 0usize..40, batch in 1usize..9, epochs in 0u32..4, ahead in 0usize..6,
        seed: u64,
    ) {
        let config = ProducersConfig { attempts: u32::MAX, ..config(samples, batch, epochs) };
        let mut run = Run::new(&config, batch + ahead, batch + ahead);
        run.run_out(seed);
        let flat: Vec<_> = (0..).zip(expected(&config))
            .flat_map(|(epoch, order)| order.into_iter().map(move |index| (epoch, index)))
            .collect();
        prop_assert_eq!(run.out, flat);
        prop_assert_eq!(run.batches.len(), samples.div_ceil(batch) * epochs as usize);
    }

    #[test]
    fn as_ready_each_epoch_has_the_same_samples(
        samples in 0usize..40, batch in 1usize..9, epochs in 0u32..4, ahead in 0usize..6,
        window in 0usize..20, seed: u64,
    ) {
        let delivery = Delivery::AsReady;
        let config =
            ProducersConfig { attempts: u32::MAX, delivery, ..config(samples, batch, epochs) };
        let mut run = Run::new(&config, batch + ahead, batch + ahead + window);
        run.run_out(seed);
        for (epoch, out) in run.out.chunk_by(|a, b| a.0 == b.0).enumerate() {
            let mut indices: Vec<u32> = out.iter().map(|&(_, index)| index).collect();
            indices.sort();
            prop_assert_eq!(out[0].0, epoch as u32);
            prop_assert!(indices.into_iter().eq(0..samples as u32));
        }
        prop_assert_eq!(run.out.len(), samples * epochs as usize);
    }

    #[test]
    fn bad_samples_are_left_out_or_substituted(
        samples in 2usize..40, batch in 1usize..9, in_order: bool, skips: bool, drops: bool,
        seed: u64,
    ) {
        let limit = 10_000;
        let config = ProducersConfig {
            attempts: u32::MAX,
            delivery: if in_order { Delivery::InOrder } else { Delivery::AsReady },
            bad: if skips { BadSamples::Skip { limit } } else { BadSamples::Substitute { limit } },
            last: if drops { LastBatch::Drop } else { LastBatch::Keep },
            ..config(samples, batch, 3)
        };
        let mut run = Run::new(&config, batch + 3, batch + 9);
        run.run_out(seed);
        prop_assert!(run.out.iter().all(|&(_, index)| !is_bad(index)));
        let bad = samples.div_ceil(7);
        let good = if skips { samples - bad } else { samples };
        let left = if drops { good / batch * batch } else { good };
        prop_assert_eq!(run.out.len(), 3 * left);
        let counts = run.ledger.counts();
        prop_assert_eq!(counts.skipped, if skips { 3 * bad as u64 } else { 0 });
        let listed = run.ledger.bad();
        prop_assert_eq!(listed.len() as u64, counts.skipped + counts.substituted);
        prop_assert!(listed.iter().all(|bad| is_bad(bad.index) && bad.cause == "bad"));
    }

    /// Stopped anywhere, any number of times: what is given out together is what one run gives.
    #[test]
    fn resumed_the_stream_goes_on_where_it_was(
        samples in 1usize..40, batch in 1usize..9, in_order: bool, stops in prop::collection::vec(0u32..120, 1..4),
        seed: u64,
    ) {
        let mut config = ProducersConfig {
            attempts: u32::MAX,
            delivery: if in_order { Delivery::InOrder } else { Delivery::AsReady },
            ..config(samples, batch, 3)
        };
        let mut out = Vec::new();
        let mut batches = Vec::new();
        for stop in stops {
            let mut run = Run::new(&config, batch + 3, batch + 9);
            for choice in choices(seed).take(stop as usize) {
                if run.ledger.is_over() { break }
                run.step(choice);
            }
            out.append(&mut run.out);
            batches.append(&mut run.batches);
            let position = run.ledger.position();
            prop_assert!(position.ahead.len() <= batch + 9);
            prop_assert!(!in_order || position.ahead.is_empty());
            let text = serde_json::to_string(&position).unwrap();
            config.start = Some(serde_json::from_str(&text).unwrap());
        }
        let mut run = Run::new(&config, batch + 3, batch + 9);
        run.run_out(seed);
        out.append(&mut run.out);
        batches.append(&mut run.batches);
        let orders = (0..).zip(expected(&config));
        let mut expected: Vec<_> = orders
            .flat_map(|(epoch, order)| order.into_iter().map(move |index| (epoch, index)))
            .collect();
        if !in_order {
            out.sort();
            expected.sort();
        }
        prop_assert_eq!(out, expected);
        prop_assert_eq!(batches.len(), 3 * samples.div_ceil(batch));
    }
}

#[test]
fn a_last_batch_is_kept_dropped_or_padded() {
    let run = |last| {
        let config = ProducersConfig { last, shuffle: false, ..config(7, 3, 2) };
        let mut run = Run::new(&config, 6, 6);
        run.run_out(1);
        let counts = run.ledger.counts();
        (run.batches, run.out.into_iter().map(|(_, index)| index).collect::<Vec<_>>(), counts)
    };
    let (batches, out, _) = run(LastBatch::Keep);
    assert_eq!((batches, out), (vec![3, 3, 1, 3, 3, 1], [[0, 1, 2, 3, 4, 5, 6]; 2].concat()));
    let (batches, out, counts) = run(LastBatch::Drop);
    assert_eq!((batches, out), (vec![3; 4], [[0, 1, 2, 3, 4, 5]; 2].concat()));
    // The sample that would be dropped is not made in the first place.
    assert_eq!(counts.produced, 12);
    let (batches, out, _) = run(LastBatch::Pad);
    assert_eq!((batches, out), (vec![3; 6], [[0, 1, 2, 3, 4, 5, 6, 0, 1]; 2].concat()));
}

#[test]
fn padding_does_not_count() {
    let config = ProducersConfig { last: LastBatch::Pad, ..config(2, 5, 1) };
    let mut ledger = Ledger::new(&config, 10);
    while let Some((sequence, _)) = ledger.claim(0) {
        ledger.complete(sequence, 0, ()).unwrap();
    }
    let batch = ledger.take().unwrap();
    assert_eq!((batch.samples.len(), batch.counted), (5, 2));
    assert!(ledger.is_over());
}

#[test]
fn a_sample_that_ends_its_producers_is_bad() {
    let config = ProducersConfig { bad: BadSamples::Skip { limit: 1 }, ..config(2, 2, 1) };
    let mut ledger: Ledger<()> = Ledger::new(&config, 4);
    let (first, claim) = ledger.claim(0).unwrap();
    ledger.release(first, 0, "was killed").unwrap();
    for _ in 0..2 {
        let (again, same) = ledger.claim(1).unwrap();
        assert_eq!((again, same), (first, claim));
        ledger.release(again, 1, "was killed").unwrap();
    }
    assert_eq!(ledger.bad()[0].cause, "it ended 3 producers; the last was killed");
    let (second, _) = ledger.claim(1).unwrap();
    let error = ledger.fail(second, 1, "half a file".into()).unwrap_err().to_string();
    assert!(error.contains("more than 1 bad sample") && error.contains("half a file"), "{error}");
}

#[test]
fn a_loss_and_a_duplicate_are_seen() {
    let config = config(100, 10, 1);
    let stream = Stream::new(&config, &config.first());
    let mut audit = Audit::new(&stream, &config.first());
    for index in (0..98).chain([5, 6, 7]) {
        audit.see(index);
    }
    assert_eq!(audit.end_epoch(100), (3, 2));
    assert_eq!(audit.end_epoch(100), (0, 100));
}
