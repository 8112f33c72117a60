//! What recordings, bindings and replays refuse, and that nothing has happened then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_runtime::replay::{Binding, ReplayError};
use millrace_runtime::{Mode, Runtime, SubmitError, WaitError};

use crate::block::{Block, Numbers};

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().expect("a runtime")
}

#[test]
fn data_of_another_shape() {
    let rt = runtime();
    let (three, other, four) = (Block::new(&rt, 3), Block::new(&rt, 3), Block::new(&rt, 4));
    let mut recording = rt.record();
    recording.parameter(four.data()).expect("accepted");
    let data = recording.parameter(three.data()).expect("accepted");
    assert_eq!(data.recorded().shape().to_string(), "3 numbers");
    recording.spawn("adds", data.write(2), |number| *number += 1).expect("recorded");
    let mut graph = recording.finish();
    graph.bind(&data, other.data()).expect("the same shape");
    let error = graph.bind(&data, four.data()).expect_err("another shape");
    assert_eq!(
        error.to_string(),
        "parameter 1 was recorded with 3 numbers, and cannot be bound to 4 numbers"
    );
    assert!(matches!(error, ReplayError::Shape { parameter: 1, .. }));
    // What was bound before still is.
    graph.replay().expect("accepted");
    assert_eq!((three.value(2), other.value(2)), (0, 1));
}

#[test]
fn parameters_and_tasks_of_another_recording() {
    let rt = runtime();
    let block = Block::new(&rt, 1);
    let mut other = rt.record();
    let foreign = other.parameter(block.data()).expect("accepted");
    let task = other.spawn("foreign", (), |()| ()).expect("recorded");

    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    let refused = SubmitError::WrongRecording { task: "refused" };
    let error = recording.spawn("refused", foreign.read(0), |_| ()).expect_err("foreign");
    assert_eq!(error, refused);
    let error = recording.task("refused").after(task).spawn((), |()| ()).expect_err("foreign");
    assert_eq!(error, refused);
    let both = (data.write(0), foreign.read(0));
    assert_eq!(recording.spawn("refused", both, |_| ()).expect_err("foreign"), refused);
    // A task that was refused has left no traces.
    recording.spawn("reads", data.read(0), |_| ()).expect("recorded");
    let mut graph = recording.finish();
    assert_eq!((graph.len(), graph.edges()), (1, 0));
    let error = graph.bind(&foreign, block.data()).expect_err("foreign");
    assert_eq!(error, ReplayError::WrongRecording);
    graph.replay().expect("accepted").wait().expect("nothing failed");
}

#[test]
fn the_same_data_twice_in_a_recorded_task() {
    let rt = runtime();
    let block = Block::new(&rt, 2);
    let mut recording = rt.record();
    let data = recording.parameter(block.data()).expect("accepted");
    let twice = (data.read(0), data.read(1), data.overwrite(0));
    let error = recording.spawn("twice", twice, |_| ()).expect_err("read and written");
    let expected = SubmitError::Conflict {
        task: "twice",
        first: 0,
        first_mode: Mode::Read,
        second: 2,
        second_mode: Mode::Overwrite,
    };
    assert_eq!(error, expected);
    recording.spawn("reads", (data.read(0), data.read(0)), |_| ()).expect("two reads");
}

/// Two parameters may be bound to the same data if neither is written.
#[test]
fn the_same_data_for_two_parameters_one_of_which_is_written() {
    let rt = runtime();
    let (a, b) = (Block::new(&rt, 2), Block::new(&rt, 2));
    let mut recording = rt.record();
    let from = recording.parameter(a.data()).expect("accepted");
    let same = recording.parameter(a.data()).expect("accepted");
    let to = recording.parameter(b.data()).expect("accepted");
    let access = (to.write(0), from.read(0), same.read(1));
    recording.spawn("adds", access, |(to, a, b)| *to += a + b + 1).expect("recorded");
    let mut graph = recording.finish();
    graph.replay().expect("read twice");
    graph.bind(&to, a.data()).expect("the same shape");
    let error = graph.replay().expect_err("written and read");
    let expected = SubmitError::Conflict {
        task: "replay",
        first: 0,
        first_mode: Mode::Read,
        second: 2,
        second_mode: Mode::Write,
    };
    assert_eq!(error, ReplayError::Refused(expected));
    graph.bind(&to, b.data()).expect("the same shape");
    graph.replay().expect("accepted");
    rt.wait().expect("nothing failed");
    assert_eq!((a.value(0), b.value(0)), (0, 2), "the refused replay has done nothing");
}

#[test]
fn data_of_another_runtime() {
    let (rt, other) = (runtime(), runtime());
    let (block, foreign) = (Block::new(&rt, 1), Block::new(&other, 1));
    let mut recording = rt.record();
    let wrong = |task| SubmitError::WrongRuntime { task, owner: "a block".into() };
    let error = recording.parameter(foreign.data()).expect_err("another runtime's");
    assert_eq!(error, wrong("parameter"));
    let data = recording.parameter(block.data()).expect("accepted");
    recording.spawn("adds", data.write(0), |number| *number += 1).expect("recorded");
    let mut graph = recording.finish();
    graph.bind(&data, foreign.data()).expect("the same shape");
    assert_eq!(graph.replay().expect_err("another runtime's"), wrong("replay").into());
    graph.bind(&data, block.data()).expect("the same shape");
    graph.replay().expect("accepted");
    assert_eq!((block.value(0), foreign.value(0)), (1, 0));
    // The same for handles without memory.
    let handles = other.handles(1).expect("a handle");
    rt.record().parameter(handles.block()).expect_err("another runtime's");
}

#[test]
#[should_panic(expected = "handles 3 and 1 more of a parameter that has 3")]
fn a_handle_that_a_parameter_does_not_have() {
    let rt = runtime();
    let handles = rt.handles(3).expect("handles");
    let data = rt.record().parameter(handles.block()).expect("accepted");
    let _ = data.read(3);
}

#[test]
fn graphs_without_tasks_end_at_once_and_refuse_all_the_same() {
    for workers in [0, 2] {
        let rt = Runtime::builder().workers(workers).build().expect("a runtime");
        let other = runtime();
        let (block, foreign) = (Block::new(&rt, 1), Block::new(&other, 1));
        let mut recording = rt.record();
        let data = recording.parameter(block.data()).expect("accepted");
        let mut graph = recording.finish();
        assert!(graph.is_empty());
        let held = rt.acquire(block.write(0)).expect("nobody has it");
        let replay = graph.replay().expect("it waits for nothing");
        assert!(replay.has_ended());
        replay.cancel();
        replay.wait().expect("nothing was cancelled");
        drop(held);
        graph.bind(&data, foreign.data()).expect("the same shape");
        graph.replay().expect_err("another runtime's");
        rt.wait().expect("nothing failed");
    }
}

/// Waiting for a replay inside one of its bodies is refused; replaying there is not.
#[test]
fn bodies_may_replay_but_not_wait() {
    for workers in [0, 1] {
        let rt = Runtime::builder().workers(workers).build().expect("a runtime");
        let ran = Arc::new(AtomicUsize::new(0));
        let mut recording = rt.record();
        for _ in 0..3 {
            let ran = ran.clone();
            let body = move |()| _ = ran.fetch_add(1, Ordering::SeqCst);
            recording.spawn("counts", (), body).expect("recorded");
        }
        let mut graph = recording.finish();
        let replays = rt.task("replays").try_spawn_value((), move |()| {
            let replay = graph.replay()?;
            // It cannot have ended: this is the only thread that runs tasks.
            Ok::<_, ReplayError>(replay.wait())
        });
        let result = replays.expect("accepted").wait().expect("the replay was accepted");
        assert!(matches!(result, Err(WaitError::InsideTask { call: "Replay::wait" })));
        rt.wait().expect("nothing failed");
        assert_eq!(ran.load(Ordering::SeqCst), 3);
    }
}
