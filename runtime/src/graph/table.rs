//! The table of all slots and spilled edges. The protocol is in the [module above](super).

use crossbeam_utils::CachePadded;

use super::edges::{Edge, INLINE, Place};
use super::prefetch::{prefetch, prefetch_for_write};
use super::segments::{Segments, page};
use super::slot::{Slot, pack};
use super::{Need, TaskRef};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// Slots of a page (96 KiB), and spilled edges (48 KiB).
const SLOTS: u32 = page(1 << 9);
const SPILLED: u32 = page(1 << 12);

/// How many allocations ahead a free slot is fetched: its line is in the core that ran its last
/// task, 60 to 260 ns away, and a submission takes about 50.
const AHEAD: usize = 8;

/// More slots than this are sorted when they come back: in the order in which their tasks have
/// ended, every step from a task to the next would be one from memory to memory.
const SORTED: usize = 1 << 14;

/// An edge beyond the inline ones.
struct Spilled {
    next: AtomicU32,
    task: AtomicU32,
    /// Next spilled edge of the same task, or in the free list; submitter only.
    chain: AtomicU32,
}

/// What became of an edge that was to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Made,
    /// The task waits for that one already.
    Known,
    /// The task that it was to come from has ended.
    Ended,
}

/// All slots and spilled edges of a runtime. Shared reads; growth and edge drawing belong to
/// the holder of the submission lock, whose private half is [`Allocation`].
pub(crate) struct SlotTable {
    slots: Segments<Slot, SLOTS>,
    spilled: Segments<Spilled, SPILLED>,
    /// Slots of ended tasks, until the submitter takes them as a whole.
    freed: CachePadded<Mutex<Vec<u32>>>,
}

/// What the submitter knows about the table: free slots and free spilled edges.
pub(crate) struct Allocation {
    free: Vec<u32>,
    /// Empty; its memory takes the place of that of the slots that are taken back.
    spare: Vec<u32>,
    made: u32,
    free_spilled: u32,
    made_spilled: u32,
}

impl Allocation {
    pub(crate) fn new() -> Self {
        let (free, spare) = (Vec::new(), Vec::new());
        Allocation { free, spare, made: 0, free_spilled: u32::MAX, made_spilled: 0 }
    }

    /// Gives back the slot of an ended task, to be taken first.
    pub(crate) fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

impl SlotTable {
    pub(crate) fn new() -> Self {
        let freed = CachePadded::new(Mutex::new(Vec::new()));
        let (slots, spilled) = (Segments::new(Edge::MAX_SLOTS), Segments::new(Edge::MAX_SPILLED));
        SlotTable { slots, spilled, freed }
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        self.slots.get(index)
    }

    /// Takes a slot for a task that is being submitted; `None` when all are in use.
    #[inline(always)]
    pub(crate) fn allocate(&self, from: &mut Allocation) -> Option<(TaskRef, &Slot)> {
        if from.free.len() <= AHEAD && from.free.len().is_multiple_of(AHEAD) {
            self.refill(from);
        }
        let index = if let Some(index) = from.free.pop() {
            if let Some(ahead) = from.free.len().checked_sub(AHEAD) {
                let slot = self.slot(from.free[ahead]);
                prefetch_for_write(slot);
                prefetch_for_write(&slot.spill);
            }
            index
        } else {
            self.make_slot(from)?
        };
        let slot = self.slot(index);
        if slot.spill.load(Ordering::Relaxed) != u32::MAX {
            self.give_back_spilled(slot, from);
        }
        slot.cancel.store(0, Ordering::Relaxed);
        slot.ready.store(0, Ordering::Relaxed);
        let generation = slot.generation.load(Ordering::Relaxed);
        slot.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
        Some((TaskRef::new(index, generation), slot))
    }

    #[cold]
    fn make_slot(&self, from: &mut Allocation) -> Option<u32> {
        let index = from.made;
        if index == Edge::MAX_SLOTS {
            return None;
        }
        self.slots.grow(index, Slot::new);
        from.made += 1;
        Some(index)
    }

    /// Puts the slots that were given back under the `free` ones, which are taken first.
    #[cold]
    fn refill(&self, from: &mut Allocation) {
        let Allocation { free, spare: freed, .. } = from;
        std::mem::swap(freed, &mut *lock(&self.freed));
        if freed.len() > SORTED {
            freed.sort_unstable_by(|slot, other| other.cmp(slot));
        }
        let ahead = freed.len().saturating_sub(AHEAD - free.len());
        freed[ahead..].iter().for_each(|slot| self.prefetch_slot(*slot));
        freed.append(free);
        std::mem::swap(free, freed);
    }

    /// Fetches the line of a task that will be looked at, or run, soon.
    #[inline]
    pub(crate) fn prefetch_slot(&self, slot: u32) {
        prefetch_for_write(self.slot(slot));
    }

    /// Fetches the line of a task with what times and traces need.
    #[inline]
    pub(crate) fn prefetch_facts(&self, slot: u32) {
        prefetch(&self.slot(slot).ready);
    }

    /// The spilled edges of the slot's former task; its predecessors have long left them.
    #[cold]
    pub(super) fn give_back_spilled(&self, slot: &Slot, to: &mut Allocation) {
        let mut edge = slot.spill.load(Ordering::Relaxed);
        while edge != u32::MAX {
            let spilled = self.spilled.get(edge);
            let next = spilled.chain.load(Ordering::Relaxed);
            spilled.chain.store(to.free_spilled, Ordering::Relaxed);
            to.free_spilled = edge;
            edge = next;
        }
        slot.spill.store(u32::MAX, Ordering::Relaxed);
    }

    #[cold]
    fn spill(&self, task: u32, from: &mut Allocation) -> Option<u32> {
        let index = if from.free_spilled != u32::MAX {
            let index = from.free_spilled;
            from.free_spilled = self.spilled.get(index).chain.load(Ordering::Relaxed);
            index
        } else {
            if from.made_spilled == Edge::MAX_SPILLED {
                return None;
            }
            let index = from.made_spilled;
            self.spilled.grow(index, || Spilled {
                next: AtomicU32::new(0),
                task: AtomicU32::new(0),
                chain: AtomicU32::new(0),
            });
            from.made_spilled += 1;
            index
        };
        let spilled = self.spilled.get(index);
        let slot = self.slot(task);
        spilled.task.store(task, Ordering::Relaxed);
        spilled.chain.store(slot.spill.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.spill.store(index, Ordering::Relaxed);
        Some(index)
    }

    /// The name of the task that is in `slot` now.
    pub(crate) fn current(&self, slot: u32) -> TaskRef {
        let head = self.slot(slot).head.load(Ordering::Relaxed);
        TaskRef::new(slot, (head >> 32) as u32)
    }

    /// Whether `task` has ended. If so, its effects are visible to the caller.
    pub(crate) fn has_ended(&self, task: TaskRef) -> bool {
        let head = self.slot(task.slot()).head.load(Ordering::Acquire);
        (head >> 32) as u32 != task.generation()
    }

    /// Makes the task that is being submitted in `slot`, which is `its`, wait for another; `made`
    /// counts the edges of the task so far.
    #[inline(always)]
    pub(crate) fn link(
        &self,
        need: Need,
        (slot, its): (u32, &Slot),
        made: &mut u32,
        from: &mut Allocation,
    ) -> Linked {
        let Need { task: predecessor, order_only } = need;
        let head = &self.slot(predecessor.slot()).head;
        let mut seen = head.load(Ordering::Acquire);
        let generation = predecessor.generation();
        if (seen >> 32) as u32 != generation {
            return Linked::Ended;
        }
        // Only the submitter adds edges: one to this task is the last that was added.
        if *made != 0 && self.leads_to(Edge::from_bits(seen as u32), slot) {
            return self.link_again(need, head, seen);
        }
        let (edge, next) = if *made < INLINE {
            (Edge::inline(slot, *made, order_only), &its.next[*made as usize])
        } else {
            self.spilled_edge(slot, order_only, from)
        };
        loop {
            next.store(seen as u32, Ordering::Relaxed);
            let new = pack(generation, edge);
            match head.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    *made += 1;
                    return Linked::Made;
                }
                Err(now) => seen = now,
            }
            if (seen >> 32) as u32 != generation {
                // A spilled edge stays in the task's chain and is given back with it.
                return Linked::Ended;
            }
        }
    }

    #[inline]
    fn leads_to(&self, edge: Edge, slot: u32) -> bool {
        !edge.is_end()
            && match edge.place() {
                Place::Inline { slot: successor, .. } => successor == slot,
                Place::Spilled(index) => {
                    self.spilled.get(index).task.load(Ordering::Relaxed) == slot
                }
            }
    }

    /// The last edge in the list of a predecessor leads to the task already; it carries data if
    /// either need does.
    #[cold]
    fn link_again(&self, need: Need, head: &AtomicU64, mut seen: u64) -> Linked {
        while (seen >> 32) as u32 == need.task.generation() {
            let edge = Edge::from_bits(seen as u32);
            let merged = edge.with_order_only(edge.order_only() && need.order_only);
            let new = pack(need.task.generation(), merged);
            match head.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Linked::Known,
                Err(now) => seen = now,
            }
        }
        Linked::Ended
    }

    #[cold]
    fn spilled_edge(
        &self,
        task: u32,
        order_only: bool,
        from: &mut Allocation,
    ) -> (Edge, &AtomicU32) {
        let spilled = self.spill(task, from).expect("fewer than 2^30 edges at once");
        (Edge::spilled(spilled, order_only), &self.spilled.get(spilled).next)
    }

    /// Where an edge leads: the successor, its slot, and the next edge of the list.
    #[inline]
    fn follow(&self, edge: Edge) -> (u32, &Slot, Edge) {
        let (successor, slot, next) = match edge.place() {
            Place::Inline { slot: successor, place } => {
                let slot = self.slot(successor);
                (successor, slot, &slot.next[place as usize])
            }
            Place::Spilled(index) => {
                let spilled = self.spilled.get(index);
                let successor = spilled.task.load(Ordering::Relaxed);
                (successor, self.slot(successor), &spilled.next)
            }
        };
        (successor, slot, Edge::from_bits(next.load(Ordering::Relaxed)))
    }

    /// Ends the task in `slot`: no edge can be added any more. Calls `ready` for each successor
    /// that this makes ready. With a `failure`, successors that read its data are cancelled.
    pub(crate) fn end(&self, slot: u32, failure: Option<u32>, ready: impl FnMut(u32, &Slot)) {
        self.end_at(self.slot(slot), failure, ready);
    }

    /// The same for the task in the slot that is `its`.
    #[inline(always)]
    pub(crate) fn end_at(
        &self,
        its: &Slot,
        failure: Option<u32>,
        mut ready: impl FnMut(u32, &Slot),
    ) {
        let head = &its.head;
        let generation = (head.load(Ordering::Relaxed) >> 32) as u32;
        let list = head.swap(pack(generation.wrapping_add(1), Edge::END), Ordering::AcqRel);
        let mut edge = Edge::from_bits(list as u32);
        while !edge.is_end() {
            // Everything is read before the subtraction: after it, the successor may run, end,
            // and its slot (which holds the edge) may be reused.
            let (successor, target, next) = self.follow(edge);
            if let Some(failure) = failure
                && !edge.order_only()
            {
                target.cancel(failure);
            }
            if target.settle(1) {
                ready(successor, target);
            }
            edge = next;
        }
    }

    /// Calls `each` for the slots of those that wait for the end of the task in `slot`. Exact under
    /// the submission lock, for a task that does not end meanwhile.
    pub(crate) fn successors(&self, slot: u32, mut each: impl FnMut(u32)) {
        let head = self.slot(slot).head.load(Ordering::Acquire);
        let mut edge = Edge::from_bits(head as u32);
        while !edge.is_end() {
            let (successor, _, next) = self.follow(edge);
            each(successor);
            edge = next;
        }
    }

    /// Calls `each` for every task that is submitted and has not ended, guards and recorded tasks
    /// excepted. Some may end meanwhile; under the submission lock none is replaced.
    pub(crate) fn unfinished(&self, from: &Allocation, mut each: impl FnMut(TaskRef, &Slot)) {
        self.live(from, |task, slot| {
            if !slot.is_guard() {
                each(task, slot);
            }
        });
    }

    /// The same with guards.
    pub(crate) fn live(&self, from: &Allocation, mut each: impl FnMut(TaskRef, &Slot)) {
        for index in 0..from.made {
            let slot = self.slot(index);
            let now = (slot.head.load(Ordering::Acquire) >> 32) as u32;
            // Allocation moves the generation that is next past the one that `head` shows.
            let live = now.wrapping_add(1) == slot.generation.load(Ordering::Relaxed);
            if live && !slot.is_node() {
                each(TaskRef::new(index, now), slot);
            }
        }
    }

    /// Gives the slots of ended tasks back.
    pub(crate) fn free(&self, slots: &[u32]) {
        lock(&self.freed).extend_from_slice(slots);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn very_many_slots_come_back_in_order() {
        let (table, mut allocation) = (SlotTable::new(), Allocation::new());
        let many = 2 * SORTED as u32;
        let mut make = || table.allocate(&mut allocation).expect("a slot").0.slot();
        let mut slots: Vec<u32> = (0..many).map(|_| make()).collect();
        // In an order that is no order: the number is odd, and so has no factor with theirs.
        slots.sort_unstable_by_key(|slot| slot.wrapping_mul(0x9e37_79b1) % many);
        table.free(&slots);
        let again: Vec<u32> = (0..many).map(|_| make()).collect();
        assert!(again.is_sorted() && again.len() == slots.len());
        assert_eq!((again[0], again[again.len() - 1]), (0, many - 1));
    }

    /// However often a task needs another, among whichever needs, it waits for it once; and if one
    /// of the needs is for data, a failure of the other cancels it.
    #[test]
    fn a_task_that_is_needed_twice_has_one_edge() {
        for others in 0..2 * INLINE {
            for (order_only, again) in [(true, true), (true, false), (false, true), (false, false)]
            {
                for failed in [false, true] {
                    check_needed_twice(others, [order_only, again], failed);
                }
            }
        }
    }

    fn check_needed_twice(others: u32, order_only: [bool; 2], failed: bool) {
        let (table, mut allocation) = (SlotTable::new(), Allocation::new());
        let mut make = || table.allocate(&mut allocation).expect("a slot").0;
        let (before, task) = (make(), make());
        let others: Vec<TaskRef> = (0..others).map(|_| make()).collect();
        let its = table.slot(task.slot());
        its.announce(others.len() as u32 + 2);
        let mut edges = 0;
        let mut link = |task: TaskRef, order_only: bool, to: TaskRef| {
            let need = Need { task, order_only };
            table.link(need, (to.slot(), its), &mut edges, &mut allocation)
        };
        assert_eq!(link(before, order_only[0], task), Linked::Made);
        for other in &others {
            assert_eq!(link(*other, false, task), Linked::Made);
        }
        assert_eq!(link(before, order_only[1], task), Linked::Known);
        assert_eq!(edges, others.len() as u32 + 1);
        assert!(!its.publish(edges + 1, edges));
        let mut ready = Vec::new();
        for other in &others {
            table.end(other.slot(), None, |slot, _| ready.push(slot));
        }
        assert!(ready.is_empty());
        table.end(before.slot(), failed.then_some(7), |slot, _| ready.push(slot));
        assert_eq!(ready, [task.slot()]);
        let needs_data = order_only != [true, true];
        assert_eq!(its.cancelled_by(), (failed && needs_data).then_some(7));
    }
}
