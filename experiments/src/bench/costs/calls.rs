//! Calls that a program makes beside running tasks: handles, acquiring, waiting, submitting.

use std::sync::mpsc;
use std::time::Instant;

use millrace_arena::Arena;
use millrace_runtime::{Handles, Runtime};

use super::limits::Limits;
use super::memory::no_handles;
use super::rows::Cost;
use super::{Sitting, failed, per_call, runtime};
use crate::failure::Failure;

/// How many costs there are here.
pub(super) const COSTS: usize = 9;

/// Calls of one repetition, where one takes nanoseconds, and where it takes microseconds.
const CALLS: (u32, u32) = (2000, 200);
/// Handles that are registered, then released.
const MANY: u32 = 1_000_000;
/// Tasks of a repetition that only submits.
const BATCH: usize = 1000;

/// Measures them.
pub(super) fn measure(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    handle_costs(sitting, limits)?;
    acquire_costs(sitting, limits)?;
    wait_costs(sitting, limits)?;
    submit_costs(sitting, limits)
}

fn no_workers_needed() -> Result<Runtime, Failure> {
    runtime(|builder| builder.workers(2).main_helps(true))
}

fn one_handle(rt: &Runtime) -> Result<Handles, Failure> {
    rt.handles(1).ok_or_else(no_handles)
}

fn handle_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    // Locked and unlocked for each of the two calls.
    let (locks, limit) = ("two locks, 2 atomic operations each", Some(4.0 * limits.atomic));
    let rt = no_workers_needed()?;
    let once = Cost::time("handle.cycle", "a handle registered, then released")
        .goal(100.0)
        .aim(50.0)
        .bound(locks, limit);
    sitting
        .add(once, |sitting| per_call(sitting.short(), CALLS.0, |_| one_handle(&rt).map(drop)))?;
    let many = Cost::time("handle.million", "the same, of a million registered before")
        .goal(100.0)
        .aim(50.0)
        .bound(format!("{locks}; its memory is first touched, and written twice"), limit);
    sitting.add(many, |sitting| (0..sitting.long()).map(|_| million_handles()).collect())
}

/// Nanoseconds of a handle, registered with a million others by a fresh runtime, and released.
fn million_handles() -> Result<f64, Failure> {
    let rt = no_workers_needed()?;
    let mut handles = Vec::with_capacity(MANY as usize);
    let start = Instant::now();
    for _ in 0..MANY {
        handles.push(rt.register_handles(1).ok_or_else(no_handles)?);
    }
    for handle in handles {
        rt.release_handles(handle);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(MANY))
}

fn acquire_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    // The submission lock, the swap that ends the guard, the lock of the free slots.
    let bound = "two locks, 2 atomic operations each, and the swap that ends the guard";
    let limit = Some(5.0 * limits.atomic);
    let rt = no_workers_needed()?;
    let handles = one_handle(&rt)?;
    let handle = Cost::time("acquire.handle", "an idle handle acquired, then let go")
        .goal(50.0)
        .aim(30.0)
        .bound(bound, limit);
    sitting.add(handle, |sitting| {
        per_call(sitting.short(), CALLS.0, |_| rt.acquire(handles.write(0)).map(drop))
            .map_err(failed)
    })?;
    let arena = Arena::new(&rt, "costs");
    let buffer = arena.alloc::<f32>(16).map_err(failed)?;
    let cost = Cost::time("acquire.buffer", "an idle buffer of an arena acquired, then let go")
        .goal(50.0)
        .aim(30.0)
        .bound(format!("{bound}; a lease taken and given back, 2 more"), Some(7.0 * limits.atomic));
    sitting.add(cost, |sitting| {
        per_call(sitting.short(), CALLS.0, |_| buffer.acquire_mut().map(drop)).map_err(failed)
    })
}

fn wait_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    let rt = no_workers_needed()?;
    let idle = Cost::time("wait.idle", "a wait while nothing is unfinished")
        .goal(20.0)
        .bound("reads one counter per worker and one more", None);
    sitting
        .add(idle, |sitting| per_call(sitting.short(), CALLS.0, |_| rt.wait()).map_err(failed))?;
    let helped =
        Cost::time("wait.helped", "one task, then a wait that may run it").goal(2000.0).bound(
            "a cache line there and back, if the other worker takes the task",
            Some(2.0 * limits.line),
        );
    let handles = one_handle(&rt)?;
    sitting.add(helped, |sitting| one_then_wait(sitting, &rt, &handles))?;
    let rt = runtime(|builder| builder.workers(1))?;
    let handles = one_handle(&rt)?;
    let other = Cost::time("wait.worker", "one task, then a wait for the worker that runs it")
        .goal(2000.0)
        .bound(
            "two wake-ups of a sleeping thread, unless both look for long enough",
            Some(2.0 * limits.line),
        );
    sitting.add(other, |sitting| one_then_wait(sitting, &rt, &handles))
}

fn one_then_wait(sitting: &Sitting, rt: &Runtime, handles: &Handles) -> Result<Vec<f64>, Failure> {
    per_call(sitting.short(), CALLS.1, |_| {
        rt.spawn("task", handles.write(0), |()| ()).map_err(failed)?;
        rt.wait().map_err(failed)
    })
}

fn submit_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    // The lock, and the slot of the task that used the handle before, on the worker's core.
    let bound = "a lock of 2 atomic operations, and the slot's line, written on another core";
    let limit = Some(2.0 * limits.atomic);
    let held = Cost::time("submit.held", "submission, three accesses, while the worker is held up")
        .goal(60.0)
        .bound(bound, limit);
    sitting.add(held, |sitting| submissions(sitting, true))?;
    let running = Cost::time("submit.running", "submission, three accesses, while the worker runs")
        .goal(60.0)
        .bound(format!("{bound}; workers look for tasks meanwhile"), limit);
    sitting.add(running, |sitting| submissions(sitting, false))
}

/// Nanoseconds of a submission, of each repetition, on the main thread; tasks are independent of
/// those of the same repetition.
fn submissions(sitting: &Sitting, held: bool) -> Result<Vec<f64>, Failure> {
    let rt = runtime(|builder| builder.workers(1))?;
    let handles = rt.handles(3 * BATCH as u32).ok_or_else(no_handles)?;
    let mut times = Vec::new();
    for repetition in 0..=sitting.short() {
        let gate = if held { Some(hold_up(&rt)?) } else { None };
        let start = Instant::now();
        for first in (0..BATCH).map(|task| 3 * task) {
            let access = (handles.write(first), handles.read(first + 1), handles.read(first + 2));
            rt.spawn("task", access, |_| ()).map_err(failed)?;
        }
        let time = start.elapsed();
        drop(gate);
        rt.wait().map_err(failed)?;
        if repetition > 0 {
            times.push(time.as_nanos() as f64 / BATCH as f64);
        }
    }
    Ok(times)
}

/// Holds a worker up until what is returned is dropped.
pub(super) fn hold_up(rt: &Runtime) -> Result<mpsc::Sender<()>, Failure> {
    let (gate, opened) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let body = move |()| {
        // Fails, and so returns, once nobody can open the gate any more; the same below.
        let _ = begun.send(());
        let _ = opened.recv();
    };
    rt.spawn("held up", (), body).map_err(failed)?;
    let _ = begins.recv();
    Ok(gate)
}
