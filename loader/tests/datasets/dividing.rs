//! Parts and shards.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_loader::{Samples, SplitError, Subset, embedded};
use proptest::prelude::*;

use crate::{Made, decode};

fn made(len: usize) -> Arc<dyn Samples> {
    Arc::new(Made {
        len,
        shape: [1, 1, 1],
        classes: 3,
        per_pixel: false,
        value: |sample, _| sample as f32,
        bad: &[],
    })
}

#[test]
fn a_part_has_the_samples_that_it_says() {
    let part = Subset::new(made(10), vec![7, 0, 7]).unwrap();
    assert_eq!(
        (part.len(), part.classes(), part.sample_name(0)),
        (3, 3, "sample 7 of made".into())
    );
    assert_eq!(decode(&part, 0, 0), (vec![7.0], vec![1]));
    assert_eq!((part.label(1), part.label(2)), (Some(0), Some(1)));
    let error = Subset::new(made(10), vec![3, 10]).unwrap_err();
    assert_eq!(error.to_string(), r#"sample 10 of "made", which has 10"#);
}

proptest! {
    #[test]
    fn each_sample_is_in_one_shard(len in 0usize..200, ranks in 1usize..9) {
        let shards: Vec<Subset> =
            (0..ranks).map(|rank| Subset::shard(made(len), rank, ranks).unwrap()).collect();
        let mut all: Vec<u32> = shards.iter().flat_map(|shard| shard.indices().to_vec()).collect();
        all.sort();
        prop_assert!(all.into_iter().eq(0..len as u32));
        let lens = || shards.iter().map(|shard| shard.len());
        prop_assert!(lens().max().unwrap() - lens().min().unwrap() <= 1);
    }

    #[test]
    fn each_sample_is_in_one_part(
        len in 0usize..300, fraction in 0.01f64..0.99, seed: u64, stratified: bool,
    ) {
        let samples = made(len);
        let split = if stratified { Subset::split_stratified } else { Subset::split };
        let (first, second) = split(&samples, fraction, seed).unwrap();
        prop_assert_eq!(second.len(), (len as f64 * fraction).round() as usize);
        for part in [&first, &second] {
            prop_assert!(part.indices().is_sorted());
        }
        let both: BTreeSet<u32> = [first.indices(), second.indices()].concat().into_iter().collect();
        prop_assert!(both.into_iter().eq(0..len as u32));
        let again = split(&samples, fraction, seed).unwrap().1;
        prop_assert_eq!(again.indices(), second.indices());
        if stratified {
            for class in 0..3 {
                let of = |part: &Subset| {
                    part.indices().iter().filter(|&&index| index % 3 == class).count() as f64
                };
                let wanted = (of(&first) + of(&second)) * fraction;
                prop_assert!((of(&second) - wanted).abs() <= 1.0);
            }
        }
    }
}

#[test]
fn the_seed_decides() {
    let (train, _) = embedded();
    let train: Arc<dyn Samples> = Arc::new(train);
    let part = |seed| Subset::split(&train, 0.1, seed).unwrap().1.indices().to_vec();
    assert_ne!(part(1), part(2));
    let (_, test) = Subset::split_stratified(&train, 0.1, 1).unwrap();
    let counts = (0..10u8)
        .map(|class| (0..test.len()).filter(|&index| test.label(index) == Some(class)).count());
    assert!(
        counts.clone().all(|count| (50..=70).contains(&count)),
        "{:?}",
        counts.collect::<Vec<_>>()
    );
}

#[test]
fn wishes_that_make_no_sense() {
    let samples = made(10);
    for fraction in [0.0, 1.0, -0.5, f64::NAN] {
        let error = Subset::split(&samples, fraction, 0).unwrap_err();
        assert!(matches!(error, SplitError::Fraction { .. }));
    }
    assert_eq!(
        Subset::shard(samples, 3, 3).unwrap_err().to_string(),
        "rank 3 of 3: ranks are counted from 0"
    );
    let unknown: Arc<dyn Samples> = Arc::new(Made {
        len: 5,
        shape: [1, 1, 1],
        classes: 3,
        per_pixel: true,
        value: |_, _| 0.0,
        bad: &[],
    });
    let error = Subset::split_stratified(&unknown, 0.5, 0).unwrap_err();
    assert!(matches!(error, SplitError::Labels { name } if name == "made"));
}
