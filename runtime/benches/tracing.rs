//! What taking times costs: `cargo bench -p millrace-runtime --bench tracing`.
//!
//! The groups `tracing ...` run the same graph of empty bodies with times off, with timing on,
//! and while a trace is recorded; the throughput is in tasks, so the differences are the costs
//! per task. Without workers, one thread does all of it: submission, execution, recording. The
//! group `durations` compares ways to count a time.
#![cfg(not(loom))]

use std::sync::Mutex;
use std::time::Duration;

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use histogram::AtomicHistogram;
use millrace_runtime::Runtime;
use millrace_runtime::scenarios::{Body, Scenario};

/// What is recorded.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    Off,
    Timing,
    Trace,
}

fn run(bencher: &mut Bencher<'_>, scenario: &Scenario, workers: usize, times: Times) {
    let builder = Runtime::builder().workers(workers).main_helps(true);
    let rt = builder.timing(times == Times::Timing).build().expect("a runtime");
    bencher.iter_custom(|rounds| {
        let mut total = Duration::ZERO;
        for _ in 0..rounds {
            if times == Times::Trace {
                // Empties the buffers.
                rt.trace_start();
            }
            total += scenario.run(&rt, Body::Empty).expect("runs").total;
        }
        total
    });
}

fn tracing(criterion: &mut Criterion) {
    for workers in [0, 1, 2] {
        for name in ["chain", "independent"] {
            let scenario = Scenario::sized(name, 20_000).expect("known");
            let mut group = criterion.benchmark_group(format!("tracing {name} {workers} workers"));
            group.throughput(Throughput::Elements(scenario.len() as u64));
            group.sample_size(20).measurement_time(Duration::from_secs(2));
            for (label, times) in
                [("off", Times::Off), ("timing", Times::Timing), ("trace", Times::Trace)]
            {
                group.bench_function(label, |bencher| run(bencher, &scenario, workers, times));
            }
        }
    }
}

/// Times between 0 and 1 ms, as fast as they can be drawn.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state & 0xf_ffff
}

fn durations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("durations");
    let mut state = 1;
    group.bench_function("none: drawing a number", |bencher| {
        bencher.iter(|| random(&mut state));
    });
    let buckets = AtomicHistogram::new(5, 44).expect("valid parameters");
    group.bench_function("atomic buckets", |bencher| {
        bencher.iter(|| buckets.increment(random(&mut state)));
    });
    let hdr = || hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 44, 2).expect("valid");
    let mut alone = hdr();
    group.bench_function("hdrhistogram", |bencher| {
        bencher.iter(|| alone.record(random(&mut state)));
    });
    let locked = Mutex::new(hdr());
    group.bench_function("hdrhistogram behind a lock", |bencher| {
        bencher.iter(|| locked.lock().expect("no panics").record(random(&mut state)));
    });
}

criterion_group!(benches, durations, tracing);
criterion_main!(benches);
