//! Reports on graphs that are held up.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::survey::{LISTED, NEEDS};
use super::*;
use crate::{Label, Runtime};

fn watched(workers: usize) -> Runtime {
    // Long enough to never report by itself.
    let watchdog = Watchdog::after(Duration::from_secs(1 << 20));
    Runtime::builder().workers(workers).watchdog(watchdog).build().expect("possible")
}

fn report(rt: &Runtime) -> StallReport {
    let inner = rt.inner();
    inner.stall_report(inner.watch.as_ref().expect("watched"), Duration::from_secs(5))
}

/// Tells that it has begun, then waits to be let go.
fn gate() -> (impl FnOnce() + Send, Receiver<()>, Sender<()>) {
    let (begun, begins) = mpsc::channel();
    let (let_go, gate) = mpsc::channel();
    let body = move || {
        begun.send(()).expect("the test waits");
        gate.recv().expect("let go");
    };
    (body, begins, let_go)
}

fn until_somebody_waits(rt: &Runtime) {
    while !rt.inner().watch.as_ref().expect("watched").has_waits() {
        thread::yield_now();
    }
}

fn is_running(state: State) -> bool {
    matches!(state, State::Running { .. })
}

#[test]
fn tasks_wait_for_data_that_is_held() {
    let rt = watched(1);
    let data = rt.handles(1).expect("a handle");
    let held_at = line!() + 1;
    let guard = rt.acquire(data.write(0)).expect("free");
    rt.task("sum").batch(3).spawn(data.read(0), |()| ()).expect("valid");

    let report = report(&rt);
    let [WaitingTask { place, waits_for }] = &report.waiting.list[..] else { panic!("{report}") };
    assert_eq!((place.name, place.label, place.state), ("sum", Label::batch(3), State::Waiting));
    assert_eq!((place.location.file(), place.location.line()), (file!(), held_at + 1));
    let [needed] = &waits_for.list[..] else { panic!("{report}") };
    assert_eq!((needed.name, needed.state), ("acquire", State::Held));
    assert_eq!((needed.location.file(), needed.location.line()), (file!(), held_at));
    assert_eq!(&report.held.list, &waits_for.list);
    assert_eq!((report.unfinished, report.ready, report.running.list.len()), (1, 0, 0));
    let Workers { running, idle, away, busy } = report.workers;
    // The worker may be on its way to be idle.
    assert_eq!((running, away, idle + busy), (0, 0, 1));
    drop(guard);
    rt.wait().expect("no failure");
}

#[test]
fn tasks_wait_for_what_runs_and_threads_for_them() {
    let rt = watched(1);
    let data = rt.handles(1).expect("a handle");
    let (body, begins, let_go) = gate();
    rt.spawn("load", data.write(0), move |()| body()).expect("valid");
    rt.spawn("sum", data.write(0), |()| ()).expect("valid");
    rt.spawn("print", data.read(0), |()| ()).expect("valid");
    rt.spawn("other", (), |()| ()).expect("valid");
    begins.recv().expect("it begins");
    let (rt, line) = (&rt, line!() + 4);
    // What lets the task go is dropped if a check fails.
    thread::scope(move |scope| {
        scope.spawn(|| {
            rt.wait().expect("no failure");
        });
        until_somebody_waits(rt);
        let report = report(rt);
        let [load] = &report.running.list[..] else { panic!("{report}") };
        assert_eq!(load.name, "load");
        assert!(matches!(load.state, State::Running { worker: Some(0), .. }), "{report}");
        let told: Vec<_> = report
            .waiting
            .list
            .iter()
            .map(|task| {
                let needs =
                    task.waits_for.list.iter().map(|need| (need.name, is_running(need.state)));
                (task.place.name, needs.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(told, [("sum", vec![("load", true)]), ("print", vec![("sum", false)])]);
        assert_eq!((report.unfinished, report.ready), (4, 1));
        assert_eq!(report.workers, Workers { running: 1, idle: 0, away: 0, busy: 0 });
        let [waits] = &report.threads.list[..] else { panic!("{report}") };
        assert_eq!((waits.call, waits.reason.as_str()), (Some("wait"), "drain"));
        let location = waits.location.expect("known");
        assert_eq!((location.file(), location.line()), (file!(), line));
        let text = report.to_string();
        for part in [
            "no task has started or ended for 5.0s; 4 are unfinished\n",
            "  running: 1\n    `load`, submitted at ",
            "which has run on worker 0 for ",
            "  waiting: 2\n    `sum`, submitted at ",
            ", which waits\n      waits for `load`, submitted at ",
            "  ready, waiting for a worker: 1\n",
            "  workers: 1 of 1 run tasks, 0 are idle\n",
            "  waiting threads: 1\n    thread `ThreadId(",
            "in `wait` at ",
        ] {
            assert!(text.contains(part), "{text}\nlacks {part}");
        }
        let_go.send(()).expect("it waits");
    });
    assert_eq!(rt.inner().stall_counts(), None);
}

#[test]
fn lists_are_bounded_and_say_how_much_they_leave_out() {
    let rt = watched(1);
    let data = rt.handles(NEEDS as u32 + 3).expect("handles");
    let (count, more) = (LISTED + 30, 3);
    let all = || (0..NEEDS + more).map(|handle| data.write(handle));
    let guards: Vec<_> = all().map(|access| rt.acquire(access).expect("free")).collect();
    let accesses: Vec<_> = all().collect();
    rt.spawn("first", accesses, |_| ()).expect("valid");
    for _ in 1..count {
        rt.spawn("later", data.write(0), |()| ()).expect("valid");
    }
    let report = report(&rt);
    assert_eq!((report.waiting.list.len(), report.waiting.more), (LISTED, 30));
    let names: Vec<_> = report.waiting.list.iter().map(|task| task.place.name).collect();
    assert_eq!((names[0], &names[1..]), ("first", &["later"; LISTED - 1][..]));
    let needs = &report.waiting.list[0].waits_for;
    assert_eq!((needs.list.len(), needs.more), (NEEDS, more as u64));
    assert_eq!(report.held.list.len(), NEEDS + more);
    let text = report.to_string();
    assert!(text.contains("and 30 more\n") && text.contains("and for 3 more\n"), "{text}");
    drop(guards);
    rt.wait().expect("no failure");
}

#[test]
fn recorded_tasks_are_told_while_a_replay_is_under_way() {
    let rt = watched(1);
    let data = rt.handles(1).expect("a handle");
    let (sender, gate) = mpsc::channel::<Receiver<()>>();
    let (gate, (begun, begins)) = (std::sync::Mutex::new(gate), mpsc::channel());
    let begun = std::sync::Mutex::new(begun);
    let mut recording = rt.record();
    let parameter = recording.parameter(data.block()).expect("valid");
    recording.spawn("first", parameter.write(0), |()| ()).expect("valid");
    let body = move |()| {
        let gate = gate.lock().expect("alone").recv().expect("a gate");
        begun.lock().expect("alone").send(()).expect("the test waits");
        gate.recv().expect("let go");
    };
    recording.spawn("second", parameter.write(0), body).expect("valid");
    recording.spawn("third", parameter.write(0), |()| ()).expect("valid");
    let mut graph = recording.finish();

    for batch in [7, 8] {
        assert_eq!(report(&rt).replays.list, []);
        let guard = rt.acquire(data.write(0)).expect("free");
        graph.set_batch(Some(batch));
        graph.replay().expect("valid");
        rt.spawn("after", data.read(0), |()| ()).expect("valid");
        let told = report(&rt);
        assert_eq!(told.replays.list, [(Some(batch), 3)]);
        assert_eq!(told.unfinished, 4);
        let [first, after] = &told.waiting.list[..] else { panic!("{told}") };
        assert_eq!((first.place.name, first.place.label), ("first", Label::batch(batch)));
        assert_eq!(first.waits_for.list[0].state, State::Held);
        assert_eq!(after.place.name, "after");
        let needed = &after.waits_for.list[0];
        assert_eq!((needed.name, needed.state), ("third", State::Recorded));
        assert_eq!(needed.label, Label::batch(batch));

        let (let_go, gate) = mpsc::channel();
        sender.send(gate).expect("there");
        drop(guard);
        begins.recv().expect("it begins");
        let told = report(&rt);
        let [second] = &told.running.list[..] else { panic!("{told}") };
        assert_eq!((second.name, second.label), ("second", Label::batch(batch)));
        let names: Vec<_> = told.waiting.list.iter().map(|task| task.place.name).collect();
        assert_eq!(names, ["after"]);
        let_go.send(()).expect("it waits");
        rt.wait().expect("no failure");
    }
    // The slots stay taken.
    let told = report(&rt);
    assert_eq!((told.unfinished, told.ready, told.waiting.list.len()), (0, 0, 0));
}

#[test]
fn a_parent_waits_for_its_children() {
    let rt = watched(1);
    let (body, begins, let_go) = gate();
    let inner = rt.clone();
    let parent = move |()| inner.task("child").child().spawn((), move |()| body()).map(drop);
    rt.spawn("parent", (), parent).expect("valid");
    // The only worker has left the parent's body.
    begins.recv().expect("it begins");
    let told = report(&rt);
    let [WaitingTask { place, waits_for }] = &told.waiting.list[..] else { panic!("{told}") };
    assert_eq!((place.name, place.state), ("parent", State::Waiting));
    let [child] = &waits_for.list[..] else { panic!("{told}") };
    assert_eq!((child.name, is_running(child.state)), ("child", true));
    assert_eq!((told.unfinished, told.ready), (2, 0));
    let_go.send(()).expect("it waits");
    rt.wait().expect("no failure");
}

#[test]
fn acquisitions_that_wait_are_told_and_those_given_up_are_not() {
    let rt = watched(1);
    let data = rt.handles(1).expect("a handle");
    let guard = rt.acquire(data.write(0)).expect("free");
    thread::scope(|scope| {
        let given_up = scope.spawn(|| rt.acquire_timeout(data.read(0), Duration::ZERO).is_err());
        assert!(given_up.join().expect("no panic"));
        let line = line!() + 1;
        scope.spawn(|| drop(rt.acquire(data.read(0)).expect("free in the end")));
        until_somebody_waits(&rt);
        // No task is unfinished, and still somebody could wait for ever.
        assert!(rt.inner().stall_counts().is_some());
        let told = report(&rt);
        let [WaitingTask { place, waits_for }] = &told.waiting.list[..] else { panic!("{told}") };
        assert_eq!((place.name, place.location.line()), ("acquire", line));
        assert_eq!(waits_for.list, told.held.list);
        assert_eq!(told.threads.list[0].call, Some("acquire"));
        drop(guard);
    });
}

#[test]
fn without_workers_the_submitting_thread_runs() {
    let rt = watched(0);
    let (body, begins, let_go) = gate();
    let rt = &rt;
    thread::scope(move |scope| {
        scope.spawn(|| rt.spawn("inline", (), move |()| body()).expect("valid"));
        begins.recv().expect("it begins");
        let told = report(rt);
        assert!(matches!(told.running.list[0].state, State::Running { worker: None, .. }));
        assert_eq!(told.workers, Workers::default());
        let_go.send(()).expect("it waits");
    });
}

#[test]
fn an_idle_runtime_has_nothing_to_watch() {
    let rt = watched(2);
    let data = rt.handles(1).expect("a handle");
    assert_eq!(rt.inner().stall_counts(), None);
    rt.spawn("task", data.write(0), |()| ()).expect("valid");
    rt.wait().expect("no failure");
    let _guard = rt.acquire(data.write(0)).expect("free");
    assert_eq!(rt.inner().stall_counts(), None);
    rt.spawn("task", data.write(0), |()| ()).expect("valid");
    assert_eq!(rt.inner().stall_counts(), Some((1, 1)));
}
