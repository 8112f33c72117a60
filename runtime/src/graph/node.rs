//! Slots of recorded tasks: they stay with their recording, and are used once per replay.
//!
//! # The protocol
//! A recorded task has a slot for as long as its recording lives. Its edges to recorded tasks
//! are a list of the recording; only edges from and to other tasks hang in the slot's lists.
//!
//! * *Re-arming*: the thread that runs the task stores the number of its recorded predecessors in
//!   `pending` before it lets its successors go. The next replay begins only after every task of
//!   this one has been counted as ended, so nobody subtracts from `pending` before that.
//! * *Entering*: a replay draws edges from tasks outside, under the submission lock, before it
//!   lets any of its tasks go. Meanwhile only those outside subtract from `pending`.
//! * *Naming*: a task outside can only need a recorded task that used a handle last. Such a task
//!   is *named*: its end moves the generation on, as every other task's does. The generation of
//!   the others stays, and nobody has their names.

use super::edges::{Edge, INLINE};
use super::slot::{GUARD, NAMED, NODE, SUBMITTING, Slot, pack};
use super::table::{Allocation, Linked, SlotTable};
use super::{Need, TaskRef};
use crate::sync::Ordering;

/// A recorded task as its slot tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeFacts {
    /// Where the recording's list has its edges; if there is one, that edge.
    pub(crate) first: u32,
    pub(crate) edges: u32,
    /// Recorded tasks that it waits for.
    pub(crate) predecessors: u32,
}

impl Slot {
    /// Whether the slot belongs to a recorded task.
    #[inline]
    pub(crate) fn is_node(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & (GUARD | NODE) == NODE
    }

    /// Whether tasks outside of the recording may know the name of this one.
    #[inline]
    pub(crate) fn is_named(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & NAMED != 0
    }

    /// Makes a slot that was just allocated that of a recorded task.
    pub(crate) fn set_node(&self, priority: i16, named: bool, facts: NodeFacts) {
        let named = if named { NAMED } else { 0 };
        self.facts.store((priority as u32) << 16 | named | NODE, Ordering::Relaxed);
        let facts = [facts.first, facts.edges, facts.predecessors];
        for (place, fact) in self.next.iter().zip(facts) {
            place.store(fact, Ordering::Relaxed);
        }
        self.rearm(facts[2]);
    }

    /// What [`set_node`](Self::set_node) was given.
    #[inline]
    pub(crate) fn node(&self) -> NodeFacts {
        let [first, edges, predecessors] =
            std::array::from_fn(|place| self.next[place].load(Ordering::Relaxed));
        NodeFacts { first, edges, predecessors }
    }

    /// The generation of a named recorded task in the replay with that number, from 1.
    fn generation_in(&self, round: u64) -> u32 {
        // The one after that of the first: nobody has taken the slot since.
        self.generation.load(Ordering::Relaxed).wrapping_add(round as u32).wrapping_sub(2)
    }

    /// Makes the slot ready for the next replay; by the thread that runs the task.
    #[inline]
    pub(crate) fn rearm(&self, predecessors: u32) {
        // The last predecessor, or the only one, does not subtract.
        if self.pending.load(Ordering::Relaxed) != predecessors {
            self.pending.store(predecessors, Ordering::Relaxed);
        }
    }

    /// Takes back what cancelled the task in this replay; as above.
    pub(crate) fn forget_cancel(&self) {
        self.cancel.store(0, Ordering::Relaxed);
    }
}

const _: () = assert!(INLINE == 3, "the facts of a recorded task take the inline edges");

impl SlotTable {
    /// Makes the recorded `task`, which is not released yet, wait for a task outside too; `made`
    /// counts such edges so far.
    pub(crate) fn link_node(
        &self,
        need: Need,
        task: TaskRef,
        made: &mut u32,
        from: &mut Allocation,
    ) -> Linked {
        let slot = self.slot(task.slot());
        if *made == 0 {
            self.give_back_spilled(slot, from);
            slot.pending.store(SUBMITTING, Ordering::Relaxed);
        }
        // The places of inline edges hold other facts.
        let mut edges = INLINE + *made;
        let linked = self.link(need, (task.slot(), slot), &mut edges, from);
        *made = edges - INLINE;
        linked
    }

    /// The name of the named recorded task in `slot`, in the replay with that number.
    pub(crate) fn node_name(&self, slot: u32, round: u64) -> TaskRef {
        TaskRef::new(slot, self.slot(slot).generation_in(round))
    }

    /// Takes the slot of a recorded task back, whose name nobody may take for that of its next
    /// task. The caller frees it.
    pub(crate) fn retire_node(&self, slot: u32) {
        let place = self.slot(slot);
        let generation = ((place.head.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        place.head.store(pack(generation, Edge::END), Ordering::Release);
        place.generation.store(generation, Ordering::Relaxed);
        place.facts.store(0, Ordering::Relaxed);
    }
}
