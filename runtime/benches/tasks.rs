//! The cost of a task by scenario: `cargo bench -p millrace-runtime`.
//!
//! One iteration is a whole run of a scenario with empty bodies; the throughput is in tasks.
//! `millrace bench runtime` measures the same graphs with longer bodies, and other runtimes
//! beside them.
#![cfg(not(loom))]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millrace_runtime::Runtime;
use millrace_runtime::scenarios::{Body, NAMES, Scenario};

fn scenarios(criterion: &mut Criterion) {
    for workers in [1, 2] {
        let builder = Runtime::builder().workers(workers).main_helps(true).timing(false);
        let rt = builder.build().expect("a runtime");
        let mut group = criterion.benchmark_group(format!("{workers} workers"));
        group.sample_size(10).measurement_time(Duration::from_secs(2));
        for name in NAMES {
            let scenario = Scenario::new(name, Duration::ZERO).expect("known");
            group.throughput(Throughput::Elements(scenario.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter(|| scenario.run(&rt, Body::Empty).expect("runs"));
            });
        }
    }
}

/// The same graphs, recorded once; each iteration replays one.
fn replays(criterion: &mut Criterion) {
    for workers in [1, 2] {
        let builder = Runtime::builder().workers(workers).main_helps(true).timing(false);
        let rt = builder.build().expect("a runtime");
        let mut group = criterion.benchmark_group(format!("{workers} workers, replayed"));
        group.sample_size(10).measurement_time(Duration::from_secs(2));
        for name in NAMES {
            let scenario = Scenario::new(name, Duration::ZERO).expect("known");
            scenario.check_replay(&rt).expect("in order");
            let mut recorded = scenario.record(&rt, Body::Empty).expect("recorded");
            group.throughput(Throughput::Elements(scenario.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter(|| recorded.run(&rt).expect("runs"));
            });
        }
    }
}

fn waits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("waits");
    let builder = Runtime::builder().workers(2).main_helps(true).timing(false);
    let rt = builder.build().expect("a runtime");
    let handles = rt.handles(1).expect("a handle");
    group.bench_function("one task, then wait", |bencher| {
        bencher.iter(|| {
            rt.spawn("task", handles.write(0), |()| ()).expect("accepted");
            rt.wait().expect("nothing fails");
        });
    });
    group.bench_function("wait for nothing", |bencher| {
        bencher.iter(|| rt.wait().expect("nothing fails"));
    });
    group.bench_function("acquire an idle handle", |bencher| {
        bencher.iter(|| rt.acquire(handles.write(0)).expect("idle"));
    });
    group.bench_function("register and release a handle", |bencher| {
        bencher.iter(|| rt.handles(1).expect("a handle"));
    });
}

/// What a reading of the clock costs, and that a further runtime does not measure it anew.
fn clock(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clock");
    let rt = Runtime::builder().workers(0).build().expect("a runtime");
    let start = Instant::now();
    group.bench_function("of the runtime", |bencher| bencher.iter(|| rt.now_ns()));
    group.bench_function("of the system", |bencher| bencher.iter(|| start.elapsed().as_nanos()));
    group.bench_function("build a runtime without workers", |bencher| {
        bencher.iter(|| Runtime::builder().workers(0).build().expect("a runtime"));
    });
}

criterion_group!(benches, clock, scenarios, replays, waits);
criterion_main!(benches);
