//! Samples that cannot be made, take long or never end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millrace_loader::producers::{
    BadSamples, Claim, Delivery, End, Made, Producers, ProducersConfig, ProducersError, Restarts,
    SampleMut,
};

use crate::common::{Gate, config, content, expected, fill, layout, rest};

/// The sample is bad, one way or another.
fn spoil(index: u32) -> Made {
    match index {
        7 => Err("images/7.png: half a file".into()),
        11 => panic!("decoder: index out of range"),
        _ => Ok(()),
    }
}

#[test]
fn a_bad_sample_fails_the_run_by_name_after_what_was_ready() {
    let config = ProducersConfig { shuffle: false, ..config() };
    let make = |claim: &Claim, sample: &mut SampleMut<'_>| {
        fill(claim, sample).and_then(|()| spoil(claim.index))
    };
    for threads in [0, 3] {
        let mut producers = match threads {
            0 => Producers::inline(layout(), config.clone(), make),
            threads => Producers::threads(threads, layout(), config.clone(), make),
        }
        .unwrap();
        assert_eq!(content(&producers.next().unwrap().unwrap()), expected(&config)[0]);
        for _ in 0..2 {
            let error = producers.next().unwrap_err().to_string();
            // Which of the two is met first is a matter of time.
            let first = "sample 7 of epoch 0 cannot be made: images/7.png: half a file";
            let second = "sample 11 of epoch 0 cannot be made: the producer panicked: decoder: \
                          index out of range";
            assert!(error == first || error == second && threads > 0, "{error}");
        }
    }
}

#[test]
fn bad_samples_are_skipped_or_substituted_alike_by_any_number_of_producers() {
    let make = |claim: &Claim, sample: &mut SampleMut<'_>| {
        fill(claim, sample).and_then(|()| spoil(claim.index))
    };
    for bad in [BadSamples::Skip { limit: 6 }, BadSamples::Substitute { limit: 20 }] {
        let config = ProducersConfig { bad, ..config() };
        let mut inline = Producers::inline(layout(), config.clone(), make).unwrap();
        let expected = rest(&mut inline);
        let listed = inline.stop().bad;
        for threads in [1, 4] {
            let mut producers =
                Producers::threads(threads, layout(), config.clone(), make).unwrap();
            assert_eq!(rest(&mut producers), expected);
            let mut status = producers.stop();
            status.bad.sort_by_key(|bad| (bad.epoch, bad.index, bad.substitute));
            let mut listed = listed.clone();
            listed.sort_by_key(|bad| (bad.epoch, bad.index, bad.substitute));
            assert_eq!(status.bad, listed);
        }
        let of_epoch = |epoch| listed.iter().filter(move |bad| bad.epoch == epoch);
        let samples: usize = expected.iter().map(|batch| batch.samples.len()).sum();
        match bad {
            BadSamples::Skip { .. } => {
                assert_eq!((samples, listed.len(), of_epoch(1).count()), (3 * 21, 6, 2));
            }
            _ => {
                assert_eq!(samples, 3 * 23);
                assert!(of_epoch(2).any(|bad| bad.index == 7 && bad.substitute.is_some()));
            }
        }
        assert!(listed.iter().any(|bad| bad.cause.contains("images/7.png")));
    }
}

#[test]
fn too_many_bad_samples_fail_the_run() {
    let bad = BadSamples::Skip { limit: 3 };
    let config = ProducersConfig { bad, ..config() };
    let make = |_: &Claim, _: &mut SampleMut<'_>| -> Made { Err("nothing works".into()) };
    let mut producers = Producers::threads(2, layout(), config, make).unwrap();
    let error = producers.next().unwrap_err();
    assert!(matches!(error, ProducersError::TooManyBad { limit: 3, .. }), "{error}");
    assert_eq!(producers.stop().bad.len(), 3);
}

/// Sample 0 is held back: all others that the slots have room for are made meanwhile, and not
/// one more.
#[test]
fn others_go_on_past_a_straggler_as_far_as_there_are_slots() {
    let (gate, made) = (Gate::default(), Arc::new(AtomicU32::new(0)));
    let config = ProducersConfig { shuffle: false, ..config() };
    let make = {
        let (gate, made) = (gate.clone(), Arc::clone(&made));
        move |claim: &Claim, sample: &mut SampleMut<'_>| {
            if (claim.epoch, claim.index) == (0, 0) {
                gate.pass();
            }
            made.fetch_add(1, Ordering::Relaxed);
            fill(claim, sample)
        }
    };
    let mut producers = Producers::threads(3, layout(), config.clone(), make).unwrap();
    // 9 slots ahead and 4 for a batch that is held.
    while producers.status().slots.free > 0 || producers.status().slots.ready < 12 {
        std::thread::yield_now();
    }
    assert_eq!(made.load(Ordering::Relaxed), 12);
    gate.open();
    assert_eq!(rest(&mut producers), expected(&config));
}

/// Sample 0 is held back until the trainer has all others of its epoch.
#[test]
fn as_ready_a_straggler_holds_back_nothing_but_itself() {
    let gate = Gate::default();
    let config = ProducersConfig {
        samples: 22,
        batch_size: 3,
        shuffle: false,
        delivery: Delivery::AsReady,
        epochs: 1,
        window: Some(22),
        ..config()
    };
    let for_thread = gate.clone();
    let make = move |claim: &Claim, sample: &mut SampleMut<'_>| {
        if claim.index == 0 {
            for_thread.pass();
        }
        fill(claim, sample)
    };
    let mut producers = Producers::threads(2, layout(), config, make).unwrap();
    let mut seen: Vec<u32> = Vec::new();
    for _ in 0..7 {
        let batch = producers.next().unwrap().unwrap();
        seen.extend(batch.samples().map(|sample| sample.index()));
    }
    seen.sort();
    assert!(seen.into_iter().eq(1..22));
    // It is what a resumed run would begin with.
    let position = producers.position();
    assert_eq!((position.next, position.ahead.len()), (0, 21));
    gate.open();
    let last = producers.next().unwrap().unwrap();
    assert_eq!((last.len(), last.sample(0).index()), (1, 0));
}

/// A thread that never comes back from sample 7 is given up, and the sample made by another. The
/// deadline is short, and others that meet it by bad luck are replaced, too.
#[test]
fn a_thread_that_hangs_is_given_up_and_nothing_is_missing() {
    let (gate, hangs) = (Gate::default(), Arc::new(AtomicU32::new(0)));
    let config = ProducersConfig {
        deadline: Some(Duration::from_millis(100)),
        restarts: Restarts { limit: 1000, ..Restarts::default() },
        attempts: 1000,
        ..config()
    };
    let make = {
        let gate = gate.clone();
        move |claim: &Claim, sample: &mut SampleMut<'_>| {
            if (claim.epoch, claim.index) == (1, 7) && hangs.fetch_add(1, Ordering::Relaxed) == 0 {
                gate.pass();
            }
            fill(claim, sample)
        }
    };
    // Alone, so that only the one in its place can go on.
    let mut producers = Producers::threads(1, layout(), config.clone(), make).unwrap();
    assert_eq!(rest(&mut producers), expected(&config));
    let status = producers.stop();
    let how = "gave no sign of life for 100ms";
    let is_it = |end: &&End| end.samples == [(1, 7)] && end.how == how;
    assert_eq!(status.ends.iter().filter(is_it).count(), 1, "{:?}", status.ends);
    assert!(status.restarts() >= 1 && status.left_behind >= 1 && status.counts.reissued >= 1);
    assert_eq!((status.counts.lost, status.counts.duplicates), (0, 0));
    gate.open();
}

/// With no restarts left, the run goes on with fewer, and fails when nobody is left.
#[test]
fn threads_that_all_hang_are_named() {
    let gate = Gate::default();
    let config = ProducersConfig {
        deadline: Some(Duration::from_millis(1)),
        restarts: Restarts { limit: 0, ..Restarts::default() },
        grace: Duration::ZERO,
        ..config()
    };
    let for_thread = gate.clone();
    let make = move |_: &Claim, _: &mut SampleMut<'_>| {
        for_thread.pass();
        Ok(())
    };
    let mut producers = Producers::threads(2, layout(), config, make).unwrap();
    let error = producers.next().unwrap_err().to_string();
    assert!(error.starts_with("no producer is left: producer 0 gave no sign"), "{error}");
    assert!(error.contains("producer 1 gave no sign of life for 1ms at sample"), "{error}");
    gate.open();
}
