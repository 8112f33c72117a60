//! Worker threads: find a ready task, run it, else sleep.

use std::iter;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crossbeam_deque::{Steal, Stealer, Worker};

use super::local::WorkerQueue;
use super::{Context, LocalState};
use crate::error::BuildError;
use crate::runtime::Inner;
use crate::trace::LaneWriter;

/// How often an idle worker looks for work before it sleeps, with growing pauses. About 20
/// microseconds in all: waking a sleeping thread costs as much or more.
const LOOKS: u32 = 8;

/// A hook that runs on each worker thread before it takes tasks.
pub(crate) type StartHook = Box<dyn Fn(usize) + Send + Sync>;

/// Starts one thread per queue and returns once each has run the hook.
pub(crate) fn start(
    inner: &Arc<Inner>,
    queues: Vec<Worker<u32>>,
    writers: Vec<LaneWriter>,
    hook: Option<StartHook>,
) -> Result<Vec<JoinHandle<()>>, BuildError> {
    let hook = hook.map(Arc::new);
    let mut threads = Vec::with_capacity(queues.len());
    let mut error = None;
    let (report, started) = mpsc::channel();
    for (worker, (queue, writer)) in queues.into_iter().zip(writers).enumerate() {
        let (inner, hook, report) = (inner.clone(), hook.clone(), report.clone());
        let run = move || {
            let hooked = hook.is_none_or(|hook| {
                let call = std::panic::AssertUnwindSafe(|| hook(worker));
                std::panic::catch_unwind(call).is_ok()
            });
            // The receiver lives until every thread has reported.
            let _ = report.send((worker, hooked));
            drop(report);
            run_worker(&inner, worker, queue, writer);
        };
        match std::thread::Builder::new().name(format!("millrace-{worker}")).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(source) => {
                error = Some(BuildError::Spawn { worker, source });
                break;
            }
        }
    }
    drop(report);
    for (worker, hooked) in started {
        if !hooked {
            error.get_or_insert(BuildError::Hook { worker });
        }
    }
    match error {
        None => Ok(threads),
        Some(error) => {
            stop(inner, threads);
            Err(error)
        }
    }
}

/// Lets the workers finish all tasks and ends them. On a worker thread it does not wait for
/// them: they end by themselves.
pub(crate) fn stop(inner: &Inner, threads: Vec<JoinHandle<()>>) {
    inner.request_quit();
    inner.sleep.wake_all();
    let me = std::thread::current().id();
    if threads.iter().any(|thread| thread.thread().id() == me) {
        return;
    }
    for thread in threads {
        // Bodies cannot unwind out of a worker; its result carries nothing.
        let _ = thread.join();
    }
}

fn run_worker(inner: &Inner, worker: usize, queue: Worker<u32>, writer: LaneWriter) {
    let local = Rc::new(WorkerQueue { runtime: inner.id, queue });
    LocalState::set_worker(local.clone());
    let mut context = Context::new(worker, writer);
    let find = || find(inner, &local.queue, worker);
    while let Some(slot) = find().or_else(|| idle(inner, worker, &mut context, find)) {
        let mut next = Some(slot);
        while let Some(slot) = next {
            next = inner.execute(slot, &mut context);
            if inner.window.has_waiters() && inner.window_has_room() {
                inner.window.notify();
            }
        }
    }
    context.flush(inner);
}

fn find(inner: &Inner, queue: &Worker<u32>, worker: usize) -> Option<u32> {
    queue.pop().or_else(|| {
        let others = inner.stealers[worker + 1..].iter().chain(&inner.stealers[..worker]);
        iter::once(&inner.submitted_ready).chain(others).find_map(|from| steal(from, queue))
    })
}

fn steal(from: &Stealer<u32>, into: &Worker<u32>) -> Option<u32> {
    loop {
        match from.steal_batch_and_pop(into) {
            Steal::Success(slot) => return Some(slot),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// Nothing was found: looks a few times more, then sleeps. `None` once the runtime stops.
fn idle(
    inner: &Inner,
    worker: usize,
    context: &mut Context,
    find: impl Fn() -> Option<u32>,
) -> Option<u32> {
    let timed = inner.timing || inner.recorder.enabled();
    let totals = inner.totals(worker);
    if inner.totals.clock.is_waiting() {
        inner.note_starvation();
    }
    if timed {
        totals.idle_begin(inner.recorder.now(), &inner.totals.clock);
    }
    context.flush(inner);
    inner.notify_progress();
    let found = look_or_sleep(inner, find);
    if timed {
        let end = inner.recorder.now();
        let start = totals.idle_end(end, &inner.totals.clock);
        if let Some(start) = start
            && inner.recorder.covers(start)
        {
            context.record_idle(start, end);
        }
    }
    found
}

fn look_or_sleep(inner: &Inner, find: impl Fn() -> Option<u32>) -> Option<u32> {
    loop {
        for look in 0..LOOKS {
            for _ in 0..1 << look {
                std::hint::spin_loop();
            }
            if let Some(slot) = find() {
                return Some(slot);
            }
        }
        if inner.may_quit() {
            // The others may sleep with nothing left to wake them.
            inner.sleep.wake_all();
            return None;
        }
        let look_again = || find().map(Some).or_else(|| inner.may_quit().then_some(None));
        if let Some(Some(slot)) = inner.sleep.sleep(look_again) {
            return Some(slot);
        }
    }
}
