//! Time of the products of each layer on one shard, in GFLOP/s; the FMA peak of one core of the
//! machine on which the kernels were tuned is 96 GFLOP/s.
//!
//! `cargo bench -p millrace-nn --bench layers`

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millrace_nn::layer::{Conv2d, Dense, MaxPool2d, Relu};
use millrace_nn::{LayerKind, Matrix, Network, Shape, SoftmaxCrossEntropy, gemm};

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5).collect()
}

fn layers(criterion: &mut Criterion) {
    for (network_name, network, samples) in [
        ("reference", Network::reference(), 3),
        ("N1", Network::n1(), 8),
        ("N2", Network::n2(), 8),
        ("N3", Network::n3(), 8),
        ("N2", Network::n2(), 32),
        ("N3", Network::n3(), 32),
    ] {
        for node in network.layers() {
            let name = format!("{network_name} {} samples, {}", samples, node.name());
            let (inputs, outputs) = (samples * node.input().len(), samples * node.output().len());
            match node.kind() {
                LayerKind::Conv2d(layer) if samples < 32 => {
                    conv2d(criterion, &name, layer, [samples, inputs, outputs]);
                }
                LayerKind::Dense(layer) => dense(criterion, &name, layer, samples),
                LayerKind::MaxPool2d(layer) if network_name == "reference" => {
                    max_pool2d(criterion, &name, layer, [inputs, outputs]);
                }
                LayerKind::Relu if network_name == "reference" => {
                    relu(criterion, &name, node.output())
                }
                _ => {}
            }
        }
    }
    let loss = SoftmaxCrossEntropy { classes: 10 };
    let (logits, mut dlogits, labels) = (values(100), values(100), [3; 10]);
    criterion.bench_function("softmax_cross_entropy 10 samples", |bencher| {
        bencher.iter(|| loss.forward_backward(&logits, &labels, 10, 0, &mut dlogits));
    });
}

fn conv2d(
    criterion: &mut Criterion,
    name: &str,
    layer: &Conv2d,
    [samples, inputs, outputs]: [usize; 3],
) {
    let (x, dy) = (values(inputs), values(outputs));
    let (weights, bias) = (values(layer.weights_len()), values(layer.bias_len()));
    let (mut y, mut dx) = (dy.clone(), x.clone());
    let (mut dweights, mut dbias) = (weights.clone(), bias.clone());
    let mut scratch = values(layer.scratch_len());
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(samples as u64 * layer.flops()));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| layer.forward(&x, &weights, &bias, &mut y, &mut scratch));
    });
    group.bench_function("by data", |bencher| {
        bencher.iter(|| layer.backward_data(&dy, &weights, &mut dx, &mut scratch));
    });
    group.bench_function("by weights", |bencher| {
        bencher.iter(|| layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch));
    });
}

fn dense(criterion: &mut Criterion, name: &str, layer: &Dense, samples: usize) {
    let outputs = layer.bias_len();
    let inputs = layer.weights_len() / outputs;
    let (x, dy) = (values(samples * inputs), values(samples * outputs));
    let (weights, bias) = (values(layer.weights_len()), values(outputs));
    let (mut y, mut dx) = (dy.clone(), x.clone());
    let (mut dweights, mut dbias) = (weights.clone(), bias.clone());
    let mut scratch = values(layer.scratch_len(samples));
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(samples as u64 * layer.flops()));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| layer.forward(&x, &weights, &bias, &mut y));
    });
    group.bench_function("by data", |bencher| {
        bencher.iter(|| layer.backward_data(&dy, &weights, &mut dx, &mut scratch));
    });
    group.bench_function("by weights", |bencher| {
        bencher.iter(|| layer.backward_weights(&x, &dy, &mut dweights, &mut dbias, &mut scratch));
    });
    // What the product alone would take, to see where packing pays.
    let x = Matrix::new(&x, samples, inputs);
    let dy = Matrix::new(&dy, samples, outputs);
    let weights = Matrix::new(&weights, outputs, inputs);
    group.bench_function("forward, product", |bencher| {
        bencher.iter(|| gemm(x, weights.transposed(), false, &mut y));
    });
    group.bench_function("by data, product", |bencher| {
        bencher.iter(|| gemm(dy, weights, false, &mut dx));
    });
    group.bench_function("by weights, product", |bencher| {
        bencher.iter(|| gemm(dy.transposed(), x, false, &mut dweights));
    });
}

fn max_pool2d(
    criterion: &mut Criterion,
    name: &str,
    layer: &MaxPool2d,
    [inputs, outputs]: [usize; 2],
) {
    let (mut x, mut y, mut winners) = (values(inputs), values(outputs), vec![0; outputs]);
    let mut group = criterion.benchmark_group(name);
    group.bench_function("forward", |bencher| {
        bencher.iter(|| layer.forward(&x, &mut y, &mut winners));
    });
    group.bench_function("backward", |bencher| {
        bencher.iter(|| layer.backward(&winners, &y, &mut x));
    });
}

fn relu(criterion: &mut Criterion, name: &str, shape: Shape) {
    let relu = Relu::new(shape);
    let (y, mut values) = (values(shape.len()), values(shape.len()));
    let mut group = criterion.benchmark_group(name);
    group.bench_function("forward", |bencher| bencher.iter(|| relu.forward(&mut values)));
    group.bench_function("backward", |bencher| bencher.iter(|| relu.backward(&y, &mut values)));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = layers
}
criterion_main!(benches);
