//! What transforms do to values and labels, and what they depend on.

use std::sync::Arc;

use millrace_loader::transform::{Transform, Transformed};
use millrace_loader::{LabelKind, Samples};
use proptest::prelude::*;

use crate::{Made, decode};

/// Each pixel has its own value, and its own label where pixels have one.
fn made(per_pixel: bool) -> Made {
    Made {
        len: 12,
        shape: [3, 4, 6],
        classes: 5,
        per_pixel,
        value: |sample, [c, y, x]| (1 + sample * 72 + c * 24 + y * 6 + x) as f32 / 1000.0,
        bad: &[],
    }
}

fn transformed(per_pixel: bool, transforms: &[Transform]) -> Transformed {
    Transformed::new(Arc::new(made(per_pixel)), transforms.to_vec(), 9).unwrap()
}

/// What a transform makes of the samples of one epoch.
fn all(transform: Transform) -> Vec<Vec<f32>> {
    let set = transformed(false, &[transform]);
    (0..12).map(|index| decode(&set, 0, index).0).collect()
}

fn flip_x() -> Transform {
    Transform::FlipHorizontal { probability: 1.0 }
}

fn flip_y() -> Transform {
    Transform::FlipVertical { probability: 1.0 }
}

/// The values of sample 3 with its pixels rearranged.
fn moved(from: impl Fn(usize, usize) -> Option<(usize, usize)>) -> Vec<f32> {
    let old = made(false).values(3);
    let mut values = Vec::new();
    for plane in old.chunks(24) {
        for y in 0..4 {
            values.extend((0..6).map(|x| from(y, x).map_or(0.0, |(y, x)| plane[y * 6 + x])));
        }
    }
    values
}

#[test]
fn flips_move_values_and_labels() {
    let (values, labels) = decode(&transformed(true, &[flip_x()]), 0, 3);
    assert_eq!(values, moved(|y, x| Some((y, 5 - x))));
    assert_eq!(labels[..7], [5, 4, 3, 2, 1, 0, 11]);
    let (values, labels) = decode(&transformed(true, &[flip_y()]), 0, 3);
    assert_eq!(values, moved(|y, x| Some((3 - y, x))));
    assert_eq!(labels[..7], [18, 19, 20, 21, 22, 23, 12]);
    let (values, labels) = decode(&transformed(true, &[flip_x(), flip_y(), flip_x()]), 0, 3);
    assert_eq!(values, moved(|y, x| Some((3 - y, x))));
    assert_eq!(labels[0], 18);
    let never = Transform::FlipHorizontal { probability: 0.0 };
    assert_eq!(all(never)[3], made(false).values(3));
}

#[test]
fn half_of_the_samples_are_flipped() {
    let set = transformed(false, &[Transform::FlipHorizontal { probability: 0.5 }]);
    let plain = made(false);
    let flipped = (0..1200)
        .filter(|i| decode(&set, i / 12, *i as usize % 12).0 != plain.values(*i as usize % 12));
    let flipped = flipped.count();
    // Six standard deviations.
    assert!((496..=704).contains(&flipped), "{flipped}");
}

#[test]
fn padding_and_cropping_moves_by_any_number_of_pixels() {
    let set = transformed(true, &[Transform::PadCrop { pad: 1 }]);
    let mut seen = [[0; 3]; 3];
    for epoch in 0..200 {
        let (values, labels) = decode(&set, epoch, 3);
        let place = |down: usize, right: usize| {
            moved(|y, x| {
                let (y, x) = ((y + 1).checked_sub(down)?, (x + 1).checked_sub(right)?);
                (y < 4 && x < 6).then_some((y, x))
            })
        };
        let found = (0..9).find(|i| values == place(i / 3, i % 3)).expect("a move by one at most");
        seen[found / 3][found % 3] += 1;
        // The label of row 1, column 1, moves with its pixel.
        assert_eq!(labels[found / 3 * 6 + found % 3], 7, "{found}");
    }
    assert!(seen.as_flattened().iter().all(|&times| times > 5), "{seen:?}");
}

#[test]
fn normalising_takes_mean_and_deviation_away() {
    let transform = Transform::Normalise { mean: vec![0.1, 0.2, 0.3], sd: vec![1.0, 2.0, 4.0] };
    let old = made(false).values(2);
    let new = &all(transform)[2];
    for (at, (new, old)) in new.iter().zip(old).enumerate() {
        let (mean, sd) = [(0.1, 1.0), (0.2, 2.0), (0.3, 4.0)][at / 24];
        assert_eq!(*new, (old - mean) / sd);
    }
}

/// A turn of nothing is nothing, a turn of 180 degrees is both flips.
#[test]
fn rotation_is_between_pixels() {
    assert_eq!(all(Transform::Rotate { degrees: 0.0 })[3], made(false).values(3));
    let set = transformed(true, &[Transform::Rotate { degrees: 30.0 }]);
    let (values, labels) = decode(&set, 0, 3);
    assert_ne!(values, made(false).values(3));
    // The middle of four rows and six columns lies between its four pixels, which keep their mean.
    let middle = |values: &[f32]| [8, 9, 14, 15].map(|at| values[at]).iter().sum::<f32>() / 4.0;
    assert!((middle(&values) - middle(&made(false).values(3))).abs() < 1e-5);
    let mut inner = [8, 9, 14, 15].map(|at| labels[at]);
    inner.sort();
    assert!(inner.iter().all(|label| (7..=16).contains(label)), "{inner:?}");
}

#[test]
fn resizing_changes_the_shape() {
    let set = transformed(true, &[Transform::Resize { size: [2, 3] }, flip_x()]);
    assert_eq!(set.shape(), [3, 2, 3]);
    assert_eq!(set.label_kind(), LabelKind::Pixel { labels: 6 });
    let (values, labels) = decode(&set, 0, 0);
    assert_eq!(labels, [11, 9, 7, 23, 21, 19]);
    // The picture is a slope, whose mean stays where it is.
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    assert!((mean(&values) - mean(&made(true).values(0))).abs() < 1e-4);
    assert!(values[0] > values[1] && values[1] > values[2] && values[3] > values[0]);
}

#[test]
fn jitter_stays_within_its_bounds() {
    let transform =
        |brightness| Transform::ColourJitter { brightness, contrast: 0.0, saturation: 0.0 };
    assert!(
        all(transform(0.0))
            .concat()
            .iter()
            .zip((0..12).flat_map(|i| made(false).values(i)))
            .all(|(new, old)| (new - old).abs() < 1e-5)
    );
    let mut factors: Vec<f32> = all(transform(0.4))
        .iter()
        .enumerate()
        .map(|(index, values)| values[40] / made(false).values(index)[40])
        .collect();
    factors.sort_by(f32::total_cmp);
    assert!(factors[0] >= 0.6 && factors[11] <= 1.4 && factors[11] - factors[0] > 0.2);

    let grey = Transform::ColourJitter { brightness: 0.0, contrast: 0.0, saturation: 1.0 };
    // The first sample is so dark that its colours would leave the bounds.
    for (index, values) in all(grey).iter().enumerate().skip(1) {
        // The luma of a pixel stays; its colours move towards it, or away.
        let luma = |values: &[f32]| 0.299 * values[5] + 0.587 * values[29] + 0.114 * values[53];
        assert!((luma(values) - luma(&made(false).values(index))).abs() < 1e-5);
    }
}

#[test]
fn a_hole_is_square_and_within_the_picture() {
    let mut holes = std::collections::BTreeSet::new();
    for values in all(Transform::Cutout { side: 2 }) {
        let zero: Vec<usize> = (0..24).filter(|&at| values[at] == 0.0).collect();
        assert!(matches!(zero.len(), 1 | 2 | 4), "{zero:?}");
        for plane in values.chunks(24) {
            assert!((0..24).all(|at| (plane[at] == 0.0) == zero.contains(&at)));
        }
        holes.insert(zero);
    }
    assert!(holes.len() > 4, "{holes:?}");
    assert!(all(Transform::Cutout { side: 0 }).concat().iter().all(|&value| value > 0.0));
}

#[test]
fn mixing_is_a_mean_with_another_sample() {
    let set = transformed(false, &[Transform::Mixup { alpha: 0.5 }]);
    for index in 0..12 {
        let (values, labels) = decode(&set, 1, index);
        assert_eq!(labels, [made(false).label_of(index)]);
        let own = made(false).values(index);
        let weights = (0..12).filter_map(|other| {
            let other = made(false).values(other);
            let weight = (values[0] - other[0]) / (own[0] - other[0]);
            let mixed = own.iter().zip(&other).map(|(a, b)| a * weight + b * (1.0 - weight));
            let same = mixed.zip(&values).all(|(mixed, value)| (mixed - value).abs() < 1e-4);
            (same && (0.4999..=1.0001).contains(&weight)).then_some(weight)
        });
        assert!(weights.count() > 0 || values == own, "sample {index}");
    }
}

#[test]
fn settings_that_make_no_sense() {
    let error = |transforms: Vec<Transform>| {
        Transformed::new(Arc::new(made(false)), transforms, 0).unwrap_err().to_string()
    };
    let none = vec![
        vec![Transform::FlipVertical { probability: 1.5 }],
        vec![Transform::FlipHorizontal { probability: f32::NAN }],
        vec![Transform::Rotate { degrees: -1.0 }],
        vec![Transform::Resize { size: [0, 3] }],
        vec![Transform::Normalise { mean: vec![0.0], sd: vec![1.0] }],
        vec![Transform::Normalise { mean: vec![0.0; 3], sd: vec![1.0, 0.0, 1.0] }],
        vec![Transform::Mixup { alpha: 0.0 }],
        vec![Transform::PadCrop { pad: usize::MAX }],
        vec![Transform::Cutout { side: usize::MAX }],
        vec![Transform::ColourJitter { brightness: 2.0, contrast: 0.0, saturation: 0.0 }],
    ];
    for transforms in none {
        let told = error(transforms);
        assert!(told.starts_with("transform 1 ("), "{told}");
    }
    assert_eq!(
        error(vec![flip_x(), Transform::Mixup { alpha: 0.5 }]),
        "transform 2 (Mixup { alpha: 0.5 }): it has to be the first transform"
    );
}

fn any_transform() -> impl Strategy<Value = Transform> {
    prop_oneof![
        (0usize..9).prop_map(|pad| Transform::PadCrop { pad }),
        (0f32..1.0).prop_map(|probability| Transform::FlipHorizontal { probability }),
        (0f32..1.0).prop_map(|probability| Transform::FlipVertical { probability }),
        (0f32..180.0).prop_map(|degrees| Transform::Rotate { degrees }),
        ([1usize..9, 1usize..9]).prop_map(|size| Transform::Resize { size }),
        (0usize..9).prop_map(|side| Transform::Cutout { side }),
        [0f32..1.0, 0f32..1.0, 0f32..1.0].prop_map(|[brightness, contrast, saturation]| {
            Transform::ColourJitter { brightness, contrast, saturation }
        }),
    ]
}

proptest! {
    /// A sample depends on seed, epoch and index alone, whatever was decoded before.
    #[test]
    fn the_same_sample_again(
        transforms in prop::collection::vec(any_transform(), 0..5),
        mix: bool,
        per_pixel: bool,
        places in prop::collection::vec((0u32..3, 0usize..12), 1..8),
    ) {
        let mix = mix.then_some(Transform::Mixup { alpha: 0.7 });
        let transforms: Vec<Transform> = mix.into_iter().chain(transforms).collect();
        let one = transformed(per_pixel, &transforms);
        let there: Vec<_> = places.iter().map(|&(epoch, index)| decode(&one, epoch, index)).collect();
        for (&(epoch, index), there) in places.iter().zip(&there) {
            prop_assert!(decode(&transformed(per_pixel, &transforms), epoch, index) == *there);
            prop_assert_eq!(there.0.len(), one.sample_len());
            prop_assert!(there.0.iter().all(|value| value.is_finite()));
        }
    }
}
