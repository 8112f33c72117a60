//! What the tests of the layers share.

use std::sync::Arc;

use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::Shape;
use crate::layer::{Alone, Layer, Mode};

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

/// Fails when a gradient of `layer`, for `samples` samples of these shapes, is not the slope of what
/// it computes forward in training.
#[track_caller]
pub(crate) fn check_gradients(layer: Arc<dyn Layer<f64>>, inputs: &[Shape], samples: usize) {
    let draw = |len: usize, seed: usize| numbers(len, seed as u8);
    let x: Vec<Vec<f64>> =
        inputs.iter().enumerate().map(|(i, shape)| draw(samples * shape.len(), i)).collect();
    let parameters: Vec<Vec<f64>> =
        layer.parameters().iter().enumerate().map(|(i, p)| draw(p.len(), 100 + i)).collect();
    let dy = draw(samples * layer.output().len(), 200);
    let alone = |parameters: &[Vec<f64>]| Alone::new(layer.clone(), inputs, parameters.to_vec());
    let forward = |alone: &mut Alone<f64>, x: &[Vec<f64>]| {
        let x: Vec<&[f64]> = x.iter().map(Vec::as_slice).collect();
        alone.forward(Mode::train(7), &x)
    };
    let loss = |x: &[Vec<f64>], parameters: &[Vec<f64>]| {
        let y = forward(&mut alone(parameters), x);
        y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
    };
    let mut tried = alone(&parameters);
    forward(&mut tried, &x);
    let gradients = tried.backward(&dy);
    for i in 0..x.len() {
        let wanted = slope(&x[i], |values| {
            let mut x = x.clone();
            x[i] = values.to_vec();
            loss(&x, &parameters)
        });
        assert_close(&gradients.x[i], &wanted, 1e-6);
    }
    for i in 0..parameters.len() {
        let wanted = slope(&parameters[i], |values| {
            let mut parameters = parameters.clone();
            parameters[i] = values.to_vec();
            loss(&x, &parameters)
        });
        assert_close(&gradients.parameters[i], &wanted, 1e-6);
    }
}
