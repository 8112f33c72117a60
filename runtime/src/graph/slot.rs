//! Slots. The protocol is in the [module above](super).

use super::edges::{Edge, INLINE};
use super::guard::{GuardMark, GuardMarks};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::task::TaskCell;

/// Added to the `pending` of a recorded task while edges from outside are being drawn; more than
/// any number of edges.
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

/// The name of a task: slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskRef(u64);

impl TaskRef {
    pub(crate) const NONE: TaskRef = TaskRef(u64::MAX);

    pub(super) fn new(slot: u32, generation: u32) -> Self {
        TaskRef(u64::from(generation) << 32 | u64::from(slot))
    }

    /// A name within a recording: the number of a task.
    pub(crate) fn numbered(task: u32) -> Self {
        TaskRef::new(task, 0)
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl std::fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {}.{}", self.slot(), self.generation())
    }
}

/// A place for one task at a time: three cache lines. A task travels between the submitter's core
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
    pub(super) spill: AtomicU32,
    /// The generation of the slot's next task; touched by the submitter only.
    pub(super) generation: AtomicU32,
}

const _: () = assert!(cfg!(loom) || size_of::<Slot>() == 192, "three cache lines");

pub(super) fn pack(generation: u32, edge: Edge) -> u64 {
    u64::from(generation) << 32 | u64::from(edge.bits())
}

impl Slot {
    pub(super) fn new() -> Self {
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

    /// Subtracts `count` from the predecessors left; true when that makes the task ready, which
    /// happens once.
    #[inline]
    pub(crate) fn settle(&self, count: u32) -> bool {
        // If no more is left, nobody else subtracts, and what the others wrote is seen: theirs
        // are one release sequence.
        if self.pending.load(Ordering::Acquire) == count {
            self.pending.store(0, Ordering::Relaxed);
            return true;
        }
        self.pending.fetch_sub(count, Ordering::AcqRel) == count
    }

    /// Begins to hang the task into the lists of `found` predecessors.
    #[inline]
    pub(crate) fn announce(&self, found: u32) {
        self.pending.store(found, Ordering::Relaxed);
    }

    /// Ends the submission of the task, which hangs in the lists of `edges` of the predecessors
    /// that were announced; true when it is ready. If it hangs in all of them it may have run.
    #[inline]
    pub(crate) fn publish(&self, found: u32, edges: u32) -> bool {
        // Without an edge nobody else knows the task; who takes it from a queue sees this.
        if edges == 0 {
            self.announce(0);
            return true;
        }
        found != edges && self.settle(found - edges)
    }

    /// Whether nothing is in the way of the task, or was when it was last submitted.
    pub(crate) fn is_released(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    /// The failure that cancels this task, as an index.
    #[inline]
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

    /// Whether this task, which is no guard, is neither recorded nor commutes on handles.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & (NODE | COMMUTES) == 0
    }

    /// Whether this task, which is no guard, commutes on handles.
    #[inline]
    pub(crate) fn commutes(&self) -> bool {
        self.facts.load(Ordering::Relaxed) & (NODE | COMMUTES) == COMMUTES
    }

    /// Says that the slot stands for a guard; only while it is being submitted.
    #[inline]
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
