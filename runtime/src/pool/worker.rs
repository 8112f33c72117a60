//! Worker threads: find a ready task, run it, else sleep.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::Context;
use super::idle::{find, idle};
use crate::error::BuildError;
use crate::runtime::Inner;
use crate::topology::pin_worker;

/// A hook that runs on each worker thread before it takes tasks.
pub(crate) type StartHook = Box<dyn Fn(usize) + Send + Sync>;

/// Starts one thread per context and returns once each is pinned and has run the hook, and so
/// has the calling thread for worker 0 if that one helps.
pub(crate) fn start(
    inner: &Arc<Inner>,
    contexts: Vec<Context>,
    hook: Option<StartHook>,
) -> Result<Vec<JoinHandle<()>>, BuildError> {
    let run_hook = |hook: &Option<Arc<StartHook>>, worker| {
        let Some(hook) = hook else { return Ok(()) };
        let call = std::panic::AssertUnwindSafe(|| hook(worker));
        std::panic::catch_unwind(call).map_err(|_| BuildError::Hook { worker })
    };
    let hook = hook.map(Arc::new);
    if inner.helper.is_some() {
        run_hook(&hook, 0)?;
    }
    let mut threads = Vec::with_capacity(contexts.len());
    let mut error = None;
    let (report, started) = mpsc::channel();
    for mut context in contexts {
        let worker = context.lane;
        let (inner, hook, report) = (inner.clone(), hook.clone(), report.clone());
        let run = move || {
            let pinned = pin_worker(&inner.topology, worker).map_err(BuildError::from);
            // The receiver lives until every thread has reported.
            let _ = report.send(pinned.and_then(|()| run_hook(&hook, worker)));
            drop((hook, report));
            run_worker(&inner, &mut context);
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
    for begun in started {
        error = error.or(begun.err());
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
    inner.sleep.wake(usize::MAX);
    let me = std::thread::current().id();
    if threads.iter().any(|thread| thread.thread().id() == me) {
        return;
    }
    for thread in threads {
        // Bodies cannot unwind out of a worker; its result carries nothing.
        let _ = thread.join();
    }
}

fn run_worker(inner: &Inner, context: &mut Context) {
    let stop = || inner.may_quit() || inner.quits() && inner.unblock(|| false);
    loop {
        let found = find(inner, context);
        let Some(slot) = found.or_else(|| idle(inner, context, None, stop)) else { break };
        let mut next = Some(slot);
        while let Some(slot) = next {
            next = inner.execute(slot, context);
        }
    }
    context.flush(inner);
    // The others may sleep with nothing left to wake them.
    inner.sleep.wake(usize::MAX);
}
