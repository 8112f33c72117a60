//! What a thread knows about its part in a runtime.

use std::cell::{Cell, RefCell};

use super::children::Children;
use crate::graph::TaskRef;

thread_local! {
    /// The task whose body the thread runs: its runtime, or 0 outside of bodies, and its slot.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
    static SLOT: Cell<u32> = const { Cell::new(0) };
    /// Whether that task has children, and which.
    static HAS_CHILDREN: Cell<bool> = const { Cell::new(false) };
    static CHILDREN: RefCell<Children> = RefCell::default();
    /// Guards that this thread holds: runtime and slot.
    static HELD: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
    /// Whether there are such.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside the body of a task. Calls that wait refuse to there:
/// they could hold the very worker that must finish first.
#[inline]
pub fn in_task_body() -> bool {
    RUNNING.get() != 0
}

/// The slot of the task of that runtime whose body the calling thread runs.
pub(crate) fn running_task(runtime: u64) -> Option<u32> {
    (RUNNING.get() == runtime).then(|| SLOT.get())
}

/// Runs the `body` of a task. Bodies do not nest, and `body` does not unwind.
#[inline(always)]
pub(crate) fn inside_body<R>(runtime: u64, slot: u32, body: impl FnOnce() -> R) -> R {
    RUNNING.set(runtime);
    SLOT.set(slot);
    let result = body();
    RUNNING.set(0);
    result
}

/// Whether the last task that this thread ran has children.
#[inline]
pub(crate) fn has_children() -> bool {
    HAS_CHILDREN.get()
}

/// Its children, who are asked for once.
pub(crate) fn take_children() -> Children {
    HAS_CHILDREN.set(false);
    CHILDREN.take()
}

/// The task whose body the calling thread runs has a further child. `foreign` tells whether that
/// one waits for others than its siblings.
pub(crate) fn add_child(child: TaskRef, foreign: bool) {
    HAS_CHILDREN.set(true);
    CHILDREN.with_borrow_mut(|children| children.add(child, foreign));
}

/// Whether `task` is a child of that task, too.
pub(crate) fn is_child(task: TaskRef) -> bool {
    HAS_CHILDREN.get() && CHILDREN.with_borrow(|children| children.has(task))
}

/// Remembers a guard of the calling thread.
#[inline]
pub(crate) fn hold(runtime: u64, slot: u32) {
    HELD.with_borrow_mut(|held| held.push((runtime, slot)));
    HOLDS.set(true);
}

/// Forgets a guard of the calling thread.
#[inline]
pub(crate) fn release(runtime: u64, slot: u32) {
    HELD.with_borrow_mut(|held| {
        // Mostly it is the last one.
        match held.iter().rposition(|h| *h == (runtime, slot)) {
            Some(place) if place + 1 == held.len() => _ = held.pop(),
            Some(place) => _ = held.swap_remove(place),
            None => {}
        }
        HOLDS.set(!held.is_empty());
    });
}

/// Whether the calling thread holds a guard of any runtime.
#[inline]
pub(crate) fn holds_any() -> bool {
    HOLDS.get()
}

/// Whether `check` holds for a guard of that runtime that this thread holds.
pub(crate) fn holds(runtime: u64, check: impl Fn(u32) -> bool) -> bool {
    HELD.with_borrow(|held| held.iter().any(|(id, slot)| *id == runtime && check(*slot)))
}
