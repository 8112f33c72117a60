//! Failures and cancelling: what depends on it and nothing else, in this replay and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use millrace_runtime::replay::RecordedGraph;
use millrace_runtime::{Label, Runtime, WaitError};

use crate::block::{Block, Gate, Numbers};
use crate::common::{blocked, quiet_panics};

/// Shapes of pools; the first runs inline.
const POOLS: [(usize, bool); 4] = [(0, false), (1, false), (2, true), (4, false)];

fn runtime((workers, helps): (usize, bool)) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

/// Counts runs of tasks.
#[derive(Clone, Default)]
struct Runs(Arc<[AtomicUsize; 6]>);

impl Runs {
    fn count(&self, task: usize) {
        self.0[task].fetch_add(1, Ordering::SeqCst);
    }

    /// Runs since the last look.
    fn look(&self) -> [usize; 6] {
        self.0.each_ref().map(|count| count.swap(0, Ordering::SeqCst))
    }
}

/// Six tasks on a block of three numbers; each row depends on those before it by what it names.
///
/// | task | layer | does |
/// |---|---|---|
/// | 0 | 0 | writes a; fails if told to |
/// | 1 | 1 | reads a, writes b |
/// | 2 | 1 | overwrites a |
/// | 3 | 2 | writes b |
/// | 4 | 2 | comes after task 0 |
/// | 5 | 3 | writes c |
fn recorded(rt: &Runtime, block: &Block, runs: &Runs, fails: &Arc<AtomicBool>) -> RecordedGraph {
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    let count = |task: usize| {
        let runs = runs.clone();
        move || runs.count(task)
    };
    let (ran, fails) = (count(0), fails.clone());
    let first = recording.task("first").layer(0).spawn(data.write(0), move |number| {
        ran();
        assert!(!fails.load(Ordering::SeqCst), "task {} was told to", 0);
        *number += 1;
    });
    let first = first.expect("recorded");
    let ran = count(1);
    let task = recording.task("reads").layer(1);
    let body = move |(a, b): (&u64, &mut u64)| {
        ran();
        *b += a;
    };
    task.spawn((data.read(0), data.write(1)), body).expect("recorded");
    let ran = count(2);
    let body = move |number: &mut u64| {
        ran();
        *number = 0;
    };
    recording.task("clears").layer(1).spawn(data.overwrite(0), body).expect("recorded");
    let ran = count(3);
    recording.task("writes").layer(2).spawn(data.write(1), move |_| ran()).expect("recorded");
    let ran = count(4);
    let after = recording.task("after").layer(2).after(first);
    after.spawn((), move |()| ran()).expect("recorded");
    let ran = count(5);
    recording.task("other").layer(3).spawn(data.write(2), move |_| ran()).expect("recorded");
    recording.finish()
}

#[test]
fn a_failing_body_cancels_its_dependents_only() {
    quiet_panics();
    for pool in POOLS {
        let rt = runtime(pool);
        let (block, runs, fails) = (Block::new(&rt, 3), Runs::default(), Arc::default());
        let mut graph = recorded(&rt, &block, &runs, &fails);
        for round in 0..20 {
            // Valid whatever the last replay left.
            rt.spawn("mend", block.overwrite(1), |number| *number = 0).expect("accepted");
            let told = round % 3 == 1;
            fails.store(told, Ordering::SeqCst);
            graph.set_batch(Some(round));
            let replay = graph.replay().expect("accepted");
            let result = replay.wait();
            assert!(replay.has_ended());
            if !told {
                result.expect("nothing failed");
                assert_eq!(runs.look(), [1; 6], "round {round}, {pool:?}");
                continue;
            }
            // What was read is spoilt; what only follows in time is not.
            assert_eq!(runs.look(), [1, 0, 1, 0, 0, 1], "round {round}, {pool:?}");
            let error = result.expect_err("a task failed");
            assert!(matches!(error, WaitError::Spoilt { .. }), "{error}");
            assert_eq!(block.value(0), 0, "overwritten");
            assert!(rt.acquire(block.read(1)).is_err());
            let Err(WaitError::Failed { failure, others, cancelled }) = rt.wait() else {
                panic!("the failure is reported");
            };
            assert_eq!((failure.name(), failure.label().batch), ("first", Some(round)));
            assert_eq!((failure.label().layer, others, cancelled), (Some(0), 0, 3));
        }
    }
}

/// A failure goes on into what depends on it outside, in the next replay, and after that.
#[test]
fn a_failure_cancels_what_depends_on_it_across_replays() {
    quiet_panics();
    for pool in POOLS {
        let rt = runtime(pool);
        let (block, runs, fails) = (Block::new(&rt, 3), Runs::default(), Arc::default());
        let mut graph = recorded(&rt, &block, &runs, &fails);
        // Everything is submitted before anything runs.
        let held = rt.acquire((block.write(0), block.write(1), block.write(2)));
        let held = held.expect("nobody has it");
        let fail = |number: &mut u64| assert_eq!(*number, u64::MAX, "the outside was told to");
        rt.spawn("outside", block.write(1), fail).expect("accepted");
        let first = graph.replay().expect("accepted");
        let second = graph.replay().expect("accepted");
        let never = |_: &u64| -> () { unreachable!("what it reads was never made") };
        let reader = rt.spawn("reader", block.read(1), never).expect("accepted");
        drop(held);
        assert!(matches!(first.wait(), Err(WaitError::Spoilt { .. })));
        assert!(matches!(second.wait(), Err(WaitError::Spoilt { .. })));
        assert!(rt.wait_for(reader).is_err());
        assert_eq!(runs.look(), [2, 0, 2, 0, 2, 2], "{pool:?}");
        let Err(WaitError::Failed { failure, cancelled, .. }) = rt.wait() else {
            panic!("the failure is reported");
        };
        assert_eq!((failure.name(), cancelled), ("outside", 5));
        rt.spawn("mend", block.overwrite(1), |number| *number = 0).expect("accepted");
        graph.replay().expect("accepted").wait().expect("as if nothing had happened");
        assert_eq!(runs.look(), [1; 6]);
    }
}

#[test]
fn cancelling_a_replay_leaves_others_alone() {
    for workers in [1, 3] {
        let rt = runtime((workers, false));
        let blocks = [0; 3].map(|_| Block::new(&rt, 3));
        let (runs, fails) = (Runs::default(), Arc::default());
        let mut graphs = blocks.each_ref().map(|block| recorded(&rt, block, &runs, &fails));
        let all: Vec<_> = blocks.iter().flat_map(|block| (0..3).map(|n| block.write(n))).collect();
        let held = rt.acquire(all).expect("nobody has it");
        let replays = graphs.each_mut().map(|graph| graph.replay().expect("accepted"));
        replays[1].cancel();
        drop(held);
        replays[0].wait().expect("nothing failed");
        replays[2].wait().expect("nothing failed");
        assert!(matches!(replays[1].wait(), Err(WaitError::Cancelled)));
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        // Only task 5 of it may have begun before: none, for its data was held.
        assert_eq!(runs.look(), [2, 2, 2, 2, 2, 2]);
        replays.iter().for_each(|replay| replay.cancel());
        rt.wait().expect("nothing was left to cancel");
        for number in [0, 1, 2] {
            rt.spawn("mend", blocks[1].overwrite(number), |x| *x = 0).expect("accepted");
        }
        for graph in &mut graphs {
            graph.replay().expect("accepted").wait().expect("as if nothing had happened");
        }
        assert_eq!(runs.look(), [3; 6]);
    }
}

/// A task of a cancelled replay that has begun ends; those that have not are dropped.
#[test]
fn cancelling_does_not_stop_bodies() {
    let rt = runtime((1, false));
    let (gate, begins, let_go) = Gate::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut recording = rt.record();
    recording.spawn("long", (), move |()| gate.pass()).expect("recorded");
    for _ in 0..99 {
        let ran = ran.clone();
        let body = move |()| _ = ran.fetch_add(1, Ordering::SeqCst);
        recording.spawn("short", (), body).expect("recorded");
    }
    let mut graph = recording.finish();
    for round in 0..3 {
        let replay = graph.replay().expect("accepted");
        begins.recv().expect("it begins");
        match round {
            0 => replay.cancel(),
            1 => rt.cancel_all(),
            _ => (),
        }
        let_go.send(()).expect("the body waits");
        let result = replay.wait();
        assert_eq!(result.is_err(), round < 2);
        assert_eq!(rt.wait().is_err(), round < 2);
        assert_eq!(ran.swap(0, Ordering::SeqCst), if round < 2 { 0 } else { 99 });
    }
}

#[test]
fn cancelling_a_label_takes_those_of_that_batch_and_layer() {
    for workers in [1, 3] {
        let rt = runtime((workers, false));
        let blocks = [0; 3].map(|_| Block::new(&rt, 3));
        let runs = Runs::default();
        let mut recording = rt.record();
        let data = recording.parameter(blocks[0].data()).expect("accepted");
        for layer in 0..3 {
            let runs = runs.clone();
            let body = move |_: &mut u64| runs.count(layer);
            let task = recording.task("layer").layer(layer as u16);
            task.spawn(data.write(layer), body).expect("recorded");
        }
        let mut graph = recording.finish();
        for _ in 0..3 {
            let (_, let_go) = blocked(&rt);
            let all: Vec<_> = blocks.iter().flat_map(|b| (0..3).map(|n| b.write(n))).collect();
            let held = rt.acquire(all).expect("nobody has it");
            let mut replays = Vec::new();
            for (batch, block) in blocks.iter().enumerate() {
                graph.bind(&data, block.data()).expect("the same shape");
                graph.set_batch(Some(batch as u32));
                replays.push(graph.replay().expect("accepted"));
            }
            rt.cancel_label(Label { layer: Some(1), ..Label::batch(2) });
            rt.cancel_label(Label::batch(0));
            drop(held);
            let_go.send(()).expect("the body waits");
            let results: Vec<_> = replays.iter().map(|replay| replay.wait().is_ok()).collect();
            assert_eq!(results, [false, true, false]);
            assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
            assert_eq!(runs.look(), [2, 1, 2, 0, 0, 0]);
            for (block, number) in [(0, 0), (0, 1), (0, 2), (2, 1)] {
                rt.spawn("mend", blocks[block].overwrite(number), |x| *x = 0).expect("accepted");
            }
            rt.wait().expect("nothing failed");
        }
    }
}

/// A recorded body that returns an error fails as one that panics.
#[test]
fn an_error_that_a_body_returns_names_the_task_and_the_batch() {
    let rt = runtime((2, false));
    let mut recording = rt.record();
    let body = |()| Err::<(), _>("no luck");
    let first = recording.task("tries").layer(3).spawn((), body).expect("recorded");
    let never = |()| -> () { unreachable!("it is cancelled") };
    recording.task("never").after(first).spawn((), never).expect("recorded");
    let mut graph = recording.finish();
    for batch in 0..3 {
        graph.set_batch(Some(batch));
        let error = graph.replay().expect("accepted").wait().expect_err("it fails");
        let text = error.to_string();
        assert!(text.contains(&format!("task `tries` (batch {batch}, layer 3)")), "{text}");
        assert!(text.ends_with("failed: no luck"), "{text}");
        rt.wait().expect_err("reported once more");
        rt.wait().expect("reported by now");
    }
}
