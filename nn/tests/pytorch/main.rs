//! Values and gradients of single layers and losses against those of PyTorch, kept in `fixtures/`.

#[path = "../fixtures/mod.rs"]
mod fixtures;
mod losses;
mod shaped;

use fixtures::{cases, numbers};
use millrace_nn::layer::{
    Activation, Alone, AveragePool2dConfig, Conv2dConfig, DenseConfig, Layer, MaxPool2dConfig,
    Mode, Padding, Relu,
};
use millrace_nn::loss::{Compared, Loss, SoftmaxCrossEntropyConfig, Target};
use millrace_nn::{Element, Shape};
use serde_json::Value;
use std::sync::Arc;

fn size(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn sizes<const N: usize>(case: &Value, name: &str) -> [usize; N] {
    std::array::from_fn(|i| size(&case[name][i]))
}

/// Sizes of features or of an image.
fn shape(value: &Value) -> Shape {
    match value.as_array().unwrap().iter().map(size).collect::<Vec<_>>()[..] {
        [features] => Shape::Features(features),
        [channels, height, width] => Shape::image(channels, height, width),
        _ => panic!("{value}"),
    }
}

/// Fails when `got` is further from the case's `name` than some roundings of `E` explain.
#[track_caller]
fn same<E: Element>(case: &Value, name: &str, got: &[E]) {
    let wanted = numbers::<f64>(&case[name]);
    assert_eq!(got.len(), wanted.len(), "{name}");
    let tolerance = tolerance::<E>();
    let largest = wanted.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        let off = (got.widen() - wanted).abs();
        assert!(off <= tolerance * largest, "{name}[{i}]: got {got}, wanted {wanted}");
    }
}

/// Fails when `got` is further from `wanted` than some roundings of `E` explain.
#[track_caller]
fn same_number<E: Element>(wanted: &Value, got: f64) {
    let (wanted, tolerance) = (wanted.as_f64().unwrap(), tolerance::<E>());
    assert!((got - wanted).abs() <= tolerance * wanted.max(1.0), "got {got}, wanted {wanted}");
}

fn tolerance<E: Element>() -> f64 {
    (64.0 * E::epsilon().widen()).max(1e-11)
}

/// A buffer whose old content would show if a layer used it.
fn dirty<E: Element>(len: usize) -> Vec<E> {
    vec![E::nan(); len]
}

/// Samples of shape channels x places, turned to places x channels.
fn channels_last<E: Element>(values: &[E], channels: usize, places: usize) -> Vec<E> {
    let samples = values.chunks_exact(channels * places);
    let turn = |sample: &[E]| {
        let at = |i: usize| sample[i % channels * places + i / channels];
        (0..sample.len()).map(at).collect::<Vec<_>>()
    };
    samples.flat_map(turn).collect()
}

/// Samples of an output that are given as planes, as a layer gives them.
fn from_planes<E: Element>(values: &[E], shape: Shape) -> Vec<E> {
    match shape {
        Shape::Features(_) => values.to_vec(),
        Shape::Image { channels, height, width } => channels_last(values, channels, height * width),
    }
}

/// Fails when `got`, of this shape, is not the case's `name`.
#[track_caller]
fn same_output<E: Element>(case: &Value, name: &str, got: &[E], shape: Shape) {
    match shape {
        Shape::Features(_) => same(case, name, got),
        Shape::Image { .. } => same_planes(case, name, got, shape),
    }
}

/// Fails when `got`, channels last, is not the case's `name`.
#[track_caller]
fn same_planes<E: Element>(case: &Value, name: &str, got: &[E], shape: Shape) {
    let Shape::Image { channels, height, width } = shape else { panic!("an image") };
    // Turned the other way round, places and channels change their parts.
    same(case, name, &channels_last(got, height * width, channels));
}

fn conv2d<E: Element>() {
    for case in cases("conv2d.json") {
        let [channels, height, width] = sizes(&case, "input");
        let padding = if case["padding"] == "same" { Padding::Same } else { Padding::Valid };
        let config = Conv2dConfig::new(size(&case["filters"]), sizes(&case, "kernel"))
            .stride(sizes(&case, "stride"))
            .padding(padding);
        let input = Shape::image(channels, height, width);
        let layer = config.build("conv2d", input).unwrap();
        let places = layer.output().len() / layer.bias_len();
        let x = channels_last(&numbers::<E>(&case["x"]), channels, height * width);
        let dy = channels_last(&numbers::<E>(&case["dy"]), layer.bias_len(), places);
        let (weights, bias) = (numbers::<E>(&case["weights"]), numbers::<E>(&case["bias"]));
        let mut packed = dirty::<E>(layer.packed_len::<E>());
        layer.pack(&weights, &mut packed);
        let scratch = || dirty::<E>(layer.scratch_len::<E>(x.len() / input.len()));
        let mut y = dirty::<E>(dy.len());
        layer.forward(&x, &packed, &bias, false, &mut y, &mut scratch());
        same_planes(&case, "y", &y, layer.output());
        let (mut dx, mut dweights) = (dirty::<E>(x.len()), dirty::<E>(weights.len()));
        let mut dbias = dirty::<E>(bias.len());
        let gradients = [&mut dx[..], &mut dweights, &mut dbias];
        layer.backward([&x, &dy, &packed], gradients, &mut scratch());
        same_planes(&case, "dx", &dx, input);
        same(&case, "dweights", &dweights);
        same(&case, "dbias", &dbias);
    }
}

fn max_pool2d<E: Element>() {
    for case in cases("max_pool2d.json") {
        let [channels, height, width] = sizes(&case, "input");
        let config = MaxPool2dConfig::new(sizes(&case, "window"));
        let input = Shape::image(channels, height, width);
        let layer = config.build("max_pool2d", input).unwrap();
        let places = layer.output().len() / channels;
        let x = channels_last(&numbers::<E>(&case["x"]), channels, height * width);
        let dy = channels_last(&numbers::<E>(&case["dy"]), channels, places);
        let (mut y, mut winners) = (dirty::<E>(dy.len()), vec![255; dy.len()]);
        layer.forward(&x, &mut y, &mut winners);
        same_planes(&case, "y", &y, layer.output());
        let mut dx = dirty::<E>(x.len());
        layer.backward(&winners, &dy, &mut dx);
        same_planes(&case, "dx", &dx, input);
    }
}

fn relu<E: Element>() {
    for case in cases("relu.json") {
        let (mut y, mut dx) = (numbers::<E>(&case["x"]), numbers::<E>(&case["dy"]));
        let relu = Relu::new(Shape::Features(y.len()));
        relu.forward(&mut y);
        same(&case, "y", &y);
        relu.backward(&y, &mut dx);
        same(&case, "dx", &dx);
    }
}

fn activation<E: Element>() {
    for case in cases("activation.json") {
        let activation = match case["kind"].as_str().unwrap() {
            "leaky_relu" => Activation::LeakyRelu { slope: 0.125 },
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "gelu" => Activation::Gelu,
            "gelu_tanh" => Activation::GeluTanh,
            other => panic!("{other}"),
        };
        let x = numbers::<E>(&case["x"]);
        let shape = Shape::Features(x.len());
        let layer = activation.build("activation", shape).unwrap();
        let mut layer = Alone::new(Arc::new(layer), &[shape], Vec::new());
        same(&case, "y", &layer.forward(Mode::train(0), &[&x]));
        same(&case, "dx", &layer.backward(&numbers::<E>(&case["dy"])).x[0]);
    }
}

fn average_pool2d<E: Element>() {
    for case in cases("average_pool2d.json") {
        let [channels, height, width] = sizes(&case, "input");
        let config = if case["window"].is_null() {
            AveragePool2dConfig::global()
        } else {
            AveragePool2dConfig::new(sizes(&case, "window")).stride(sizes(&case, "stride"))
        };
        let input = Shape::image(channels, height, width);
        let layer = Arc::new(config.build("average_pool2d", input).unwrap());
        let output = Layer::<E>::output(&*layer);
        let x = channels_last(&numbers::<E>(&case["x"]), channels, height * width);
        let dy = channels_last(&numbers::<E>(&case["dy"]), channels, output.len() / channels);
        let mut layer = Alone::new(layer, &[input], Vec::new());
        same_planes(&case, "y", &layer.forward(Mode::train(0), &[&x]), output);
        same_planes(&case, "dx", &layer.backward(&dy).x[0], input);
    }
}

fn dense<E: Element>() {
    for case in cases("dense.json") {
        let (inputs, outputs) = (size(&case["inputs"]), size(&case["outputs"]));
        let layer = DenseConfig::new(outputs).build("dense", Shape::Features(inputs)).unwrap();
        let (x, weights) = (numbers::<E>(&case["x"]), numbers::<E>(&case["weights"]));
        let (bias, dy) = (numbers::<E>(&case["bias"]), numbers::<E>(&case["dy"]));
        let mut y = dirty::<E>(dy.len());
        layer.forward(&x, [&weights, &bias], false, &mut y);
        same(&case, "y", &y);
        let mut dx = dirty::<E>(x.len());
        layer.backward_data(&dy, &weights, &mut dx);
        same(&case, "dx", &dx);
        let (mut dweights, mut dbias) = (dirty::<E>(weights.len()), dirty::<E>(bias.len()));
        layer.backward_weights(&x, &dy, &mut dweights, &mut dbias);
        same(&case, "dweights", &dweights);
        same(&case, "dbias", &dbias);
    }
}

fn softmax_cross_entropy<E: Element>() {
    for case in cases("softmax_cross_entropy.json") {
        let output = Shape::Features(size(&case["classes"]));
        let loss = SoftmaxCrossEntropyConfig::new().build(output).unwrap();
        let logits = numbers::<E>(&case["logits"]);
        let labels: Vec<u8> = serde_json::from_value(case["labels"].clone()).unwrap();
        let target = Target::Classes(&labels);
        let mut dlogits = dirty::<E>(logits.len());
        let shard = Compared { output: &logits, target, first: 0 };
        let weight = loss.weight(labels.len(), target);
        let partial = loss.forward_backward(shard, weight, &mut dlogits).unwrap();
        same(&case, "dlogits", &dlogits);
        same_number::<E>(&case["loss"], partial.mean());
    }
}

macro_rules! in_both_precisions {
    ($($layer:ident)*) => {
        mod single { $(#[test] fn $layer() { super::$layer::<f32>(); })* }
        mod double { $(#[test] fn $layer() { super::$layer::<f64>(); })* }
    };
}

use losses::losses;
use shaped::shaped_layers;

in_both_precisions!(
    conv2d max_pool2d relu activation average_pool2d dense softmax_cross_entropy losses shaped_layers
);
