//! The windows: submission waits while too many tasks, or too many bytes, are unfinished.
//!
//! A submitter that waits goes on when there is room for many tasks; but if a scheduler keeps all
//! ready tasks back, when there is room for one: that may be the task whose turn it is. Whoever
//! planned the order had room for it then, and so there is, for all that was ended by then has
//! been run here as well.

use crate::pool::{Patience, holds, in_task_body};
use crate::runtime::Inner;
use crate::sync::Ordering;
use crate::trace::Cause;

impl Inner {
    /// Waits while the submission window is full. A body, or a thread that holds acquired data,
    /// may exceed the window: what would make room could be waiting for it.
    #[inline]
    pub(crate) fn wait_for_room(&self) {
        // Relaxed: a bound that is out of date is too low.
        let submitted = self.submitted.load(Ordering::Relaxed);
        if submitted >= self.room.load(Ordering::Relaxed) {
            self.make_room();
        }
    }

    #[cold]
    fn make_room(&self) {
        let full = || {
            let room = self.finished() + self.window_size;
            self.room.store(room, Ordering::Relaxed);
            self.submitted.load(Ordering::Relaxed) >= room
        };
        if self.workers() == 0 || !full() || self.may_exceed() {
            return;
        }
        self.record_wait(Cause::Window.into(), || {
            let stuck = || self.ready.is_stuck() && !full();
            let goes_on = || self.window_has_room() || stuck();
            self.wait_at(&self.window, Patience::Throughput, None, goes_on);
        });
    }

    /// Whether a quarter of the window is free: then a waiting submitter goes on.
    pub(crate) fn window_has_room(&self) -> bool {
        let finished = self.finished();
        let submitted = self.submitted.load(Ordering::Acquire);
        submitted - finished <= self.window_size - self.window_size.div_ceil(4)
    }

    /// Lets the `bytes` of a task that is about to be submitted into the memory window, and waits
    /// until they have room there; who may exceed the other window may exceed this one.
    #[inline]
    pub(crate) fn wait_for_memory(&self, bytes: u64) {
        if self.memory.is_some() {
            self.make_memory_room(bytes);
        }
    }

    #[cold]
    fn make_memory_room(&self, bytes: u64) {
        let Some(memory) = &self.memory else { return };
        if memory.enter_at_once(bytes) {
            return;
        }
        if self.may_exceed() {
            return memory.exceed(bytes);
        }
        let turn = memory.queue();
        self.record_wait(Cause::Memory.into(), || {
            while !(memory.is_turn(turn) && memory.enter(bytes)) {
                let stuck = || self.ready.is_stuck() && memory.has_just_room_for(bytes);
                let goes_on = || memory.is_turn(turn) && (memory.has_room_for(bytes) || stuck());
                self.wait_at(&memory.point, Patience::Eager, None, goes_on);
            }
        });
        memory.next_turn();
    }

    fn may_exceed(&self) -> bool {
        in_task_body() || holds(self.id, |_| true)
    }
}
