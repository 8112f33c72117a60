//! Sums, cuts and refusals. Values are compared with PyTorch's in `tests/optimisers.rs`.

use proptest::prelude::*;

use super::sum::PIECE;
use super::*;
use crate::check::numbers;

/// One optimiser of each rule.
fn each_rule() -> Vec<Optimiser> {
    let sgd = Sgd::new(0.1).unwrap();
    let adam = Adam { decay: Decay::Coupled(0.1), ..Adam::new(0.01).unwrap() };
    vec![
        sgd.into(),
        Sgd { momentum: 0.9, weight_decay: 0.01, ..sgd }.into(),
        Sgd { momentum: 0.5, nesterov: true, ..sgd }.into(),
        adam.into(),
        Adam { decay: Decay::Decoupled(0.1), ..adam }.into(),
    ]
}

fn views<T>(values: &[Vec<T>]) -> Vec<&[T]> {
    values.iter().map(Vec::as_slice).collect()
}

/// Parameters and memory after three updates of each block by itself; `cuts` are where blocks end.
fn run(optimiser: Optimiser, len: usize, shards: u8, cuts: &[usize]) -> Vec<Vec<u32>> {
    let single = |values: Vec<f64>| -> Vec<f32> { values.iter().map(|&v| v as f32).collect() };
    let mut parameters = single(numbers(len, 1));
    let mut memory = vec![vec![0.0f32; len]; optimiser.memory().len()];
    for number in 1..=3 {
        let gradients: Vec<_> =
            (0..shards).map(|shard| single(numbers(len, 10 * shard + number))).collect();
        let step = Step { number: number.into(), learning_rate: 0.1, factor: 0.7 };
        let mut start = 0;
        for &end in cuts.iter().chain([&len]) {
            let gradients: Vec<_> = gradients.iter().map(|all| &all[start..end]).collect();
            let mut memory: Vec<_> = memory.iter_mut().map(|all| &mut all[start..end]).collect();
            let block = &mut parameters[start..end];
            optimiser.update(step, block, &mut memory, &gradients).unwrap();
            start = end;
        }
    }
    let all = [parameters].into_iter().chain(memory);
    all.map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn blocks_change_no_bit(
        rule in 0usize..5,
        shards in 1u8..9,
        len in 1usize..3 * PIECE,
        cuts in proptest::collection::vec(0usize..3 * PIECE, 0..4),
    ) {
        let optimiser = each_rule()[rule];
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % (len + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(run(optimiser, len, shards, &cuts), run(optimiser, len, shards, &[]));
    }
}

#[test]
fn goes_down_the_sum_of_the_gradients() {
    for shards in 1..9 {
        let gradients: Vec<Vec<f64>> =
            (0..shards).map(|s| vec![f64::from(1 << s), 1.0, -1.0]).collect();
        let mut parameters = [0.0, 1.0, 2.0];
        Sgd::new(0.5).unwrap().update(&mut parameters, &views(&gradients)).unwrap();
        let sum = f64::from((1 << shards) - 1);
        let shards = f64::from(shards);
        assert_eq!(parameters, [-0.5 * sum, 1.0 - 0.5 * shards, 2.0 + 0.5 * shards]);
    }
}

#[test]
fn adds_as_a_tree() {
    let gradients = [[1.0f32], [1e8], [-1e8], [1.0], [2.0]];
    let gradients: Vec<&[f32]> = gradients.iter().map(|g| &g[..]).collect();
    // (1 + 1e8) and (-1e8 + 1) each lose their 1, in order or pairwise with others they do not.
    for (shards, sum) in [(2, 1e8f32), (4, 0.0), (5, 2.0)] {
        let mut parameters = [0.0f32];
        Sgd::new(1.0).unwrap().update(&mut parameters, &gradients[..shards]).unwrap();
        assert_eq!(parameters, [-sum], "{shards} shards");
    }
}

#[test]
fn the_sum_of_the_gradients_has_the_bits_of_a_reduction() {
    use millrace_arena::{Arena, Reduction};
    let rt = millrace_runtime::Runtime::builder().workers(2).build().unwrap();
    let arena = Arena::new(&rt, "gradients");
    let reduction = Reduction::new("sum", |sum: &mut [f32], part: &[f32]| {
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    });
    const LEN: usize = 2 * PIECE + 50;
    for shards in 1u32..20 {
        let gradient =
            |shard: u32| (0..LEN as u32).map(move |i| 1e6 / (1.0 + (shard * 7 + i) as f32));
        let gradients: Vec<Vec<f32>> = (0..shards).map(|s| gradient(s).collect()).collect();
        let parts = gradients.iter().map(|values| {
            let part = arena.alloc::<f32>(values.len()).unwrap();
            part.acquire_mut().unwrap().copy_from_slice(values);
            part
        });
        let parts: Vec<_> = parts.collect();
        let total = reduction.spawn(&parts).unwrap().unwrap();
        let total = total.acquire().unwrap();
        let (mut fused, mut summed) = (vec![0.0f32; LEN], vec![0.0f32; LEN]);
        let sgd = Sgd::new(0.1).unwrap();
        sgd.update(&mut fused, &views(&gradients)).unwrap();
        sgd.update(&mut summed, &[&*total]).unwrap();
        assert_eq!(fused, summed, "{shards} shards");

        let mut gathered = gradients[0].clone();
        let squares = Clip::gather(&mut gathered, &views(&gradients)[1..]).unwrap();
        assert_eq!(gathered, *total, "{shards} shards");
        let wanted: f64 = gathered.iter().map(|&value| f64::from(value).powi(2)).sum();
        assert!((squares - wanted).abs() <= 1e-12 * wanted, "{squares} {wanted}");
    }
}

#[test]
fn a_bad_gradient_is_found_in_its_shard() {
    for shards in 1..7usize {
        for optimiser in each_rule() {
            for at in [0, PIECE - 1, PIECE, 2 * PIECE + 2] {
                let mut gradients = vec![vec![1.0f32; 2 * PIECE + 3]; shards];
                let shard = at % shards;
                gradients[shard][at] = f32::NAN;
                gradients[shards - 1][2 * PIECE + 2] = f32::INFINITY;
                let mut parameters = vec![1.0; 2 * PIECE + 3];
                let mut memory = vec![vec![0.0; parameters.len()]; optimiser.memory().len()];
                let mut memory: Vec<_> = memory.iter_mut().map(Vec::as_mut_slice).collect();
                let step = Step { number: 1, learning_rate: 0.1, factor: 1.0 };
                let views = views(&gradients);
                let bad = optimiser.update(step, &mut parameters, &mut memory, &views).unwrap_err();
                let found = (bad.at, bad.shard);
                let wanted = (at, Some(if at > 2 * PIECE { shard.min(shards - 1) } else { shard }));
                assert_eq!(found, wanted, "{shards} shards");
                assert!(parameters.iter().all(|value| value.is_finite()), "none is made NaN");
                let bad = Clip::gather(&mut views[0].to_vec(), &views[1..]).unwrap_err();
                assert_eq!((bad.at, bad.shard), wanted, "{shards} shards");
            }
        }
    }
    let large = [f32::MAX];
    let bad = Sgd::new(0.1).unwrap().update(&mut [0.0], &[&large, &large]).unwrap_err();
    assert_eq!((bad.at, bad.value, bad.shard), (0, f64::INFINITY, None));
    assert_eq!(bad.to_string(), "value 0 of the gradient is inf");
}

#[test]
fn clips_only_what_is_too_long() {
    let clip = Clip::new(1.0).unwrap();
    assert_eq!(Clip::norm(&[9.0, 0.0, 16.0]), 5.0);
    assert_eq!(clip.factor(&[0.25, 0.25]), 1.0);
    assert_eq!(clip.factor(&[]), 1.0);
    let factor = clip.factor(&[3.0, 0.0, 1.0]);
    assert!((factor - 0.5).abs() < 1e-6 && factor < 0.5, "{factor}");
    assert_eq!(Clip::new(0.0).unwrap().factor(&[1.0]), 0.0);
}

#[test]
fn settings_without_meaning_are_refused() {
    for step in [f64::NAN, f64::INFINITY, -0.1] {
        assert!(Sgd::new(step).is_err(), "{step}");
        assert!(Adam::new(step).is_err(), "{step}");
        assert!(Clip::new(step).is_err(), "{step}");
    }
    let (sgd, adam) = (Sgd::new(0.1).unwrap(), Adam::new(0.1).unwrap());
    let wrong: [Optimiser; 9] = [
        Sgd { momentum: 1.0, ..sgd }.into(),
        Sgd { momentum: -0.1, ..sgd }.into(),
        Sgd { nesterov: true, ..sgd }.into(),
        Sgd { weight_decay: f64::INFINITY, ..sgd }.into(),
        Adam { beta1: 1.0, ..adam }.into(),
        Adam { beta2: f64::NAN, ..adam }.into(),
        Adam { epsilon: 0.0, ..adam }.into(),
        Adam { decay: Decay::Coupled(-1.0), ..adam }.into(),
        Adam { decay: Decay::Decoupled(f64::NAN), ..adam }.into(),
    ];
    for optimiser in wrong {
        assert!(optimiser.check().is_err(), "{optimiser:?}");
    }
    assert!(each_rule().iter().all(|optimiser| optimiser.check().is_ok()));
}
