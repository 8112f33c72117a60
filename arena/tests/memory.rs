//! Memory: steady state, limits, sizes, shards, scratch.
#![cfg(not(loom))]

use millrace_arena::{Arena, ArenaError, Backing, scratch};
use millrace_runtime::Runtime;

/// A runtime with `workers` workers.
fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

const BACKINGS: [Backing; 2] = [Backing::Bump, Backing::Mapped];

/// One batch: shards, whole reads, buffers of many sizes. Returns the bytes that it takes.
fn batch(rt: &Runtime, arena: &Arena, samples: usize) -> usize {
    let mut bytes = 0;
    let x = arena.alloc_sharded::<f32>(samples, 784, samples.min(8)).unwrap();
    bytes += (samples * 784 * 4).next_multiple_of(64);
    for i in 0..x.shards() {
        rt.spawn("fill", x.shard(i).overwrite(), |x| x.fill(1.0)).unwrap();
    }
    for layer in 1..12 {
        let len = samples * 4000 / layer + layer;
        let y = arena.alloc::<f32>(len).unwrap();
        bytes += (len * 4).next_multiple_of(64);
        rt.spawn("layer", (x.whole().read(), y.overwrite()), |(x, y)| {
            y.fill(x.iter().sum());
        })
        .unwrap();
    }
    bytes
}

#[test]
fn the_steady_state_makes_no_chunk_whatever_the_depth() {
    for backing in BACKINGS {
        for depth in 1..=3 {
            let rt = runtime(2);
            let arena = Arena::builder(&rt, "batch").depth(depth).backing(backing).build();
            let mut settled = None;
            for epoch in 0..5 {
                // An odd number of batches; the last one is smaller.
                for samples in [64, 64, 64, 64, 17] {
                    batch(&rt, &arena, samples);
                    arena.next().unwrap();
                }
                let statistics = arena.statistics();
                let now = (statistics.chunks, statistics.chunk_bytes);
                if epoch > 0 {
                    assert_eq!(*settled.get_or_insert(now), now, "{backing:?}, depth {depth}");
                }
            }
            rt.wait().unwrap();
        }
    }
}

#[test]
fn a_limit_of_exactly_the_need_settles_too() {
    let rt = runtime(2);
    let need = {
        let arena = Arena::new(&rt, "measure");
        batch(&rt, &arena, 64)
    };
    for backing in BACKINGS {
        for depth in 1..=3 {
            let arena = Arena::builder(&rt, "tight")
                .depth(depth)
                .limit(depth * need)
                .backing(backing)
                .build();
            for _ in 0..5 {
                // No multiple of any depth, so that each slot meets each size.
                for samples in [64, 64, 64, 64, 5] {
                    batch(&rt, &arena, samples);
                    arena.next().unwrap();
                }
            }
            let statistics = arena.statistics();
            assert_eq!(statistics.held, depth * need, "the limit is reached");
            assert_eq!(statistics.chunks, depth);
            assert_eq!(statistics.high_water, need);
            assert_eq!(statistics.total.tail_waste, 0);

            let less = Arena::builder(&rt, "less").depth(depth).limit(depth * need - 64);
            let less = less.backing(backing).build();
            let refused = (0..depth).any(|_| {
                let one = less.alloc::<u8>(need).is_err();
                less.next().unwrap();
                one
            });
            assert!(refused, "64 bytes less do not suffice");
        }
    }
    rt.wait().unwrap();
}

#[test]
fn the_limit_error_names_everything() {
    let rt = runtime(0);
    let arena = Arena::builder(&rt, "small").limit(1024).build();
    arena.alloc::<u8>(500).unwrap();
    let error = arena.alloc::<f32>(200).unwrap_err();
    assert_eq!(
        error.to_string(),
        "arena `small`, generation 0: 800 bytes asked, 512 of the limit of 1024 bytes in use, \
         512 would still fit"
    );
    arena.alloc::<u8>(512).unwrap();
    assert!(matches!(arena.alloc::<u8>(1), Err(ArenaError::Limit { largest: 0, .. })));
    assert_eq!(arena.statistics().limit_refusals, 2);
    arena.reset().unwrap();
    arena.alloc::<u8>(1024).unwrap();
    let none = Arena::builder(&rt, "none").limit(0).build();
    assert!(none.alloc::<u8>(1).is_err());
    assert_eq!(none.alloc::<u8>(0).unwrap().len(), 0, "nothing needs nothing");
}

#[test]
fn chunks_of_a_fixed_size_keep_to_the_limit_and_report_their_tails() {
    let rt = runtime(0);
    let arena = Arena::builder(&rt, "cut").chunk_size(1024).limit(2048).build();
    arena.alloc::<u8>(640).unwrap();
    arena.alloc::<u8>(640).unwrap();
    let statistics = arena.statistics();
    assert_eq!((statistics.chunks, statistics.live.tail_waste), (2, 384));
    assert_eq!(statistics.held, 1280, "a tail that was not handed out is not held");
    assert!(matches!(arena.alloc::<u8>(800), Err(ArenaError::Limit { largest: 768, .. })));
    arena.alloc::<u8>(768).expect("what is said to fit does");
}

#[test]
fn impossible_sizes_are_errors() {
    let rt = runtime(0);
    let arena = Arena::new(&rt, "huge");
    for len in [usize::MAX, usize::MAX / 4, isize::MAX as usize / 4, 1 << 38] {
        assert!(matches!(arena.alloc::<f32>(len), Err(ArenaError::TooLarge { .. })), "{len}");
    }
    let error = arena.alloc_sharded::<f32>(usize::MAX, usize::MAX, 1).unwrap_err();
    assert!(matches!(error, ArenaError::TooLarge { .. }), "{error}");
    assert!(matches!(arena.alloc_sharded::<f32>(4, 4, 0), Err(ArenaError::Shards { .. })));
    arena.alloc::<f32>(1).expect("still usable");
}

#[test]
fn a_limit_beyond_the_address_space_does_not_stop_small_buffers() {
    let rt = runtime(0);
    for backing in BACKINGS {
        let arena = Arena::builder(&rt, "wide").limit(usize::MAX).backing(backing).build();
        arena.alloc::<f32>(1000).unwrap();
    }
}

#[test]
fn buffers_are_aligned_disjoint_and_initialised() {
    let rt = runtime(0);
    for backing in BACKINGS {
        let arena = Arena::builder(&rt, "plain").backing(backing).build();
        for round in 0..3 {
            let buffers: Vec<_> =
                (0..50).map(|i| arena.alloc::<u16>(i * i * 37 % 4000).unwrap()).collect();
            for (i, buffer) in buffers.iter().enumerate() {
                let mut guard = buffer.acquire_mut().unwrap();
                assert_eq!(guard.as_ptr() as usize % 64, 0);
                if round == 0 {
                    assert!(guard.iter().all(|x| *x == 0));
                } else if cfg!(debug_assertions) {
                    assert!(guard.iter().all(|x| *x == 0xFFFF), "ended memory is poisoned");
                }
                guard.fill(i as u16);
            }
            for (i, buffer) in buffers.iter().enumerate() {
                assert!(buffer.acquire().unwrap().iter().all(|x| *x == i as u16));
            }
            arena.reset().unwrap();
        }
    }
}

#[test]
fn shards_cover_the_rows_in_near_equal_runs() {
    let rt = runtime(2);
    let arena = Arena::new(&rt, "shards");
    for (rows, shards) in [(10, 3), (7, 7), (3, 5), (0, 2), (64, 1)] {
        let x = arena.alloc_sharded::<u32>(rows, 3, shards).unwrap();
        assert_eq!(
            (x.rows(), x.row_len(), x.shards(), x.whole().len()),
            (rows, 3, shards, rows * 3)
        );
        let mut next = 0;
        for i in 0..shards {
            let range = x.shard_rows(i);
            assert_eq!(range.start, next);
            assert!(range.len().abs_diff(rows / shards) <= 1);
            assert_eq!(x.shard(i).len(), range.len() * 3);
            next = range.end;
            rt.spawn("fill", x.shard(i).overwrite(), move |x| x.fill(i as u32)).unwrap();
        }
        assert_eq!(next, rows);
        let whole = x.whole().acquire().unwrap();
        for i in 0..shards {
            let range = x.shard_rows(i);
            assert!(whole[range.start * 3..range.end * 3].iter().all(|v| *v == i as u32));
        }
    }
}

#[test]
fn a_shard_and_the_whole_conflict() {
    let rt = runtime(0);
    let arena = Arena::new(&rt, "conflict");
    let x = arena.alloc_sharded::<u32>(4, 1, 2).unwrap();
    assert!(rt.spawn("t", (x.whole().read(), x.shard(1).write()), |_| ()).is_err());
    rt.spawn("t", (x.shard(0).write(), x.shard(1).write()), |(a, b)| {
        assert_eq!((a.len(), b.len()), (2, 2));
    })
    .unwrap();
    rt.wait().unwrap();
}

#[test]
fn scratch_is_disjoint_and_kept_between_bodies() {
    let rt = runtime(1);
    let run = |count: usize| {
        for _ in 0..count {
            let access = (scratch::<f32>(1000), scratch::<u8>(10), scratch::<[u8; 12]>(333));
            rt.spawn("scratch", access, |(a, b, c)| {
                assert_eq!((a.len(), b.len(), c.len()), (1000, 10, 333));
                assert_eq!(a.as_ptr() as usize % 64, 0);
                a.fill(1.0);
                b.fill(2);
                c.fill([3; 12]);
                assert!(a.iter().all(|x| *x == 1.0) && b.iter().all(|x| *x == 2));
            })
            .unwrap();
        }
        rt.wait().unwrap();
    };
    run(1);
    let first = millrace_arena::scratch_statistics();
    run(100);
    // Other tests run beside this one, so compare what this runtime's only worker holds.
    assert!(first.blocks >= 3 && first.bytes >= 4000 + 64 + 3996);
    rt.spawn("none", scratch::<f64>(0), |x| assert!(x.is_empty())).unwrap();
    rt.wait().unwrap();
    rt.spawn("impossible", scratch::<f64>(usize::MAX), |_| ()).unwrap();
    let error = rt.wait().unwrap_err().to_string();
    assert!(error.contains("impossible") && error.contains("scratch"), "{error}");
}

#[test]
fn a_name_serves_again_after_its_arena_is_gone() {
    let rt = runtime(2);
    for _ in 0..100 {
        let arena = Arena::builder(&rt, "short").depth(2).build();
        let x = arena.alloc::<f32>(10).unwrap();
        rt.spawn("fill", x.overwrite(), |x| x.fill(1.0)).unwrap();
        arena.next().unwrap();
        let y = arena.alloc::<f32>(10).unwrap();
        rt.spawn("fill", y.overwrite(), |y| y.fill(1.0)).unwrap();
    }
    rt.wait().unwrap();
}
