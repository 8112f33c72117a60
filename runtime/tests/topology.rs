//! How many workers there are by default, and where they run.
#![cfg(target_os = "linux")]

use std::sync::mpsc;
use std::thread::{self, ThreadId};

use millrace_runtime::topology::{Limits, Pin, PinError, WorkersFrom};
use millrace_runtime::{BuildError, Runtime};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("known");
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Runs `test` on a thread of its own that may use only some CPUs.
fn restricted<R: Send>(cpus: &[usize], test: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let run = || {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(*cpu));
            sched_setaffinity(None, &set).expect("a part of what is allowed");
            test()
        };
        scope.spawn(run).join().expect("no panic")
    })
}

/// Where each thread is that runs tasks, and what it may use: one body per worker, each of which
/// waits until all have begun.
fn places(rt: &Runtime) -> Vec<(ThreadId, usize, Vec<usize>)> {
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(rt.workers()));
    let (tell, told) = mpsc::channel();
    for _ in 0..rt.workers() {
        let (barrier, tell) = (barrier.clone(), tell.clone());
        let body = move |()| {
            barrier.wait();
            tell.send((thread::current().id(), sched_getcpu(), allowed())).expect("received");
        };
        rt.spawn("where am I", (), body).expect("valid");
    }
    rt.wait().expect("no failure");
    told.iter().take(rt.workers()).collect()
}

#[test]
fn the_default_is_what_the_process_may_use() {
    let limits = Limits::of_process();
    assert_eq!(limits.cpus(), Some(&*allowed()));
    let rt = Runtime::builder().build().expect("possible");
    assert_eq!((rt.workers(), rt.topology().source()), (limits.workers(), limits.source()));
    assert_eq!(rt.topology().limits(), &limits);
    assert_eq!(rt.topology().pinned(), vec![None; limits.workers()]);
    let asked = Runtime::builder().workers(3).build().expect("possible");
    assert_eq!((asked.workers(), asked.topology().source()), (3, WorkersFrom::Asked));
}

#[test]
fn the_affinity_mask_bounds_the_default() {
    for cpu in allowed() {
        let rt = restricted(&[cpu], || Runtime::builder().build().expect("possible"));
        assert_eq!((rt.workers(), rt.topology().source()), (1, WorkersFrom::Affinity));
        assert_eq!(rt.topology().limits().cpus(), Some(&[cpu][..]));
    }
}

#[test]
fn pinned_workers_run_where_they_should() {
    for cpu in allowed() {
        let pin = Pin::Cpus(vec![cpu; 2]);
        let rt = Runtime::builder().workers(2).pin(pin).build().expect("possible");
        for (_, on, may) in places(&rt) {
            assert_eq!((on, may), (cpu, vec![cpu]));
        }
    }
    let cpus = allowed();
    let rt = Runtime::builder().workers(cpus.len()).pin(Pin::Cores).build().expect("possible");
    let mut places: Vec<_> = places(&rt).into_iter().map(|(_, on, may)| (on, may)).collect();
    places.sort_unstable();
    let each: Vec<_> = cpus.iter().map(|cpu| (*cpu, vec![*cpu])).collect();
    assert_eq!(places, each);
    let mut decided: Vec<_> = rt.topology().pinned().iter().flatten().copied().collect();
    decided.sort_unstable();
    assert_eq!(decided, cpus);
}

#[test]
fn the_start_hook_runs_on_the_pinned_thread() {
    let cpu = *allowed().last().expect("at least one");
    let (tell, told) = mpsc::channel();
    let hook = move |worker| tell.send((worker, allowed())).expect("received");
    let builder = Runtime::builder().workers(1).pin(Pin::Cpus(vec![cpu])).on_worker_start(hook);
    let _rt = builder.build().expect("possible");
    assert_eq!(told.recv(), Ok((0, vec![cpu])));
}

#[test]
fn a_thread_that_helps_is_left_alone() {
    let (before, cpu) = (allowed(), allowed()[0]);
    let builder = Runtime::builder().workers(2).main_helps(true).pin(Pin::Cpus(vec![cpu; 2]));
    let rt = builder.build().expect("possible");
    assert_eq!(rt.topology().pinned(), [None, Some(cpu)]);
    for (thread, _, may) in places(&rt) {
        let mine = thread == thread::current().id();
        assert_eq!(may, if mine { before.clone() } else { vec![cpu] });
    }
    assert_eq!(allowed(), before);
}

#[test]
fn what_cannot_be_pinned_is_an_error() {
    let build = |workers, pin| Runtime::builder().workers(workers).pin(pin).build().map(drop);
    let cpus = allowed().len();
    let error = build(cpus + 1, Pin::Cores).expect_err("too few");
    assert!(
        matches!(error, BuildError::Pin(PinError::TooFewCpus { workers, cpus: n })
            if (workers, n) == (cpus + 1, cpus)),
        "{error}"
    );
    let error = build(1, Pin::Cpus(vec![CpuSet::MAX_CPU])).expect_err("no such CPU");
    let wanted = format!("worker 0 cannot be pinned to CPU {}", CpuSet::MAX_CPU);
    assert!(error.to_string().starts_with(&wanted), "{error}");
    // Nobody is there to be pinned.
    build(0, Pin::Cores).expect("possible");
}
