//! Tasks that end only once their children have.

mod common;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{Shared, blocked, quiet_panics};
use millrace_runtime::trace::SpanKind;
use millrace_runtime::{Runtime, SubmitError, TaskId, WaitError};

fn runtime(workers: usize, helps: bool) -> Runtime {
    Runtime::builder().workers(workers).main_helps(helps).build().expect("a runtime")
}

fn runtimes() -> impl Iterator<Item = Runtime> {
    let kinds = [(0, false), (1, false), (2, false), (2, true), (4, false), (4, true), (16, false)];
    kinds.into_iter().map(|(workers, helps)| runtime(workers, helps))
}

fn never() {
    unreachable!("the task should have been cancelled");
}

#[test]
fn a_parent_ends_after_its_children_and_holds_no_worker() {
    for (workers, helps) in [(1, false), (2, false), (3, true)] {
        let rt = runtime(workers, helps);
        let cell = Shared::new(&rt);
        let (let_go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let inner = rt.clone();
        let parent = rt
            .spawn("parent", cell.write(), move |x| {
                *x = 1;
                // With one worker: it runs only if that one does not wait here.
                let wait = move |()| {
                    begun.send(()).expect("the test waits");
                    gate.recv().expect("let go");
                };
                inner.spawn_child("child", (), wait).map(|_| ())
            })
            .expect("accepted");
        let after = rt.task("after").after(parent).spawn((), |()| ()).expect("accepted");
        let reads = rt.spawn("reads", cell.read(), |x| assert_eq!(*x, 1)).expect("accepted");
        begins.recv().expect("it begins");
        for task in [parent, after, reads] {
            assert!(!rt.has_ended(task));
        }
        let short = Duration::from_millis(1);
        let result = rt.wait_for_timeout(parent, short);
        assert!(matches!(result, Err(WaitError::TimedOut { .. })));
        let_go.send(()).expect("the child waits");
        rt.wait_for(parent).expect("nothing failed");
        rt.wait_for(after).expect("nothing failed");
        rt.wait().expect("nothing failed");
    }
}

/// The `n`th Fibonacci number, by a task for each addition, to any depth.
fn fibonacci(rt: &Runtime, n: u32, sum: &Arc<AtomicU64>) -> Result<(), SubmitError> {
    if n < 2 {
        sum.fetch_add(n.into(), Ordering::Relaxed);
        return Ok(());
    }
    for n in [n - 1, n - 2] {
        let (inner, sum) = (rt.clone(), sum.clone());
        rt.spawn_child("fibonacci", (), move |()| fibonacci(&inner, n, &sum))?;
    }
    Ok(())
}

#[test]
fn recursion_ends_on_any_number_of_workers() {
    for rt in runtimes() {
        let sum = Arc::new(AtomicU64::new(0));
        let (inner, counted) = (rt.clone(), sum.clone());
        let root =
            rt.spawn("fibonacci", (), move |()| fibonacci(&inner, 21, &counted)).expect("accepted");
        let seen = sum.clone();
        let all =
            rt.task("after").after(root).spawn_value((), move |()| seen.load(Ordering::Relaxed));
        assert_eq!(all.expect("accepted").wait().expect("a value"), 10_946);
        rt.wait().expect("nothing failed");
    }
}

fn descend(rt: &Runtime, depth: u32, deepest: &Arc<AtomicUsize>) -> Result<(), SubmitError> {
    if depth == 0 {
        deepest.store(1, Ordering::SeqCst);
        return Ok(());
    }
    let (inner, deepest) = (rt.clone(), deepest.clone());
    rt.spawn_child("descend", (), move |()| descend(&inner, depth - 1, &deepest)).map(|_| ())
}

#[test]
fn depth_takes_no_stack() {
    for rt in [runtime(0, false), runtime(1, false), runtime(2, true)] {
        let deepest = Arc::new(AtomicUsize::new(0));
        let (inner, mark) = (rt.clone(), deepest.clone());
        let root = rt.spawn("descend", (), move |()| descend(&inner, 100_000, &mark));
        rt.wait_for(root.expect("accepted")).expect("nothing failed");
        assert_eq!(deepest.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn the_failure_of_a_child_is_that_of_its_parent() {
    quiet_panics();
    for rt in runtimes() {
        let (cell, other) = (Shared::new(&rt), Shared::new(&rt));
        let (inner, mine) = (rt.clone(), Arc::new(Shared::new(&rt)));
        let childs = mine.clone();
        let grandparent = rt
            .spawn("grandparent", cell.write(), move |x| {
                *x = 1;
                let nested = inner.clone();
                inner.spawn("stranger", (), |()| ())?;
                inner
                    .spawn_child("parent", (), move |()| {
                        let fails = |x: &mut u64| assert_ne!(*x, 0, "child was told to");
                        nested.spawn_child("fails", childs.write(), fails)?;
                        nested.spawn_child("well", (), |()| ()).map(|_| ())
                    })
                    .map(|_| ())
            })
            .expect("accepted");
        let reads = rt.spawn("reads", cell.read(), |_| never()).expect("accepted");
        rt.spawn("other", other.write(), |x| *x = 7).expect("accepted");
        for task in [grandparent, reads] {
            let error = rt.wait_for(task).expect_err("a grandchild failed").to_string();
            assert!(error.contains("`fails`") && error.contains("was told to"), "{error}");
        }
        assert!(matches!(rt.acquire(mine.read()), Err(WaitError::Spoilt { .. })));
        let error = rt.wait().expect_err("reported");
        assert!(matches!(error, WaitError::Failed { others: 0, cancelled: 1, .. }), "{error}");
        assert_eq!(other.value(&rt), 7);
        rt.wait().expect("reported once");
    }
}

#[test]
fn a_parent_that_fails_waits_for_its_children_all_the_same() {
    for rt in runtimes() {
        let ran = Arc::new(AtomicUsize::new(0));
        let (inner, counted) = (rt.clone(), ran.clone());
        let parent = rt.spawn("parent", (), move |()| {
            for _ in 0..10 {
                let counted = counted.clone();
                let count = move |()| {
                    counted.fetch_add(1, Ordering::SeqCst);
                };
                inner.spawn_child("child", (), count)?;
            }
            Err::<(), Box<dyn std::error::Error + Send + Sync>>("no".into())
        });
        let error = rt.wait_for(parent.expect("accepted")).expect_err("it failed").to_string();
        assert!(error.contains("`parent`"), "{error}");
        assert_eq!(ran.load(Ordering::SeqCst), 10);
        rt.wait().expect_err("reported");
    }
}

#[test]
fn a_cancelled_child_cancels_what_waits_for_its_parent() {
    for (workers, helps) in [(1, false), (2, false), (3, true)] {
        let rt = runtime(workers, helps);
        let (tell, told) = mpsc::channel::<TaskId>();
        let (let_go, gate) = mpsc::channel::<()>();
        let inner = rt.clone();
        let parent = rt.spawn("parent", (), move |()| {
            let first = inner.spawn_child("first", (), move |()| gate.recv().expect("let go"))?;
            let child =
                inner.task("second").batch(3).after(first).child().spawn((), |()| never())?;
            tell.send(child).expect("the test waits");
            Ok::<(), SubmitError>(())
        });
        let parent = parent.expect("accepted");
        let after = rt.task("after").after(parent).spawn((), |()| never());
        rt.cancel(told.recv().expect("the body tells"));
        rt.cancel(parent); // It has run.
        let_go.send(()).expect("the child waits");
        for task in [parent, after.expect("accepted")] {
            assert!(matches!(rt.wait_for(task), Err(WaitError::Cancelled)));
        }
        assert!(matches!(rt.wait(), Err(WaitError::Cancelled)));
        rt.wait().expect("reported once");
    }
}

#[test]
fn what_a_parent_has_its_children_cannot_declare() {
    for rt in runtimes() {
        let cells: Arc<[Shared; 2]> = Arc::new([Shared::new(&rt), Shared::new(&rt)]);
        let (inner, shared) = (rt.clone(), cells.clone());
        let body = move |(_, x): (&mut u64, &u64)| {
            let [written, read] = &*shared;
            let conflicts = [
                inner.spawn_child("reads", written.read(), |_| ()),
                inner.spawn_child("writes", written.write(), |_| ()),
                inner.spawn_child("spoils", read.write(), |_| ()),
            ];
            for (error, name) in conflicts.into_iter().zip(["reads", "writes", "spoils"]) {
                let expected = SubmitError::NeedsParent { task: name, parent: "parent" };
                assert_eq!(error.expect_err("it would wait for its parent"), expected);
            }
            assert_eq!(*x, 0);
            inner.spawn_child("also reads", read.read(), |x| assert_eq!(*x, 0)).expect("accepted");
        };
        let access = (cells[0].write(), cells[1].read());
        let parent = rt.spawn("parent", access, body).expect("accepted");
        rt.wait_for(parent).expect("nothing failed");
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn a_child_needs_a_parent() {
    let no_parent = SubmitError::NoParent { task: "child" };
    for rt in runtimes() {
        assert_eq!(rt.spawn_child("child", (), |()| ()), Err(no_parent.clone()));
        let (inner, other) = (rt.clone(), runtime(0, false));
        let expected = no_parent.clone();
        rt.spawn("elsewhere", (), move |()| {
            assert_eq!(other.spawn_child("child", (), |()| ()), Err(expected.clone()));
            std::thread::scope(|scope| {
                let call = || inner.spawn_child("child", (), |()| ());
                let refused = scope.spawn(call).join().expect("no panic");
                assert_eq!(refused, Err(expected));
            });
        })
        .expect("accepted");
        let mut recording = rt.record();
        let (inner, expected) = (rt.clone(), no_parent.clone());
        let body = move |()| {
            assert_eq!(inner.spawn_child("child", (), |()| ()), Err(expected.clone()));
        };
        recording.spawn("recorded", (), body).expect("accepted");
        recording.finish().replay().expect("accepted");
        rt.wait().expect("all were refused");
    }
}

/// The parent waits for a child that waits for a task that waits for the parent: submitted while
/// the parent's body runs, and with other tasks and a replay in between.
#[test]
fn a_parent_that_would_wait_for_itself_fails() {
    for (workers, recorded) in [(1, false), (2, false), (2, true), (4, true)] {
        let rt = runtime(workers, false);
        let handles = rt.handles(3).expect("three handles");
        let (let_go, gate) = mpsc::channel();
        let inner = rt.clone();
        let parent = rt.spawn("parent", handles.write(0), move |()| {
            let access = gate.recv().expect("the test goes on");
            inner.spawn_child("child", access, |()| ()).map(|_| ())
        });
        let parent = parent.expect("accepted");
        if recorded {
            let mut recording = rt.record();
            let block = recording.parameter(handles.block()).expect("accepted");
            recording.spawn("first", block.write(0), |()| ()).expect("accepted");
            let between = recording.spawn("between", (block.read(0), block.write(1)), |_| ());
            let between = between.expect("accepted");
            let last = recording.task("last").after(between);
            last.spawn(block.write(2), |()| ()).expect("accepted");
            recording.finish().replay().expect("accepted");
        } else {
            rt.spawn("between", (handles.read(0), handles.write(1)), |_| ()).expect("accepted");
            rt.spawn("last", (handles.read(1), handles.write(2)), |_| ()).expect("accepted");
        }
        let_go.send(handles.read(2)).expect("the parent waits");
        let error = rt.wait_for(parent).expect_err("it cannot wait").to_string();
        assert!(error.contains("`parent`") && error.contains("waits for its end"), "{error}");
        let error = rt.wait().expect_err("reported");
        assert!(matches!(error, WaitError::Failed { others: 0, .. }), "{error}");
        rt.wait().expect("nothing hangs");
    }
}

/// Two parents, each of which has a child that waits for the other, and a grandchild that waits
/// for its grandparent.
#[test]
fn circles_through_several_parents_are_found() {
    for workers in [2, 4] {
        let rt = runtime(workers, false);
        let meet = Arc::new(std::sync::Barrier::new(2));
        let (tasks, ids): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<TaskId>()).unzip();
        let parents: Vec<_> = ids
            .into_iter()
            .map(|other| {
                let (inner, meet) = (rt.clone(), meet.clone());
                let body = move |()| {
                    let other = other.recv().expect("the test tells");
                    meet.wait(); // Neither has ended.
                    let child = inner.task("child").after(other).child().spawn((), |()| ());
                    meet.wait();
                    child.map(|_| ())
                };
                rt.spawn("parent", (), body).expect("accepted")
            })
            .collect();
        for (tell, other) in tasks.iter().zip(parents.iter().rev()) {
            tell.send(*other).expect("the body waits");
        }
        let outcomes = [rt.wait_for(parents[0]), rt.wait_for(parents[1])];
        assert!(outcomes.iter().any(|outcome| outcome.is_err()));
        let error = rt.wait().expect_err("one of them failed").to_string();
        assert!(error.contains("waits for its end"), "{error}");

        let cell = Arc::new(Shared::new(&rt));
        let (inner, shared) = (rt.clone(), cell.clone());
        let grandparent = rt.spawn("grandparent", cell.write(), move |_| {
            let nested = inner.clone();
            let parent = move |()| nested.spawn_child("child", shared.write(), |_| ()).map(|_| ());
            inner.spawn_child("parent", (), parent)?;
            // Of two workers the other runs both: then the parent waits already.
            let (told, tell) = mpsc::channel();
            inner.spawn("told", (), move |()| told.send(()).expect("somebody waits"))?;
            tell.recv().expect("told");
            Ok::<(), SubmitError>(())
        });
        rt.wait_for(grandparent.expect("accepted")).expect_err("it cannot wait");
        rt.wait().expect_err("reported");
        rt.wait().expect("nothing hangs");
    }
}

#[test]
fn a_child_may_wait_for_strangers() {
    for (workers, helps) in [(1, false), (2, false), (3, true)] {
        let rt = runtime(workers + 1, helps);
        let cell = Arc::new(Shared::new(&rt));
        let (stranger, let_go) = blocked(&rt);
        rt.task("late").after(stranger).spawn(cell.write(), |x| *x = 5).expect("accepted");
        let (inner, shared) = (rt.clone(), cell.clone());
        let parent = rt.spawn("parent", (), move |()| {
            inner.spawn_child("child", shared.write(), |x| *x *= 2)?;
            inner.spawn_child("next", shared.write(), |x| *x += 1).map(|_| ())
        });
        let parent = parent.expect("accepted");
        rt.task("after").after(parent).spawn((), |()| ()).expect("accepted");
        let_go.send(()).expect("the body waits");
        rt.wait_for(parent).expect("nothing failed");
        assert_eq!(cell.value(&rt), 11);
        rt.wait().expect("nothing failed");
    }
}

#[test]
fn windows_do_not_hold_up_children() {
    for rt in [1, 2].map(|workers| {
        let builder = Runtime::builder().workers(workers).window(2).memory_window(10);
        builder.build().expect("a runtime")
    }) {
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let (inner, counted) = (rt.clone(), ran.clone());
            rt.spawn("parent", common::Bytes(8), move |()| {
                for _ in 0..20 {
                    let counted = counted.clone();
                    let count = move |()| {
                        counted.fetch_add(1, Ordering::SeqCst);
                    };
                    inner.spawn_child("child", common::Bytes(8), count)?;
                }
                Ok::<(), SubmitError>(())
            })
            .expect("accepted");
        }
        rt.wait().expect("nothing failed");
        assert_eq!(ran.load(Ordering::SeqCst), 400);
    }
}

#[test]
fn a_trace_shows_the_bodies_of_parents_and_children() {
    for workers in [0, 1, 2] {
        let rt = runtime(workers, false);
        rt.trace_start();
        let inner = rt.clone();
        let parent = rt.spawn("parent", (), move |()| {
            inner.spawn_child("child", (), |()| ())?;
            inner.spawn_child("child", (), |()| ()).map(|_| ())
        });
        rt.task("after").after(parent.expect("accepted")).spawn((), |()| ()).expect("accepted");
        rt.wait().expect("nothing failed");
        rt.trace_stop();
        let trace = rt.trace_take("t", Default::default());
        let spans = |name: &str| {
            let of_it = |span: &&millrace_runtime::trace::Span| {
                span.kind == SpanKind::Task && trace.names[span.name as usize] == name
            };
            trace.spans.iter().filter(of_it).copied().collect::<Vec<_>>()
        };
        let (parents, children, after) = (spans("parent"), spans("child"), spans("after"));
        assert_eq!((parents.len(), children.len(), after.len()), (1, 2, 1));
        for child in children {
            assert!(child.lane != parents[0].lane || child.start >= parents[0].end);
            assert!(child.lane != after[0].lane || child.end <= after[0].start);
        }
    }
}
