//! When and where what keeps bound data in place is given back.
#![allow(unsafe_code, reason = "implements the unsafe trait `Binding`")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use millrace_runtime::replay::{Binding, RecordedGraph};
use millrace_runtime::{Claims, Mode, Runtime, SubmitError};

use crate::block::Gate;
use crate::common::blocked;

/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the leases of one test do when they are dropped.
struct Owner {
    runtime: Mutex<Option<Runtime>>,
    taken: AtomicUsize,
    returned: AtomicUsize,
}

impl Owner {
    const fn new() -> Self {
        let (taken, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Owner { runtime: Mutex::new(None), taken, returned }
    }

    fn returned(&self) -> usize {
        self.returned.load(Ordering::SeqCst)
    }
}

/// Data without handles.
#[derive(Clone, Copy)]
struct Leased(&'static Owner);

struct Lease(&'static Owner);

impl Drop for Lease {
    fn drop(&mut self) {
        // What takes the submission lock, as owners of data may.
        if let Some(rt) = &*self.0.runtime.lock().expect("no panics") {
            let range = rt.register_handles(1).expect("a handle");
            rt.release_handles(range);
        }
        self.0.returned.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: there are no handles and no memory; the bytes are a claim of the test.
unsafe impl Binding for Leased {
    type Lease = Lease;
    type Shape = String;

    fn shape(&self) -> String {
        "nothing".into()
    }

    fn claim(&self, claims: &mut Claims, mode: Mode) -> Result<(Lease, *mut u8), SubmitError> {
        claims.declare_bytes(0..0, 0, mode, 100);
        self.0.taken.fetch_add(1, Ordering::SeqCst);
        Ok((Lease(self.0), std::ptr::null_mut()))
    }
}

fn recorded(rt: &Runtime, owner: &'static Owner, tasks: usize) -> RecordedGraph {
    let mut recording = rt.record();
    recording.parameter(Leased(owner)).expect("accepted");
    for _ in 0..tasks {
        recording.spawn("task", (), |()| ()).expect("recorded");
    }
    recording.finish()
}

/// Replays graphs of so many tasks whose leases call into the runtime.
fn replay_in_time(owner: &'static Owner, workers: usize, tasks: usize) {
    // A bound on memory, which what is bound takes part in.
    let rt = Runtime::builder().workers(workers).memory_window(150).build().expect("a runtime");
    let mut graph = recorded(&rt, owner, tasks);
    assert_eq!(
        (owner.taken.swap(0, Ordering::SeqCst), owner.returned.swap(0, Ordering::SeqCst)),
        (1, 1)
    );
    *owner.runtime.lock().expect("no panics") = Some(rt.clone());
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for _ in 0..3 {
            let replay = graph.replay().expect("accepted");
            replay.wait().expect("nothing failed");
            assert!(replay.has_ended());
        }
        done.send(()).expect("the test listens");
    });
    is_done.recv_timeout(PATIENCE).expect("three replays end");
    thread.join().expect("no panics");
    rt.wait().expect("nothing failed");
    *owner.runtime.lock().expect("no panics") = None;
    assert_eq!((owner.taken.load(Ordering::SeqCst), owner.returned()), (3, 3));
}

#[test]
fn without_a_lock_when_there_are_no_tasks() {
    static OWNER: [Owner; 2] = [const { Owner::new() }; 2];
    replay_in_time(&OWNER[0], 0, 0);
    replay_in_time(&OWNER[1], 2, 0);
}

#[test]
fn without_a_lock_at_the_end_of_the_last_task() {
    static OWNER: [Owner; 2] = [const { Owner::new() }; 2];
    replay_in_time(&OWNER[0], 0, 3);
    replay_in_time(&OWNER[1], 2, 100);
}

#[test]
fn before_the_next_body_of_that_thread() {
    static OWNER: Owner = Owner::new();
    let rt = Runtime::builder().workers(1).build().expect("a runtime");
    let (gate, begins, let_go) = Gate::new();
    let mut leased = recorded(&rt, &OWNER, 3);
    let mut recording = rt.record();
    recording.spawn("long", (), move |()| gate.pass()).expect("recorded");
    let mut long = recording.finish();
    let (_, open) = blocked(&rt);
    let before = OWNER.returned();
    leased.replay().expect("accepted");
    long.replay().expect("accepted");
    assert_eq!(OWNER.returned(), before, "none of its tasks has run");
    open.send(()).expect("the body waits");
    begins.recv().expect("it begins");
    assert_eq!(OWNER.returned(), before + 1);
    let_go.send(()).expect("the body waits");
    rt.wait().expect("nothing failed");
}

/// A refused replay gives back what it had secured.
#[test]
fn at_once_when_the_replay_is_refused() {
    static OWNER: Owner = Owner::new();
    let rt = Runtime::builder().workers(1).build().expect("a runtime");
    let handles = rt.handles(1).expect("a handle");
    let mut recording = rt.record();
    recording.parameter(Leased(&OWNER)).expect("accepted");
    let one = recording.parameter(handles.block()).expect("accepted");
    recording.parameter(handles.block()).expect("accepted");
    recording.spawn("writes", one.write(0), |()| ()).expect("recorded");
    let mut graph = recording.finish();
    let before = OWNER.returned();
    graph.replay().expect_err("one handle is bound twice, and written");
    assert_eq!(OWNER.returned(), before + 1);
}
