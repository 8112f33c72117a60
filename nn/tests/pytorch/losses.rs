//! The losses: the mean over a batch and its gradient, also where the batch is cut into shards.

use millrace_nn::loss::{
    BinaryCrossEntropyConfig, Compared, Loss, MeanSquaredErrorConfig, Partial,
    SoftmaxCrossEntropyConfig, Target,
};
use millrace_nn::{Element, Shape};
use serde_json::Value;

use super::fixtures::{cases, numbers};
use super::{dirty, from_planes, same_number, same_output, shape};

fn build<E: Element>(case: &Value, output: Shape) -> Box<dyn Loss<E>> {
    let weights: Option<Vec<f64>> = serde_json::from_value(case["weights"].clone()).unwrap();
    match case["kind"].as_str().unwrap() {
        "softmax_cross_entropy" => Box::new(
            SoftmaxCrossEntropyConfig {
                class_weights: weights,
                smoothing: case["smoothing"].as_f64().unwrap(),
                ignore: case["ignore"].as_u64().map(|ignore| ignore as u8),
                probabilities: case["labels"].is_null(),
            }
            .build(output)
            .unwrap(),
        ),
        "mean_squared_error" => Box::new(MeanSquaredErrorConfig.build(output).unwrap()),
        "binary_cross_entropy" => {
            Box::new(BinaryCrossEntropyConfig { positive_weights: weights }.build(output).unwrap())
        }
        other => panic!("{other}"),
    }
}

/// The whole batch, cut after the first sample.
pub(super) fn losses<E: Element>() {
    for case in cases("losses.json") {
        let output = shape(&case["shape"]);
        let loss = build::<E>(&case, output);
        let labels: Option<Vec<u8>> = serde_json::from_value(case["labels"].clone()).unwrap();
        let values = case["values"].as_array().map(|_| numbers::<E>(&case["values"]));
        let logits = from_planes(&numbers::<E>(&case["output"]), output);
        let samples = logits.len() / output.len();
        // What some samples are compared with.
        let target = |range: std::ops::Range<usize>| match (&labels, &values) {
            (Some(labels), _) => {
                let len = labels.len() / samples;
                Target::Classes(&labels[range.start * len..range.end * len])
            }
            (_, Some(values)) => {
                Target::Values(&values[range.start * output.len()..range.end * output.len()])
            }
            _ => panic!("no target"),
        };
        let weight = loss.weight(samples, target(0..samples));
        let mut gradient = dirty::<E>(logits.len());
        let mut sum = Partial::default();
        for range in [0..1, 1..samples] {
            let values = range.start * output.len()..range.end * output.len();
            let output = &logits[values.clone()];
            let shard = Compared { output, target: target(range.clone()), first: range.start };
            sum += loss.forward_backward(shard, weight, &mut gradient[values]).unwrap();
        }
        assert!((sum.weight - weight).abs() < 1e-12 * weight, "{case}");
        same_number::<E>(&case["loss"], sum.mean());
        same_output(&case, "gradient", &gradient, output);
    }
}
