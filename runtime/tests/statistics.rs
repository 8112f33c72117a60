//! What the runtime counts.

mod common;

use std::sync::LazyLock;
use std::sync::mpsc;

use common::Shared;
use millrace_runtime::trace::Cause;
use millrace_runtime::{Builder, Runtime, Statistics, WorkerStatistics};

fn build(builder: Builder) -> Runtime {
    builder.build().expect("a runtime")
}

fn explode() {
    panic!("on purpose");
}

/// Chains and independent tasks, with some that bodies submit, of three kinds.
fn mixed_tasks(rt: &Runtime) {
    let cells: Vec<_> = (0..4).map(|_| Shared::new(rt)).collect();
    for i in 0..200 {
        let cell = &cells[i % 4];
        rt.spawn("write", cell.write(), |x| *x += 1).expect("accepted");
        rt.spawn("read", (cell.read(), cells[(i + 1) % 4].read()), |_| ()).expect("accepted");
        let inner = rt.clone();
        let nested = move |()| {
            inner.spawn("nested", (), |()| ()).expect("accepted");
        };
        rt.spawn("nests", (), nested).expect("accepted");
    }
    rt.wait().expect("nothing fails");
}

fn check_idle_time(worker: &WorkerStatistics) {
    let away = worker.idle_ns[&Cause::MainBusy];
    assert_eq!(worker.looking_ns + worker.sleeping_ns + away, worker.idle_total_ns());
}

/// Reads until `condition` holds; it will, however long that takes.
fn read_until(rt: &Runtime, condition: impl Fn(&Statistics) -> bool) -> Statistics {
    loop {
        let statistics = rt.statistics();
        if condition(&statistics) {
            return statistics;
        }
        std::thread::yield_now();
    }
}

fn is_asleep(worker: &WorkerStatistics) -> bool {
    worker.sleeps == worker.wakeups + 1
}

/// A reading while each worker sleeps, or is away: none is about to note something that belongs
/// to the time before.
fn settled(rt: &Runtime, helps: bool) -> Statistics {
    let present = usize::from(helps);
    let quiet = |now: &Statistics| now.workers.iter().skip(present).all(is_asleep);
    // A microsecond is more than the threads' clocks differ.
    let seen = read_until(rt, quiet).at_ns + 1000;
    read_until(rt, |now| quiet(now) && now.at_ns > seen)
}

/// Kinds and workers are two sums over the same tasks, and a worker's time has three parts.
fn check_totals(statistics: &Statistics) {
    let threads = || statistics.workers.iter().chain([&statistics.inline]);
    let bodies = || statistics.kinds.values().map(|kind| &kind.body);
    let tasks: u64 = threads().map(|thread| thread.tasks).sum();
    assert_eq!(bodies().map(|body| body.count()).sum::<u64>(), tasks);
    let busy: u64 = threads().map(|thread| thread.busy_ns).sum();
    assert_eq!(bodies().map(|body| body.total_ns()).sum::<u64>(), busy);
    for worker in &statistics.workers {
        let sum = worker.busy_ns + worker.scheduling_ns + worker.idle_total_ns();
        assert_eq!(sum, statistics.at_ns);
        check_idle_time(worker);
    }
    for (name, kind) in &statistics.kinds {
        assert_eq!(kind.delay.count(), kind.body.count(), "{name}");
        assert!(kind.delay.total_ns() <= statistics.at_ns * kind.delay.count(), "{name}");
        let longest = kind.delay.quantile_ns(1.0);
        assert!(longest <= statistics.at_ns + statistics.at_ns / 64, "{name}: {longest} ns");
    }
}

#[test]
fn kinds_and_workers_are_two_sums_over_the_same_tasks() {
    for (workers, helps) in [(0, false), (1, false), (2, false), (3, true)] {
        let rt = build(Runtime::builder().workers(workers).main_helps(helps));
        mixed_tasks(&rt);
        let first = settled(&rt, helps);
        assert!(first.timed);
        check_totals(&first);
        let counts: Vec<_> =
            first.kinds.iter().map(|(name, kind)| (&**name, kind.body.count())).collect();
        assert_eq!(counts, [("nested", 200), ("nests", 200), ("read", 200), ("write", 200)]);

        rt.spawn("last", (), |()| ()).expect("accepted");
        rt.wait().expect("nothing fails");
        let difference = settled(&rt, helps).since(&first);
        check_totals(&difference);
        assert_eq!(difference.kinds.keys().collect::<Vec<_>>(), ["last"]);
    }
}

#[test]
fn the_delay_runs_from_the_last_predecessor_s_end_to_the_start() {
    let rt = build(Runtime::builder().workers(1));
    let cell = Shared::new(&rt);
    let (let_go, gate) = mpsc::channel::<()>();
    let (tell, begun) = mpsc::channel::<()>();
    let body = move |_: &mut u64| {
        tell.send(()).expect("listened to");
        gate.recv().expect("let go");
    };
    rt.spawn("first", cell.write(), body).expect("accepted");
    begun.recv().expect("it runs");
    rt.spawn("dependent", cell.write(), |_| ()).expect("accepted");
    rt.spawn("independent", (), |()| ()).expect("accepted");
    let before = rt.now_ns();
    // The only worker is in the first body meanwhile, however long that is.
    std::thread::yield_now();
    let after = rt.now_ns();
    let_go.send(()).expect("the task waits");
    rt.wait().expect("nothing fails");
    let end = rt.now_ns();
    let kinds = rt.statistics().kinds;
    assert!(kinds["first"].body.total_ns() >= after - before);
    let independent = kinds["independent"].delay.total_ns();
    assert!((after - before..=end).contains(&independent), "ready from the submission on");
    let dependent = kinds["dependent"].delay.total_ns();
    assert!(dependent <= end - after, "{dependent} ns: not ready before the first one ended");
}

#[test]
fn tasks_that_a_guard_or_a_cancelled_task_held_up_have_a_delay_too() {
    for workers in [0, 2] {
        let rt = build(Runtime::builder().workers(workers));
        let cell = Shared::new(&rt);
        let held = rt.acquire(cell.write()).expect("idle");
        rt.spawn("after guard", cell.write(), |_| ()).expect("accepted");
        drop(held);
        rt.wait().expect("nothing fails");
        let held = rt.acquire(cell.write()).expect("idle");
        rt.spawn("fails", cell.write(), |_| explode()).expect("accepted");
        rt.spawn("cancelled", cell.write(), |_| ()).expect("accepted");
        rt.spawn("mends", cell.overwrite(), |_| ()).expect("accepted");
        drop(held);
        rt.wait().expect_err("one fails");
        let statistics = rt.statistics();
        check_totals(&statistics);
        let names: Vec<_> = statistics.kinds.keys().collect();
        assert_eq!(names, ["after guard", "fails", "mends"], "no body of the cancelled one ran");
    }
}

#[test]
fn without_timing_and_trace_nothing_is_collected() {
    for workers in [0, 2] {
        let rt = build(Runtime::builder().workers(workers).timing(false));
        mixed_tasks(&rt);
        let statistics = rt.statistics();
        assert!(!statistics.timed);
        assert!(statistics.kinds.is_empty(), "{:?}", statistics.kinds);
        for thread in statistics.workers.iter().chain([&statistics.inline]) {
            assert_eq!((thread.busy_ns, thread.scheduling_ns, thread.idle_total_ns()), (0, 0, 0));
        }

        rt.trace_start();
        rt.spawn("traced", (), |()| ()).expect("accepted");
        rt.wait().expect("nothing fails");
        rt.trace_stop();
        mixed_tasks(&rt);
        let statistics = rt.statistics();
        assert_eq!(statistics.kinds.keys().collect::<Vec<_>>(), ["traced"]);
        assert_eq!(statistics.kinds["traced"].delay.count(), 1);
    }
}

#[test]
fn a_task_that_became_ready_before_times_were_taken_has_no_delay() {
    let rt = build(Runtime::builder().workers(1).timing(false));
    // Leaves times behind in the slots that the next tasks get.
    rt.trace_start();
    mixed_tasks(&rt);
    rt.trace_stop();
    let (let_go, gate) = mpsc::channel::<()>();
    let (tell, begun) = mpsc::channel::<()>();
    let body = move |()| {
        tell.send(()).expect("listened to");
        gate.recv().expect("let go");
    };
    rt.spawn("blocks", (), body).expect("accepted");
    begun.recv().expect("it runs");
    for _ in 0..100 {
        rt.spawn("early", (), |()| ()).expect("accepted");
    }
    rt.trace_start();
    let_go.send(()).expect("the task waits");
    rt.wait().expect("nothing fails");
    let early = &rt.statistics().kinds["early"];
    assert_eq!((early.body.count(), early.delay.count()), (100, 0));
    let trace = rt.trace_take("t", Default::default());
    let named = trace.spans.iter().filter(|span| trace.names[span.name as usize] == "early");
    assert_eq!(named.count(), 100);
}

#[test]
fn a_kind_is_its_text_wherever_the_text_is_stored() {
    /// Ten strings, each stored at a place of its own.
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..10).map(|i| format!("kind {}", i % 2)).collect());
    let rt = build(Runtime::builder().workers(2));
    for name in NAMES.iter() {
        rt.spawn(name, (), |()| ()).expect("accepted");
    }
    rt.wait().expect("nothing fails");
    let kinds = rt.statistics().kinds;
    let counts: Vec<_> = kinds.iter().map(|(name, kind)| (&**name, kind.body.count())).collect();
    assert_eq!(counts, [("kind 0", 5), ("kind 1", 5)]);
}

#[test]
fn a_reading_can_be_taken_while_tasks_run() {
    let rt = build(Runtime::builder().workers(2));
    let reader = rt.clone();
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut last = reader.statistics();
        while stopped.try_recv().is_err() {
            let now = reader.statistics();
            // No count ever falls, or this would panic.
            let _ = now.since(&last);
            last = now;
        }
    });
    (0..10).for_each(|_| mixed_tasks(&rt));
    stop.send(()).expect("the reader runs");
    thread.join().expect("no panic");
    check_totals(&rt.statistics());
}

#[test]
fn idle_threads_look_for_tasks_then_sleep() {
    for timing in [true, false] {
        let rt = build(Runtime::builder().workers(2).timing(timing));
        let first = settled(&rt, false);
        rt.spawn("wakes", (), |()| ()).expect("accepted");
        rt.wait().expect("nothing fails");
        let wakeups = |of: &Statistics| of.workers.iter().map(|w| w.wakeups).sum::<u64>();
        assert!(wakeups(&settled(&rt, false)) > wakeups(&first));
        let second = settled(&rt, false);
        let later = read_until(&rt, |now| now.at_ns > second.at_ns);
        for (worker, later_worker) in second.workers.iter().zip(&later.workers) {
            check_idle_time(worker);
            if timing {
                assert!(worker.looking_ns > 0, "it looked before it slept");
                if later_worker.sleeps == worker.sleeps {
                    let slept = later_worker.sleeping_ns - worker.sleeping_ns;
                    assert_eq!(slept, later.at_ns - second.at_ns, "asleep all the time");
                }
            } else {
                assert_eq!((worker.looking_ns, worker.sleeping_ns), (0, 0));
            }
        }
    }
}

#[test]
fn a_worker_that_is_away_neither_looks_nor_sleeps() {
    let rt = build(Runtime::builder().workers(2).main_helps(true));
    let statistics = rt.statistics();
    let away = &statistics.workers[0];
    check_idle_time(away);
    assert!(away.idle_ns[&Cause::MainBusy] > 0);
    assert_eq!((away.looking_ns, away.sleeping_ns, away.sleeps, away.wakeups), (0, 0, 0, 0));
}
