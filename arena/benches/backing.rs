//! The two backings of a chunk, measured against each other.
//!
//! `cargo bench -p millrace-arena --bench backing`; `BACKING.md` keeps the results.
#![allow(unsafe_code, reason = "touches the blocks of a chunk, which are raw memory")]
#![allow(dead_code, reason = "the included module has more than the benches use")]
#![allow(unreachable_pub, reason = "a module of the crate, included by path")]
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

#[path = "../src/chunk.rs"]
mod chunk;

use chunk::{Backing, Chunk};

/// Bytes of a batch. It is taken in 16 equal blocks.
const BATCHES: [usize; 6] = [8 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20, 64 << 20];
const BLOCKS: usize = 16;
const BACKINGS: [Backing; 2] = [Backing::Bump, Backing::Mapped];

/// Allocates a batch; `touch` writes one value per 4096 bytes, as the first use of a page does.
fn batch(chunk: &mut Chunk, bytes: usize, touch: bool) {
    let size = bytes / BLOCKS;
    for _ in 0..BLOCKS {
        let block = black_box(chunk.alloc(size).expect("the chunk has the batch's size"));
        for offset in (0..size).step_by(4096).filter(|_| touch) {
            // SAFETY: within the block.
            let place = unsafe { block.as_ptr().add(offset) };
            // SAFETY: nobody else uses the block.
            unsafe { place.write_volatile(1) };
        }
    }
}

fn label(backing: Backing) -> &'static str {
    match backing {
        Backing::Bump => "bump",
        _ => "mapped",
    }
}

fn backings(c: &mut Criterion) {
    for (name, touch, first) in
        [("first round", true, true), ("steady round", true, false), ("allocation", false, false)]
    {
        let mut group = c.benchmark_group(name);
        group.sample_size(20).warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_millis(800));
        for bytes in BATCHES {
            for backing in BACKINGS {
                if !touch {
                    group.throughput(Throughput::Elements(BLOCKS as u64));
                }
                let id = BenchmarkId::new(label(backing), bytes);
                if first {
                    // A new chunk each time; its making counts, its end does not.
                    group.bench_function(id, |b| {
                        b.iter_custom(|rounds| {
                            (0..rounds).map(|_| first_round(backing, bytes)).sum()
                        });
                    });
                    continue;
                }
                let mut chunk = Chunk::new(backing, bytes).expect("memory");
                batch(&mut chunk, bytes, true);
                chunk.rewind();
                group.bench_function(id, |b| {
                    b.iter(|| {
                        batch(&mut chunk, bytes, touch);
                        chunk.rewind();
                    });
                });
            }
        }
        group.finish();
    }
}

fn first_round(backing: Backing, bytes: usize) -> Duration {
    let start = Instant::now();
    let mut chunk = Chunk::new(backing, bytes).expect("memory");
    batch(&mut chunk, bytes, true);
    let time = start.elapsed();
    drop(chunk);
    time
}

criterion_group!(benches, backings);
criterion_main!(benches);
