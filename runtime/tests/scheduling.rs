//! Which ready task runs first, and where.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use common::Shared;
use millrace_runtime::Runtime;
use millrace_runtime::scenarios::{NAMES, Scenario};
use millrace_runtime::scheduler::{Placement, ReadyTask, Schedule, Scheduler};

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
