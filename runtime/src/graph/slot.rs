//! Slots and the table that holds them. The protocol is in the [module above](super).

use crossbeam_utils::CachePadded;

use super::edges::{Edge, INLINE, Place};
use super::guard::{GuardMark, GuardMarks};
use super::prefetch::{prefetch, prefetch_for_write};
use super::segments::Segments;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::task::TaskCell;

/// Added to `pending` while edges are being drawn; more than any number of edges.
pub(crate) const SUBMITTING: u32 = 1 << 31;

/// The bit of a slot's facts that tells a guard from a task.
pub(super) const GUARD: u32 = 1;
/// Bits of the facts of a recorded task; see [`super::node`].
pub(super) const NODE: u32 = 2;
pub(super) const NAMED: u32 = 4;
/// The bit of a guard's facts that tells one that stands for the end of a task with children.
pub(super) const JOIN: u32 = 8;
/// The same bit in the facts of a task that is neither a guard nor recorded: it commutes on
/// handles, and has to hold them while it runs.
const COMMUTES: u32 = 4;
/// Where a slot's facts have the number of the task's name, plus 1, and how many numbers fit.
const KIND_SHIFT: u32 = 3;
const KINDS: u32 = (1 << 13) - 1;

/// How many allocations ahead a free slot is fetched: its line is in the core that ran its last
/// task, 60 to 260 ns away, and a submission takes about 50.
const AHEAD: usize = 8;

/// The name of a task: slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskRef(u64);

impl TaskRef {
    pub(crate) const NONE: TaskRef = TaskRef(u64::MAX);

    fn new(slot: u32, generation: u32) -> Self {
        TaskRef(u64::from(generation) << 32 | u64::from(slot))
    }

    /// A name within a recording: the number of a task.
    pub(crate) fn numbered(task: u32) -> Self {
        TaskRef::new(task, 0)
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {}.{}", self.slot(), self.generation())
    }
}

/// A place for one task at a time: four cache lines. A task travels between the submitter's core
/// and a worker's; with a small job only its first line does, for the fields are in the order of
/// who touches them: everybody, then whoever runs the body, then the submitter alone (and who
/// takes times, or records a trace or a failure).
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(super) head: AtomicU64,
    pub(super) pending: AtomicU32,
    /// 0, or one more than the index of the failure that cancels this task.
    pub(super) cancel: AtomicU32,
    /// Bit 0: the slot stands for an acquired guard, not for a task with a body; bits 1 and 2: the
    /// guard's marks, or whether the task is a recorded one, and a named one (or, if it is not
    /// recorded, one that commutes). Bits 3 to 15: 0, or one more than the number of the task's
    /// name, where it was looked up at submission. Bits 16 to 31: the task's priority.
    pub(super) facts: AtomicU32,
    /// The inline edges: each holds the next edge of the list it hangs in. A recorded task has
    /// none, and its own facts here.
    pub(super) next: [AtomicU32; INLINE as usize],
    /// What to run; owned as [`TaskCell`] says.
    pub(crate) cell: TaskCell,
    /// When the task became ready, 0 where nobody noted it: written, while times are taken, by
    /// the thread that made it ready, then read by the one that runs the body. A join has its
    /// parent here.
    pub(super) ready: AtomicU64,
    /// First spilled edge of this task; touched by the submitter only.
    spill: AtomicU32,
    /// The generation of the slot's next task; touched by the submitter only.
    pub(super) generation: AtomicU32,
}

const _: () = assert!(cfg!(loom) || size_of::<Slot>() == 256, "four cache lines");

pub(super) fn pack(generation: u32, edge: Edge) -> u64 {
    u64::from(generation) << 32 | u64::from(edge.bits())
}

impl Slot {
    fn new() -> Self {
        Slot {
            head: AtomicU64::new(pack(0, Edge::END)),
            pending: AtomicU32::new(0),
            cancel: AtomicU32::new(0),
            facts: AtomicU32::new(0),
            next: std::array::from_fn(|_| AtomicU32::new(0)),
            cell: TaskCell::new(),
            ready: AtomicU64::new(0),
            spill: AtomicU32::new(u32::MAX),
            generation: AtomicU32::new(0),
        }
    }

    /// Subtracts `count` from the predecessors left; true when that makes the task ready, which happens once.
    #[inline]
    pub(crate) fn settle(&self, count: u32) -> bool {
        self.pending.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// Ends the submission of the task, which hangs in `edges` lists; true when it is ready.
    #[inline]
    pub(crate) fn publish(&self, edges: u32) -> bool {
        if edges == 0 {
            // Nobody else knows the task; who takes it from a queue sees this.
            self.pending.store(0, Ordering::Relaxed);
            return true;
        }
        self.settle(SUBMITTING - edges)
    }

    /// Whether nothing is in the way of the task, or was when it was last submitted.
    pub(crate) fn is_released(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    /// The failure that cancels this task, as an index.
    pub(crate) fn cancelled_by(&self) -> Option<u32> {
        self.cancel.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Cancels the task; only before the last subtraction from `pending`, which publishes it.
    pub(crate) fn cancel(&self, failure: u32) {
        self.cancel.store(failure + 1, Ordering::Relaxed);
    }

    /// Cancels the task of a slot that may be running, under the submission lock: it has an
    /// effect if the task has not started, and none on the slot's next task.
    pub(crate) fn request_cancel(&self, request: u32) {
        let cancel = &self.cancel;
        // A failure that cancels it as well may be seen instead.
        let _ = cancel.compare_exchange(0, request + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Marks a guard; returns its marks before. Whoever marks last sees the other's mark.
    pub(crate) fn mark_guard(&self, mark: GuardMark) -> GuardMarks {
        GuardMarks(self.facts.fetch_or(mark as u32, Ordering::AcqRel))
    }

    /// The marks of a guard.
    pub(crate) fn guard_marks(&self) -> GuardMarks {
        GuardMarks(self.facts.load(Ordering::Acquire))
    }

    /// Whether some submitted task waits for this one.
    pub(crate) fn has_successors(&self) -> bool {
        !Edge::from_bits(self.head.load(Ordering::Acquire) as u32).is_end()
    }

    /// Whether the slot stands for an acquired guard.
    #[inline]
    pub(crate) fn is_guard(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & GUARD != 0
    }

    /// The task's priority.
    #[inline]
    pub(crate) fn priority(&self) -> i16 {
        (self.facts.load(Ordering::Relaxed) >> 16) as i16
    }

    /// Says that the slot stands for a task, and the number of its name if that was looked up;
    /// only while it is being submitted.
    pub(crate) fn set_task(&self, priority: i16, kind: Option<u32>) {
        let kind = kind.filter(|kind| *kind < KINDS).map_or(0, |kind| kind + 1);
        self.facts.store((priority as u32) << 16 | kind << KIND_SHIFT, Ordering::Relaxed);
    }

    /// Says that the task commutes on handles; after [`set_task`](Self::set_task).
    pub(crate) fn set_commutes(&self) {
        let facts = self.facts.load(Ordering::Relaxed);
        self.facts.store(facts | COMMUTES, Ordering::Relaxed);
    }

    /// Whether this task, which is no guard, commutes on handles.
    #[inline]
    pub(crate) fn commutes(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & (NODE | COMMUTES) == COMMUTES
    }

    /// Says that the slot stands for a guard; only while it is being submitted.
    pub(crate) fn set_guard(&self) {
        self.facts.store(GUARD, Ordering::Relaxed);
    }

    /// The number of the task's name, where it was looked up at submission and fits.
    pub(crate) fn kind(&self) -> Option<u32> {
        (self.facts.load(Ordering::Relaxed) >> KIND_SHIFT & KINDS).checked_sub(1)
    }

    /// When the task became ready, if that was noted.
    pub(crate) fn ready_at(&self) -> Option<u64> {
        Some(self.ready.load(Ordering::Relaxed)).filter(|time| *time != 0)
    }

    /// Notes when the task became ready; only by the thread that made it so, before it queues
    /// the task.
    pub(crate) fn set_ready_at(&self, time: u64) {
        self.ready.store(time, Ordering::Relaxed);
    }
}

/// An edge beyond the inline ones.
struct Spilled {
    next: AtomicU32,
    task: AtomicU32,
    /// Next spilled edge of the same task, or in the free list; submitter only.
    chain: AtomicU32,
}

/// All slots and spilled edges of a runtime. Shared reads; growth and edge drawing belong to
/// the holder of the submission lock, whose private half is [`Allocation`].
pub(crate) struct SlotTable {
    slots: Segments<Slot>,
    spilled: Segments<Spilled>,
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
}

impl SlotTable {
    pub(crate) fn new() -> Self {
        let freed = CachePadded::new(Mutex::new(Vec::new()));
        SlotTable { slots: Segments::new(), spilled: Segments::new(), freed }
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        self.slots.get(index)
    }

    /// Takes a slot for a task that is being submitted; `None` when all are in use.
    pub(crate) fn allocate(&self, from: &mut Allocation) -> Option<TaskRef> {
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
            if from.made == Edge::MAX_SLOTS {
                return None;
            }
            let index = from.made;
            self.slots.grow(index, Slot::new);
            from.made += 1;
            index
        };
        let slot = self.slot(index);
        self.give_back_spilled(slot, from);
        slot.pending.store(SUBMITTING, Ordering::Relaxed);
        slot.cancel.store(0, Ordering::Relaxed);
        slot.ready.store(0, Ordering::Relaxed);
        let generation = slot.generation.load(Ordering::Relaxed);
        slot.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
        Some(TaskRef::new(index, generation))
    }

    /// Puts the slots that were given back under the `free` ones, which are taken first.
    fn refill(&self, from: &mut Allocation) {
        let Allocation { free, spare: freed, .. } = from;
        std::mem::swap(freed, &mut *lock(&self.freed));
        let ahead = freed.len().saturating_sub(AHEAD - free.len());
        freed[ahead..].iter().for_each(|slot| self.prefetch_slot(*slot));
        freed.append(free);
        std::mem::swap(free, freed);
    }

    /// Fetches the line of a task that will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, task: TaskRef) {
        if task != TaskRef::NONE {
            self.prefetch_slot(task.slot());
        }
    }

    /// Fetches the line of a task that will be run soon.
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

    /// Makes `task` wait for `predecessor`; `made` counts the edges of `task` so far.
    /// False when the predecessor has ended.
    pub(crate) fn link(
        &self,
        predecessor: TaskRef,
        task: TaskRef,
        order_only: bool,
        made: &mut u32,
        from: &mut Allocation,
    ) -> bool {
        let head = &self.slot(predecessor.slot()).head;
        let mut seen = head.load(Ordering::Acquire);
        let has_ended = |seen: u64| (seen >> 32) as u32 != predecessor.generation();
        if has_ended(seen) {
            return false;
        }
        let (edge, next) = if *made < INLINE {
            let edge = Edge::inline(task.slot(), *made, order_only);
            (edge, &self.slot(task.slot()).next[*made as usize])
        } else {
            let spilled = self.spill(task.slot(), from).expect("fewer than 2^30 edges at once");
            (Edge::spilled(spilled, order_only), &self.spilled.get(spilled).next)
        };
        loop {
            if has_ended(seen) {
                // A spilled edge stays in the task's chain and is given back with it.
                return false;
            }
            next.store(seen as u32, Ordering::Relaxed);
            let new = pack(predecessor.generation(), edge);
            match head.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    *made += 1;
                    return true;
                }
                Err(now) => seen = now,
            }
        }
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
    pub(crate) fn end(&self, slot: u32, failure: Option<u32>, mut ready: impl FnMut(u32, &Slot)) {
        let head = &self.slot(slot).head;
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
