//! Values and gradients of single layers against those of PyTorch, kept in `fixtures/`.

use millrace_nn::layer::{Conv2dConfig, DenseConfig, MaxPool2dConfig, Padding, Relu};
use millrace_nn::{Element, Shape, SoftmaxCrossEntropy};
use serde_json::Value;

fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/fixtures/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(!cases.is_empty(), "{path} is empty");
    cases
}

fn numbers<E: Element>(case: &Value, name: &str) -> Vec<E> {
    let values = case[name].as_array().unwrap_or_else(|| panic!("no {name}"));
    values.iter().map(|value| E::narrow(value.as_f64().unwrap())).collect()
}

fn size(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn sizes<const N: usize>(case: &Value, name: &str) -> [usize; N] {
    std::array::from_fn(|i| size(&case[name][i]))
}

/// Fails when `got` is further from the case's `name` than some roundings of `E` explain.
#[track_caller]
fn same<E: Element>(case: &Value, name: &str, got: &[E]) {
    let wanted = numbers::<f64>(case, name);
    assert_eq!(got.len(), wanted.len(), "{name}");
    let tolerance = (64.0 * E::epsilon().widen()).max(1e-11);
    let largest = wanted.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        let off = (got.widen() - wanted).abs();
        assert!(off <= tolerance * largest, "{name}[{i}]: got {got}, wanted {wanted}");
    }
}

/// A buffer whose old content would show if a layer used it.
fn dirty<E: Element>(len: usize) -> Vec<E> {
    vec![E::nan(); len]
}

fn conv2d<E: Element>() {
    for case in cases("conv2d.json") {
        let [channels, height, width] = sizes(&case, "input");
        let padding = if case["padding"] == "same" { Padding::Same } else { Padding::Valid };
        let config = Conv2dConfig::new(size(&case["filters"]), sizes(&case, "kernel"))
            .stride(sizes(&case, "stride"))
            .padding(padding);
        let layer = config.build("conv2d", Shape::image(channels, height, width)).unwrap();
        let (x, weights) = (numbers::<E>(&case, "x"), numbers::<E>(&case, "weights"));
        let (bias, dy) = (numbers::<E>(&case, "bias"), numbers::<E>(&case, "dy"));
        let mut y = dirty::<E>(dy.len());
        layer.forward(&x, &weights, &bias, &mut y, &mut dirty(layer.scratch_len()));
        same(&case, "y", &y);
        let mut dx = dirty::<E>(x.len());
        layer.backward_data(&dy, &weights, &mut dx, &mut dirty(layer.scratch_len()));
        same(&case, "dx", &dx);
        let (mut dweights, mut dbias) = (dirty::<E>(weights.len()), dirty::<E>(bias.len()));
        let mut scratch = dirty(layer.scratch_len());
        layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch);
        same(&case, "dweights", &dweights);
        same(&case, "dbias", &dbias);
    }
}

fn max_pool2d<E: Element>() {
    for case in cases("max_pool2d.json") {
        let [channels, height, width] = sizes(&case, "input");
        let config = MaxPool2dConfig::new(sizes(&case, "window"));
        let layer = config.build("max_pool2d", Shape::image(channels, height, width)).unwrap();
        let (x, dy) = (numbers::<E>(&case, "x"), numbers::<E>(&case, "dy"));
        let (mut y, mut winners) = (dirty::<E>(dy.len()), vec![255; dy.len()]);
        layer.forward(&x, &mut y, &mut winners);
        same(&case, "y", &y);
        let mut dx = dirty::<E>(x.len());
        layer.backward(&winners, &dy, &mut dx);
        same(&case, "dx", &dx);
    }
}

fn relu<E: Element>() {
    for case in cases("relu.json") {
        let (mut y, mut dx) = (numbers::<E>(&case, "x"), numbers::<E>(&case, "dy"));
        let relu = Relu::new(Shape::Features(y.len()));
        relu.forward(&mut y);
        same(&case, "y", &y);
        relu.backward(&y, &mut dx);
        same(&case, "dx", &dx);
    }
}

fn dense<E: Element>() {
    for case in cases("dense.json") {
        let (inputs, outputs) = (size(&case["inputs"]), size(&case["outputs"]));
        let layer = DenseConfig::new(outputs).build("dense", Shape::Features(inputs)).unwrap();
        let (x, weights) = (numbers::<E>(&case, "x"), numbers::<E>(&case, "weights"));
        let (bias, dy) = (numbers::<E>(&case, "bias"), numbers::<E>(&case, "dy"));
        let scratch = || dirty::<E>(layer.scratch_len(x.len() / inputs));
        let mut y = dirty::<E>(dy.len());
        layer.forward(&x, &weights, &bias, &mut y);
        same(&case, "y", &y);
        let mut dx = dirty::<E>(x.len());
        layer.backward_data(&dy, &weights, &mut dx, &mut scratch());
        same(&case, "dx", &dx);
        let (mut dweights, mut dbias) = (dirty::<E>(weights.len()), dirty::<E>(bias.len()));
        layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch());
        same(&case, "dweights", &dweights);
        same(&case, "dbias", &dbias);
    }
}

fn softmax_cross_entropy<E: Element>() {
    for case in cases("softmax_cross_entropy.json") {
        let loss = SoftmaxCrossEntropy { classes: size(&case["classes"]) };
        let logits = numbers::<E>(&case, "logits");
        let labels: Vec<u8> = serde_json::from_value(case["labels"].clone()).unwrap();
        let mut dlogits = dirty::<E>(logits.len());
        let partial =
            loss.forward_backward(&logits, &labels, labels.len(), 0, &mut dlogits).unwrap();
        same(&case, "dlogits", &dlogits);
        let (got, wanted) = (partial.loss / labels.len() as f64, case["loss"].as_f64().unwrap());
        let tolerance = (64.0 * E::epsilon().widen()).max(1e-11);
        assert!((got - wanted).abs() <= tolerance * wanted.max(1.0), "got {got}, wanted {wanted}");
    }
}

macro_rules! in_both_precisions {
    ($($layer:ident)*) => {
        mod single { $(#[test] fn $layer() { super::$layer::<f32>(); })* }
        mod double { $(#[test] fn $layer() { super::$layer::<f64>(); })* }
    };
}

in_both_precisions!(conv2d max_pool2d relu dense softmax_cross_entropy);
