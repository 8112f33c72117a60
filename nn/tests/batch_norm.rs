//! Batch normalisation as PyTorch does it: in training and evaluation, with what is learned from
//! batch to batch.

mod fixtures;

use std::sync::Arc;

use fixtures::{cases, numbers};
use millrace_nn::layer::{Alone, BatchNormConfig, Mode};
use millrace_nn::{Element, Shape};
use serde_json::Value;

#[track_caller]
fn same<E: Element>(what: &str, got: &[E], wanted: &Value) {
    let wanted = numbers::<f64>(wanted);
    assert_eq!(got.len(), wanted.len(), "{what}");
    // What is far from 0 loses digits when its mean is taken away: hence 100 roundings more.
    let tolerance = (2000.0 * E::epsilon().widen()).max(1e-10);
    let largest = wanted.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        let off = (got.widen() - wanted).abs();
        assert!(off <= tolerance * largest, "{what}[{i}]: got {got}, wanted {wanted}");
    }
}

fn follows_pytorch<E: Element>() {
    let cases = cases("batch_norm.json");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let sizes = numbers::<f64>(&case["shape"]);
        let shape = match sizes[..] {
            [c, h, w] => Shape::image(c as usize, h as usize, w as usize),
            _ => Shape::Features(sizes[0] as usize),
        };
        let config = BatchNormConfig {
            epsilon: case["epsilon"].as_f64().expect("a number"),
            momentum: case["momentum"].as_f64().expect("a number"),
        };
        let layer = Arc::new(config.build("norm", shape).expect("it fits"));
        let parameters = vec![numbers::<E>(&case["weight"]), numbers::<E>(&case["bias"])];
        let mut norm = Alone::new(layer, &[shape], parameters);
        for batch in case["batches"].as_array().expect("batches") {
            let y = norm.forward(Mode::train(0), &[&numbers::<E>(&batch["x"])]);
            same("y", &y, &batch["y"]);
            let gradients = norm.backward(&numbers::<E>(&batch["dy"]));
            same("dx", &gradients.x[0], &batch["dx"]);
            same("dweight", &gradients.parameters[0], &batch["dweight"]);
            same("dbias", &gradients.parameters[1], &batch["dbias"]);
            same("running_mean", &norm.state()[0], &batch["running_mean"]);
            same("running_var", &norm.state()[1], &batch["running_var"]);
        }
        let before = norm.state().to_vec();
        let y = norm.forward(Mode::Evaluate, &[&numbers::<E>(&case["x"])]);
        same("y in evaluation", &y, &case["y"]);
        assert_eq!(norm.state(), before, "an evaluation teaches nothing");
    }
}

#[test]
fn follows_pytorch_in_single_precision() {
    follows_pytorch::<f32>();
}

#[test]
fn follows_pytorch_in_double_precision() {
    follows_pytorch::<f64>();
}
