//! Buffers as parameters of recorded graphs.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use millrace_arena::{
    Arena, Buffer, BufferParameter, Sharded, ShardedParameter, scratch, scratch_statistics,
};
use millrace_runtime::replay::{Parameter, RecordedGraph, ReplayError};
use millrace_runtime::trace::Cause;
use millrace_runtime::{Runtime, SubmitError, WaitError};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Returns once `thread` waits at a barrier, or has ended, which it should not have.
fn until_barrier<T>(rt: &Runtime, thread: &JoinHandle<T>) {
    let waits = |rt: &Runtime| {
        let waits = rt.statistics().waits;
        waits.iter().any(|((cause, _), total)| *cause == Cause::Barrier && total.count > 0)
    };
    while !waits(rt) && !thread.is_finished() {
        std::thread::yield_now();
    }
}

/// Where a recorded body says that it has begun, and waits until it is let go.
fn gate() -> (impl Fn() + Send + Sync + 'static, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((begun, begins), (let_go, gate)) = (mpsc::channel(), mpsc::channel());
    let gate = Mutex::new(gate);
    let pass = move || {
        begun.send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
    };
    (pass, begins, let_go)
}

const ROWS: usize = 13;
const ROW: usize = 5;

/// The batches of a small training, each in a generation of its own.
struct Batch {
    input: Sharded<f32>,
    sums: Buffer<f32>,
}

impl Batch {
    fn new(arena: &Arena, shards: usize) -> Batch {
        let input = arena.alloc_sharded(ROWS, ROW, shards).unwrap();
        Batch { input, sums: arena.alloc(shards).unwrap() }
    }
}

#[test]
fn each_replay_uses_the_buffers_of_its_batch() {
    // More shards than rows: some are empty.
    for (workers, depth, shards) in [(0, 1, 3), (1, 2, 1), (2, 1, 4), (4, 2, 16), (4, 3, 5)] {
        let rt = runtime(workers);
        let weights = Arena::new(&rt, "weights");
        let total = weights.alloc::<f32>(1).unwrap();
        rt.spawn("clear", total.overwrite(), |total| total[0] = 0.0).unwrap();
        let arena = Arena::builder(&rt, "batch").depth(depth).build();
        let first = Batch::new(&arena, shards);
        let mut recording = rt.record();
        let input = recording.parameter(first.input).unwrap();
        let sums = recording.parameter(first.sums).unwrap();
        let to = recording.parameter(total).unwrap();
        for shard in 0..shards {
            assert_eq!(input.shard(shard).len(), first.input.shard(shard).len());
            let scale = |x: &mut [f32]| x.iter_mut().for_each(|x| *x *= 2.0);
            recording.spawn("scale", input.shard(shard).write(), scale).unwrap();
        }
        // As one slice, after all shards.
        let data = (input.whole().read(), sums.overwrite(), scratch::<f32>(ROWS * ROW));
        let body = |(x, sums, copy): (&[f32], &mut [f32], &mut [f32])| {
            copy.copy_from_slice(x);
            sums.fill(0.0);
            sums[0] = copy.iter().sum();
        };
        recording.spawn("sum", data, body).unwrap();
        let body = |(total, sums): (&mut [f32], &[f32])| total[0] += sums[0];
        recording.spawn("add", (to.write(), sums.read()), body).unwrap();
        let mut graph = recording.finish();
        let mut expected = 0.0;
        for round in 0..20 {
            let batch = if round == 0 { Batch { ..first } } else { Batch::new(&arena, shards) };
            let load = move |x: &mut [f32]| x.fill(round as f32);
            rt.spawn("load", batch.input.whole().overwrite(), load).unwrap();
            graph.bind(&input, batch.input).unwrap();
            graph.bind(&sums, batch.sums).unwrap();
            graph.replay().unwrap();
            arena.next().unwrap();
            expected += (2 * round * ROWS * ROW) as f32;
        }
        assert_eq!(total.acquire().unwrap()[0], expected, "{workers} workers, depth {depth}");
        assert_eq!(arena.statistics().chunks, depth, "no chunk after the first round");
        rt.wait().unwrap();
    }
}

/// A graph of one task, which writes a buffer.
fn writing(rt: &Runtime, buffer: Buffer<f32>) -> (RecordedGraph, Parameter<Buffer<f32>>) {
    let mut recording = rt.record();
    let data = recording.parameter(buffer).unwrap();
    recording.spawn("write", data.write(), |x| x.fill(7.0)).unwrap();
    (recording.finish(), data)
}

#[test]
fn stale_buffers_are_refused_at_the_replay_in_program_order() {
    let rt = runtime(2);
    let (arena, other) = (Arena::new(&rt, "a"), Arena::new(&rt, "b"));
    let kept = other.alloc::<f32>(4).unwrap();
    let mut recording = rt.record();
    let first = recording.parameter(kept).unwrap();
    let second = recording.parameter(arena.alloc::<f32>(4).unwrap()).unwrap();
    let body = |(x, y): (&mut [f32], &mut [f32])| x.fill(y[0]);
    recording.spawn("both", (first.write(), second.write()), body).unwrap();
    let mut graph = recording.finish();
    graph.replay().unwrap();
    arena.recycle();
    for _ in 0..2 {
        let ReplayError::Refused(SubmitError::Stale { task, owner, held, current }) =
            graph.replay().unwrap_err()
        else {
            panic!("stale");
        };
        assert_eq!((task, owner.as_str(), current), ("replay", "a", held + 1));
    }
    // A refused replay keeps no lease: neither arena waits for anything.
    rt.wait().unwrap();
    arena.next().unwrap();
    other.reset().unwrap();
    assert_eq!(arena.statistics().waits + other.statistics().waits, 0);
    // Both have to be of the open generation.
    graph.bind(&second, arena.alloc(4).unwrap()).unwrap();
    graph.replay().unwrap_err();
    graph.bind(&first, other.alloc(4).unwrap()).unwrap();
    graph.replay().unwrap();
    rt.record().parameter(kept).unwrap_err();
    rt.wait().unwrap();
}

#[test]
fn memory_stays_until_the_replay_has_ended() {
    for dropped in [false, true] {
        let rt = runtime(2);
        let arena = Arena::new(&rt, "batch");
        let buffer = arena.alloc::<f32>(1000).unwrap();
        rt.spawn("fill", buffer.overwrite(), |x| x.fill(3.0)).unwrap();
        let (pass, begins, let_go) = gate();
        let mut recording = rt.record();
        let data = recording.parameter(buffer).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let over = done.clone();
        let body = move |x: &[f32]| {
            pass();
            assert!(x.iter().all(|x| *x == 3.0), "nobody else has that memory");
            over.store(true, Ordering::Relaxed);
        };
        recording.spawn("slow", data.read(), body).unwrap();
        let mut graph = recording.finish();
        let replay = graph.replay().unwrap();
        begins.recv().unwrap();
        if dropped {
            drop((arena, graph));
            let again = Arena::new(&rt, "batch");
            let fresh = again.alloc::<f32>(1000).unwrap();
            rt.spawn("fill", fresh.overwrite(), |x| x.fill(9.0)).unwrap();
            fresh.acquire().unwrap();
            let_go.send(()).unwrap();
        } else {
            let thread = std::thread::spawn(move || {
                arena.reset().unwrap();
                arena
            });
            until_barrier(&rt, &thread);
            assert!(!thread.is_finished());
            let_go.send(()).unwrap();
            let arena = thread.join().unwrap();
            // The barrier is passed once the replay's tasks have ended.
            assert!(done.load(Ordering::Relaxed));
            assert_eq!(arena.statistics().waits, 1);
        }
        replay.wait().unwrap();
        rt.wait().unwrap();
    }
}

#[test]
fn other_shapes_are_refused() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "a");
    let (mut graph, data) = writing(&rt, arena.alloc(4).unwrap());
    let error = graph.bind(&data, arena.alloc(5).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "parameter 0 was recorded with 4 elements `f32`, and cannot be bound to 5 elements `f32`"
    );
    // As long, but cut into shards.
    let cut = arena.alloc_sharded(4, 1, 2).unwrap();
    graph.bind(&data, cut.whole()).unwrap_err();
    let fits = arena.alloc_sharded(8, 1, 2).unwrap().shard(1);
    graph.bind(&data, fits).unwrap();
    graph.replay().unwrap();
    assert_eq!(*fits.acquire().unwrap(), [7.0; 4]);

    let mut recording = rt.record();
    let data = recording.parameter(arena.alloc_sharded::<f32>(6, 2, 3).unwrap()).unwrap();
    let mut graph = recording.finish();
    for (rows, row_len, shards) in [(5, 2, 3), (6, 3, 3), (6, 2, 2), (4, 3, 3)] {
        let other = arena.alloc_sharded::<f32>(rows, row_len, shards).unwrap();
        let text = graph.bind(&data, other).unwrap_err().to_string();
        let expected = format!(
            "parameter 0 was recorded with 6 rows of 2 `f32` in 3 shards, and cannot be bound to \
             {rows} rows of {row_len} `f32` in {shards} shards"
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn overlapping_buffers_are_refused_if_one_is_written() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "a");
    let cut = arena.alloc_sharded::<f32>(6, 2, 3).unwrap();
    let mut recording = rt.record();
    let part = recording.parameter(cut.shard(1)).unwrap();
    let whole = recording.parameter(cut.whole()).unwrap();
    recording.spawn("read", whole.read(), |_| ()).unwrap();
    recording.spawn("write", part.write(), |_| ()).unwrap();
    let mut graph = recording.finish();
    let error = graph.replay().unwrap_err();
    assert!(matches!(error, ReplayError::Refused(SubmitError::Conflict { .. })), "{error}");
    graph.bind(&part, arena.alloc(4).unwrap()).unwrap();
    graph.replay().unwrap().wait().unwrap();
}

#[test]
fn buffers_of_another_runtime_are_refused() {
    let (rt, other) = (runtime(1), runtime(1));
    let (arena, foreign) = (Arena::new(&rt, "a"), Arena::new(&other, "b"));
    let (mut graph, data) = writing(&rt, arena.alloc(4).unwrap());
    graph.bind(&data, foreign.alloc(4).unwrap()).unwrap();
    let ReplayError::Refused(SubmitError::WrongRuntime { task: "replay", owner }) =
        graph.replay().unwrap_err()
    else {
        panic!("another runtime's");
    };
    assert_eq!(owner, "b");
    // Its lease was given back.
    foreign.reset().unwrap();
    assert_eq!(foreign.statistics().waits, 0);
}

/// What a failed replay was to write is not valid; the next replay finds another generation.
#[test]
fn a_failed_replay_spoils_its_generation_only() {
    let rt = runtime(2);
    let arena = Arena::builder(&rt, "batch").depth(2).build();
    let first = arena.alloc::<f32>(4).unwrap();
    let mut recording = rt.record();
    let data = recording.parameter(first).unwrap();
    let body = |x: &mut [f32]| {
        if x[0] < 0.0 {
            return Err("negative");
        }
        x.fill(1.0);
        Ok(())
    };
    recording.spawn("check", data.write(), body).unwrap();
    let mut graph = recording.finish();
    rt.spawn("load", first.overwrite(), |x| x.fill(-1.0)).unwrap();
    graph.replay().unwrap();
    assert!(matches!(first.acquire(), Err(WaitError::Spoilt { .. })));
    arena.next().unwrap_err();
    let second = arena.alloc::<f32>(4).unwrap();
    rt.spawn("load", second.overwrite(), |x| x.fill(2.0)).unwrap();
    graph.bind(&data, second).unwrap();
    graph.replay().unwrap().wait().unwrap();
    assert_eq!(*second.acquire().unwrap(), [1.0; 4]);
    rt.wait().unwrap();
}

#[test]
fn scratch_of_recorded_tasks_is_kept_between_replays() {
    let rt = runtime(1);
    let mut recording = rt.record();
    let body = |(a, b, none): (&mut [u8], &mut [u64], &mut [u8])| {
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|a| *a == 1) && none.is_empty());
    };
    let data = (scratch::<u8>(100_000), scratch::<u64>(9_000), scratch::<u8>(0));
    for _ in 0..10 {
        recording.spawn("scratch", data, body).unwrap();
    }
    let mut graph = recording.finish();
    graph.replay().unwrap().wait().unwrap();
    let before = scratch_statistics();
    for _ in 0..10 {
        graph.replay().unwrap();
    }
    rt.wait().unwrap();
    // Other tests of this process may hold some at the same time, but none of these sizes twice.
    assert!(scratch_statistics().blocks <= before.blocks + 16);
}
