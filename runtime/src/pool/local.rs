//! What a thread knows about its part in a runtime.

use std::cell::{Cell, RefCell};

thread_local! {
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
    /// Guards that this thread holds: runtime and slot.
    static HELD: RefCell<Vec<(u64, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Whether the calling thread is inside the body of a task. Calls that wait refuse to there:
/// they could hold the very worker that must finish first.
pub fn in_task_body() -> bool {
    IN_BODY.get()
}

/// Runs `body` with [`in_task_body`] set. Bodies do not nest, and `body` does not unwind.
#[inline]
pub(crate) fn inside_body<R>(body: impl FnOnce() -> R) -> R {
    IN_BODY.set(true);
    let result = body();
    IN_BODY.set(false);
    result
}

/// Remembers a guard of the calling thread.
pub(crate) fn hold(runtime: u64, slot: u32) {
    HELD.with_borrow_mut(|held| held.push((runtime, slot)));
}

/// Forgets a guard of the calling thread.
pub(crate) fn release(runtime: u64, slot: u32) {
    HELD.with_borrow_mut(|held| {
        if let Some(place) = held.iter().rposition(|h| *h == (runtime, slot)) {
            held.swap_remove(place);
        }
    });
}

/// Whether `check` holds for a guard of that runtime that this thread holds.
pub(crate) fn holds(runtime: u64, check: impl Fn(u32) -> bool) -> bool {
    HELD.with_borrow(|held| held.iter().any(|(id, slot)| *id == runtime && check(*slot)))
}
