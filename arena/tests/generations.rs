//! Generations: what ends them, what is refused afterwards, and what waits.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use millrace_arena::{Arena, ArenaError, Buffer};
use millrace_runtime::trace::{Cause, Span};
use millrace_runtime::{Runtime, SubmitError, WaitError};

/// A runtime with `workers` workers.
fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Holds bodies back until it is opened, so that tests decide what is still running.
#[derive(Clone, Default)]
struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    /// Lets all bodies go on.
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// The generation that `buffer` is refused with, and the present one.
fn refused(rt: &Runtime, buffer: Buffer<f32>, arena: &str) -> (u32, u32) {
    let submitted = rt.spawn("late", buffer.read(), |_| ());
    let Err(SubmitError::Stale { task: "late", owner, held, current }) = submitted else {
        panic!("{submitted:?}");
    };
    assert_eq!(owner, arena);
    let acquired = buffer.acquire_mut().map(drop);
    let Err(WaitError::Refused(SubmitError::Stale { owner, held: h, current: c, .. })) = acquired
    else {
        panic!("{acquired:?}");
    };
    assert_eq!((owner.as_str(), h, c), (arena, held, current));
    (held, current)
}

#[test]
fn a_buffer_is_stale_after_reset_recycle_next_and_drop() {
    let rt = runtime(2);
    let arena = Arena::new(&rt, "a");
    let first = arena.alloc::<f32>(10).unwrap();
    rt.spawn("use", first.write(), |x| x.fill(1.0)).unwrap();
    arena.reset().unwrap();
    let (held, current) = refused(&rt, first, "a");
    assert_eq!(current, held + 1);

    let second = arena.alloc::<f32>(10).unwrap();
    arena.recycle();
    assert_eq!(refused(&rt, second, "a"), (current, current + 1));
    assert!(matches!(arena.alloc::<f32>(1), Err(ArenaError::Ended { .. })));

    arena.next().unwrap();
    let third = arena.alloc::<f32>(10).unwrap();
    arena.next().unwrap();
    assert_eq!(refused(&rt, third, "a"), (current + 1, current + 2));

    let fourth = arena.alloc::<f32>(10).unwrap();
    let refusals = arena.statistics().stale_refusals;
    assert_eq!(refusals, 6);
    drop(arena);
    assert_eq!(refused(&rt, fourth, "a"), (current + 2, current + 3));
    let again = Arena::new(&rt, "a");
    refused(&rt, fourth, "a");
    assert_eq!(again.statistics().stale_refusals, 0, "that buffer belonged to another arena");
    rt.wait().unwrap();
}

#[test]
fn staleness_follows_program_order_while_tasks_still_run() {
    let rt = runtime(2);
    let arena = Arena::builder(&rt, "order").depth(2).build();
    let latch = Latch::default();
    let buffer = arena.alloc::<f32>(100).unwrap();
    let held = latch.clone();
    rt.spawn("hold", buffer.write(), move |x| {
        held.wait();
        x.fill(3.0);
    })
    .unwrap();
    arena.next().unwrap();
    let before = refused(&rt, buffer, "order");
    latch.open();
    rt.wait().unwrap();
    assert_eq!(refused(&rt, buffer, "order"), before, "the same error, reclaimed or not");
}

#[test]
fn one_stale_buffer_among_fresh_ones_refuses_the_task_and_keeps_no_lease() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "mixed");
    let old = arena.alloc::<f32>(1).unwrap();
    arena.reset().unwrap();
    let new = arena.alloc::<f32>(1).unwrap();
    for _ in 0..2 {
        assert!(rt.spawn("t", (new.write(), old.read()), |_| ()).is_err());
        assert!(rt.spawn("t", (old.read(), new.write()), |_| ()).is_err());
    }
    rt.spawn("t", (new.write(), new.read()), |_| ()).unwrap_err();
    arena.reset().unwrap();
    assert_eq!(arena.statistics().waits, 0, "a refused task leaves no lease behind");
}

#[test]
fn a_buffer_of_another_runtime_is_refused() {
    let (rt, other) = (runtime(1), runtime(1));
    let arena = Arena::new(&rt, "mine");
    let buffer = arena.alloc::<f32>(1).unwrap();
    let error = other.spawn("theirs", buffer.read(), |_| ()).unwrap_err();
    assert_eq!(error, SubmitError::WrongRuntime { task: "theirs", owner: "mine".to_owned() });
    arena.reset().unwrap();
}

/// Returns once a thread has begun to wait at a barrier.
fn until_barrier(rt: &Runtime) {
    let waits = |rt: &Runtime| {
        let statistics = rt.statistics();
        statistics
            .waits
            .iter()
            .any(|((cause, _), total)| *cause == Cause::Barrier && total.count > 0)
    };
    while !waits(rt) {
        std::thread::yield_now();
    }
}

#[test]
fn reset_waits_for_the_tasks_and_records_a_barrier() {
    let rt = runtime(1);
    rt.trace_start();
    let arena = Arena::new(&rt, "slow");
    let buffer = arena.alloc::<f32>(1).unwrap();
    let latch = Latch::default();
    let held = latch.clone();
    rt.spawn("hold", buffer.write(), move |_| held.wait()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            until_barrier(&rt);
            latch.open();
        });
        arena.reset().unwrap();
    });
    let statistics = arena.statistics();
    assert_eq!((statistics.waits, statistics.resets, statistics.generations), (1, 1, 2));
    let trace = rt.trace_take("", Default::default());
    let barrier = |span: &&Span| {
        span.cause == Cause::Barrier && trace.names[span.name as usize] == "arena slow"
    };
    // The main thread's wait. The worker's idle time after its task may carry the cause, too.
    let main = trace.spans.iter().filter(barrier).filter(|span| span.lane == 0);
    assert_eq!(main.count(), 1);
}

#[test]
fn a_ring_waits_only_when_its_turn_comes_round() {
    for depth in 2..4 {
        let rt = runtime(4);
        let arena = Arena::builder(&rt, "ring").depth(depth).build();
        let latches: Vec<Latch> = (0..depth).map(|_| Latch::default()).collect();
        for latch in &latches {
            let buffer = arena.alloc::<f32>(8).unwrap();
            let latch = latch.clone();
            rt.spawn("hold", buffer.write(), move |_| latch.wait()).unwrap();
            if arena.statistics().generations < depth as u64 {
                arena.next().unwrap();
            }
        }
        // All slots are busy at once, and nobody has waited: the tasks hold until we say so.
        assert_eq!(arena.statistics().waits, 0, "depth {depth}");
        std::thread::scope(|threads| {
            threads.spawn(|| {
                until_barrier(&rt);
                latches.iter().for_each(Latch::open);
            });
            arena.next().unwrap();
        });
        assert_eq!(arena.statistics().waits, 1, "depth {depth}");
        rt.wait().unwrap();
    }
}

#[test]
fn turning_inside_a_body_is_an_error_and_recycling_is_not() {
    let rt = runtime(1);
    let arena = Arc::new(Arena::new(&rt, "body"));
    let result = arena.alloc::<u32>(1).unwrap();
    let inner = arena.clone();
    rt.spawn("turn", result.write(), move |result| {
        let refused = |turn: Result<(), ArenaError>, name| {
            matches!(turn, Err(ArenaError::InsideTask { call, .. }) if call == name)
        };
        result[0] = u32::from(refused(inner.next(), "next"));
        result[0] += u32::from(refused(inner.reset(), "reset"));
    })
    .unwrap();
    assert_eq!(result.acquire().unwrap()[0], 2);
    let inner = arena.clone();
    rt.spawn("recycle", result.write(), move |_| inner.recycle()).unwrap();
    rt.wait().unwrap();
    assert!(result.acquire().is_err());
}

#[test]
fn waiting_for_a_guard_of_ones_own_is_an_error() {
    let rt = runtime(1);
    let arena = Arena::builder(&rt, "guard").depth(2).build();
    let buffer = arena.alloc::<f32>(1).unwrap();
    let guard = buffer.acquire().unwrap();
    let error = arena.reset().unwrap_err();
    assert!(matches!(error, ArenaError::HoldsGuard { call: "reset", .. }), "{error}");
    arena.next().unwrap();
    let error = arena.next().unwrap_err();
    assert!(matches!(error, ArenaError::HoldsGuard { call: "next", .. }), "{error}");
    assert_eq!(guard[0], 0.0, "the guard keeps the ended generation");
    arena.alloc::<f32>(1).expect("a refused turn changes nothing");
    drop(guard);
    arena.next().unwrap();
    assert_eq!(arena.statistics().waits, 0);
}

#[test]
fn a_guard_on_another_thread_is_waited_for() {
    let rt = runtime(1);
    let arena = Arena::new(&rt, "elsewhere");
    let buffer = arena.alloc::<f32>(1).unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let latch = Latch::default();
    let (held, go) = (latch.clone(), Arc::new(AtomicBool::new(false)));
    let dropped = go.clone();
    let holder = std::thread::spawn(move || {
        let mut guard = buffer.acquire_mut().unwrap();
        ready.send(()).unwrap();
        held.wait();
        guard[0] = 1.0;
        dropped.store(true, Ordering::SeqCst);
    });
    is_ready.recv().unwrap();
    let opener = std::thread::spawn(move || latch.open());
    arena.reset().unwrap();
    assert!(go.load(Ordering::SeqCst));
    holder.join().unwrap();
    opener.join().unwrap();
}

#[test]
fn dropping_an_arena_never_frees_under_a_task() {
    let rt = runtime(2);
    let kept = Arena::new(&rt, "kept");
    let sum = kept.alloc::<f64>(1).unwrap();
    let latch = Latch::default();
    let (first, second) = {
        let arena = Arena::builder(&rt, "dropped").depth(2).build();
        let x = arena.alloc::<f64>(1000).unwrap();
        let held = latch.clone();
        rt.spawn("fill", x.overwrite(), move |x| {
            held.wait();
            x.fill(0.5);
        })
        .unwrap();
        rt.spawn("sum", (x.read(), sum.overwrite()), |(x, sum)| sum[0] = x.iter().sum()).unwrap();
        arena.next().unwrap();
        (x, arena.alloc::<f64>(1).unwrap())
    };
    assert!(rt.spawn("late", first.read(), |_| ()).is_err());
    assert!(rt.spawn("late", second.read(), |_| ()).is_err());
    latch.open();
    assert_eq!(sum.acquire().unwrap()[0], 500.0);
}

#[test]
fn a_task_failure_comes_back_from_the_turn_and_the_arena_stays_usable() {
    for workers in [0, 2] {
        let rt = runtime(workers);
        let arena = Arena::new(&rt, "failing");
        let buffer = arena.alloc::<f32>(1).unwrap();
        rt.spawn("bad", buffer.write(), |_| -> () { panic!("as planned") }).unwrap();
        rt.spawn("cancelled", buffer.read(), |_| -> () { unreachable!("its input is not valid") })
            .unwrap();
        let error = arena.reset().unwrap_err();
        assert!(matches!(error, ArenaError::Wait(WaitError::Failed { .. })), "{error}");
        let buffer = arena.alloc::<f32>(1).unwrap();
        rt.spawn("good", buffer.write(), |x| x[0] = 2.0).unwrap();
        assert_eq!(buffer.acquire().unwrap()[0], 2.0, "a new generation has no history");
        arena.reset().unwrap();
    }
}

#[test]
fn without_workers_nothing_ever_waits() {
    let rt = runtime(0);
    let arena = Arena::new(&rt, "inline");
    for round in 0..10 {
        let x = arena.alloc::<f32>(10).unwrap();
        rt.spawn("fill", x.overwrite(), move |x| x.fill(round as f32)).unwrap();
        assert_eq!(x.acquire().unwrap()[9], round as f32);
        arena.next().unwrap();
    }
    assert_eq!(arena.statistics().waits, 0);
}
