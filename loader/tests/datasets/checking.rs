//! Reading a whole data set.

use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_loader::check::{check, class_weights};
use millrace_loader::{Samples, Subset, embedded};

use crate::Made;

const MADE: Made = Made {
    len: 1001,
    shape: [2, 3, 5],
    classes: 3,
    per_pixel: false,
    value: |sample, [channel, y, x]| (sample * 7 + channel * 1000 + y * 5 + x) as f32 / 100.0,
    bad: &[],
};

#[test]
fn means_deviations_and_classes() {
    let report = check(&MADE, |_| true).unwrap();
    assert!(report.bad.is_empty());
    assert_eq!((report.samples, report.shape), (1001, [2, 3, 5]));
    assert_eq!(report.class_counts, [334, 334, 333]);
    assert_eq!(report.class_names, ["0", "1", "2"]);
    assert_eq!(report.class_weights, class_weights(&[334, 334, 333]));
    let (mean, sd) = (report.mean.unwrap(), report.sd.unwrap());
    for channel in 0..2 {
        let values: Vec<f64> = (0..1001)
            .flat_map(|sample| MADE.values(sample)[channel * 15..][..15].to_vec())
            .map(f64::from)
            .collect();
        let count = values.len() as f64;
        let wanted = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - wanted).powi(2)).sum::<f64>();
        assert!((mean[channel] - wanted).abs() < 1e-9);
        assert!((sd[channel] - (squares / count).sqrt()).abs() < 1e-9);
    }
}

#[test]
fn the_report_does_not_depend_on_the_number_of_threads() {
    let (train, _) = embedded();
    let report = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| check(&train, |_| true).unwrap())
    };
    let one = report(1);
    assert_eq!(one, report(3));
    // The mean of the first 6000 training images, computed by numpy from the same file.
    assert!((one.mean.unwrap()[0] - 0.285_7).abs() < 1e-4);
}

#[test]
fn every_bad_sample_is_listed_and_can_be_left_out() {
    let made = Made { len: 200, bad: &[0, 63, 64, 199], ..MADE };
    let report = check(&made, |_| true).unwrap();
    let bad: Vec<usize> = report.bad.iter().map(|bad| bad.index).collect();
    assert_eq!(bad, made.bad);
    assert!(report.bad[1].message.starts_with(r#"sample 63 of made: "63.png": "#));
    assert_eq!(report.class_counts.iter().sum::<u64>(), 196);

    let good = Subset::without(std::sync::Arc::new(made), &bad);
    assert_eq!((good.len(), good.indices()[0]), (196, 1));
    assert!(check(&good, |_| true).unwrap().bad.is_empty());
}

#[test]
fn numbers_that_are_none_are_bad() {
    let made = Made {
        len: 3,
        value: |sample, [channel, ..]| [1.0, f32::NAN, f32::INFINITY][sample] * channel as f32,
        ..MADE
    };
    let report = check(&made, |_| true).unwrap();
    let told: Vec<&str> = report.bad.iter().map(|bad| bad.message.as_str()).collect();
    assert_eq!(told, ["sample 1 of made: value 0 is NaN", "sample 2 of made: value 0 is NaN"]);
}

#[test]
fn nothing_at_all_has_no_mean() {
    for made in [Made { len: 0, ..MADE }, Made { len: 2, bad: &[0, 1], ..MADE }] {
        let report = check(&made, |_| true).unwrap();
        assert_eq!((report.mean, report.sd), (None, None));
        assert_eq!(report.class_weights, [0.0; 3]);
    }
}

#[test]
fn it_can_be_stopped() {
    let calls = AtomicUsize::new(0);
    let stopped = check(&MADE, |done| {
        calls.fetch_add(1, Ordering::Relaxed);
        assert!(done <= 1001);
        false
    });
    assert_eq!(stopped, None);
    assert!(calls.into_inner() < 16, "blocks that had not begun are left");
}
