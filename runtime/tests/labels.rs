//! Waiting for the tasks of a label, and cancelling them.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Shared, blocked, quiet_panics, until_waiting};
use millrace_runtime::trace::{Cause, SpanKind};
use millrace_runtime::{Label, Runtime, TaskId, WaitError};
use proptest::prelude::*;

fn runtime(workers: usize, helps: bool) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

fn never((): ()) {
    unreachable!("the task should have been cancelled");
}

fn count(ran: &AtomicUsize, weight: usize) {
    ran.fetch_add(weight, Ordering::SeqCst);
}

#[test]
fn waiting_for_a_label_waits_for_nothing_else() {
    for rt in [runtime(2, false), runtime(3, true)] {
        let (other, let_go) = blocked(&rt);
        let ran = Arc::new(AtomicUsize::new(0));
        // More than have room in a slot for their edges.
        for shard in 0..100 {
            let (task, ran) = (rt.task("one").batch(1).layer(2).shard(shard), ran.clone());
            task.spawn((), move |()| count(&ran, 1)).expect("accepted");
        }
        rt.task("two").batch(2).layer(2).shard(3).after(other).spawn((), |()| ()).expect("taken");
        rt.task("none").after(other).spawn((), |()| ()).expect("taken");
        rt.wait_for_label(Label::batch(1)).expect("nothing failed");
        assert_eq!(ran.load(Ordering::SeqCst), 100);
        assert!(!rt.has_ended(other));
        let layer = Label { layer: Some(2), ..Label::default() };
        let shard = Label { shard: Some(3), ..layer };
        for label in [layer, shard, Label { batch: Some(2), ..shard }, Label::default()] {
            let result = rt.wait_for_label_timeout(label, Duration::ZERO);
            assert!(matches!(result, Err(WaitError::TimedOut { call: "wait_for_label_timeout" })));
        }
        for label in [Label { shard: Some(4), ..shard }, Label { batch: Some(1), ..shard }] {
            rt.wait_for_label_timeout(label, Duration::ZERO).expect("none is unfinished");
        }
        let_go.send(()).expect("the body waits");
        rt.wait_for_label_timeout(shard, Duration::MAX).expect("nothing failed");
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn what_bodies_submit_has_labels_as_well() {
    for (workers, helps) in [(0, false), (1, false), (2, false), (2, true), (4, true)] {
        let rt = runtime(workers, helps);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let (rt2, ran) = (rt.clone(), ran.clone());
            let parent = move |()| {
                let child = move |()| count(&ran, 1);
                rt2.task("child").batch(1).spawn((), child).expect("accepted");
            };
            rt.task("parent").batch(0).spawn((), parent).expect("accepted");
        }
        rt.wait_for_label(Label::batch(0)).expect("nothing failed");
        rt.wait_for_label(Label::batch(1)).expect("nothing failed");
        assert_eq!(ran.load(Ordering::SeqCst), 20);
    }
}

#[test]
fn a_label_tells_what_failed_under_it_until_a_wait_does() {
    for workers in [0, 1, 2, 4] {
        let rt = runtime(workers, false);
        // The failure comes before the wait in the first round, during it (or before) in the other.
        for before in [true, false] {
            let cell = Shared::new(&rt);
            let fails = rt
                .task("fails")
                .batch(1)
                .spawn(cell.write(), |_| Err::<(), _>("no"))
                .expect("accepted");
            let reads = rt.task("reads").batch(2).spawn(cell.read(), |_| ()).expect("accepted");
            let fine = rt.task("fine").batch(3).spawn((), |()| ()).expect("accepted");
            if before {
                rt.wait_for(fails).expect_err("it failed");
                rt.wait_for(reads).expect_err("its data was never made");
                rt.wait_for(fine).expect("it depends on nothing");
            }
            for _ in 0..2 {
                for batch in [1, 2] {
                    let error = rt.wait_for_label(Label::batch(batch)).expect_err("no data");
                    assert!(error.to_string().contains("`fails` (batch 1)"), "{error}");
                }
                rt.wait_for_label(Label::batch(3)).expect("nothing failed in it");
            }
            assert!(matches!(rt.wait(), Err(WaitError::Failed { cancelled: 1, others: 0, .. })));
            for label in [Label::batch(1), Label::batch(2), Label::default()] {
                rt.wait_for_label(label).expect("reported");
            }
        }
    }
}

#[test]
fn a_wait_for_a_label_that_could_not_end_is_refused() {
    let rt = runtime(1, false);
    let cell = Shared::new(&rt);
    let held = rt.acquire(cell.write()).expect("idle");
    rt.task("add").batch(1).spawn(cell.write(), |x| *x += 1).expect("accepted");
    let refused = rt.wait_for_label(Label::batch(1));
    assert!(matches!(refused, Err(WaitError::HoldsGuard { call: "wait_for_label" })));
    rt.wait_for_label(Label::batch(2)).expect("there is nothing to wait for");
    drop(held);
    rt.wait_for_label(Label::batch(1)).expect("nothing is in the way");
    let inner = rt.clone();
    let body = move |()| {
        assert!(matches!(inner.wait_for_label(Label::batch(7)), Err(WaitError::InsideTask { .. })));
        inner.wait_for_label(Label::batch(1)).expect("there is nothing to wait for");
    };
    rt.task("itself").batch(7).spawn((), body).expect("accepted");
    rt.wait().expect("it was refused");
}

#[test]
fn a_wait_for_a_label_is_recorded_with_its_cause() {
    let rt = runtime(1, false);
    rt.trace_start();
    let observer = rt.clone();
    let body = move |()| until_waiting(&observer, Cause::Drain);
    rt.task("observe").batch(5).spawn((), body).expect("accepted");
    rt.wait_for_label(Label::batch(5)).expect("nothing failed");
    rt.trace_stop();
    let total = rt.statistics().waits[&(Cause::Drain, "tasks of a label".to_owned())];
    assert!(total.count == 1 && total.ns > 0);
    let trace = rt.trace_take("test", Default::default());
    let waits: Vec<_> = trace.spans.iter().filter(|span| span.kind == SpanKind::Wait).collect();
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].cause, waits[0].batch), (Cause::Drain, Some(5)));
    assert_eq!(trace.names[waits[0].name as usize], "tasks of a label");
}

#[test]
fn the_tasks_of_a_label_can_be_cancelled() {
    for rt in [runtime(1, false), runtime(4, false), runtime(2, true)] {
        let (task, let_go) = blocked(&rt);
        let cell = Shared::new(&rt);
        let ran = Arc::new(AtomicUsize::new(0));
        for batch in 0..3 {
            for _ in 0..100 {
                let ran = ran.clone();
                let body = move |()| count(&ran, 1 << (8 * batch));
                rt.task("count").batch(batch).after(task).spawn((), body).expect("accepted");
            }
        }
        let write = rt.task("write").batch(1).layer(4).after(task);
        write.spawn(cell.overwrite(), |_| never(())).expect("accepted");
        let reads = rt.spawn("read", cell.read(), |_| never(())).expect("accepted");
        rt.cancel_label(Label { layer: Some(3), ..Label::batch(2) }); // There is none.
        rt.cancel_label(Label::batch(1));
        rt.task("late").batch(1).layer(5).after(task).spawn((), |()| ()).expect("accepted");
        let_go.send(()).expect("the body waits");
        assert!(matches!(rt.wait_for_label(Label::batch(1)), Err(WaitError::Cancelled)));
        rt.wait_for_label(Label { layer: Some(5), ..Label::default() }).expect("submitted later");
        assert!(matches!(rt.wait_for(reads), Err(WaitError::Cancelled)));
        for batch in [0, 2] {
            rt.wait_for_label(Label::batch(batch)).expect("not cancelled");
        }
        assert_eq!(ran.load(Ordering::SeqCst), 100 | 100 << 16);
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        rt.wait_for_label(Label::batch(1)).expect("reported");
        rt.wait().expect("reported once");
    }
}

#[test]
fn a_request_is_blamed_after_a_failure() {
    let rt = runtime(1, false);
    let (task, let_go) = blocked(&rt);
    let cancelled = rt.task("cancelled").batch(1).after(task).spawn((), never).expect("accepted");
    let fail = |()| Err::<(), _>("no");
    rt.task("fails").batch(1).after(task).spawn((), fail).expect("accepted");
    rt.cancel(cancelled);
    let_go.send(()).expect("the body waits");
    assert!(matches!(rt.wait_for_label(Label::batch(1)), Err(WaitError::Spoilt { .. })));
    rt.wait().expect_err("reported here");
}

/// What a random program does.
#[derive(Clone, Debug)]
enum Step {
    /// A task of a batch that writes one cell and reads another.
    Task {
        batch: u32,
        writes: usize,
        reads: usize,
        panics: bool,
    },
    WaitFor(u32),
    Cancel(u32),
}

const BATCHES: u32 = 4;
const CELLS: usize = 5;

fn step() -> impl Strategy<Value = Step> {
    let task = (0..BATCHES, 0..CELLS, 1..CELLS, prop::bool::weighted(0.02));
    let task = task.prop_map(|(batch, writes, to, panics)| {
        let reads = (writes + to) % CELLS;
        Step::Task { batch, writes, reads, panics }
    });
    prop_oneof![
        20 => task,
        2 => (0..BATCHES).prop_map(Step::WaitFor),
        1 => (0..BATCHES).prop_map(Step::Cancel)
    ]
}

/// A task of the program, and what may have kept it from ending well.
struct Submitted {
    id: TaskId,
    batch: u32,
    panics: bool,
    needs: Vec<usize>,
    cancelled: bool,
}

/// Waits end no sooner than the tasks of their batch, and tell whether these ended well; what did
/// not end well has a reason.
fn check(steps: &[Step], rt: &Runtime) {
    let cells: Vec<Shared> = (0..CELLS).map(|_| Shared::new(rt)).collect();
    let mut writers = [None; CELLS];
    let mut tasks: Vec<Submitted> = Vec::new();
    let well = |task: &Submitted| rt.wait_for(task.id).is_ok();
    for step in steps {
        match *step {
            Step::Task { batch, writes, reads, panics } => {
                let body = move |_: (&u64, &mut u64)| assert!(!panics, "it was told to");
                let access = (cells[reads].read(), cells[writes].write());
                let id = rt.task("step").batch(batch).spawn(access, body).expect("accepted");
                let needs = [writers[reads], writers[writes]].into_iter().flatten().collect();
                writers[writes] = Some(tasks.len());
                tasks.push(Submitted { id, batch, panics, needs, cancelled: false });
            }
            Step::WaitFor(batch) => {
                let told = rt.wait_for_label(Label::batch(batch));
                let mut of_it = tasks.iter().filter(|task| task.batch == batch);
                assert!(of_it.clone().all(|task| rt.has_ended(task.id)));
                assert_eq!(told.is_ok(), of_it.all(well));
            }
            Step::Cancel(batch) => {
                rt.cancel_label(Label::batch(batch));
                tasks.iter_mut().filter(|task| task.batch == batch).for_each(|task| {
                    task.cancelled = true;
                });
            }
        }
    }
    let well: Vec<bool> = tasks.iter().map(well).collect();
    for (task, ended_well) in tasks.iter().zip(&well) {
        let could = !task.panics && task.needs.iter().all(|need| well[*need]);
        assert!(*ended_well == could || task.cancelled && !*ended_well);
    }
    assert_eq!(rt.wait().is_ok(), well.iter().all(|well| *well));
    for batch in 0..BATCHES {
        rt.wait_for_label(Label::batch(batch)).expect("reported");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn waits_tell_exactly_what_became_of_a_batch(steps in prop::collection::vec(step(), 1..200)) {
        quiet_panics();
        for (workers, helps) in [(0, false), (1, false), (2, true), (4, false), (16, true)] {
            check(&steps, &runtime(workers, helps));
        }
    }
}
