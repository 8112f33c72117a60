//! What a thread knows about its part in a runtime.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crossbeam_deque::Worker;

/// The ready queue of a worker, reachable from bodies that spawn.
pub(crate) struct WorkerQueue {
    pub(crate) runtime: u64,
    pub(crate) queue: Worker<u32>,
}

/// Thread-local state.
pub(crate) struct LocalState {
    /// Set on worker threads.
    worker: RefCell<Option<Rc<WorkerQueue>>>,
    in_body: Cell<bool>,
    /// Guards that this thread holds: runtime and slot.
    held: RefCell<Vec<(u64, u32)>>,
}

thread_local! {
    static LOCAL: LocalState = const {
        LocalState {
            worker: RefCell::new(None),
            in_body: Cell::new(false),
            held: RefCell::new(Vec::new()),
        }
    };
}

/// Whether the calling thread is inside the body of a task. Calls that wait refuse to there:
/// they could hold the very worker that must finish first.
pub fn in_task_body() -> bool {
    LocalState::with(|local| local.in_body.get())
}

impl LocalState {
    pub(crate) fn with<R>(f: impl FnOnce(&LocalState) -> R) -> R {
        LOCAL.with(f)
    }

    pub(crate) fn set_worker(worker: Rc<WorkerQueue>) {
        Self::with(|local| *local.worker.borrow_mut() = Some(worker));
    }

    /// Queues a ready task on this thread's own queue, if it is a worker of that runtime.
    pub(crate) fn push(runtime: u64, slot: u32) -> bool {
        Self::with(|local| match &*local.worker.borrow() {
            Some(worker) if worker.runtime == runtime => {
                worker.queue.push(slot);
                true
            }
            _ => false,
        })
    }

    /// Runs `body` with [`in_task_body`] set.
    pub(crate) fn inside_body<R>(body: impl FnOnce() -> R) -> R {
        struct Reset(bool);
        impl Drop for Reset {
            fn drop(&mut self) {
                LocalState::with(|local| local.in_body.set(self.0));
            }
        }
        let _reset = Reset(Self::with(|local| local.in_body.replace(true)));
        body()
    }

    pub(crate) fn hold(runtime: u64, slot: u32) {
        Self::with(|local| local.held.borrow_mut().push((runtime, slot)));
    }

    pub(crate) fn release(runtime: u64, slot: u32) {
        Self::with(|local| {
            let mut held = local.held.borrow_mut();
            if let Some(place) = held.iter().rposition(|h| *h == (runtime, slot)) {
                held.swap_remove(place);
            }
        });
    }

    /// Whether `check` holds for a guard of that runtime that this thread holds.
    pub(crate) fn holds(runtime: u64, check: impl Fn(u32) -> bool) -> bool {
        Self::with(|local| {
            local.held.borrow().iter().any(|(id, slot)| *id == runtime && check(*slot))
        })
    }
}
