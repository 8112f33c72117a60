use super::*;
use crate::check::{assert_close, numbers};
use crate::loss::check::{check_gradient, compared};

/// Class numbers that depend on `seed`, some of them `ignore`.
fn labels(len: usize, classes: usize, ignore: Option<u8>) -> Vec<u8> {
    let number = |(i, value): (usize, &f64)| match ignore {
        Some(ignore) if i % 3 == 1 => ignore,
        _ => ((value + 1.0) / 2.0 * classes as f64) as u8,
    };
    numbers(len, 9).iter().enumerate().map(number).collect()
}

fn plain(classes: usize) -> SoftmaxCrossEntropy {
    SoftmaxCrossEntropyConfig::new().build(Shape::Features(classes)).unwrap()
}

#[test]
fn gradients_match_finite_differences() {
    for output in [
        Shape::Features(1),
        Shape::Features(5),
        Shape::Features(17),
        Shape::image(3, 1, 1),
        Shape::image(5, 4, 1),
        Shape::image(3, 2, 5),
    ] {
        let (classes, places) = channels_and_places(output);
        let weights: Vec<f64> = (0..classes).map(|class| 0.5 + class as f64 / 4.0).collect();
        let config = SoftmaxCrossEntropyConfig::new;
        for config in [
            config(),
            config().smoothing(0.2),
            config().class_weights(&weights),
            config().class_weights(&weights).smoothing(0.1).ignore(200),
        ] {
            let loss = config.clone().build(output).unwrap();
            for samples in [1, 4] {
                let labels = labels(samples * places, classes, config.ignore);
                check_gradient(&loss, output, samples, Target::Classes(&labels));
            }
            if config.ignore.is_none() {
                let loss = config.probabilities().build(output).unwrap();
                let target: Vec<f64> =
                    numbers(3 * output.len(), 4).iter().map(|value| value.abs()).collect();
                check_gradient(&loss, output, 3, Target::Values(&target));
            }
        }
    }
}

#[test]
fn one_hot_is_the_same_as_the_class() {
    // The classes of 2 samples of 2 places each, as numbers and as planes.
    let (labels, mut planes) = ([2u8, 0, 1, 1], [0.0; 12]);
    for (i, &label) in labels.iter().enumerate() {
        planes[i / 2 * 6 + usize::from(label) * 2 + i % 2] = 1.0;
    }
    let config = SoftmaxCrossEntropyConfig::new().smoothing(0.3);
    let output = Shape::image(3, 1, 2);
    let logits = numbers(12, 5);
    let [mut by_number, mut by_plane] = [[0.0; 12]; 2];
    let wanted = config.clone().build(output).unwrap();
    let shard = compared(&logits, Target::Classes(&labels));
    let wanted = wanted.forward_backward(shard, 4.0, &mut by_number).unwrap();
    let got = config.probabilities().build(output).unwrap();
    let shard = compared(&logits, Target::Values(&planes));
    let got = got.forward_backward(shard, 4.0, &mut by_plane).unwrap();
    assert_close(&[got.loss, got.weight], &[wanted.loss, wanted.weight], 1e-14);
    assert_eq!((got.correct, got.counted), (wanted.correct, 4));
    assert_close(&by_plane, &by_number, 1e-14);
}

#[test]
fn equal_logits_cost_the_logarithm_of_the_classes_and_hit_the_first() {
    let partial = plain(10).forward(compared(&[3.0f32; 20], Target::Classes(&[0, 1]))).unwrap();
    assert!((partial.loss - 2.0 * 10f64.ln()).abs() < 1e-6);
    assert_eq!((partial.correct, partial.counted, partial.weight), (1, 2, 2.0));
}

#[test]
fn large_logits_do_not_overflow_and_leave_no_denormal() {
    let mut gradient = [f32::NAN; 3];
    let logits = [1000.0f32, -1000.0, 1000.0 - 100.0];
    let shard = compared(&logits, Target::Classes(&[1]));
    let partial = plain(3).forward_backward(shard, 1.0, &mut gradient).unwrap();
    assert_eq!(partial, Partial { loss: 2000.0, weight: 1.0, correct: 0, counted: 1 });
    assert_eq!(gradient, [1.0, -1.0, 0.0]);
}

#[test]
fn a_class_that_is_not_wanted_may_be_impossible() {
    let loss = SoftmaxCrossEntropyConfig::new().probabilities();
    let loss = loss.build(Shape::Features(2)).unwrap();
    let logits = [0.0, f64::NEG_INFINITY];
    let partial = loss.forward(compared(&logits, Target::Values(&[1.0, 0.0]))).unwrap();
    assert_eq!((partial.loss, partial.correct), (0.0, 1));
}

#[test]
fn not_a_number_shows_in_the_loss() {
    for place in 0..3 {
        let mut logits = [0.0f32; 3];
        logits[place] = f32::NAN;
        let partial = plain(3).forward(compared(&logits, Target::Classes(&[1]))).unwrap();
        assert!(partial.loss.is_nan(), "{place}");
    }
}

#[test]
fn what_is_ignored_leaves_nothing() {
    let loss = SoftmaxCrossEntropyConfig::new().ignore(0).build(Shape::Features(2)).unwrap();
    let (target, mut gradient) = (Target::Classes(&[0, 0]), [f32::NAN; 4]);
    let weight = loss.weight(2, target);
    let shard = compared(&[1.0f32; 4], target);
    let partial = loss.forward_backward(shard, weight, &mut gradient).unwrap();
    assert_eq!((partial, weight, gradient), (Partial::default(), 0.0, [0.0; 4]));
    assert_eq!((partial.mean(), partial.accuracy()), (0.0, 0.0));
}

#[test]
fn a_label_that_names_no_class_is_an_error() {
    let shard = Compared { first: 20, ..compared(&[0.0f32; 6], Target::Classes(&[2, 3])) };
    assert_eq!(
        plain(3).forward(shard).unwrap_err().to_string(),
        "sample 21 of the batch has label 3, but the network has 3 classes"
    );
    // Of pixels, it is the image that is named; nor does such a label weigh anything.
    let loss = SoftmaxCrossEntropyConfig::new().ignore(9);
    let loss = loss.build(Shape::image(2, 1, 2)).unwrap();
    let target = Target::Classes(&[0, 9, 1, 2]);
    let error = loss.forward(Compared { first: 5, ..compared(&[0.0f32; 8], target) }).unwrap_err();
    assert!(matches!(error, NnError::Label { sample: 6, label: 2, classes: 2 }), "{error}");
    assert_eq!(Loss::<f32>::weight(&loss, 2, target), 2.0);
}

#[test]
fn bad_settings_are_errors() {
    let message =
        |config: SoftmaxCrossEntropyConfig, output| config.build(output).unwrap_err().to_string();
    let (config, two) = (SoftmaxCrossEntropyConfig::new, Shape::Features(2));
    assert_eq!(
        message(config(), Shape::image(257, 1, 1)),
        "layer softmax_cross_entropy: got shape 257x1x1, wanted at most 256 classes, because a \
         label is one byte"
    );
    assert!(config().probabilities().build(Shape::Features(257)).is_ok());
    assert_eq!(
        message(config().smoothing(1.0), two),
        "softmax_cross_entropy: smoothing is 1, wanted at least 0 and below 1"
    );
    assert_eq!(
        message(config().smoothing(f64::NAN), two),
        "softmax_cross_entropy: smoothing is NaN, wanted at least 0 and below 1"
    );
    assert_eq!(
        message(config().class_weights(&[1.0]), two),
        "softmax_cross_entropy: class_weights is 1 numbers, wanted one per class"
    );
    assert_eq!(
        message(config().class_weights(&[1.0, -1.0]), two),
        "softmax_cross_entropy: class_weights is -1, wanted at least 0 and finite"
    );
    assert_eq!(
        message(config().probabilities().ignore(3), two),
        "softmax_cross_entropy: ignore is 3, wanted none, with probabilities"
    );
    assert!(config().build(Shape::Features(0)).is_err());
}
