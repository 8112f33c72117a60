//! Time of the products of each layer on one shard, in GFLOP/s; the FMA peak of one core of the
//! machine on which the kernels were tuned is 96 GFLOP/s.
//!
//! `cargo bench -p millrace-nn --bench layers`

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millrace_nn::layer::{
    Conv2d, Conv2dConfig, Dense, DenseConfig, MaxPool2d, MaxPool2dConfig, Padding, Relu,
};
use millrace_nn::loss::{Compared, Loss, SoftmaxCrossEntropyConfig, Target};
use millrace_nn::{Matrix, Shape, gemm};

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// The products of the ready networks: a name, and settings and input of a layer.
fn convolutions() -> [(&'static str, Conv2dConfig, Shape); 9] {
    let conv2d = |filters, side| Conv2dConfig::new(filters, [side, side]);
    let same = |filters, side| conv2d(filters, side).padding(Padding::Same);
    [
        ("reference", conv2d(4, 3), Shape::image(1, 28, 28)),
        ("N1", conv2d(8, 3), Shape::image(1, 28, 28)),
        ("N1", conv2d(16, 3), Shape::image(8, 13, 13)),
        ("N2", same(32, 5), Shape::image(1, 28, 28)),
        ("N2", same(64, 5), Shape::image(32, 14, 14)),
        ("N3", same(32, 3), Shape::image(3, 32, 32)),
        ("N3", same(32, 3), Shape::image(32, 32, 32)),
        ("N3", same(64, 3), Shape::image(32, 16, 16)),
        ("N3", same(64, 3), Shape::image(64, 16, 16)),
    ]
}

fn layers(criterion: &mut Criterion) {
    const SAMPLES: usize = 8;
    for (network, config, input) in convolutions() {
        let name = format!("{network} {SAMPLES} samples, conv2d of {input}");
        let layer = config.build(&name, input).expect("it fits");
        let values = [SAMPLES, SAMPLES * input.len(), SAMPLES * layer.output().len()];
        conv2d(criterion, &name, &layer, values);
    }
    for (network, inputs, features) in [
        ("reference", 676, 10),
        ("N1", 400, 10),
        ("N2", 3136, 512),
        ("N2", 512, 10),
        ("N3", 4096, 256),
        ("N3", 256, 10),
    ] {
        for samples in [SAMPLES, 4 * SAMPLES] {
            let name = format!("{network} {samples} samples, dense of {inputs}");
            let layer = DenseConfig::new(features).build(&name, Shape::Features(inputs));
            dense(criterion, &name, &layer.expect("it fits"), samples);
        }
    }
    for (network, input) in [
        ("reference", Shape::image(4, 26, 26)),
        ("N1", Shape::image(8, 26, 26)),
        ("N1", Shape::image(16, 11, 11)),
        ("N3", Shape::image(32, 32, 32)),
    ] {
        let name = format!("{network} 3 samples, pool of {input}");
        let pool = MaxPool2dConfig::new([2, 2]).build(&name, input).expect("it fits");
        max_pool2d(criterion, &name, &pool, [3 * input.len(), 3 * pool.output().len()]);
    }
    let input = Shape::image(4, 26, 26);
    let name = format!("reference 3 samples, relu of {input}");
    relu(criterion, &name, Shape::Features(3 * input.len()));
    let loss = SoftmaxCrossEntropyConfig::new().build(Shape::Features(10)).expect("it fits");
    let (logits, mut dlogits, labels) = (values(100), values(100), [3; 10]);
    criterion.bench_function("softmax_cross_entropy 10 samples", |bencher| {
        let shard = Compared { output: &logits[..], target: Target::Classes(&labels), first: 0 };
        bencher.iter(|| loss.forward_backward(shard, 10.0, &mut dlogits));
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
    let mut scratch = values(layer.scratch_len::<f32>(samples));
    let mut packed = values(layer.packed_len::<f32>());
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(samples as u64 * layer.flops()));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| layer.forward(&x, &packed, &bias, true, &mut y, &mut scratch));
    });
    group.bench_function("by data", |bencher| {
        bencher.iter(|| layer.backward_data(&dy, &packed, &mut dx, &mut scratch));
    });
    group.bench_function("by weights", |bencher| {
        bencher.iter(|| {
            let gradients = [&mut [][..], &mut dweights, &mut dbias];
            layer.backward([&x, &dy, &packed], gradients, &mut scratch);
        });
    });
    // Once per batch, not per shard; its rate says nothing.
    group.bench_function("pack", |bencher| bencher.iter(|| layer.pack(&weights, &mut packed)));
}

fn dense(criterion: &mut Criterion, name: &str, layer: &Dense, samples: usize) {
    let outputs = layer.bias_len();
    let inputs = layer.weights_len() / outputs;
    let (x, dy) = (values(samples * inputs), values(samples * outputs));
    let (weights, bias) = (values(layer.weights_len()), values(outputs));
    let (mut y, mut dx) = (dy.clone(), x.clone());
    let (mut dweights, mut dbias) = (weights.clone(), bias.clone());
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(samples as u64 * layer.flops()));
    group.bench_function("forward", |bencher| {
        bencher.iter(|| layer.forward(&x, [&weights, &bias], true, &mut y));
    });
    group.bench_function("by data", |bencher| {
        bencher.iter(|| layer.backward_data(&dy, &weights, &mut dx));
    });
    group.bench_function("by weights", |bencher| {
        bencher.iter(|| layer.backward_weights(&x, &dy, &mut dweights, &mut dbias));
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
    group.throughput(Throughput::Elements(inputs as u64));
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
