//! The memory window: unfinished tasks declare no more bytes than it says.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use common::{Bytes, Shared, until_waiting};
use millrace_runtime::scheduler::Schedule;
use millrace_runtime::trace::{Cause, SpanKind};
use millrace_runtime::{Builder, Runtime, TaskId};
use proptest::prelude::*;

fn build(builder: Builder) -> Runtime {
    builder.build().expect("a runtime")
}

/// How often a thread began to wait for room in the memory window.
fn waits(rt: &Runtime) -> u64 {
    let waits = rt.statistics().waits;
    waits.get(&(Cause::Memory, "memory window full".to_owned())).map_or(0, |total| total.count)
}

/// Submits a task of that many bytes which runs until it is let go.
fn occupy(rt: &Runtime, bytes: usize) -> mpsc::Sender<()> {
    let (let_go, gate) = mpsc::channel();
    rt.spawn("occupy", Bytes(bytes), move |()| gate.recv().expect("let go")).expect("accepted");
    let_go
}

#[test]
fn a_full_memory_window_waits_and_says_so() {
    let rt = build(Runtime::builder().workers(2).memory_window(10));
    rt.trace_start();
    rt.spawn("small", Bytes(2), |()| ()).expect("accepted");
    let observer = rt.clone();
    let body = move |()| until_waiting(&observer, Cause::Memory);
    rt.spawn("until somebody waits", Bytes(8), body).expect("both fit");
    rt.spawn("waits", Bytes(3), |()| ()).expect("accepted");
    rt.wait().expect("nothing failed");
    rt.trace_stop();
    assert_eq!(waits(&rt), 1);
    assert!(rt.statistics().wait_ns(Cause::Memory) > 0);
    let trace = rt.trace_take("test", BTreeMap::new());
    let waits = trace.spans.iter().filter(|span| {
        let named = trace.names[span.name as usize] == "memory window full";
        span.kind == SpanKind::Wait && span.cause == Cause::Memory && named && span.lane == 0
    });
    assert_eq!(waits.count(), 1);
}

#[test]
fn what_declares_no_memory_does_not_wait_for_it() {
    let rt = build(Runtime::builder().workers(1).memory_window(10));
    let let_go = occupy(&rt, 100);
    for _ in 0..100 {
        rt.spawn("nothing", Bytes(0), |()| ()).expect("accepted");
    }
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
    assert_eq!(waits(&rt), 0);
}

#[test]
fn a_full_memory_window_never_blocks_a_body_or_the_holder_of_a_guard() {
    for (workers, helps) in [(0, false), (1, false), (2, true)] {
        let builder = Runtime::builder().workers(workers).main_helps(helps);
        let rt = build(builder.memory_window(10));
        let cell = Shared::new(&rt);
        let held = rt.acquire(cell.write()).expect("idle");
        for _ in 0..20 {
            rt.spawn("add", (cell.write(), Bytes(7)), |(x, ())| *x += 1).expect("accepted");
        }
        drop(held);
        let inner = rt.clone();
        let parent = move |()| {
            for _ in 0..20 {
                inner.spawn("child", Bytes(7), |()| ()).expect("accepted");
            }
        };
        rt.spawn("parent", Bytes(1), parent).expect("accepted");
        assert_eq!(cell.value(&rt), 20);
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn without_workers_nothing_waits_for_memory() {
    let rt = build(Runtime::builder().workers(0).memory_window(1));
    for _ in 0..100 {
        rt.spawn("count", Bytes(50), |()| ()).expect("accepted");
    }
    rt.wait().expect("nothing failed");
    assert_eq!(waits(&rt), 0);
}

#[test]
fn many_small_tasks_do_not_keep_a_large_one_waiting() {
    let rt = build(Runtime::builder().workers(1).memory_window(10));
    let let_go = occupy(&rt, 5);
    std::thread::scope(|scope| {
        scope.spawn(|| rt.spawn("large", Bytes(20), |()| ()).expect("accepted"));
        until_waiting(&rt, Cause::Memory);
        let small = scope.spawn(|| rt.spawn("small", Bytes(1), |()| ()).expect("accepted"));
        while waits(&rt) < 2 && !small.is_finished() {
            std::thread::yield_now();
        }
        let waiting = waits(&rt);
        let_go.send(()).expect("the body waits");
        assert_eq!(waiting, 2, "it would fit, but another one waits");
    });
    rt.wait().expect("nothing failed");
}

/// Submits tasks, one after the other, until `stop` says no.
fn keep_busy(rt: &Runtime, stop: &Arc<AtomicBool>) {
    let (inner, told) = (rt.clone(), stop.clone());
    let body = move |()| {
        if !told.load(Ordering::SeqCst) {
            keep_busy(&inner, &told);
        }
    };
    rt.spawn("again", (), body).expect("accepted");
}

#[test]
fn a_worker_that_never_rests_lets_a_full_memory_window_go_on() {
    let rt = build(Runtime::builder().workers(1).memory_window(10));
    let observer = rt.clone();
    let body = move |()| until_waiting(&observer, Cause::Memory);
    rt.spawn("until somebody waits", Bytes(10), body).expect("accepted");
    let stop = Arc::new(AtomicBool::new(false));
    keep_busy(&rt, &stop);
    rt.spawn("waits", Bytes(5), |()| ()).expect("accepted");
    stop.store(true, Ordering::SeqCst);
    rt.wait().expect("nothing failed");
}

/// The bytes of running bodies.
#[derive(Clone, Default)]
struct Running(Arc<AtomicUsize>);

impl Running {
    /// A body of a task with `bytes`, which submits others of the given bytes.
    fn body(
        &self,
        rt: &Runtime,
        bytes: usize,
        bound: usize,
        children: &[usize],
    ) -> impl Fn() + Send + use<> {
        let (running, rt, children) = (self.0.clone(), rt.clone(), children.to_vec());
        move || {
            let others = running.fetch_add(bytes, Ordering::SeqCst);
            for bytes in &children {
                rt.spawn("child", Bytes(*bytes), |()| ()).expect("accepted");
            }
            running.fetch_sub(bytes, Ordering::SeqCst);
            assert!(others == 0 || bytes == 0 || others + bytes <= bound, "{others} and {bytes}");
        }
    }
}

#[test]
fn the_end_of_a_task_lets_a_full_memory_window_go_on() {
    for (workers, helps) in [(1, false), (2, false), (1, true), (2, true)] {
        for window in [1, 100] {
            let builder = Runtime::builder().workers(workers).main_helps(helps);
            let rt = build(builder.window(window).memory_window(1));
            // Each task is the only one, so nothing after it tells the submitter again.
            for index in 0..10_000 {
                rt.spawn("nothing", Bytes(1 + index % 2), |()| ()).expect("accepted");
            }
            rt.wait().expect("nothing failed");
        }
    }
}

#[test]
fn threads_that_submit_at_the_same_time_keep_the_bound_together() {
    for (workers, helps) in [(1, false), (2, false), (4, false), (3, true)] {
        let rt = build(Runtime::builder().workers(workers).main_helps(helps).memory_window(10));
        let running = Running::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (rt, running) = (&rt, running.clone());
                scope.spawn(move || {
                    for index in 0..1000 {
                        let bytes = [1, 4, 25, 10, 0, 6, 11][(index + thread) % 7];
                        let body = running.body(rt, bytes, 10, &[]);
                        rt.spawn("count", Bytes(bytes), move |()| body()).expect("accepted");
                    }
                });
            }
        });
        rt.wait().expect("the bound held");
    }
}

/// One task of a random program.
#[derive(Clone, Debug)]
struct Step {
    bytes: usize,
    writes: usize,
    reads: Option<usize>,
    children: Vec<usize>,
    fails: bool,
}

const CELLS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![1 => Just(0usize), 8 => 1usize..40, 1 => 40usize..200];
    let children = prop_oneof![9 => Just(vec![]), 1 => prop::collection::vec(bytes(), 1..4)];
    let reads = prop::option::weighted(0.5, 0..CELLS);
    (bytes(), 0..CELLS, reads, children, prop::bool::weighted(0.02)).prop_map(
        |(bytes, writes, reads, children, fails)| {
            let reads = reads.filter(|cell| *cell != writes);
            Step { bytes, writes, reads, children, fails }
        },
    )
}

/// Runs a program, and looks after each submission and inside each body.
fn check(rt: &Runtime, bound: usize, steps: &[Step]) {
    let cells: Vec<Shared> = (0..CELLS).map(|_| Shared::new(rt)).collect();
    let running = Running::default();
    let mut unfinished: Vec<(TaskId, usize)> = Vec::new();
    for step in steps {
        let Step { bytes, writes, fails, .. } = *step;
        let reads: Vec<_> = step.reads.iter().map(|cell| cells[*cell].read()).collect();
        let body = running.body(rt, bytes, bound, &step.children);
        let access = (cells[writes].overwrite(), reads, Bytes(bytes));
        let body = move |_: (&mut u64, Vec<&u64>, ())| {
            body();
            if fails { Err("it was told to") } else { Ok(()) }
        };
        let id = rt.spawn("step", access, body).expect("accepted");
        unfinished.push((id, bytes));
        // Those of bodies are let in all the same, but then those of this thread are not.
        unfinished.retain(|(task, bytes)| *bytes > 0 && !rt.has_ended(*task));
        let sum: usize = unfinished.iter().map(|(_, bytes)| bytes).sum();
        assert!(sum <= bound || unfinished.len() == 1, "{sum} bytes, at most {bound}");
    }
    let told = rt.wait().map_err(|error| error.to_string());
    let failed = told.as_ref().is_err_and(|text| text.contains("it was told to"));
    assert_eq!(failed, steps.iter().any(|step| step.fails), "{told:?}");
    assert!(told.is_ok() || !told.expect_err("checked").contains("panicked"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_is_never_exceeded(
        steps in prop::collection::vec(step(), 1..300),
        bound in 0usize..120,
        window in prop_oneof![1usize..10, Just(4096)],
        workers in 1usize..=16,
        helps in any::<bool>(),
        scheduler in prop::sample::select(&Schedule::NAMES),
    ) {
        let builder = Runtime::builder().workers(workers).main_helps(helps).window(window);
        let builder = builder.scheduler(scheduler.parse().expect("a scheduler"));
        check(&build(builder.memory_window(bound)), bound, &steps);
    }
}
