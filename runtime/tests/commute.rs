//! Tasks that commute: alone on their data, in any order.
#![allow(unsafe_code, reason = "implements the unsafe trait `RecordedAccess` for a test")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use common::{Shared, blocked, quiet_panics};
use millrace_runtime::replay::{Bound, Part, RecordedAccess};
use millrace_runtime::scheduler::{Placement, Schedule};
use millrace_runtime::{Claims, Label, Mode, Runtime, SubmitError, TaskId, WaitError};
use proptest::prelude::*;

fn runtime(workers: usize, helps: bool) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

/// A commuting task that holds `data` until it is let go; returns once it does.
fn holder(rt: &Runtime, data: &Shared) -> (TaskId, mpsc::Sender<()>) {
    let (let_go, gate) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let body = move |_: &mut u64| {
        begun.send(()).expect("the test waits");
        gate.recv().expect("let go");
    };
    let task = rt.spawn("holder", data.commute(), body).expect("accepted");
    begins.recv().expect("it begins");
    (task, let_go)
}

fn never() {
    unreachable!("it should have been cancelled");
}

/// Returns once the only worker that is free has looked at all that was ready before.
fn pass(rt: &Runtime) {
    // It may have looked for urgent tasks before it found the first of these.
    for _ in 0..2 {
        let passed = rt.spawn("passed", (), |()| ()).expect("accepted");
        rt.wait_for(passed).expect("nothing is in its way");
    }
}

/// Some philosophers eat at one table, each with the forks that his plate demands, which he takes
/// in an order of his own.
fn dine(rt: &Runtime, plates: &[Vec<usize>], forks: usize) {
    let handles = rt.handles(forks as u32).expect("few handles");
    let in_use: Arc<Vec<AtomicBool>> =
        Arc::new((0..forks).map(|_| AtomicBool::new(false)).collect());
    let meals = Arc::new(AtomicUsize::new(0));
    for plate in plates {
        let (in_use, meals, own) = (in_use.clone(), meals.clone(), plate.clone());
        let access: Vec<_> = plate.iter().map(|fork| handles.commute(*fork)).collect();
        let eat = move |_| {
            for fork in &own {
                assert!(!in_use[*fork].swap(true, Ordering::SeqCst), "two have fork {fork}");
            }
            std::thread::yield_now();
            own.iter().for_each(|fork| in_use[*fork].store(false, Ordering::SeqCst));
            meals.fetch_add(1, Ordering::SeqCst);
        };
        rt.spawn("eat", access, eat).expect("accepted");
    }
    rt.wait().expect("nobody met anybody");
    assert_eq!(meals.load(Ordering::SeqCst), plates.len());
}

#[test]
fn philosophers_who_take_forks_in_opposite_orders_all_eat() {
    for name in Schedule::NAMES {
        for (workers, helps) in [(0, false), (1, false), (2, true), (4, false), (16, true)] {
            let schedule = name.parse().expect("a scheduler");
            let builder = Runtime::builder().workers(workers).main_helps(helps);
            let rt = builder.scheduler(schedule).build().expect("a runtime");
            let plates: Vec<_> = (0..600)
                .map(|i| match i % 4 {
                    0 => vec![i % 5, (i + 1) % 5],
                    1 => vec![(i + 1) % 5, i % 5],
                    2 => vec![4, 3, 2, 1, 0],
                    _ => vec![i % 5],
                })
                .collect();
            dine(&rt, &plates, 5);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn whoever_takes_which_forks_all_eat(
        plates in prop::collection::vec(prop::collection::hash_set(0usize..6, 0..4), 1..200),
        workers in prop::sample::select(vec![1usize, 2, 4, 16]),
        helps in any::<bool>(),
    ) {
        // The order of a set is arbitrary.
        let plates: Vec<Vec<_>> = plates.into_iter().map(|p| p.into_iter().collect()).collect();
        dine(&runtime(workers, helps), &plates, 6);
    }
}

#[test]
fn one_that_cannot_begin_holds_up_nobody_else() {
    for (workers, helps) in [(2, false), (3, true)] {
        let rt = runtime(workers, helps);
        let (a, b) = (Shared::new(&rt), Shared::new(&rt));
        let (first, let_go) = holder(&rt, &a);
        // Ready as well, but not alone with `a`: it is passed by, whichever worker finds it.
        let parked = rt.spawn("parked", (a.commute(), b.commute()), |(a, b)| (*a, *b) = (1, 1));
        let parked = parked.expect("accepted");
        let other = rt.spawn("other", b.commute(), |b| *b += 1).expect("accepted");
        rt.wait_for(other).expect("another handle of the parked one is free");
        assert!(!rt.has_ended(first) && !rt.has_ended(parked));
        let_go.send(()).expect("the body waits");
        rt.wait().expect("nothing failed");
        assert_eq!((a.value(&rt), b.value(&rt)), (1, 1));
    }
}

#[test]
fn the_later_may_run_first() {
    let rt = runtime(2, false);
    let (data, slow) = (Shared::new(&rt), Shared::new(&rt));
    let (_, let_go) = holder(&rt, &slow);
    // Submitted first, but it waits for `slow`.
    let first = rt.spawn("first", (data.commute(), slow.read()), |(x, _)| *x = *x * 10 + 1);
    let second = rt.spawn("second", data.commute(), |x| *x = *x * 10 + 2).expect("accepted");
    rt.wait_for(second).expect("it does not wait for the first");
    assert!(!rt.has_ended(first.expect("accepted")));
    let_go.send(()).expect("the body waits");
    assert_eq!(data.value(&rt), 21);
}

#[test]
fn other_modes_wait_for_the_whole_run_and_the_run_for_them() {
    let rt = runtime(3, false);
    let data = Shared::new(&rt);
    let (_, let_write) = blocked(&rt);
    let held = rt.acquire(data.write()).expect("idle");
    let run = |rt: &Runtime| -> Vec<TaskId> {
        let add = |_| rt.spawn("add", data.commute(), |x| *x += 1).expect("accepted");
        (0..10).map(add).collect()
    };
    let first = run(&rt);
    assert!(first.iter().all(|task| !rt.has_ended(*task)), "they wait for the guard");
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let seen = seen.clone();
        let note = move |x: &u64| seen.lock().expect("no panic").push(*x);
        rt.spawn("note", data.read(), note).expect("accepted");
    }
    run(&rt);
    rt.spawn("double", data.write(), |x| *x *= 2).expect("accepted");
    run(&rt);
    drop(held);
    let_write.send(()).expect("the body waits");
    assert_eq!(data.value(&rt), 50);
    assert_eq!(*seen.lock().expect("no panic"), [10; 3]);
    rt.spawn("clear", data.overwrite(), |x| *x = 3).expect("accepted");
    assert_eq!(data.value(&rt), 3);
}

#[test]
fn without_workers_the_order_is_that_of_the_program() {
    let rt = runtime(0, false);
    let data = Shared::new(&rt);
    let held = rt.acquire(data.write()).expect("idle");
    for digit in 1..6 {
        let append = move |x: &mut u64| *x = *x * 10 + digit;
        rt.task("append").priority(digit as i16).spawn(data.commute(), append).expect("accepted");
    }
    drop(held);
    assert_eq!(data.value(&rt), 12345);
}

#[test]
fn a_guard_takes_it_for_writing() {
    let rt = runtime(2, false);
    let data = Shared::new(&rt);
    let (_, let_go) = holder(&rt, &data);
    assert!(rt.try_acquire(data.commute()).expect("no error").is_none());
    let_go.send(()).expect("the body waits");
    let mut held = rt.acquire(data.commute()).expect("nothing failed");
    let task = rt.spawn("add", data.commute(), |x| *x += 1).expect("accepted");
    let result = rt.wait_for_timeout(task, Duration::ZERO);
    assert!(matches!(result, Err(WaitError::HoldsGuard { .. })), "it waits for the guard");
    *held.data() = 5;
    drop(held);
    assert_eq!(data.value(&rt), 6);
}

#[test]
fn one_handle_twice_is_refused() {
    let rt = runtime(1, false);
    let data = Shared::new(&rt);
    let error = rt.spawn("twice", (data.commute(), data.commute()), |_| ()).expect_err("twice");
    assert!(matches!(error, SubmitError::Conflict { .. }));
    let text =
        "task `twice` declares the same data twice: access 0 (commute) and access 1 (commute)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_failure_spares_the_others_of_the_run_and_cancels_who_reads_them() {
    quiet_panics();
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers, false);
        let data = Shared::new(&rt);
        let ran = Arc::new(AtomicUsize::new(0));
        // Many, so that those that have ended well are forgotten in between.
        for index in 0..1000 {
            let ran = ran.clone();
            let body = move |_: &mut u64| {
                ran.fetch_add(1, Ordering::SeqCst);
                assert!(index != 10, "task {index} was told to");
            };
            rt.task("add").batch(index).spawn(data.commute(), body).expect("accepted");
            if index == 500 {
                let failed = rt.wait();
                assert!(matches!(failed, Err(WaitError::Failed { others: 0, cancelled: 0, .. })));
            }
        }
        let reader = rt.spawn("read", data.read(), |_| never());
        assert!(matches!(rt.acquire(data.read()), Err(WaitError::Spoilt { .. })));
        assert!(rt.wait_for(reader.expect("accepted")).is_err());
        assert_eq!(ran.load(Ordering::SeqCst), 1000);
        // The next run is behind the reader, and has nothing to work on.
        let late = rt.spawn("late", data.commute(), |_| never());
        assert!(rt.wait_for(late.expect("accepted")).is_err());
        rt.spawn("mend", data.overwrite(), |x| *x = 1).expect("accepted");
        rt.spawn("add", data.commute(), |x| *x += 1).expect("accepted");
        assert_eq!(data.value(&rt), 2);
    }
}

#[test]
fn a_parked_task_can_be_cancelled() {
    for cancel in [
        (|rt, task| rt.cancel(task)) as fn(&Runtime, TaskId),
        |rt, _| rt.cancel_label(Label::batch(7)),
        |rt, _| rt.cancel_all(),
    ] {
        let rt = runtime(2, false);
        let (a, b) = (Shared::new(&rt), Shared::new(&rt));
        let (_, let_go) = holder(&rt, &a);
        let access = (a.commute(), b.commute());
        let parked = rt.task("parked").batch(7).spawn(access, |_| never());
        let parked = parked.expect("accepted");
        // Parked behind it.
        let behind = rt.spawn("behind", a.commute(), |a| *a += 1).expect("accepted");
        let after = rt.task("after").after(parked).spawn((), |_| never());
        pass(&rt);
        cancel(&rt, parked);
        let_go.send(()).expect("the body waits");
        assert!(matches!(rt.wait_for(parked), Err(WaitError::Cancelled)));
        assert!(matches!(rt.wait_for(after.expect("accepted")), Err(WaitError::Cancelled)));
        let ran = rt.wait_for(behind).is_ok();
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        rt.spawn("mend", (a.overwrite(), b.overwrite()), |(a, b)| (*a, *b) = (0, 0))
            .expect("taken");
        rt.spawn("add", (a.commute(), b.commute()), |(a, b)| (*a, *b) = (*a + 1, *b + 1))
            .expect("accepted");
        assert_eq!((a.value(&rt), b.value(&rt)), (1, 1), "behind ran: {ran}");
        rt.wait().expect("nothing failed since");
    }
}

#[test]
fn the_most_urgent_of_those_that_wait_goes_first() {
    for name in ["work-stealing", "priority"] {
        let schedule = name.parse().expect("a scheduler");
        let rt = Runtime::builder().workers(2).scheduler(schedule).build().expect("a runtime");
        let data = Shared::new(&rt);
        let (_, let_go) = holder(&rt, &data);
        let order = Arc::new(Mutex::new(Vec::new()));
        for priority in [1i16, 3, 2] {
            let order = order.clone();
            let note = move |_: &mut u64| order.lock().expect("no panic").push(priority);
            rt.task("note").priority(priority).spawn(data.commute(), note).expect("accepted");
            pass(&rt);
        }
        let_go.send(()).expect("the body waits");
        rt.wait().expect("nothing failed");
        assert_eq!(*order.lock().expect("no panic"), [3, 2, 1], "{name}");
    }
}

#[test]
fn a_given_placement_goes_on_past_those_that_cannot_begin() {
    // Both workers begin with tasks that commute; the order of all others is kept.
    let placement = Placement::new(vec![vec![0, 2, 4], vec![1, 3, 5]]).expect("no task twice");
    let builder = Runtime::builder().workers(2).scheduler(Schedule::placed(placement));
    let rt = builder.build().expect("a runtime");
    let data = Shared::new(&rt);
    for _ in 0..6 {
        rt.spawn("add", data.commute(), |x| *x += 1).expect("accepted");
    }
    assert_eq!(data.value(&rt), 6);
}

#[test]
fn waiting_for_data_counts_as_delay() {
    let rt = Runtime::builder().workers(2).timing(true).build().expect("a runtime");
    let data = Shared::new(&rt);
    let (_, let_go) = holder(&rt, &data);
    let parked = rt.spawn("parked", data.commute(), |_| ()).expect("accepted");
    let from = rt.now_ns();
    pass(&rt);
    let to = rt.now_ns();
    let_go.send(()).expect("the body waits");
    rt.wait_for(parked).expect("nothing failed");
    rt.wait().expect("nothing failed");
    let statistics = rt.statistics();
    let parked = &statistics.kinds["parked"];
    assert_eq!((parked.body.count(), parked.delay.count()), (1, 1));
    assert!(parked.delay.total_ns() >= to - from, "ready since before the first reading");
}

#[test]
fn tasks_may_spawn_tasks_that_commute_with_them() {
    for (workers, helps) in [(0, false), (1, false), (2, true), (4, false)] {
        let rt = runtime(workers, helps);
        let data = Arc::new(Shared::new(&rt));
        for _ in 0..50 {
            let (inner, again) = (rt.clone(), data.clone());
            let parent = move |x: &mut u64| {
                *x += 1;
                inner.spawn("child", again.commute(), |x| *x += 100).expect("accepted");
            };
            rt.spawn("parent", data.commute(), parent).expect("accepted");
        }
        rt.wait().expect("nothing failed");
        assert_eq!(data.value(&rt), 50 + 5000);
    }
}

#[test]
fn children_may_commute_with_their_parent() {
    for (workers, helps) in [(0, false), (1, false), (2, true), (4, false)] {
        let rt = runtime(workers, helps);
        let data = Arc::new(Shared::new(&rt));
        for _ in 0..20 {
            let (inner, again) = (rt.clone(), data.clone());
            let parent = move |x: &mut u64| {
                *x += 1;
                let child = inner.task("child").child();
                child.spawn(again.commute(), |x| *x += 100).map(drop)
            };
            rt.spawn("parent", data.commute(), parent).expect("accepted");
        }
        // A reader that was submitted before a child would be in its way, and wait for its parent.
        rt.wait().expect("nothing failed");
        assert_eq!(data.value(&rt), 20 + 2000);
        let (inner, again) = (rt.clone(), data.clone());
        let parent = move |_: &mut u64| inner.spawn_child("child", again.write(), |_| ()).map(drop);
        let parent = rt.spawn("parent", data.commute(), parent).expect("accepted");
        assert!(rt.wait_for(parent).is_err(), "a write waits for the parent's end");
        rt.wait().expect_err("the parent failed");
    }
}

struct Recorded(Part);

// SAFETY: nothing is handed out.
unsafe impl RecordedAccess for Recorded {
    type Data<'a> = ();
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims, 0)
    }

    unsafe fn data(&self, _: &Bound, (): &mut ()) {}
}

#[test]
fn recorded_tasks_that_commute_keep_their_order() {
    let rt = runtime(1, false);
    let handles = rt.handles(1).expect("one");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut recording = rt.record();
    let parameter = recording.parameter(handles.block()).expect("few handles");
    for index in 0..20i16 {
        let order = order.clone();
        let note = move |()| order.lock().expect("no panic").push(index);
        let access = Recorded(parameter.part(0, 1, Mode::Commute));
        recording.task("note").priority(index).spawn(access, note).expect("no conflict");
    }
    let mut graph = recording.finish();
    // Among tasks that are submitted one by one it is a run's neighbour.
    let (_, let_go) = blocked(&rt);
    for index in [-2, -1] {
        let order = order.clone();
        let note = move |()| order.lock().expect("no panic").push(index);
        rt.task("before").priority(-index).spawn(handles.commute(0), note).expect("accepted");
    }
    graph.replay().expect("accepted");
    let last = order.clone();
    let note = move |()| last.lock().expect("no panic").push(20);
    rt.task("after").priority(99).spawn(handles.commute(0), note).expect("accepted");
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
    assert_eq!(*order.lock().expect("no panic"), (-2..=20).collect::<Vec<_>>());
}
