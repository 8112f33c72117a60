//! Stopping, whatever producers do; and what they leave behind.

use std::time::Duration;

use millrace_loader::producers::{
    Budget, Claim, Made, Producers, ProducersConfig, ProducersError, SampleMut,
};

use crate::common::{Gate, config, content, expected, fill, layout};

/// Makes samples once the gate is open.
fn make_until(gate: Gate) -> impl Fn(&Claim, &mut SampleMut<'_>) -> Made {
    move |claim: &Claim, sample: &mut SampleMut<'_>| {
        gate.pass();
        fill(claim, sample)
    }
}

#[test]
fn a_stop_in_the_middle_accounts_for_every_sample() {
    let mut producers = Producers::threads(3, layout(), config(), fill).unwrap();
    drop(producers.next().unwrap());
    while producers.status().slots.ready == 0 {
        std::thread::yield_now();
    }
    let status = producers.stop();
    assert!(status.counts.discarded_stopped > 0 && status.counts.queued == 0, "{status:?}");
    assert!(status.counts.is_balanced());
    assert_eq!((status.left_behind, status.counts.delivered), (0, 4));
}

#[test]
fn a_thread_that_does_not_end_is_left_behind() {
    let gate = Gate::default();
    let config = ProducersConfig { grace: Duration::from_millis(1), deadline: None, ..config() };
    let producers = Producers::threads(2, layout(), config, make_until(gate.clone())).unwrap();
    while producers.status().slots.in_work < 2 {
        std::thread::yield_now();
    }
    let status = producers.stop();
    assert_eq!(status.left_behind, 2);
    gate.open();
}

/// A monitor's stop ends a wait, from another thread.
#[test]
fn a_waiting_trainer_is_told_to_stop() {
    let gate = Gate::default();
    let mut producers =
        Producers::threads(1, layout(), config(), make_until(gate.clone())).unwrap();
    let monitor = producers.monitor();
    let stopper = std::thread::spawn({
        let gate = gate.clone();
        move || {
            monitor.stop();
            gate.open();
        }
    });
    assert!(matches!(producers.next(), Err(ProducersError::Stopped)));
    assert!(matches!(producers.next(), Err(ProducersError::Stopped)));
    stopper.join().unwrap();
}

/// Batches may outlive their producers; their memory counts as long.
#[test]
fn a_batch_outlives_its_producers() {
    let budget = Budget::new(1 << 20);
    let config = ProducersConfig { budget: budget.clone(), ..config() };
    let mut producers = Producers::threads(2, layout(), config.clone(), fill).unwrap();
    let batch = producers.next().unwrap().unwrap();
    producers.stop();
    assert_eq!(content(&batch), expected(&config)[0]);
    assert!(budget.used() > 0);
    drop(batch);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_batch_that_is_held_too_long_is_an_error_and_no_wait_without_end() {
    let config = ProducersConfig { held: 2, ..config() };
    let mut producers = Producers::threads(2, layout(), config, fill).unwrap();
    let first = producers.next().unwrap().unwrap();
    let second = producers.next().unwrap().unwrap();
    let error = producers.next().unwrap_err();
    assert!(matches!(error, ProducersError::Held { held: 2 }), "{error}");
    drop(first);
    let third = producers.next().unwrap().unwrap();
    assert_eq!((second.index_in_epoch(), third.index_in_epoch()), (1, 2));
}
