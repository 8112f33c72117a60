//! Once replays are warm, a training-like loop allocates nothing: neither the thread that submits
//! nor those that run the tasks. A binary of its own, for the counts are of the whole process.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "wraps the system's allocator to count calls")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use millrace_arena::{Arena, Buffer, BufferParameter, Sharded, ShardedParameter, scratch};
use millrace_runtime::Runtime;
use millrace_runtime::replay::{Parameter, RecordedGraph, Replay};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    fn count() {
        if COUNTS.load(Ordering::Relaxed) {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `run` allocates or frees, on any thread.
fn calls(run: impl FnOnce()) -> usize {
    let before = CALLS.load(Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    run();
    COUNTS.store(false, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst) - before
}

const WORKERS: usize = 3;
/// Below what the workers' queues hold at least.
const SHARDS: usize = 16;
const ROW: usize = 32;

/// A training-like loop: per batch shards of images, and a gradient of each.
struct Training {
    rt: Runtime,
    _parameters: Arena,
    weights: Buffer<f32>,
    batches: Arena,
    graph: RecordedGraph,
    images: Parameter<Sharded<f32>>,
    gradients: Parameter<Sharded<f32>>,
    scale: Parameter<Buffer<f32>>,
    before: Option<Replay>,
}

impl Training {
    fn new(rt: &Runtime) -> Training {
        let parameters = Arena::new(rt, "weights");
        let weights = parameters.alloc::<f32>(ROW).unwrap();
        rt.spawn("task", weights.overwrite(), |w| w.fill(0.0)).unwrap();
        let batches = Arena::builder(rt, "batch").depth(3).build();
        let mut recording = rt.record();
        let w = recording.parameter(weights).unwrap();
        let images = recording.parameter(batches.alloc_sharded(100, ROW, SHARDS).unwrap()).unwrap();
        let gradients = batches.alloc_sharded(SHARDS, ROW, SHARDS).unwrap();
        let gradients = recording.parameter(gradients).unwrap();
        // Read by more tasks than an entry of the dependency table has room for.
        let scale = recording.parameter(batches.alloc(1).unwrap()).unwrap();
        // All are of one kind, so that each worker has counted one of it.
        recording.spawn("task", images.whole().overwrite(), |x| x.fill(1.0)).unwrap();
        recording.spawn("task", scale.overwrite(), |scale| scale[0] = 1e-3).unwrap();
        for shard in 0..SHARDS {
            let data = (
                (w.read(), images.shard(shard).read()),
                gradients.shard(shard).overwrite(),
                (scale.read(), scratch::<f32>(ROW)),
            );
            type Data<'a> = ((&'a [f32], &'a [f32]), &'a mut [f32], (&'a [f32], &'a mut [f32]));
            let body = |((w, x), g, (scale, sum)): Data<'_>| {
                sum.copy_from_slice(w);
                for image in x.chunks(ROW) {
                    sum.iter_mut().zip(image).for_each(|(sum, x)| *sum += x);
                }
                g.iter_mut().zip(sum).for_each(|(g, sum)| *g = scale[0] * *sum);
            };
            recording.spawn("task", data, body).unwrap();
        }
        let body = |(w, g): (&mut [f32], &[f32])| {
            g.chunks(ROW).for_each(|g| w.iter_mut().zip(g).for_each(|(w, g)| *w -= g));
        };
        recording.spawn("task", (w.write(), gradients.whole().read()), body).unwrap();
        let (rt, graph) = (rt.clone(), recording.finish());
        Training {
            rt,
            _parameters: parameters,
            weights,
            batches,
            graph,
            images,
            gradients,
            scale,
            before: None,
        }
    }

    /// Submits a batch, in a generation of its own, while the one before may be under way.
    fn step(&mut self) {
        self.batches.next().unwrap();
        let images = self.batches.alloc_sharded(100, ROW, SHARDS).unwrap();
        let gradients = self.batches.alloc_sharded(SHARDS, ROW, SHARDS).unwrap();
        self.graph.bind(&self.images, images).unwrap();
        self.graph.bind(&self.gradients, gradients).unwrap();
        self.graph.bind(&self.scale, self.batches.alloc(1).unwrap()).unwrap();
        let replay = self.graph.replay().unwrap();
        if let Some(before) = self.before.replace(replay) {
            until_ended(&before);
        }
    }

    fn finish(&mut self) {
        self.before.take().iter().for_each(until_ended);
    }
}

fn until_ended(replay: &Replay) {
    while !replay.has_ended() {
        std::thread::yield_now();
    }
}

/// Has every worker do once what it does later: release as many tasks, and use scratch.
fn warm_workers(rt: &Runtime) {
    let barrier = Arc::new(Barrier::new(WORKERS));
    let mut recording = rt.record();
    for _ in 0..WORKERS {
        let barrier = barrier.clone();
        let body = move |_: &mut [f32]| _ = barrier.wait();
        let first = recording.spawn("task", scratch::<f32>(ROW), body).unwrap();
        for _ in 0..2 * SHARDS {
            recording.task("task").after(first).spawn((), |()| ()).unwrap();
        }
    }
    let mut graph = recording.finish();
    for _ in 0..10 {
        graph.replay().unwrap().wait().unwrap();
    }
    // And sleep.
    while rt.statistics().workers.iter().any(|worker| worker.sleeps == 0) {
        std::thread::yield_now();
    }
}

#[test]
fn warm_replays_allocate_nothing_on_any_thread() {
    let rt = Runtime::builder().workers(WORKERS).build().unwrap();
    let mut training = Training::new(&rt);
    warm_workers(&rt);
    // Two replays under way, whose tasks have to wait for all that they can wait for.
    let held = training.weights.acquire_mut().unwrap();
    training.step();
    let first = training.before.take().unwrap();
    training.step();
    drop(held);
    until_ended(&first);
    for _ in 0..100 {
        training.step();
    }
    training.finish();
    let replays = calls(|| {
        for _ in 0..300 {
            training.step();
        }
        training.finish();
    });
    assert_eq!(replays, 0, "calls of the allocator in 300 replays");
    // What counts can count.
    assert!(calls(|| drop(vec![0u8; 100])) >= 2);
    training.rt.wait().unwrap();
}
