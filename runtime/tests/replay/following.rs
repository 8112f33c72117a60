//! Replays that follow one another on the same data are not crossed with it handle by handle;
//! whoever uses the data after several of them, or between two, is in order all the same.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use millrace_runtime::replay::RecordedGraph;
use millrace_runtime::scheduler::Schedule;
use millrace_runtime::{Handles, Runtime};

use crate::block::Gate;

/// How many replays go before those that are looked at.
const BEFORE: u32 = 3;

/// Workers that take tasks in the order in which they become ready.
fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).scheduler(Schedule::fifo());
    builder.build().expect("a runtime")
}

/// What is recorded: a task that writes handle 0, and one that then reads it, and handle 1.
struct Recorded {
    /// Dropped first: a body that waits when a test fails goes on then.
    let_go: mpsc::Sender<()>,
    begins: mpsc::Receiver<()>,
    /// How often the reader has run.
    runs: Arc<AtomicU32>,
    graph: RecordedGraph,
    data: Handles,
    rt: Runtime,
}

impl Recorded {
    fn new(workers: usize) -> Self {
        let rt = runtime(workers);
        let data = rt.handles(2).expect("handles");
        let (gate, begins, let_go) = Gate::new();
        let runs = Arc::new(AtomicU32::new(0));
        let mut recording = rt.record();
        let parameter = recording.parameter(data.block()).expect("valid");
        recording.spawn("write", parameter.write(0), |()| ()).expect("recorded");
        let count = runs.clone();
        let access = (parameter.read(0), parameter.read(1));
        let body = move |_| {
            gate.pass();
            count.fetch_add(1, Ordering::SeqCst);
        };
        recording.spawn("read", access, body).expect("recorded");
        Recorded { rt, data, graph: recording.finish(), runs, begins, let_go }
    }

    /// Replays it and lets the reader go on.
    fn replay_through(&mut self) {
        let replay = self.graph.replay().expect("accepted");
        self.let_go.send(()).expect("the body waits");
        self.begins.recv().expect("it begins");
        replay.wait().expect("nothing failed");
    }

    /// Has a worker run a task that depends on nothing.
    fn run_another(&self) {
        let (told, tells) = mpsc::channel();
        let other = move |()| told.send(()).expect("the test listens");
        self.rt.spawn("other", (), other).expect("accepted");
        tells.recv().expect("it runs");
    }

    /// Replays it until its reader has begun.
    fn replay_into(&mut self) {
        self.graph.replay().expect("accepted");
        self.begins.recv().expect("it begins");
    }
}

#[test]
fn the_last_replay_is_in_the_way_of_a_writer_and_not_of_a_reader() {
    for handle in [0, 1] {
        let mut it = Recorded::new(1);
        (0..BEFORE).for_each(|_| it.replay_through());
        it.replay_into();
        assert!(it.rt.try_acquire(it.data.write(handle)).expect("no failure").is_none());
        assert!(it.rt.try_acquire(it.data.read(handle)).expect("no failure").is_some());
        it.let_go.send(()).expect("the body waits");
        it.rt.wait().expect("nothing failed");
        assert!(it.rt.try_acquire(it.data.write(handle)).expect("no failure").is_some());
    }
}

#[test]
fn a_task_that_is_submitted_after_several_replays_waits_for_the_last() {
    let mut it = Recorded::new(2);
    (0..BEFORE).for_each(|_| it.replay_through());
    it.replay_into();
    let after = it.rt.spawn("after", it.data.write(1), |()| ()).expect("accepted");
    // If it were ready, the other worker would have run it before this one.
    it.run_another();
    assert!(!it.rt.has_ended(after));
    it.let_go.send(()).expect("the body waits");
    it.rt.wait_for(after).expect("nothing failed");
}

#[test]
fn a_guard_between_two_replays_is_in_the_way_of_the_second() {
    for handle in [0, 1] {
        let mut it = Recorded::new(1);
        (0..BEFORE).for_each(|_| it.replay_through());
        let guard = it.rt.acquire(it.data.write(handle)).expect("free");
        it.graph.replay().expect("accepted");
        // If the replay's reader were ready, the worker would have begun it before this one, or
        // stand in it.
        it.run_another();
        assert_eq!(it.runs.load(Ordering::SeqCst), BEFORE);
        drop(guard);
        it.let_go.send(()).expect("the body waits");
        it.rt.wait().expect("nothing failed");
        assert_eq!(it.runs.load(Ordering::SeqCst), BEFORE + 1);
    }
}

#[test]
fn handles_that_change_hands_between_two_replays_carry_nothing_over() {
    let mut it = Recorded::new(1);
    (0..BEFORE).for_each(|_| it.replay_through());
    it.replay_into();
    // While the replay runs, other handles are taken and given back.
    for _ in 0..3 {
        let others = it.rt.handles(5).expect("handles");
        it.rt.spawn("other", others.write(4), |()| ()).expect("accepted");
    }
    assert!(it.rt.try_acquire(it.data.write(0)).expect("no failure").is_none());
    it.let_go.send(()).expect("the body waits");
    it.rt.wait().expect("nothing failed");
}

#[test]
fn a_failure_in_a_later_replay_is_that_of_its_data() {
    let rt = runtime(1);
    let data = rt.handles(1).expect("a handle");
    let mut recording = rt.record();
    let parameter = recording.parameter(data.block()).expect("valid");
    let runs = AtomicU32::new(0);
    let body = move |()| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        assert_ne!(run, BEFORE, "fails on purpose");
    };
    recording.spawn("write", parameter.write(0), body).expect("recorded");
    let mut graph = recording.finish();
    for _ in 0..BEFORE {
        graph.replay().expect("accepted").wait().expect("nothing failed");
    }
    let failed = graph.replay().expect("accepted");
    let error = failed.wait().expect_err("it failed");
    assert!(error.to_string().contains("write"), "{error}");
    assert!(rt.acquire(data.read(0)).is_err(), "nobody has written it since");
    assert!(rt.wait().is_err());
    // What depends on it is cancelled, in a replay as well.
    let again = graph.replay().expect("accepted");
    assert!(again.wait().is_err());
}

#[test]
fn a_dropped_graph_leaves_the_order_of_its_last_replay() {
    let mut it = Recorded::new(1);
    (0..BEFORE).for_each(|_| it.replay_through());
    it.replay_into();
    drop(it.graph);
    assert!(it.rt.try_acquire(it.data.write(0)).expect("no failure").is_none());
    it.let_go.send(()).expect("the body waits");
    it.rt.wait().expect("nothing failed");
    assert!(it.rt.try_acquire(it.data.write(0)).expect("no failure").is_some());
}
