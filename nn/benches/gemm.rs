//! Two matrix products that can be called without unsafe code, at the shapes of small networks.
//!
//! `cargo bench -p millrace-nn --bench gemm`; results and choice are in `GEMM.md`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millrace_nn::{Matrix, gemm};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use std::time::Duration;

/// Name, rows of the product, columns, terms, and whether each operand is stored transposed.
const SHAPES: &[(&str, usize, usize, usize, bool, bool)] = &[
    ("reference conv forward, image", 4, 676, 9, false, false),
    ("reference conv weights, image", 4, 9, 676, false, true),
    ("reference dense forward, batch 10", 10, 10, 676, false, true),
    ("reference dense forward, shard of 5", 5, 10, 676, false, true),
    ("reference dense by data, shard of 5", 5, 676, 10, false, false),
    ("reference dense weights, shard of 5", 10, 676, 5, true, false),
    ("N1 conv1 forward, image", 8, 676, 9, false, false),
    ("N1 conv2 forward, image", 16, 121, 72, false, false),
    ("N1 conv2 weights, image", 16, 72, 121, false, true),
    ("N1 conv2 by data, image", 72, 121, 16, true, false),
    ("N1 dense forward, shard of 8", 8, 10, 400, false, true),
    ("N2 conv1 forward, image", 32, 784, 25, false, false),
    ("N2 conv2 forward, image", 64, 196, 800, false, false),
    ("N2 conv2 weights, image", 64, 800, 196, false, true),
    ("N2 conv2 by data, image", 800, 196, 64, true, false),
    ("N2 dense1 forward, shard of 8", 8, 512, 3136, false, true),
    ("N2 dense1 by data, shard of 8", 8, 3136, 512, false, false),
    ("N2 dense1 weights, shard of 8", 512, 3136, 8, true, false),
    ("N2 dense1 forward, shard of 32", 32, 512, 3136, false, true),
    ("N2 dense1 weights, shard of 32", 512, 3136, 32, true, false),
    ("N3 conv2 forward, image", 32, 1024, 288, false, false),
    ("N3 conv3 by data, image", 288, 256, 64, true, false),
    ("N3 conv4 forward, image", 64, 256, 576, false, false),
    ("N3 conv4 weights, image", 64, 576, 256, false, true),
    ("N3 dense1 forward, shard of 32", 32, 256, 4096, false, true),
    ("N3 dense2 forward, shard of 32", 32, 10, 256, false, true),
];

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5).collect()
}

fn products(criterion: &mut Criterion) {
    for &(name, m, n, k, left, right) in SHAPES {
        let (a, b, mut c) = (values(m * k), values(k * n), vec![0.0f32; m * n]);
        let mut group = criterion.benchmark_group(format!("{name} {m}x{n}x{k}"));
        group.throughput(Throughput::Elements(2 * (m * n * k) as u64));
        group.bench_function(BenchmarkId::from_parameter("faer"), |bencher| {
            let matrix = |values, transposed, rows, columns| {
                if transposed {
                    Matrix::new(values, columns, rows).transposed()
                } else {
                    Matrix::new(values, rows, columns)
                }
            };
            bencher.iter(|| gemm(matrix(&a, left, m, k), matrix(&b, right, k, n), false, &mut c));
        });
        group.bench_function(BenchmarkId::from_parameter("ndarray"), |bencher| {
            let matrix = |values, transposed, rows: usize, columns: usize| {
                let shape = (rows, columns).set_f(transposed);
                ArrayView2::from_shape(shape, values).expect("the length fits")
            };
            bencher.iter(|| {
                let mut c = ArrayViewMut2::from_shape((m, n), &mut c[..]).expect("the length fits");
                general_mat_mul(
                    1.0,
                    &matrix(&a[..], left, m, k),
                    &matrix(&b[..], right, k, n),
                    0.0,
                    &mut c,
                );
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = products
}
criterion_main!(benches);
