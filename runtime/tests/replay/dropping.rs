//! Dropping graphs, and runtimes, while replays are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_runtime::Runtime;
use millrace_runtime::replay::{Binding, RecordedGraph, Recording, Replay};

use crate::block::{Block, Gate, Numbers};
use crate::common::blocked;

/// What a graph is bound to must live in the graph's own types; that it may be sent to another
/// thread is the compiler's to check.
#[test]
fn graphs_recordings_and_replays_can_be_sent() {
    fn send<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    fn lease<B: Binding>() {
        send::<B::Lease>();
    }
    send::<RecordedGraph>();
    send::<Recording>();
    shared::<Replay>();
    lease::<crate::block::Data>();
}

/// A graph whose body counts, on one number.
fn counting(rt: &Runtime, block: &Block, counted: &Arc<AtomicUsize>) -> RecordedGraph {
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    for _ in 0..5 {
        let counted = counted.clone();
        let body = move |number: &mut u64| {
            *number += 1;
            counted.fetch_add(1, Ordering::SeqCst);
        };
        recording.spawn("counts", data.write(0), body).expect("recorded");
    }
    recording.finish()
}

#[test]
fn a_graph_is_recorded_here_and_replayed_and_dropped_elsewhere() {
    let rt = Runtime::builder().workers(2).build().expect("a runtime");
    let (block, counted) = (Block::new(&rt, 1), Arc::default());
    let mut graph = counting(&rt, &block, &counted);
    graph.replay().expect("accepted");
    let thread = std::thread::spawn(move || {
        for _ in 0..9 {
            graph.replay().expect("accepted");
        }
    });
    thread.join().expect("no panics");
    rt.wait().expect("nothing failed");
    assert_eq!(block.value(0), 50);
}

#[test]
fn a_graph_that_is_dropped_lets_its_replays_end() {
    for workers in [1, 4] {
        let rt = Runtime::builder().workers(workers).build().expect("a runtime");
        let (block, counted) = (Block::new(&rt, 1), Arc::default());
        let mut graph = counting(&rt, &block, &counted);
        let (_, let_go) = blocked(&rt);
        let held = rt.acquire(block.write(0)).expect("nobody has it");
        let replays: Vec<_> = (0..4).map(|_| graph.replay().expect("accepted")).collect();
        drop(graph);
        assert!(replays.iter().all(|replay| !replay.has_ended()));
        drop(held);
        let_go.send(()).expect("the body waits");
        replays.iter().for_each(|replay| replay.wait().expect("nothing failed"));
        assert_eq!((counted.load(Ordering::SeqCst), block.value(0)), (20, 20));
        rt.wait().expect("nothing failed");
        // The bodies are gone with the last name of a replay.
        drop(replays);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}

#[test]
fn bodies_are_dropped_with_the_last_replay_before_a_wait_returns() {
    for (workers, helps) in [(0, false), (1, false), (2, true), (4, false)] {
        let builder = Runtime::builder().workers(workers).main_helps(helps);
        let rt = builder.build().expect("a runtime");
        let (block, counted) = (Block::new(&rt, 1), Arc::default());
        for _ in 0..50 {
            let mut graph = counting(&rt, &block, &counted);
            graph.replay().expect("accepted");
            graph.replay().expect("accepted");
            drop(graph);
            rt.wait().expect("nothing failed");
            assert_eq!(Arc::strong_count(&counted), 1);
        }
        assert_eq!(block.value(0), 500);
    }
}

/// Slots of dropped graphs are used again, by tasks and by graphs, and nobody takes one for
/// another.
#[test]
fn slots_of_a_dropped_graph_get_other_tasks() {
    let rt = Runtime::builder().workers(2).build().expect("a runtime");
    let (block, counted) = (Block::new(&rt, 1), Arc::default());
    for round in 0..100u64 {
        let mut graph = counting(&rt, &block, &counted);
        graph.replay().expect("accepted");
        if round % 2 == 0 {
            graph.replay().expect("accepted").wait().expect("nothing failed");
        }
        drop(graph);
        for _ in 0..10 {
            rt.spawn("adds", block.write(0), |number| *number += 1000).expect("accepted");
        }
    }
    assert_eq!(block.value(0), 1_000_000 + 750);
    rt.wait().expect("nothing failed");
}

#[test]
fn a_runtime_that_is_dropped_runs_its_replays_first() {
    for (workers, helps) in [(1, false), (2, true), (4, false)] {
        let builder = Runtime::builder().workers(workers).main_helps(helps);
        let rt = builder.build().expect("a runtime");
        let counted = Arc::new(AtomicUsize::new(0));
        let mut recording = rt.record();
        for _ in 0..10 {
            let counted = counted.clone();
            let body = move |()| _ = counted.fetch_add(1, Ordering::SeqCst);
            recording.spawn("counts", (), body).expect("recorded");
        }
        let mut graph = recording.finish();
        (0..10).for_each(|_| _ = graph.replay().expect("accepted"));
        drop(rt);
        // The graph has the last handle of the runtime.
        drop(graph);
        assert_eq!(counted.load(Ordering::SeqCst), 100);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}

/// The last handles of a graph and its runtime go inside a body of that graph's replay.
#[test]
fn a_body_may_drop_its_graph_and_its_runtime() {
    let rt = Runtime::builder().workers(2).build().expect("a runtime");
    let (gate, begins, let_go) = Gate::new();
    let place: Arc<std::sync::Mutex<Option<RecordedGraph>>> = Arc::default();
    let mut recording = rt.record();
    let (ended, ends) = std::sync::mpsc::channel();
    let first = {
        let place = place.clone();
        let body = move |()| {
            gate.pass();
            drop(place.lock().expect("no panics").take());
        };
        recording.spawn("drops", (), body).expect("recorded")
    };
    let tell = move |()| ended.send(()).expect("the test listens");
    recording.task("tells").after(first).spawn((), tell).expect("recorded");
    let mut graph = recording.finish();
    graph.replay().expect("accepted");
    begins.recv().expect("it begins");
    *place.lock().expect("no panics") = Some(graph);
    drop(rt);
    let_go.send(()).expect("the body waits");
    ends.recv().expect("the second task ran");
    // The workers end by themselves; then the bodies are gone, and with them the sender.
    ends.recv().expect_err("nobody is left to send");
}
