//! What users see of arenas, call by call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use millrace_arena::{Arena, ArenaError, Backing, Buffer, scratch};
use millrace_runtime::trace::Cause;
use millrace_runtime::{Runtime, SubmitError, WaitError};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

type End = fn(&Arena);

/// The error that a task gets which uses `buffer`.
fn stale(rt: &Runtime, buffer: Buffer<f32>) -> (String, u32, u32) {
    let never = |_: &[f32]| unreachable!("it should have been refused");
    let body = move |x: &[f32]| -> () { never(x) };
    match rt.spawn("late", buffer.read(), body).expect_err("refused") {
        SubmitError::Stale { task: "late", owner, held, current } => {
            match buffer.acquire().map(|_| ()).expect_err("refused") {
                WaitError::Refused(SubmitError::Stale { .. }) => {}
                other => panic!("{other}"),
            }
            (owner, held, current)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn stale_buffers_are_refused_and_named() {
    for workers in [0, 2] {
        let rt = runtime(workers);
        let arena = Arena::builder(&rt, "stale").depth(2).build();
        let ends: [(&str, End); 3] = [
            ("reset", |arena| arena.reset().expect("no failure")),
            ("next", |arena| arena.next().expect("no failure")),
            ("recycle", Arena::recycle),
        ];
        for (call, end) in ends {
            let old = arena.alloc::<f32>(10).expect("memory");
            rt.spawn("touch", old.overwrite(), |x| x.fill(1.0)).expect("alive");
            end(&arena);
            let (owner, held, current) = stale(&rt, old);
            assert_eq!((owner.as_str(), current), ("stale", held + 1), "{call}");
        }
        arena.next().expect("no failure");
        let last = arena.alloc::<f32>(10).expect("memory");
        drop(arena);
        assert_eq!(stale(&rt, last).0, "stale");
        // The slot serves another arena of that name now; the old buffer stays refused.
        let _again = Arena::new(&rt, "stale").alloc::<f32>(10).expect("memory");
        stale(&rt, last);
        rt.wait().expect("no failure");
    }
}

#[test]
fn staleness_follows_program_order_not_timing() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "slow");
    let buffer = arena.alloc::<f32>(4).expect("memory");
    let (let_go, gate) = mpsc::channel::<()>();
    let seen = Arena::new(&rt, "seen");
    let sum = seen.alloc::<f32>(1).expect("memory");
    let body = move |x: &mut [f32]| {
        gate.recv().expect("let go");
        x.fill(2.0);
    };
    rt.spawn("slow", buffer.overwrite(), body).expect("alive");
    let read = (buffer.read(), sum.overwrite());
    rt.spawn("sum", read, |(x, sum)| sum[0] = x.iter().sum()).expect("alive");
    arena.recycle();
    // Both tasks have yet to run, and will; nothing new may come.
    stale(&rt, buffer);
    assert!(matches!(arena.alloc::<f32>(1), Err(ArenaError::Ended { .. })));
    let_go.send(()).expect("the task waits");
    assert_eq!(sum.acquire().expect("valid")[0], 8.0);
}

#[test]
fn a_dropped_arena_keeps_its_memory_until_its_tasks_have_ended() {
    let rt = runtime(1);
    let seen = Arena::new(&rt, "seen");
    let sum = seen.alloc::<f32>(1).expect("memory");
    let (let_go, gate) = mpsc::channel::<()>();
    for backing in [Backing::Bump, Backing::Mapped] {
        let arena = Arena::builder(&rt, "short").backing(backing).build();
        let buffer = arena.alloc::<f32>(1 << 20).expect("memory");
        rt.spawn("fill", buffer.overwrite(), |x| x.fill(1.0)).expect("alive");
        if backing == Backing::Bump {
            let_go.send(()).expect("not received yet");
        }
        let read = (buffer.read(), sum.overwrite());
        rt.spawn("sum", read, |(x, sum)| sum[0] = x.iter().sum()).expect("alive");
        drop(arena);
        assert_eq!(sum.acquire().expect("valid")[0], (1 << 20) as f32);
    }
    drop(gate);
}

/// Runs epochs of batches on a ring and returns the chunks after the second epoch and at the
/// end, and how often a batch waited for its slot.
fn epochs(workers: usize, depth: usize, limit: Option<usize>, batches: usize) -> (usize, usize) {
    let rt = runtime(workers);
    let arena = Arena::builder(&rt, "batch").depth(depth);
    let arena = limit.map_or(Arena::builder(&rt, "batch").depth(depth), |l| arena.limit(l)).build();
    let mut settled = 0;
    for epoch in 0..6 {
        for batch in 0..batches {
            arena.next().expect("no failure");
            // The last batch is smaller, as in training.
            let rows = if batch + 1 == batches { 3 } else { 10 };
            let x = arena.alloc_sharded::<f32>(rows, 5000, 3).expect("memory");
            let y = arena.alloc::<f64>(rows * 700).expect("memory");
            for shard in 0..3 {
                let fill = move |x: &mut [f32]| x.fill(shard as f32);
                rt.spawn("fill", x.shard(shard).overwrite(), fill).expect("alive");
            }
            rt.spawn("use", (x.whole().read(), y.overwrite()), |(x, y)| y.fill(f64::from(x[0])))
                .expect("alive");
        }
        if epoch == 1 {
            settled = arena.statistics().chunks;
        }
    }
    rt.wait().expect("no failure");
    (settled, arena.statistics().chunks)
}

#[test]
fn from_the_second_round_on_nothing_is_allocated() {
    let need = (10 * 5000 * 4 + 10 * 700 * 8usize).next_multiple_of(64);
    for workers in [0, 1, 4] {
        for depth in [1, 2, 3] {
            for batches in [3, 4, 7] {
                for limit in [None, Some(depth * need)] {
                    let (settled, end) = epochs(workers, depth, limit, batches);
                    assert_eq!(settled, end, "depth {depth}, {batches} batches, {limit:?}");
                    assert!(end <= depth, "one chunk per slot: {end} for depth {depth}");
                }
            }
        }
    }
}

#[test]
fn a_ring_waits_only_when_all_its_slots_are_in_use() {
    for depth in 1..=3 {
        let rt = runtime(1);
        let arena = Arena::builder(&rt, "ring").depth(depth).build();
        let (let_go, gate) = mpsc::channel::<()>();
        let first = arena.alloc::<u32>(1).expect("memory");
        let hold = move |_: &mut [u32]| gate.recv().expect("let go");
        rt.spawn("hold", first.overwrite(), hold).expect("alive");
        // As many batches as there are further slots begin while the first is in use.
        for _ in 1..depth {
            arena.next().expect("no failure");
            let x = arena.alloc::<u32>(1).expect("memory");
            rt.spawn("behind", x.overwrite(), |_| ()).expect("alive");
        }
        assert_eq!(arena.statistics().waits, 0, "depth {depth}");
        let later = std::thread::spawn(move || let_go.send(()));
        arena.next().expect("no failure");
        later.join().expect("joined").expect("received");
        let statistics = rt.statistics();
        let waits = arena.statistics().waits;
        let counted = statistics.waits.get(&(Cause::Barrier, "arena ring".to_owned()));
        assert_eq!(counted.map_or(0, |total| total.count), waits);
        assert!(waits <= 1);
    }
}

#[test]
fn a_barrier_is_in_the_trace() {
    let rt = runtime(1);
    rt.trace_start();
    let arena = Arena::new(&rt, "batch");
    let x = arena.alloc::<u32>(1).expect("memory");
    let observer = rt.clone();
    let until_barrier = move |_: &mut [u32]| {
        while observer.statistics().waits.is_empty() {
            std::thread::yield_now();
        }
    };
    rt.spawn("hold", x.overwrite(), until_barrier).expect("alive");
    arena.reset().expect("no failure");
    let trace = rt.trace_take("t", Default::default());
    let waits: Vec<_> = trace.spans.iter().filter(|s| s.cause == Cause::Barrier).collect();
    assert!(waits.iter().any(|s| s.lane == 0));
    assert!(waits.iter().all(|s| trace.names[s.name as usize] == "arena batch"));
    assert_eq!(arena.statistics().resets, 1);
}

#[test]
fn passing_the_limit_names_arena_asked_used_and_limit() {
    let rt = runtime(0);
    let arena = Arena::builder(&rt, "small").limit(4096).build();
    arena.alloc::<u8>(1000).expect("fits");
    let error = arena.alloc::<u8>(3100).expect_err("too much");
    let text = error.to_string();
    for part in ["`small`", "3100 bytes", "1024", "4096", "3072"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    arena.alloc::<u8>(3072).expect("exactly the rest");
    arena.reset().expect("no failure");
    arena.alloc::<u8>(4096).expect("all of it");
    assert_eq!(arena.statistics().limit_refusals, 1);
    let huge = arena.alloc::<u64>(usize::MAX / 2).expect_err("no such memory");
    assert!(matches!(huge, ArenaError::TooLarge { .. }), "{huge}");
    let shards = arena.alloc_sharded::<u8>(3, 1, 0).expect_err("no shards");
    assert!(matches!(shards, ArenaError::Shards { rows: 3, shards: 0, .. }), "{shards}");
}

#[test]
fn waiting_for_oneself_is_an_error() {
    let rt = runtime(1);
    let arena = Arc::new(Arena::builder(&rt, "own").build());
    let x = arena.alloc::<u32>(1).expect("memory");
    let guard = x.acquire().expect("idle");
    assert!(matches!(arena.reset(), Err(ArenaError::HoldsGuard { call: "reset", .. })));
    assert!(matches!(arena.next(), Err(ArenaError::HoldsGuard { call: "next", .. })));
    drop(guard);
    arena.reset().expect("free");
    let inner = arena.clone();
    rt.spawn("impatient", (), move |()| {
        assert!(matches!(inner.next(), Err(ArenaError::InsideTask { call: "next", .. })));
    })
    .expect("accepted");
    rt.wait().expect("the assertion held");
}

#[test]
fn a_failed_task_is_reported_by_the_next_barrier() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "batch");
    let x = arena.alloc::<u32>(1).expect("memory");
    let fail = |_: &mut [u32]| Err::<(), _>("no such file");
    rt.spawn("load", x.overwrite(), fail).expect("alive");
    let text = arena.reset().expect_err("reported").to_string();
    assert!(text.contains("`load`") && text.contains("no such file"), "{text}");
    arena.reset().expect("reported once, and the arena is usable");
    arena.alloc::<u32>(1).expect("memory");
}

#[test]
fn buffers_of_another_runtime_are_refused() {
    let (ours, theirs) = (runtime(0), runtime(0));
    let x = Arena::new(&theirs, "their").alloc::<u32>(1).expect("memory");
    let _keep = &theirs;
    let error = ours.spawn("mix", x.read(), |_| ()).expect_err("refused");
    // The arena was a temporary: its buffer is stale, whatever runtime is asked.
    assert!(matches!(error, SubmitError::Stale { .. }), "{error}");
    let arena = Arena::new(&theirs, "their");
    let x = arena.alloc::<u32>(1).expect("memory");
    let error = ours.spawn("mix", x.read(), |_| ()).expect_err("refused");
    assert!(matches!(&error, SubmitError::WrongRuntime { owner, .. } if owner == "their"));
}

#[test]
fn shards_are_ordered_alone_and_the_whole_after_all_of_them() {
    for workers in [0, 1, 4] {
        let rt = runtime(workers);
        let arena = Arena::new(&rt, "rows");
        for (rows, shards) in [(10, 4), (1, 1), (7, 7), (3, 2)] {
            let x = arena.alloc_sharded::<u32>(rows, 3, shards).expect("memory");
            for shard in 0..shards {
                let rows = x.shard_rows(shard);
                let fill = move |x: &mut [u32]| {
                    let row = |i: usize| (rows.start + i / 3) as u32;
                    x.iter_mut().enumerate().for_each(|(i, v)| *v = row(i));
                };
                rt.spawn("fill", x.shard(shard).overwrite(), fill).expect("alive");
                rt.spawn("double", x.shard(shard).write(), |x| {
                    x.iter_mut().for_each(|v| *v *= 2);
                })
                .expect("alive");
            }
            let all = x.whole().acquire().expect("valid");
            assert!(all.iter().enumerate().all(|(i, v)| *v == 2 * (i / 3) as u32));
            let clash = (x.whole().read(), x.shard(0).write());
            let error = rt.spawn("clash", clash, |_| ()).expect_err("refused");
            assert!(matches!(error, SubmitError::Conflict { .. }));
        }
    }
}

#[test]
fn tasks_that_commute_are_alone_on_whatever_they_share() {
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers);
        let arena = Arena::new(&rt, "counts");
        let counts = arena.alloc_sharded::<u64>(12, 1, 4).expect("no limit");
        rt.spawn("clear", counts.whole().overwrite(), |all| all.fill(0)).expect("alive");
        let add = |counts: &mut [u64]| counts.iter_mut().for_each(|count| *count += 1);
        for i in 0..400 {
            match i % 3 {
                0 => rt.spawn("shard", counts.shard(i % 4).commute(), add),
                1 => rt.spawn("whole", counts.whole().commute(), add),
                _ => {
                    let two = [counts.shard(i % 4).commute(), counts.shard((i + 1) % 4).commute()];
                    rt.spawn("two", two, move |two| two.into_iter().for_each(add))
                }
            }
            .expect("alive");
        }
        let of_shard = |shard: usize| {
            let added = |i: &usize| match i % 3 {
                0 => i % 4 == shard,
                1 => true,
                _ => i % 4 == shard || (i + 1) % 4 == shard,
            };
            (0..400).filter(added).count() as u64
        };
        let wanted: Vec<u64> = (0..12).map(|row| of_shard(row / 3)).collect();
        assert_eq!(*counts.whole().acquire().expect("valid"), *wanted, "{workers} workers");
    }
}

#[test]
fn scratch_is_private_to_a_body() {
    let rt = runtime(4);
    let wrong = Arc::new(AtomicUsize::new(0));
    for i in 0..500 {
        let wrong = wrong.clone();
        let access = (scratch::<f32>(100 + i), scratch::<u64>(7));
        rt.spawn("scratch", access, move |(x, y)| {
            x.fill(i as f32);
            y.fill(3);
            std::thread::yield_now();
            let right = x.len() == 100 + i && x.iter().all(|v| *v == i as f32) && y == [3; 7];
            wrong.fetch_add(usize::from(!right), Ordering::Relaxed);
        })
        .expect("accepted");
    }
    rt.wait().expect("no failure");
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
}

#[test]
fn empty_buffers_are_fine() {
    let rt = runtime(0);
    let arena = Arena::new(&rt, "none");
    let x = arena.alloc::<f32>(0).expect("nothing needed");
    rt.spawn("touch", x.write(), |x| assert!(x.is_empty())).expect("alive");
    assert!(x.acquire().expect("valid").is_empty());
    let rows = arena.alloc_sharded::<f32>(0, 5, 1).expect("nothing needed");
    assert!(rows.shard(0).is_empty());
    rt.wait().expect("no failure");
}
