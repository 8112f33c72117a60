//! Waiting for less than everything, for a limited time, and for what was cancelled.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Shared, blocked};
use millrace_runtime::{Runtime, SubmitError, WaitError};

/// Short enough to wait for, in tests whose outcome does not depend on it.
const SHORT: Duration = Duration::from_millis(2);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

fn helping(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).main_helps(true).build().expect("a runtime")
}

fn never((): ()) {
    unreachable!("the task should have been cancelled");
}

#[test]
fn an_explicit_edge_orders_and_carries_failure() {
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers);
        let count = Arc::new(AtomicUsize::new(0));
        let mut last = None;
        for index in 0..100 {
            let count = count.clone();
            let mut task = rt.task("count");
            if let Some(before) = last {
                task = task.after(before);
            }
            let body = move |()| assert_eq!(count.fetch_add(1, Ordering::Relaxed), index);
            last = Some(task.spawn((), body).expect("accepted"));
        }
        rt.wait().expect("in order");

        let fails = rt.spawn("fails", (), |()| Err::<(), _>("no")).expect("accepted");
        let before = rt.task("while it fails").after(fails).spawn((), never);
        rt.wait_for(before.expect("accepted")).expect_err("its predecessor failed");
        assert!(
            rt.wait()
                .expect_err("reported")
                .to_string()
                .ends_with("1 dependent tasks were cancelled")
        );
        let late = rt.task("afterwards").after(fails).spawn((), never);
        let error = rt.wait_for(late.expect("accepted")).expect_err("its predecessor failed");
        assert!(error.to_string().contains("`fails`"), "{error}");
        rt.wait().expect("reported before");
    }
}

#[test]
fn a_task_of_another_runtime_is_refused() {
    let (here, there) = (runtime(1), runtime(1));
    let task = there.spawn("there", (), |()| ()).expect("accepted");
    let error = here.task("here").after(task).spawn((), |()| ()).expect_err("foreign");
    assert!(matches!(error, SubmitError::WrongRuntime { task: "here", .. }), "{error}");
    assert!(matches!(here.wait_for(task), Err(WaitError::WrongRuntime { call: "wait_for" })));
    here.cancel(task);
    assert!(!here.has_ended(task));
    there.wait().expect("not cancelled");
}

#[test]
fn a_body_returns_a_value() {
    for rt in [runtime(0), runtime(1), runtime(2), helping(2)] {
        let cell = Shared::new(&rt);
        rt.spawn("set", cell.write(), |x| *x = 20).expect("accepted");
        let double = rt.task("double").spawn_value(cell.read(), |x| 2 * *x).expect("accepted");
        let mut next = rt
            .task("next")
            .after(double.id())
            .spawn_value((), |()| "text".to_owned())
            .expect("accepted");
        assert_eq!(next.wait_timeout(Duration::MAX).expect("a value"), "text");
        assert!(double.has_ended(), "the other came after it");
        assert_eq!(double.wait().expect("a value"), 40);
        assert!(matches!(next.wait(), Err(WaitError::Taken)));

        let fails =
            rt.task("fails").try_spawn_value((), |()| "x".parse::<u32>()).expect("accepted");
        let error = fails.wait().expect_err("no number");
        assert!(error.to_string().contains("invalid digit"), "{error}");
        let panics = rt.task("panics").spawn_value((), |()| -> u32 { panic!("on purpose") });
        let error = panics.expect("accepted").wait().expect_err("no value");
        assert!(error.to_string().ends_with("panicked: on purpose"), "{error}");
        rt.wait().expect_err("both are reported here");
        rt.wait().expect("once");
    }
}

#[test]
fn waiting_for_a_task_waits_for_nothing_else() {
    for rt in [runtime(2), helping(3)] {
        let (other, let_go) = blocked(&rt);
        let cell = Shared::new(&rt);
        let task = rt.spawn("add", cell.write(), |x| *x += 1).expect("accepted");
        rt.wait_for(task).expect("it ended");
        assert!(rt.has_ended(task) && !rt.has_ended(other));
        assert_eq!(cell.value(&rt), 1);
        let_go.send(()).expect("the body waits");
        rt.wait().expect("nothing failed");
        rt.wait_for(task).expect("it ended long ago");
    }
}

#[test]
fn a_wait_that_could_not_end_is_refused() {
    let rt = runtime(1);
    let cell = Shared::new(&rt);
    let held = rt.acquire(cell.write()).expect("idle");
    let task = rt.spawn("add", cell.write(), |x| *x += 1).expect("accepted");
    assert!(matches!(rt.wait_for(task), Err(WaitError::HoldsGuard { call: "wait_for" })));
    assert!(matches!(rt.wait_timeout(SHORT), Err(WaitError::HoldsGuard { .. })));
    assert!(rt.try_acquire(cell.read()).expect("no error").is_none());
    drop(held);
    rt.wait_for(task).expect("it ended");
    let inner = rt.clone();
    let refused = rt
        .task("waits")
        .spawn_value((), move |()| {
            let nothing = inner.spawn("child", (), |()| ()).expect("accepted");
            matches!(inner.wait_for_timeout(nothing, SHORT), Err(WaitError::InsideTask { .. }))
                || inner.has_ended(nothing)
        })
        .expect("accepted");
    assert!(refused.wait().expect("a value"));
}

#[test]
fn a_wait_gives_up_when_its_time_is_over() {
    for rt in [runtime(1), runtime(2)] {
        let (task, let_go) = blocked(&rt);
        let cell = Shared::new(&rt);
        let write =
            rt.task("write").after(task).spawn(cell.write(), |x| *x += 1).expect("accepted");
        assert!(matches!(
            rt.wait_timeout(SHORT),
            Err(WaitError::TimedOut { call: "wait_timeout" })
        ));
        assert!(matches!(rt.wait_for_timeout(write, SHORT), Err(WaitError::TimedOut { .. })));
        assert!(matches!(rt.acquire_timeout(cell.read(), SHORT), Err(WaitError::TimedOut { .. })));
        assert!(matches!(rt.acquire_timeout(cell.write(), SHORT), Err(WaitError::TimedOut { .. })));
        // Behind the tries that were given up.
        rt.spawn("write", cell.write(), |x| *x += 10).expect("accepted");
        assert!(rt.try_acquire(cell.read()).expect("no error").is_none());
        let_go.send(()).expect("the body waits");
        assert_eq!(cell.value(&rt), 11);
        assert!(rt.try_acquire(cell.read()).expect("no error").is_some());
        rt.wait_timeout(Duration::MAX).expect("nothing failed");
        rt.wait_for_timeout(write, Duration::ZERO).expect("it ended");
    }
}

#[test]
fn given_up_tries_end_one_after_the_other() {
    let rt = runtime(1);
    let (task, let_go) = blocked(&rt);
    let cell = Shared::new(&rt);
    rt.task("write").after(task).spawn(cell.write(), |x| *x += 1).expect("accepted");
    // Each waits for the one before; so many would not fit on a stack.
    for _ in 0..50_000 {
        rt.acquire_timeout(cell.write(), Duration::ZERO).expect_err("in the way");
    }
    let_go.send(()).expect("the body waits");
    assert_eq!(cell.value(&rt), 1);
}

/// Counts how many of its clones were dropped.
#[derive(Clone)]
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_cancelled_task_is_dropped_with_its_dependents() {
    for rt in [runtime(1), runtime(4), helping(2)] {
        let (task, let_go) = blocked(&rt);
        let (cell, other) = (Shared::new(&rt), Shared::new(&rt));
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut named = Vec::new();
        for _ in 0..3 {
            let token = Drops(dropped.clone());
            let body = move |x: &mut u64| {
                *x += 1;
                drop(token);
            };
            named.push(rt.task("add").after(task).spawn(cell.write(), body).expect("accepted"));
        }
        rt.task("other").after(task).spawn(other.write(), |x| *x = 5).expect("accepted");
        rt.cancel(named[1]);
        rt.cancel(task); // It runs.
        let_go.send(()).expect("the body waits");
        rt.wait_for(named[0]).expect("not cancelled");
        for cancelled in &named[1..] {
            assert!(matches!(rt.wait_for(*cancelled), Err(WaitError::Cancelled)));
        }
        assert!(matches!(rt.acquire(cell.read()), Err(WaitError::Cancelled)));
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        rt.wait().expect("reported once");
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
        assert_eq!(other.value(&rt), 5);
        rt.spawn("mend", cell.overwrite(), |x| *x = 9).expect("accepted");
        assert_eq!(cell.value(&rt), 9);
        rt.cancel(named[0]); // Its slot has another task by now, or none.
        rt.wait().expect("nothing was cancelled");
    }
}

#[test]
fn everything_that_has_not_started_can_be_cancelled() {
    for workers in [1, 2, 4] {
        let rt = runtime(workers);
        let (task, let_go) = blocked(&rt);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..1000 {
            let ran = ran.clone();
            let body = move |()| {
                ran.fetch_add(1, Ordering::SeqCst);
            };
            rt.task("count").after(task).spawn((), body).expect("accepted");
        }
        rt.cancel_all();
        let counted = ran.clone();
        let late = rt.task("late").spawn_value((), move |()| counted.load(Ordering::SeqCst));
        let_go.send(()).expect("the body waits");
        assert_eq!(late.expect("accepted").wait().expect("not cancelled"), 0);
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        let cancelled: u64 = rt.statistics().workers.iter().map(|worker| worker.cancelled).sum();
        assert_eq!(cancelled, 1000);
    }
}

/// A value whose drop panics.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn a_body_that_panics_when_it_is_dropped_is_reported() {
    for workers in [0, 1, 2] {
        let rt = runtime(workers);
        let cell = Shared::new(&rt);
        let fails = |_: &mut u64| Err::<(), _>("no");
        rt.spawn("fails", cell.write(), fails).expect("accepted");
        rt.wait().expect_err("the first failure");
        let token = PanicsWhenDropped;
        let body = move |_: &u64| drop(token);
        rt.spawn("cancelled", cell.read(), body).expect("accepted");
        let text = rt.wait().expect_err("a failure of its own").to_string();
        assert!(text.contains("`cancelled`") && text.contains("dropping its body"), "{text}");
        rt.wait().expect("reported once");
    }
}
