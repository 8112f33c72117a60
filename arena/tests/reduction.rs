//! Reductions: the bits of the serial tree, for any number of workers and any order of the parts.

use millrace_arena::{Arena, ArenaError, Buffer, Reduction};
use millrace_runtime::{Label, Runtime, SubmitError, WaitError};
use proptest::prelude::*;

fn add(sum: &mut [f32], part: &[f32]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
}

/// The tree by itself.
fn serial(parts: &[Vec<f32>]) -> Vec<f32> {
    if let [part] = parts {
        return part.clone();
    }
    let (first, rest) = parts.split_at(parts.len().next_power_of_two() / 2);
    let mut sum = serial(first);
    add(&mut sum, &serial(rest));
    sum
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn parts(rt: &Runtime, arena: &Arena, values: &[Vec<f32>], work: &[u32]) -> Vec<Buffer<f32>> {
    let part = |(values, work): (&Vec<f32>, &u32)| {
        let part = arena.alloc::<f32>(values.len()).expect("no limit");
        let (values, work) = (values.clone(), *work);
        let fill = move |part: &mut [f32]| {
            (0..work).for_each(|_| std::hint::spin_loop());
            part.copy_from_slice(&values);
        };
        rt.spawn("fill", part.overwrite(), fill).expect("alive");
        part
    };
    values.iter().zip(work.iter().cycle()).map(part).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_serial_tree_bit_by_bit(
        values in prop::collection::vec(prop::collection::vec(-1e8f32..1e8, 3), 1..70),
        work in prop::collection::vec(0u32..3000, 1..8),
        fan_in in 0usize..40,
    ) {
        let expected = bits(&serial(&values));
        for (workers, helps) in [(0, false), (1, false), (2, true), (4, false), (16, false)] {
            let rt = Runtime::builder().workers(workers).main_helps(helps).build().unwrap();
            let arena = Arena::new(&rt, "parts");
            let parts = parts(&rt, &arena, &values, &work);
            let sum = Reduction::new("sum", add).fan_in(fan_in);
            let total = sum.spawn(&parts).unwrap().expect("there are parts");
            prop_assert_eq!(bits(&total.acquire().unwrap()), expected.clone());
        }
    }
}

#[test]
fn the_fan_in_decides_the_number_of_tasks() {
    let rt = Runtime::builder().workers(2).timing(true).build().unwrap();
    let arena = Arena::new(&rt, "parts");
    for (fan_in, tasks) in [(0, 8), (2, 8), (3, 8), (4, 3), (8, 2), (9, 2), (usize::MAX, 1)] {
        let before = rt.statistics();
        let parts = parts(&rt, &arena, &vec![vec![1.0]; 9], &[0]);
        let sum = Reduction::new("sum", add).fan_in(fan_in).label(Label::batch(3)).priority(1);
        assert_eq!(*sum.spawn(&parts).unwrap().unwrap().acquire().unwrap(), [9.0]);
        rt.wait().unwrap();
        let kind = &rt.statistics().since(&before).kinds["sum"];
        assert_eq!(kind.body.count(), tasks, "fan-in {fan_in}");
    }
    rt.trace_start();
    let parts = parts(&rt, &arena, &vec![vec![1.0]; 2], &[0]);
    let label = Label { batch: Some(3), layer: Some(2), shard: Some(1) };
    Reduction::new("sum", add).label(label).spawn(&parts).unwrap();
    rt.wait().unwrap();
    rt.trace_stop();
    let trace = rt.trace_take("labels", Default::default());
    let labelled = |span: &&millrace_runtime::trace::Span| {
        (span.batch, span.layer, span.shard) == (Some(3), Some(2), Some(1))
    };
    assert_eq!(trace.spans.iter().filter(labelled).count(), 1);
}

#[test]
fn one_part_is_its_own_result_and_of_none_there_is_none() {
    let rt = Runtime::builder().workers(0).build().unwrap();
    let arena = Arena::new(&rt, "parts");
    let sum = Reduction::new("sum", add);
    assert!(sum.spawn(&[]).unwrap().is_none());
    let one = parts(&rt, &arena, &[vec![2.0]], &[0]);
    assert_eq!(*sum.spawn(&one).unwrap().unwrap().acquire().unwrap(), [2.0]);
    let empty = parts(&rt, &arena, &[vec![], vec![], vec![]], &[0]);
    assert!(sum.spawn(&empty).unwrap().unwrap().is_empty());
}

#[test]
fn bad_parts_are_refused_before_anything_is_submitted() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let arena = Arena::new(&rt, "parts");
    let sum = Reduction::new("sum", add);
    let good = parts(&rt, &arena, &vec![vec![1.0, 2.0]; 6], &[0]);
    let with = |extra: Buffer<f32>| {
        let parts: Vec<_> = good.iter().copied().chain([extra]).collect();
        sum.spawn(&parts).unwrap_err()
    };
    let error = with(arena.alloc(3).unwrap());
    assert!(matches!(error, ArenaError::Parts { part: 6, len: 3, wanted: 2, .. }));
    assert_eq!(error.to_string(), "reduction `sum`: part 6 has 3 elements, the first has 2");
    let error = with(good[2]);
    let twice = |error: &ArenaError| {
        matches!(
            error,
            ArenaError::Wait(WaitError::Refused(SubmitError::Conflict { first: 2, second: 6, .. }))
        )
    };
    assert!(twice(&error), "{error}");
    let other = Runtime::builder().workers(0).build().unwrap();
    let foreign = Arena::new(&other, "foreign");
    let error = with(foreign.alloc(2).unwrap()).to_string();
    assert!(error.contains("`foreign`") && error.contains("another runtime"), "{error}");
    let ended = Arena::new(&rt, "ended");
    let stale = ended.alloc(2).unwrap();
    drop(ended);
    let error = with(stale).to_string();
    assert!(error.contains("`ended`") && error.contains("`sum`"), "{error}");
    // The parts are as they were.
    assert!(good.iter().all(|part| *part.acquire().unwrap() == [1.0, 2.0]));
}

#[test]
fn a_failed_part_spoils_the_result() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let arena = Arena::new(&rt, "parts");
    let good = parts(&rt, &arena, &vec![vec![1.0]; 6], &[0]);
    rt.spawn("broken", good[4].write(), |_| Err::<(), _>("no data")).unwrap();
    let total = Reduction::new("sum", add).spawn(&good).unwrap().unwrap();
    assert!(matches!(total.acquire(), Err(WaitError::Spoilt { .. })));
}
