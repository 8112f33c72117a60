//! What users see of the runtime, call by call.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use common::{Shared, until_waiting};
use millrace_runtime::trace::{Cause, LaneKind, SpanKind};
use millrace_runtime::{BuildError, Runtime, SubmitError, WaitError, in_task_body};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

fn explode() {
    panic!("on purpose");
}

fn never() {
    unreachable!("the task should have been cancelled");
}

#[test]
fn independent_tasks_run_at_the_same_time() {
    let rt = runtime(2);
    let meet = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let meet = meet.clone();
        rt.spawn("meet", (), move |()| {
            meet.wait();
        })
        .expect("accepted");
    }
    rt.wait().expect("both met");
}

#[test]
fn readers_run_at_the_same_time_after_the_writer() {
    let rt = runtime(3);
    let cell = Shared::new(&rt);
    let meet = Arc::new(Barrier::new(3));
    rt.spawn("write", cell.write(), |x| *x = 5).expect("accepted");
    for _ in 0..3 {
        let meet = meet.clone();
        rt.spawn("read", cell.read(), move |x| {
            assert_eq!(*x, 5);
            meet.wait();
        })
        .expect("accepted");
    }
    rt.wait().expect("all met");
}

#[test]
fn without_workers_tasks_run_inside_spawn_in_program_order() {
    let rt = runtime(0);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let me = std::thread::current().id();
    for i in 0..5 {
        let (log, nested, inner) = (order.clone(), order.clone(), rt.clone());
        rt.spawn("outer", (), move |()| {
            assert_eq!(std::thread::current().id(), me);
            let child = move |()| nested.lock().expect("log").push(10 + i);
            inner.spawn("child", (), child).expect("accepted");
            log.lock().expect("log").push(i);
        })
        .expect("accepted");
        assert_eq!(*order.lock().expect("log").last().expect("ran"), 10 + i);
    }
    assert_eq!(*order.lock().expect("log"), [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]);
}

#[test]
fn acquiring_waits_for_the_writer_and_for_nothing_else() {
    let rt = runtime(2);
    let (fast, slow) = (Shared::new(&rt), Shared::new(&rt));
    let (let_go, gate) = mpsc::channel::<()>();
    rt.spawn("slow", slow.write(), move |x| {
        gate.recv().expect("let go");
        *x = 1;
    })
    .expect("accepted");
    rt.spawn("fast", fast.write(), |x| *x = 2).expect("accepted");
    assert_eq!(fast.value(&rt), 2);
    let_go.send(()).expect("the task waits");
    assert_eq!(slow.value(&rt), 1);
}

#[test]
fn tasks_wait_for_a_guard_that_came_before_them() {
    for workers in [0, 2] {
        let rt = runtime(workers);
        let cell = Shared::new(&rt);
        let mut held = rt.acquire(cell.write()).expect("idle");
        rt.spawn("double", cell.write(), |x| *x *= 2).expect("accepted");
        *held.data() = 21;
        drop(held);
        assert_eq!(cell.value(&rt), 42);
    }
}

#[test]
fn waiting_for_oneself_is_an_error() {
    for workers in [0, 1, 2] {
        let rt = runtime(workers);
        let (cell, other) = (Shared::new(&rt), Shared::new(&rt));
        let held = rt.acquire(cell.read()).expect("idle");
        let _second_reader = rt.acquire(cell.read()).expect("two readers");
        let twice = rt.acquire(cell.write()).expect_err("read by this thread");
        assert!(matches!(twice, WaitError::HoldsGuard { call: "acquire" }), "{twice}");
        rt.spawn("blocked", (cell.write(), other.write()), |(_, y)| *y = 3).expect("accepted");
        assert!(matches!(rt.wait(), Err(WaitError::HoldsGuard { call: "wait" })));
        let indirect = rt.acquire(other.read()).expect_err("its writer waits for this thread");
        assert!(matches!(indirect, WaitError::HoldsGuard { .. }));
        drop(_second_reader);
        drop(held);
        assert_eq!(other.value(&rt), 3);
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn waiting_inside_a_body_is_an_error() {
    for workers in [0, 1] {
        let rt = runtime(workers);
        let cell = Arc::new(Shared::new(&rt));
        let (inner, shared) = (rt.clone(), cell.clone());
        rt.spawn("impatient", (), move |()| {
            assert!(in_task_body());
            assert!(matches!(inner.wait(), Err(WaitError::InsideTask { call: "wait" })));
            let acquired = inner.acquire(shared.read()).map(|_| ()).expect_err("refused");
            assert!(matches!(acquired, WaitError::InsideTask { call: "acquire" }));
        })
        .expect("accepted");
        rt.wait().expect("the assertions held");
        assert!(!in_task_body());
    }
}

#[test]
fn the_same_data_twice_with_a_write_is_refused() {
    let rt = runtime(1);
    let (x, y) = (Shared::new(&rt), Shared::new(&rt));
    rt.spawn("fine", (x.read(), x.read(), y.write()), |_| ()).expect("two reads");
    let error = rt.spawn("clash", (y.read(), x.read(), x.write()), |_| ()).expect_err("refused");
    let text = error.to_string();
    assert_eq!(
        text,
        "task `clash` declares the same data twice: access 1 (read) and access 2 (write)"
    );
    assert!(matches!(error, SubmitError::Conflict { first: 1, second: 2, .. }));
    rt.wait().expect("nothing of it was submitted");
    assert_eq!(rt.statistics().submitted, 1);
}

#[test]
fn a_panic_names_its_task_and_spares_what_does_not_depend_on_it() {
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers);
        let (bad, good) = (Shared::new(&rt), Shared::new(&rt));
        let line = line!() + 1;
        let failing = rt.task("explode").batch(3).layer(1);
        failing.spawn(bad.write(), |_| explode()).expect("accepted");
        rt.spawn("depends", bad.read(), |_| never()).expect("accepted");
        rt.spawn("independent", good.write(), |x| *x = 7).expect("accepted");
        let error = rt.wait().expect_err("reported");
        let text = error.to_string();
        assert!(text.starts_with("task `explode` (batch 3, layer 1), submitted at "), "{text}");
        assert!(text.contains(&format!("behaviour.rs:{line}:")), "{text}");
        assert!(text.ends_with("panicked: on purpose; 1 dependent tasks were cancelled"), "{text}");
        assert_eq!(good.value(&rt), 7);
        rt.wait().expect("reported once");

        let late = rt.acquire(bad.read()).map(|_| ()).expect_err("never written");
        assert!(late.to_string().contains("`explode`"), "{late}");
        rt.spawn("too late", bad.read(), |_| never()).expect("accepted");
        rt.wait().expect("a cancelled task is no new failure");
        rt.spawn("mend", bad.overwrite(), |x| *x = 1).expect("accepted");
        assert_eq!(bad.value(&rt), 1);
    }
}

#[test]
fn an_error_is_reported_like_a_panic() {
    let rt = runtime(1);
    let cell = Shared::new(&rt);
    let error = std::io::Error::other("disk on fire");
    rt.spawn("load", cell.write(), move |_| Err::<(), _>(error)).expect("accepted");
    let text = rt.wait().expect_err("reported").to_string();
    assert!(text.contains("task `load`") && text.contains("failed: disk on fire"), "{text}");
}

#[test]
fn a_failure_is_seen_without_waiting() {
    let rt = runtime(0);
    rt.check().expect("nothing failed");
    rt.spawn("explode", (), |()| explode()).expect("accepted");
    assert!(rt.check().is_err());
    rt.check().expect("reported once");
}

#[test]
fn the_window_bounds_unfinished_tasks() {
    let rt = Runtime::builder().workers(2).window(8).build().expect("a runtime");
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..5000 {
        let unfinished = now.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(unfinished, Ordering::SeqCst);
        let now = now.clone();
        rt.spawn("count", (), move |()| {
            now.fetch_sub(1, Ordering::SeqCst);
        })
        .expect("accepted");
    }
    rt.wait().expect("nothing failed");
    // One more is counted here before `spawn` waits for room.
    assert!(most.load(Ordering::SeqCst) <= 8 + 1, "{most:?}");
    assert!(rt.statistics().submitted == 5000);
}

#[test]
fn the_end_of_a_task_lets_a_full_window_go_on() {
    for (workers, helps) in [(1, false), (2, false), (1, true), (2, true)] {
        let builder = Runtime::builder().workers(workers).main_helps(helps);
        let rt = builder.window(1).build().expect("a runtime");
        // Each task is the only one, so nothing after it tells the submitter again.
        for _ in 0..20_000 {
            rt.spawn("nothing", (), |()| ()).expect("accepted");
        }
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn a_full_window_never_blocks_a_body_or_the_holder_of_a_guard() {
    let rt = Runtime::builder().workers(1).window(2).build().expect("a runtime");
    let cell = Shared::new(&rt);
    let held = rt.acquire(cell.write()).expect("idle");
    for _ in 0..20 {
        rt.spawn("add", cell.write(), |x| *x += 1).expect("accepted");
    }
    drop(held);
    let inner = rt.clone();
    rt.spawn("parent", (), move |()| {
        for _ in 0..20 {
            inner.spawn("child", (), |()| ()).expect("accepted");
        }
    })
    .expect("accepted");
    assert_eq!(cell.value(&rt), 20);
    rt.wait().expect("nothing failed");
}

#[test]
fn dropping_the_runtime_finishes_its_tasks() {
    for workers in [0, 1, 3] {
        let ran = Arc::new(AtomicUsize::new(0));
        let rt = runtime(workers);
        let cell = Shared::new(&rt);
        for _ in 0..100 {
            let ran = ran.clone();
            let body = move |x: &mut u64| {
                *x += 1;
                ran.fetch_add(1, Ordering::SeqCst);
            };
            rt.spawn("add", cell.write(), body).expect("accepted");
        }
        drop(rt);
        assert_eq!(ran.load(Ordering::SeqCst), 100);
    }
}

#[test]
fn a_body_may_drop_the_last_clone_of_its_runtime() {
    let (done, finished) = mpsc::channel();
    let rt = runtime(2);
    let inner = rt.clone();
    let (let_go, gate) = mpsc::channel::<()>();
    rt.spawn("last", (), move |()| {
        gate.recv().expect("let go");
        drop(inner);
        done.send(()).expect("the test waits");
    })
    .expect("accepted");
    drop_in_thread(rt);
    let_go.send(()).expect("the body waits");
    finished.recv().expect("the body ended");
}

/// Dropping a runtime waits for its tasks, here for one that holds a clone: so the drop in this
/// thread is not the last one, and returns at once.
fn drop_in_thread(rt: Runtime) {
    std::thread::spawn(move || drop(rt)).join().expect("returns at once");
}

#[test]
fn threads_may_submit_at_the_same_time() {
    for (workers, helps) in [(2, false), (1, true), (2, true)] {
        let builder = Runtime::builder().workers(workers).main_helps(helps);
        submit_from_four_threads(&builder.build().expect("a runtime"));
    }
}

fn submit_from_four_threads(rt: &Runtime) {
    let cells: Vec<Shared> = (0..4).map(|_| Shared::new(rt)).collect();
    std::thread::scope(|scope| {
        for cell in &cells {
            scope.spawn(move || {
                for _ in 0..500 {
                    rt.spawn("add", cell.write(), |x| *x += 1).expect("accepted");
                }
                assert_eq!(cell.value(rt), 500);
                rt.wait().expect("nothing failed");
            });
        }
    });
}

#[test]
fn bad_settings_are_refused() {
    let most = Runtime::builder().workers(1025).build().expect_err("too many");
    assert!(matches!(most, BuildError::TooManyWorkers { asked: 1025, most: 1024 }));
    assert!(matches!(Runtime::builder().window(0).build(), Err(BuildError::EmptyWindow)));
    let hook = Runtime::builder().workers(2).on_worker_start(|w| assert!(w != 1)).build();
    assert!(matches!(hook, Err(BuildError::Hook { worker: 1 })));
}

#[test]
fn the_start_hook_runs_on_each_worker_before_build_returns() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let hook = move |worker: usize| {
        count.fetch_add(1 << (8 * worker), Ordering::SeqCst);
    };
    let _rt = Runtime::builder().workers(3).on_worker_start(hook).build().expect("a runtime");
    assert_eq!(seen.load(Ordering::SeqCst), 0x01_01_01);
}

#[test]
fn a_waiting_thread_helps_as_worker_0() {
    let rt = Runtime::builder().workers(2).main_helps(true).build().expect("a runtime");
    let met = Arc::new(AtomicUsize::new(0));
    // Each body ends only when both run: the only thread of the pool cannot do it alone.
    for _ in 0..2 {
        let met = met.clone();
        let body = move |()| {
            met.fetch_add(1, Ordering::SeqCst);
            while met.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        };
        rt.spawn("meet", (), body).expect("accepted");
    }
    rt.wait().expect("nothing failed");
    let workers = rt.statistics().workers;
    assert_eq!([workers[0].tasks, workers[1].tasks], [1, 1]);
    assert!(workers[0].idle_ns[&Cause::MainBusy] > 0, "away before the wait");
    assert_eq!(workers[1].idle_ns[&Cause::MainBusy], 0);
}

#[test]
fn a_waiting_thread_takes_over_when_worker_0_leaves() {
    let rt = Runtime::builder().workers(2).main_helps(true).build().expect("a runtime");
    let (first, second) = (Shared::new(&rt), Shared::new(&rt));
    // The only thread of the pool is busy until the second task has run.
    let (occupied, begun) = mpsc::channel();
    let (let_go, gate) = mpsc::channel();
    let occupy = move |()| {
        occupied.send(()).expect("the test waits");
        gate.recv().expect("the second task runs");
    };
    rt.spawn("occupy", (), occupy).expect("accepted");
    begun.recv().expect("begins");
    let observer = rt.clone();
    let body = move |_: &mut _| until_waiting(&observer, Cause::Drain);
    rt.spawn("first", first.write(), body).expect("accepted");
    let body = move |x: &mut u64| {
        *x = 7;
        let_go.send(()).expect("the pool waits");
    };
    rt.spawn("second", second.write(), body).expect("accepted");
    std::thread::scope(|scope| {
        scope.spawn(|| first.value(&rt));
        scope.spawn(|| rt.wait().expect("nothing failed"));
    });
    assert_eq!(second.value(&rt), 7);
}

#[test]
fn a_wait_is_to_blame_only_once_every_task_has_been_started() {
    let rt = runtime(2);
    let cell = Shared::new(&rt);
    rt.trace_start();
    // Neither ends before the wait has begun.
    for name in ["first", "second"] {
        let observer = rt.clone();
        let body = move |_: &mut _| until_waiting(&observer, Cause::Drain);
        rt.spawn(name, cell.write(), body).expect("accepted");
    }
    rt.wait().expect("nothing failed");
    rt.trace_stop();
    let trace = rt.trace_take("t", Default::default());
    let task = |name| {
        let named = |s: &&millrace_runtime::trace::Span| trace.names[s.name as usize] == name;
        *trace.spans.iter().find(named).expect("recorded")
    };
    let (first, second) = (task("first"), task("second"));
    let idle = trace.spans.iter().filter(|s| s.kind == SpanKind::Idle && s.lane != first.lane);
    for span in idle.filter(|s| s.lane != second.lane && s.start < second.end) {
        // While the first task runs, the second is not ready; then all have been started.
        if span.end <= first.end {
            assert_eq!(span.cause, Cause::NoReadyTask, "{span:?}");
        }
        if span.start >= second.start {
            assert_eq!(span.cause, Cause::Drain, "{span:?}");
        }
    }
}

#[test]
fn a_trace_shows_tasks_idle_time_and_waits_with_their_causes() {
    let rt = runtime(2);
    let cell = Shared::new(&rt);
    rt.trace_start();
    rt.mark_batch(0);
    for i in 0..10 {
        let observer = rt.clone();
        let body = move |_: &mut _| until_waiting(&observer, Cause::Drain);
        let task = rt.task("step").batch(i).layer(2).shard(1);
        task.spawn(cell.write(), body).expect("accepted");
    }
    rt.wait().expect("nothing failed");
    rt.trace_stop();
    let trace = rt.trace_take("test", Default::default());
    let lanes: Vec<_> = trace.lanes.iter().map(|l| (l.name.as_str(), l.kind)).collect();
    let worker = LaneKind::Worker;
    assert_eq!(lanes, [("main", LaneKind::Main), ("worker 0", worker), ("worker 1", worker)]);
    let tasks: Vec<_> = trace.spans.iter().filter(|s| s.kind == SpanKind::Task).collect();
    let mut batches: Vec<_> = tasks.iter().map(|s| s.batch.expect("labelled")).collect();
    batches.sort_unstable();
    assert_eq!(batches, (0..10).collect::<Vec<_>>());
    assert!(tasks.iter().all(|s| s.layer == Some(2) && s.shard == Some(1) && s.lane > 0));
    assert!(tasks.iter().all(|s| trace.names[s.name as usize] == "step"));
    let drain: u64 = trace
        .spans
        .iter()
        .filter(|s| s.lane == 0 && s.cause == Cause::Drain)
        .map(|s| s.duration())
        .sum();
    assert!(drain > 0);
    // The chain keeps one worker idle while the main thread drains.
    let idle = |cause| {
        let spans = trace.spans.iter().filter(|s| s.kind == SpanKind::Idle && s.cause == cause);
        spans.map(|s| s.duration()).sum::<u64>()
    };
    let statistics = rt.statistics();
    assert_eq!(statistics.workers.iter().map(|w| w.tasks).sum::<u64>(), 10);
    assert!(statistics.wait_ns(Cause::Drain) >= drain);
    assert_eq!(trace.dropped, 0);
    assert_eq!(idle(Cause::None), 0);
}
