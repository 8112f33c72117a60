//! What replays do to data, and how they stand to other tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_runtime::replay::{Parameter, RecordedGraph};
use millrace_runtime::trace::{Cause, SpanKind};
use millrace_runtime::{Label, Runtime, WaitError};

use crate::block::{Block, Data, Gate, Numbers};
use crate::common::{blocked, until_waiting};

fn runtime(workers: usize, helps: bool) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

fn runtimes() -> impl Iterator<Item = Runtime> {
    [(0, false), (1, false), (2, true), (4, false)].into_iter().map(|(w, helps)| runtime(w, helps))
}

/// Sums a block of three into one of one, by two tasks that add and one that clears.
fn summing(rt: &Runtime, from: &Block, to: &Block) -> (RecordedGraph, [Parameter<Data>; 2]) {
    let mut recording = rt.record();
    let from = recording.parameter(from.data()).expect("accepted");
    let to = recording.parameter(to.data()).expect("accepted");
    recording.spawn("clear", to.overwrite(0), |sum| *sum = 0).expect("recorded");
    let first = (to.write(0), from.read(0), from.read(1));
    recording.spawn("add", first, |(sum, a, b)| *sum += a + b).expect("recorded");
    recording.spawn("add", (to.write(0), from.read(2)), |(sum, c)| *sum += c).expect("recorded");
    (recording.finish(), [from, to])
}

#[test]
fn each_replay_uses_what_is_bound_then() {
    for rt in runtimes() {
        let from: Vec<_> = (0..3).map(|_| Block::new(&rt, 3)).collect();
        let to: Vec<_> = (0..3).map(|_| Block::new(&rt, 1)).collect();
        for (number, block) in from.iter().enumerate() {
            for index in 0..3 {
                let value = 100u64.pow(index as u32) * (number as u64 + 1);
                rt.spawn("set", block.overwrite(index), move |x| *x = value).expect("accepted");
            }
        }
        let (mut graph, [source, target]) = summing(&rt, &from[0], &to[0]);
        assert_eq!((graph.len(), graph.edges(), graph.is_empty()), (3, 2, false));
        for number in [0, 1, 2, 1] {
            graph.bind(&source, from[number].data()).expect("the same shape");
            graph.bind(&target, to[2 - number].data()).expect("the same shape");
            graph.replay().expect("accepted");
        }
        for number in 0..3 {
            assert_eq!(to[2 - number].value(0), 10101 * (number as u64 + 1));
        }
        rt.wait().expect("nothing failed");
    }
}

/// Tasks before, between and after replays see each other's effects, in program order.
#[test]
fn other_tasks_and_replays_keep_program_order() {
    for rt in runtimes() {
        let (from, to) = (Block::new(&rt, 3), Block::new(&rt, 1));
        let (mut graph, _) = summing(&rt, &from, &to);
        let seen: Arc<[AtomicU64; 50]> = Arc::new([const { AtomicU64::new(0) }; 50]);
        for round in 0..50 {
            let set = move |x: &mut u64| *x = round;
            rt.spawn("set", from.overwrite(round as usize % 3), set).expect("accepted");
            graph.replay().expect("accepted");
            let seen = seen.clone();
            let note = move |x: &u64| seen[round as usize].store(*x, Ordering::SeqCst);
            rt.spawn("note", to.read(0), note).expect("accepted");
        }
        rt.wait().expect("nothing failed");
        for round in 0..50u64 {
            let expected: u64 = (round.saturating_sub(2)..=round).sum();
            assert_eq!(seen[round as usize].load(Ordering::SeqCst), expected, "round {round}");
        }
    }
}

/// Replays of one graph on other data run at once: each needs the other to go on.
#[test]
fn replays_on_other_data_overlap() {
    let rt = runtime(2, false);
    let blocks = [Block::new(&rt, 1), Block::new(&rt, 1)];
    let barrier = std::sync::Barrier::new(2);
    let mut recording = rt.record();
    let data = recording.parameter(blocks[0].data()).expect("accepted");
    let meet = move |number: &mut u64| {
        barrier.wait();
        *number += 1;
    };
    recording.spawn("meet", data.write(0), meet).expect("recorded");
    let mut graph = recording.finish();
    for _ in 0..20 {
        for block in &blocks {
            graph.bind(&data, block.data()).expect("the same shape");
            graph.replay().expect("accepted");
        }
    }
    rt.wait().expect("nothing failed");
    assert_eq!(blocks.each_ref().map(|block| block.value(0)), [20, 20]);
}

/// A replay waits for what uses its data, and for nothing else; so does a task after it.
#[test]
fn only_what_uses_the_same_data_waits() {
    let rt = runtime(3, false);
    let block = Block::new(&rt, 2);
    let (gate, begins, let_go) = Gate::new();
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    recording.spawn("long", data.write(0), move |_| gate.pass()).expect("recorded");
    recording.spawn("short", data.write(1), |number| *number += 1).expect("recorded");
    let mut graph = recording.finish();
    let replay = graph.replay().expect("accepted");
    begins.recv().expect("it begins");
    assert_eq!(block.value(1), 1, "needs the short task only");
    assert!(!replay.has_ended());
    let result = replay.wait_timeout(Duration::ZERO);
    assert!(matches!(result, Err(WaitError::TimedOut { call: "Replay::wait_timeout" })));
    assert!(rt.try_acquire(block.read(0)).expect("nothing failed").is_none());
    let second = graph.replay().expect("accepted");
    assert_eq!(block.value(1), 2, "though the long task of this replay waits for the other");
    let_go.send(()).expect("the body waits");
    replay.wait().expect("nothing failed");
    begins.recv().expect("the second begins");
    assert!(!second.has_ended());
    let_go.send(()).expect("the body waits");
    second.wait_timeout(Duration::MAX).expect("nothing failed");
}

/// The window bounds replays as a whole: each may exceed it, and the next waits for room.
#[test]
fn a_replay_waits_for_room_in_the_window() {
    let rt = Runtime::builder().workers(2).window(8).build().expect("a runtime");
    let (block, many) = (Block::new(&rt, 1), 100);
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    for _ in 0..many {
        recording.spawn("adds", data.write(0), |number| *number += 1).expect("recorded");
    }
    let mut graph = recording.finish();
    let (_, let_go) = blocked(&rt);
    let (gate, begins, open) = Gate::new();
    rt.spawn("first", block.write(0), move |_| gate.pass()).expect("accepted");
    begins.recv().expect("it begins");
    graph.replay().expect("larger than the window, but there was room");
    let thread = std::thread::spawn(move || {
        for _ in 0..10 {
            graph.replay().expect("accepted");
        }
        graph
    });
    until_waiting(&rt, Cause::Window);
    assert!(!thread.is_finished(), "102 tasks are unfinished");
    open.send(()).expect("the body waits");
    thread.join().expect("no panics");
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
    assert_eq!(block.value(0), 11 * many);
}

/// So does the bound on bytes: what is bound counts once for a replay, until it has ended.
#[test]
fn a_replay_waits_for_room_in_the_memory_window() {
    let rt = Runtime::builder().workers(2).memory_window(80).build().expect("a runtime");
    let block = Block::new(&rt, 10);
    let (gate, begins, let_go) = Gate::new();
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    recording.spawn("waits", data.read(0), move |_| gate.pass()).expect("recorded");
    let mut graph = recording.finish();
    let first = graph.replay().expect("the whole window");
    begins.recv().expect("it begins");
    let thread = std::thread::spawn(move || graph.replay().expect("accepted"));
    until_waiting(&rt, Cause::Memory);
    assert!(!thread.is_finished());
    let_go.send(()).expect("the body waits");
    first.wait().expect("nothing failed");
    let second = thread.join().expect("no panics");
    begins.recv().expect("the second begins");
    let_go.send(()).expect("the body waits");
    second.wait().expect("nothing failed");
}

/// Labels, names and priorities of recorded tasks are those of other tasks.
#[test]
fn traces_and_waits_know_batches_and_layers() {
    let rt = runtime(2, false);
    let mut recording = rt.record();
    for layer in 0..3 {
        recording.task("layer").layer(layer).shard(7).spawn((), |()| ()).expect("recorded");
    }
    let mut graph = recording.finish();
    rt.trace_start();
    for batch in [Some(4), None, Some(6)] {
        graph.set_batch(batch);
        graph.replay().expect("accepted");
    }
    let layer = Label { layer: Some(2), ..Label::batch(6) };
    rt.wait_for_label(layer).expect("nothing failed");
    rt.wait().expect("nothing failed");
    rt.trace_stop();
    let trace = rt.trace_take("replays", Default::default());
    let mut labels: Vec<_> = trace
        .spans
        .iter()
        .filter(|span| span.kind == SpanKind::Task)
        .map(|span| (span.batch, span.layer, span.shard))
        .collect();
    labels.sort_unstable();
    let expected = |batch| (0..3).map(move |layer| (batch, Some(layer), Some(7)));
    let expected: Vec<_> = [None, Some(4), Some(6)].into_iter().flat_map(expected).collect();
    assert_eq!(labels, expected);
    assert_eq!(rt.statistics().kinds["layer"].body.count(), 9);
}

/// An explicit edge orders recorded tasks that share no data.
#[test]
fn explicit_edges_hold_in_each_replay() {
    for rt in runtimes() {
        let clock = Arc::new(AtomicU64::new(0));
        let mut recording = rt.record();
        let mut before = None;
        for place in 0..10 {
            let clock = clock.clone();
            let body = move |()| {
                let now = clock.fetch_add(1, Ordering::SeqCst);
                assert_eq!(now % 10, place);
            };
            let mut task = recording.task("in turn");
            if let Some(before) = before {
                task = task.after(before);
            }
            before = Some(task.spawn((), body).expect("recorded"));
        }
        let mut graph = recording.finish();
        for _ in 0..20 {
            graph.replay().expect("accepted").wait().expect("in order");
        }
        assert_eq!(clock.load(Ordering::SeqCst), 200);
    }
}
