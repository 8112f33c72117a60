//! Which ready task runs first, and where.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use common::Shared;
use millrace_runtime::scenarios::{Body, NAMES, Scenario};
use millrace_runtime::scheduler::{Placement, ReadyTask, Schedule, Scheduler};
use millrace_runtime::trace::{SpanKind, Trace};
use millrace_runtime::{BuildError, Runtime};

fn runtime(schedule: Schedule, workers: usize) -> Runtime {
    Runtime::builder().workers(workers).scheduler(schedule).build().expect("a runtime")
}

/// Makes tasks of these priorities ready at once, for one worker; returns the order in which
/// they ran.
fn order(schedule: Schedule, priorities: &[i16]) -> Vec<usize> {
    let rt = runtime(schedule, 1);
    let gate = Shared::new(&rt);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let held = rt.acquire(gate.write()).expect("idle");
    for (index, &priority) in priorities.iter().enumerate() {
        let ran = ran.clone();
        let note = move |_: &u64| ran.lock().expect("no panic").push(index);
        rt.task("note").priority(priority).spawn(gate.read(), note).expect("accepted");
    }
    // A worker that starts before all are ready must not see only some of them.
    let all = Shared::new(&rt);
    let (let_go, release) = mpsc::channel::<()>();
    rt.task("first")
        .priority(i16::MAX)
        .spawn(all.write(), move |_| release.recv().expect("let go"))
        .expect("accepted");
    drop(held);
    let_go.send(()).expect("the worker waits");
    rt.wait().expect("nothing failed");
    ran.lock().expect("no panic").clone()
}

#[test]
fn ready_tasks_run_in_the_order_of_the_scheduler() {
    let priorities = [0, -1, 3, 0, 5, -2, 3];
    let by_priority = [4, 2, 6, 0, 3, 1, 5];
    assert_eq!(order(Schedule::work_stealing(), &priorities), by_priority);
    assert_eq!(order(Schedule::priority(), &priorities), by_priority);
    assert_eq!(order(Schedule::fifo(), &priorities), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn every_scheduler_keeps_every_order() {
    for name in Schedule::NAMES {
        for (workers, helps) in [(0, false), (1, false), (2, false), (2, true), (4, true)] {
            let schedule = name.parse().expect("a name that can be parsed");
            let builder = Runtime::builder().workers(workers).main_helps(helps).window(500);
            let rt = builder.scheduler(schedule).build().expect("a runtime");
            for scenario in NAMES {
                let scenario = Scenario::sized(scenario, 3000).expect("known");
                scenario.check(&rt).expect("in order");
                scenario.critical_path_first().check(&rt).expect("in order");
            }
        }
    }
    let error = "lifo".parse::<Schedule>().expect_err("no such name").to_string();
    assert!(error.contains("lifo") && error.contains("work-stealing"), "{error}");
}

#[test]
fn a_placement_is_followed_exactly() {
    // Tasks 0 to 11 in turn on three workers, each worker's own in descending order.
    let placed: Vec<Vec<u64>> =
        (0..3).map(|worker| (0..12).rev().filter(|task| task % 3 == worker).collect()).collect();
    let rt = runtime(Schedule::placed(Placement::new(placed.clone()).expect("each once")), 3);
    let ran: Arc<Vec<Mutex<Vec<u64>>>> = Arc::new((0..3).map(|_| Mutex::default()).collect());
    let tasks = 12 + 5;
    for task in 0..tasks {
        let ran = ran.clone();
        let note = move |()| {
            let name = std::thread::current().name().expect("a worker").to_owned();
            let worker: usize = name.trim_start_matches("millrace-").parse().expect("a number");
            ran[worker].lock().expect("no panic").push(task);
        };
        rt.spawn("note", (), note).expect("accepted");
    }
    rt.wait().expect("nothing failed");
    let mut others = 0;
    for (worker, expected) in placed.iter().enumerate() {
        let ran = ran[worker].lock().expect("no panic");
        let own: Vec<u64> = ran.iter().copied().filter(|task| *task < 12).collect();
        assert_eq!(own, *expected, "worker {worker}");
        others += ran.len() - own.len();
    }
    assert_eq!(others, 5, "tasks that are placed nowhere run somewhere");
}

/// Counts what it hands out, last in first out.
#[derive(Default)]
struct Stack {
    tasks: Mutex<Vec<ReadyTask>>,
    popped: Arc<AtomicUsize>,
}

impl Scheduler for Stack {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        self.tasks.lock().expect("no panic").push(task);
    }

    fn pop(&self, _worker: usize) -> Option<ReadyTask> {
        let task = self.tasks.lock().expect("no panic").pop();
        self.popped.fetch_add(usize::from(task.is_some()), Ordering::Relaxed);
        task
    }
}

#[test]
fn a_scheduler_of_ones_own_sees_every_task() {
    let stack = Stack::default();
    let popped = stack.popped.clone();
    let rt = runtime(Schedule::custom(stack), 2);
    let grid = Scenario::sized("grid", 2500).expect("known");
    grid.check(&rt).expect("in order");
    assert_eq!(popped.load(Ordering::Relaxed), 2500);
}

/// What ran where, in which order: for each worker the tasks' places and names.
fn schedule_of(trace: &Trace) -> Vec<Vec<(u64, String)>> {
    let mut lanes = vec![Vec::new(); trace.lanes.len()];
    for span in trace.spans.iter().filter(|span| span.kind == SpanKind::Task) {
        let name = trace.names[span.name as usize].clone();
        lanes[span.lane as usize].push((span.sequence.expect("told"), name));
    }
    lanes
}

/// Runs a program of submitted and recorded tasks with waits of all kinds in between.
fn traced_program(schedule: Schedule, workers: usize, helps: bool) -> (Trace, u64) {
    let builder = Runtime::builder().workers(workers).main_helps(helps).window(200);
    let rt = builder.scheduler(schedule).build().expect("a runtime");
    rt.spawn("before", (), |()| ()).expect("accepted");
    rt.wait().expect("nothing failed");
    rt.trace_start();
    for scenario in ["cholesky32", "fan32", "grid"] {
        let scenario = Scenario::sized(scenario, 1000).expect("known").critical_path_first();
        scenario.run(&rt, Body::Spin(200)).expect("nothing failed");
        let mut recorded = scenario.record(&rt, Body::Empty).expect("accepted");
        (0..3).for_each(|_| _ = recorded.run(&rt).expect("nothing failed"));
    }
    let cell = Shared::new(&rt);
    for _ in 0..50 {
        rt.spawn("add", cell.write(), |x| *x += 1).expect("accepted");
        rt.spawn("beside", (), |()| ()).expect("accepted");
        let last = rt.spawn("last", cell.read(), |_| ()).expect("accepted");
        rt.wait_for(last).expect("nothing failed");
        cell.value(&rt);
    }
    rt.wait().expect("nothing failed");
    rt.trace_stop();
    (rt.trace_take("t", Default::default()), rt.displaced_tasks())
}

#[test]
fn a_traced_schedule_is_repeated_exactly() {
    for (workers, helps) in [(0, false), (1, false), (2, false), (2, true), (4, false), (4, true)] {
        for name in Schedule::NAMES {
            let (first, _) = traced_program(name.parse().expect("known"), workers, helps);
            let mut document = Vec::new();
            first.write_json(&mut document).expect("in-memory write");
            let read = Trace::read_json(&document[..]).expect("own output");
            let placement = Placement::from_trace(&read).expect("a whole trace");
            let (again, displaced) = traced_program(Schedule::placed(placement), workers, helps);
            assert_eq!(displaced, 0, "{workers} workers, {name}");
            assert_eq!(schedule_of(&again), schedule_of(&first), "{workers} workers, {name}");
        }
    }
}

#[test]
fn a_placement_is_for_a_number_of_workers() {
    let placement = Placement::new(vec![vec![0], vec![1]]).expect("each once");
    for workers in [0, 1, 3] {
        let schedule = Schedule::placed(placement.clone());
        let error = Runtime::builder().workers(workers).scheduler(schedule).build();
        let error = error.expect_err("two lists");
        let expected = BuildError::Placement { placed: 2, workers };
        assert_eq!(error.to_string(), expected.to_string());
    }
}

/// How a program ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Wait,
    WaitForLast,
    Acquire,
    Drop,
}

#[test]
fn a_placement_that_cannot_be_followed_holds_up_nothing() {
    let missing = || (1000..1010).collect::<Vec<u64>>();
    let placements: [[Vec<u64>; 2]; 5] = [
        // Against the tasks' order, on one worker and across two.
        [(0..40).rev().collect(), vec![]],
        [
            (0..20).rev().map(|task| 2 * task).collect(),
            (0..20).rev().map(|task| 2 * task + 1).collect(),
        ],
        // Tasks that never come, at the front and in between.
        [missing().into_iter().chain(0..40).collect(), vec![]],
        [vec![0, 999, 2, 998, 1], (3..40).collect()],
        // Tasks that have no place.
        [vec![0, 39], vec![20]],
    ];
    for lists in placements {
        for helps in [false, true] {
            for end in [End::Wait, End::WaitForLast, End::Acquire, End::Drop] {
                for window in [3, 4096] {
                    let placement = Placement::new(lists.to_vec()).expect("each once");
                    let builder = Runtime::builder().workers(2).main_helps(helps).window(window);
                    let schedule = Schedule::placed(placement);
                    let rt = builder.scheduler(schedule).build().expect("a runtime");
                    let cell = Shared::new(&rt);
                    let ran = Arc::new(AtomicUsize::new(0));
                    let mut last = None;
                    for _ in 0..40 {
                        let ran = ran.clone();
                        let body = move |_: &mut u64| {
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        last = Some(rt.spawn("task", cell.write(), body).expect("accepted"));
                    }
                    match end {
                        End::Wait => rt.wait().expect("nothing failed"),
                        End::WaitForLast => rt.wait_for(last.expect("one")).expect("well"),
                        End::Acquire => _ = cell.value(&rt),
                        End::Drop => {}
                    }
                    let displaced = rt.displaced_tasks();
                    if !matches!(end, End::Drop) {
                        assert!(displaced > 0, "{lists:?}, {end:?}");
                    }
                    drop((cell, rt));
                    assert_eq!(ran.load(Ordering::SeqCst), 40, "{lists:?}, {end:?}");
                }
            }
        }
    }
}

#[test]
fn a_trace_that_is_no_schedule_is_refused() {
    let (whole, _) = traced_program(Schedule::fifo(), 2, false);
    let with = |change: fn(&mut Trace)| {
        let mut trace = whole.clone();
        change(&mut trace);
        Placement::from_trace(&trace).expect_err("refused").to_string()
    };
    assert!(with(|trace| trace.dropped = 3).contains("3 spans were lost"));
    let older = with(|trace| {
        trace.version = 3;
        trace.spans.iter_mut().for_each(|span| span.sequence = None);
    });
    assert!(older.contains("version 3"), "{older}");
    let twice = with(|trace| {
        let task = *trace.spans.iter().find(|span| span.kind == SpanKind::Task).expect("one");
        trace.spans.push(task);
    });
    assert!(twice.contains("again on worker"), "{twice}");
}
