//! The end of a replay is told before the thread that ended its last task begins another body,
//! however long that may take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millrace_runtime::Runtime;
use millrace_runtime::replay::{RecordedGraph, Replay};

use crate::block::{Block, Gate, Numbers};
use crate::common::blocked;

/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime(workers: usize, helps: bool) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

/// A graph of one task.
fn single(rt: &Runtime, body: impl Fn() + Send + Sync + 'static) -> RecordedGraph {
    let mut recording = rt.record();
    recording.spawn("single", (), move |()| body()).expect("recorded");
    recording.finish()
}

#[test]
fn before_a_body_of_another_replay() {
    let rt = runtime(1, false);
    let (gate, begins, let_go) = Gate::new();
    let (mut short, mut long) = (single(&rt, || ()), single(&rt, move || gate.pass()));
    let (_, open) = blocked(&rt);
    let first = short.replay().expect("accepted");
    long.replay().expect("accepted");
    open.send(()).expect("the body waits");
    begins.recv().expect("it begins");
    assert!(first.has_ended());
    first.wait().expect("nothing failed");
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
}

#[test]
fn before_a_body_of_the_graphs_next_replay() {
    let rt = runtime(1, false);
    let (gate, begins, let_go) = Gate::new();
    let mut graph = single(&rt, move || gate.pass());
    let first = graph.replay().expect("accepted");
    begins.recv().expect("it begins");
    let second = graph.replay().expect("accepted");
    let_go.send(()).expect("the body waits");
    begins.recv().expect("the second begins");
    assert!(first.has_ended() && !second.has_ended());
    first.wait().expect("nothing failed");
    let_go.send(()).expect("the body waits");
    second.wait().expect("nothing failed");
}

#[test]
fn before_the_body_of_another_task() {
    let rt = runtime(1, false);
    let mut graph = single(&rt, || ());
    let (_, open) = blocked(&rt);
    let replay = graph.replay().expect("accepted");
    let (begun, begins) = mpsc::channel();
    let (let_go, gate) = mpsc::channel();
    let body = move |()| {
        begun.send(()).expect("the test listens");
        gate.recv().expect("let go");
    };
    rt.spawn("long", (), body).expect("accepted");
    open.send(()).expect("the body waits");
    begins.recv().expect("it begins");
    assert!(replay.has_ended());
    replay.wait().expect("nothing failed");
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
}

#[test]
fn before_the_worker_rests() {
    for workers in [1, 2, 4] {
        let rt = runtime(workers, false);
        let mut graph = single(&rt, || ());
        for _ in 0..100 {
            graph.replay().expect("accepted").wait().expect("nothing failed");
        }
    }
}

/// A thread that helps looks whether it may go on before it begins another body.
#[test]
fn before_a_helping_thread_takes_another_task() {
    for recorded in [false, true] {
        let rt = runtime(2, true);
        // The other worker is busy.
        let (_, let_go) = blocked(&rt);
        let ran = Arc::new(AtomicBool::new(false));
        let note = |ran: &Arc<AtomicBool>| {
            let ran = ran.clone();
            move || ran.store(true, Ordering::SeqCst)
        };
        let (mut first, mut other) = (single(&rt, || ()), single(&rt, note(&ran)));
        let replay = first.replay().expect("accepted");
        if recorded {
            other.replay().expect("accepted");
        } else {
            let note = note(&ran);
            rt.spawn("other", (), move |()| note()).expect("accepted");
        }
        replay.wait().expect("nothing failed");
        assert!(!ran.load(Ordering::SeqCst), "only this thread runs tasks, and it went on");
        let_go.send(()).expect("the body waits");
        rt.wait().expect("nothing failed");
        assert!(ran.load(Ordering::SeqCst));
    }
}

#[test]
fn before_a_body_that_runs_inline() {
    let rt = runtime(0, false);
    let block = Block::new(&rt, 1);
    let first: Arc<Mutex<Option<Replay>>> = Arc::default();
    let told = Arc::new(AtomicBool::new(false));
    let graph = |body: Box<dyn Fn() + Send + Sync>| {
        let mut recording = rt.record();
        let data = recording.parameter(block.data()).expect("accepted");
        recording.spawn("reads", data.read(0), move |_| body()).expect("recorded");
        recording.finish()
    };
    let mut short = graph(Box::new(|| ()));
    let mut looks = graph(Box::new({
        let (first, told) = (first.clone(), told.clone());
        move || {
            let first = first.lock().expect("no panics");
            told.store(first.as_ref().expect("submitted").has_ended(), Ordering::SeqCst);
        }
    }));
    let held = rt.acquire(block.write(0)).expect("nobody has it");
    *first.lock().expect("no panics") = Some(short.replay().expect("accepted"));
    looks.replay().expect("accepted");
    // Both run now, one after the other.
    drop(held);
    assert!(told.load(Ordering::SeqCst));
    rt.wait().expect("nothing failed");
}

/// Each end makes room in the window, also while the replay goes on.
#[test]
fn each_end_makes_room_before_the_next_body() {
    let rt = Runtime::builder().workers(1).window(2).build().expect("a runtime");
    let (gate, begins, let_go) = Gate::new();
    let mut recording = rt.record();
    let first = recording.spawn("short", (), |()| ()).expect("recorded");
    recording.task("long").after(first).spawn((), move |()| gate.pass()).expect("recorded");
    let mut graph = recording.finish();
    graph.replay().expect("accepted");
    begins.recv().expect("it begins");
    let (submitted, submits) = mpsc::channel();
    let submitter = rt.clone();
    let thread = std::thread::spawn(move || {
        submitter.spawn("fits", (), |()| ()).expect("accepted");
        submitted.send(()).expect("the test listens");
    });
    let fits = submits.recv_timeout(PATIENCE);
    let_go.send(()).expect("the body waits");
    thread.join().expect("no panics");
    fits.expect("one of two tasks is unfinished, so there is room for one");
    rt.wait().expect("nothing failed");
}
