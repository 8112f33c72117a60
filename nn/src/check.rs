//! What the tests of the layers share.

use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// `len` numbers between -1 and 1 that depend on `seed` alone.
pub(crate) fn numbers(len: usize, seed: u8) -> Vec<f64> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = proptest::collection::vec(-1.0..1.0f64, len);
    strategy.new_tree(&mut runner).expect("the strategy rejects nothing").current()
}

/// The slope of `f` at `x` in each direction, by central differences.
pub(crate) fn slope(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let here = x[i];
            x[i] = here + STEP;
            let above = f(&x);
            x[i] = here - STEP;
            let below = f(&x);
            x[i] = here;
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

/// Fails when two values differ by more than `tolerance`, absolute below 1 and relative above.
#[track_caller]
pub(crate) fn assert_close(got: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len());
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let scale = wanted.abs().max(1.0);
        assert!((got - wanted).abs() <= tolerance * scale, "value {i}: got {got}, wanted {wanted}");
    }
}
