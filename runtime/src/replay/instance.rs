//! One replay under way: the slots of its tasks, and what is bound to its parameters.
//!
//! # Invariant
//! An instance is *idle*, then nobody but the holder of the submission lock touches it; or
//! *busy*, from when a replay takes it, under that lock, until the last of its tasks has been
//! counted as ended. While it is busy what is bound does not change, and the list of instances
//! keeps it alive. The thread that counts the last task gives the leases back, then makes the
//! instance idle.
//!
//! Each of its slots has a [`NodeJob`] in its cell, which points at the instance and at a body of
//! the plan that the instance keeps alive.
#![allow(unsafe_code, reason = "shares what is bound with the tasks of a replay")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Bound;
use super::plan::{Body, Plan};
use crate::graph::{NodeFacts, TaskRef};
use crate::pool::guarded;
use crate::runtime::Inner;
use crate::submit::Submitter;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::task::{BodyResult, Label, Meta, PackedMeta, Repeated};

/// Bits of [`Instance::state`].
const BUSY: u32 = 1;
const LEFT: u32 = 2;

/// An edge between slots: the successor's slot, and two bits. Slots are below 2^27.
const ORDER: u32 = 1 << 31;
const ALONE: u32 = 1 << 30;

/// Keeps the lease of one parameter.
pub(super) trait LeaseStore: Send + 'static {
    fn clear(&mut self);
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What one replay is bound to.
pub(super) struct BoundData {
    pub(super) bound: Bound,
    pub(super) leases: Vec<Box<dyn LeaseStore>>,
}

impl BoundData {
    /// Gives the leases back.
    pub(super) fn clear(&mut self) {
        self.leases.iter_mut().for_each(|lease| lease.clear());
    }
}

pub(crate) struct Instance {
    /// Of which recording.
    pub(super) recording: u64,
    pub(super) plan: Arc<Plan>,
    /// By the task's number.
    pub(super) slots: Box<[u32]>,
    edges: Box<[u32]>,
    data: UnsafeCell<BoundData>,
    state: AtomicU32,
    /// Tasks that have not been counted as ended.
    pub(super) remaining: AtomicU32,
    /// 0, or one more than what cancels all its tasks that have not started.
    cancel: AtomicU32,
    /// 0, or one more than the index of the first failure in this replay.
    blame: AtomicU32,
    /// Place of its first task in submission order.
    sequence: AtomicU64,
    /// 0, or one more than the number of its batch.
    batch: AtomicU64,
    /// What this replay takes of the memory window.
    bytes: AtomicU64,
    /// Whether single tasks have been cancelled on request: some may have ended by then.
    marked: AtomicBool,
    /// How often it has been replayed.
    round: AtomicU64,
}

// SAFETY: see the invariant: `data` is written by one thread while the instance is idle, and
// read by others while it is busy; the leases are touched by the holder of the lock, or by the
// thread that ends the last task. The pointers in it are used as the accesses' trait demands.
unsafe impl Sync for Instance {}
// SAFETY: as above.
unsafe impl Send for Instance {}

/// What the cell of a recorded task holds.
#[derive(Clone, Copy)]
pub(super) struct NodeJob {
    body: *const Body,
    pub(super) instance: *const Instance,
}

// SAFETY: instances and bodies are shared between threads.
unsafe impl Send for NodeJob {}

impl Repeated for NodeJob {
    #[inline]
    fn run(&self) -> BodyResult {
        // SAFETY: the task runs, so its instance is busy: it, its plan and what is bound live and
        // stay as they are.
        let (body, data) = unsafe { (&*self.body, &*(*self.instance).data.get()) };
        body(&data.bound)
    }
}

/// An edge as the thread sees it that ends the predecessor.
pub(super) struct SlotEdge(u32);

impl SlotEdge {
    pub(super) fn slot(&self) -> u32 {
        self.0 & (ALONE - 1)
    }

    pub(super) fn order_only(&self) -> bool {
        self.0 & ORDER != 0
    }

    pub(super) fn alone(&self) -> bool {
        self.0 & ALONE != 0
    }
}

impl Instance {
    /// Takes slots for all tasks of the plan; `None` if there are not enough.
    pub(super) fn new(
        inner: &Inner,
        submitter: &mut Submitter,
        recording: u64,
        plan: &Arc<Plan>,
        data: BoundData,
    ) -> Option<Arc<Self>> {
        let mut slots = Vec::with_capacity(plan.tasks.len());
        for _ in 0..plan.tasks.len() {
            let Some((task, _)) = submitter.allocate(inner) else {
                slots.iter().for_each(|slot| inner.table.retire_node(*slot));
                inner.table.free(&slots);
                return None;
            };
            slots.push(task.slot());
        }
        // Tasks that follow one another are neighbours: the processor fetches the next one.
        slots.sort_unstable();
        let mut places = vec![0; slots.len()];
        plan.by_path().zip(&slots).for_each(|(task, slot)| places[task as usize] = *slot);
        let slots = places;
        let edge = |edge: &super::plan::PlannedEdge| {
            let order = if edge.order_only { ORDER } else { 0 };
            slots[edge.to as usize] | order | if edge.alone { ALONE } else { 0 }
        };
        let instance = Arc::new(Instance {
            recording,
            plan: plan.clone(),
            edges: plan.edges.iter().map(edge).collect(),
            slots: slots.into(),
            data: UnsafeCell::new(data),
            state: AtomicU32::new(0),
            remaining: AtomicU32::new(0),
            cancel: AtomicU32::new(0),
            blame: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            batch: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            marked: AtomicBool::new(false),
            round: AtomicU64::new(0),
        });
        instance.fill(inner);
        Some(instance)
    }

    /// Describes the tasks in their slots, which were just allocated.
    fn fill(self: &Arc<Self>, inner: &Inner) {
        for (index, (task, slot)) in self.plan.tasks.iter().zip(&self.slots).enumerate() {
            let slot = inner.table.slot(*slot);
            let (first, end) = (self.plan.first[index], self.plan.first[index + 1]);
            let predecessors = task.predecessors;
            let edges = end - first;
            let first = if edges == 1 { self.edges[first as usize] } else { first };
            let facts = NodeFacts { first, edges, predecessors };
            // Without workers the order is that of the program.
            let priority = if inner.workers() == 0 { 0 } else { task.priority };
            slot.set_node(priority, task.named, facts);
            let job = NodeJob { body: &raw const *task.body, instance: Arc::as_ptr(self) };
            let (name, location, label) = (task.name, task.location, task.label);
            let meta = PackedMeta::new(name, location, label);
            // SAFETY: the slot was just allocated, so this thread owns its cell, which is empty.
            unsafe { slot.cell.fill_repeated(job) };
            // SAFETY: as above.
            unsafe { slot.cell.describe(&meta, index as u64) };
        }
    }

    /// Edges of a task.
    #[inline]
    pub(super) fn edges<'a>(
        &'a self,
        facts: &'a NodeFacts,
    ) -> impl DoubleEndedIterator<Item = SlotEdge> + 'a {
        let first = facts.first as usize;
        let edges = match facts.edges {
            1 => std::slice::from_ref(&facts.first),
            edges => &self.edges[first..first + edges as usize],
        };
        edges.iter().map(|bits| SlotEdge(*bits))
    }

    /// The name of a task in this replay, as others know it; only of named tasks.
    pub(super) fn name(&self, inner: &Inner, task: u32) -> TaskRef {
        inner.table.node_name(self.slots[task as usize], self.round())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state.load(Ordering::Acquire) & BUSY != 0
    }

    /// Begins a replay of an idle instance, with the lock held: exchanges what is bound with
    /// what was, whose leases have been given back. Returns the number of the replay.
    pub(super) fn begin(
        &self,
        inner: &Inner,
        sequence: u64,
        batch: Option<u32>,
        bytes: u64,
        data: &mut BoundData,
    ) -> u64 {
        debug_assert!(!self.is_busy(), "one replay at a time");
        // SAFETY: idle, and the caller holds the lock.
        std::mem::swap(unsafe { &mut *self.data.get() }, data);
        self.remaining.store(self.slots.len() as u32, Ordering::Relaxed);
        self.cancel.store(0, Ordering::Relaxed);
        self.blame.store(0, Ordering::Relaxed);
        if self.marked.swap(false, Ordering::Relaxed) {
            self.slots.iter().for_each(|slot| inner.table.slot(*slot).forget_cancel());
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.batch.store(batch.map_or(0, |batch| u64::from(batch) + 1), Ordering::Relaxed);
        let round = self.round.load(Ordering::Relaxed) + 1;
        self.round.store(round, Ordering::Relaxed);
        // Whoever takes one of its tasks from a queue sees all of this.
        self.state.fetch_or(BUSY, Ordering::Relaxed);
        round
    }

    /// Counts tasks as ended; `lane` is the thread's own. Afterwards the instance may be gone.
    ///
    /// # Safety
    /// It is busy, and `count` more of its tasks have ended.
    pub(super) unsafe fn ended(this: *const Self, inner: &Inner, lane: usize, count: u32) {
        // SAFETY: the caller's promise. It is used until the instance is idle, no longer.
        let instance = unsafe { &*this };
        if instance.remaining.fetch_sub(count, Ordering::AcqRel) != count {
            return;
        }
        // SAFETY: every task has ended; the instance is still busy, so it is this thread's alone.
        let data = unsafe { &mut *instance.data.get() };
        let cleared = guarded(|| data.clear());
        debug_assert!(cleared.is_ok(), "the drop of a lease panicked");
        if let Some(memory) = &inner.memory {
            memory.leave(lane, instance.bytes.load(Ordering::Relaxed));
        }
        let left = instance.state.fetch_and(!BUSY, Ordering::AcqRel) & LEFT != 0;
        inner.external.notify();
        if left {
            // The graph has been dropped meanwhile, and left the rest to this thread.
            inner.forget_instance(this);
        }
    }

    /// The graph is being dropped; true if the caller has to take care of the instance.
    pub(super) fn leave(&self) -> bool {
        self.state.fetch_or(LEFT, Ordering::AcqRel) & BUSY == 0
    }

    /// Whether the replay with this number has ended. If so, its effects are visible.
    pub(super) fn has_ended(&self, round: u64) -> bool {
        self.round.load(Ordering::Relaxed) != round || !self.is_busy()
    }

    /// The first failure in the replay with this number, as far as it is still known.
    pub(super) fn blame(&self, round: u64) -> Option<u32> {
        let known = self.round.load(Ordering::Relaxed) == round;
        self.blame.load(Ordering::Relaxed).checked_sub(1).filter(|_| known)
    }

    pub(super) fn add_blame(&self, failure: u32) {
        let blame = &self.blame;
        // The first one stays.
        let _ = blame.compare_exchange(0, failure + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether no task of the last replay failed or was cancelled.
    pub(super) fn went_well(&self) -> bool {
        let untouched = |word: &AtomicU32| word.load(Ordering::Relaxed) == 0;
        untouched(&self.blame) && untouched(&self.cancel) && !self.marked.load(Ordering::Relaxed)
    }

    /// Cancels the tasks that have not started, with the lock held.
    pub(crate) fn request_cancel(&self, request: u32) {
        if self.is_busy() {
            self.cancel.store(request + 1, Ordering::Relaxed);
        }
    }

    /// Cancels those of them that `label` covers, with the lock held.
    pub(crate) fn request_cancel_of(&self, inner: &Inner, label: Label, request: u32) {
        if !self.is_busy() {
            return;
        }
        for (task, slot) in self.plan.tasks.iter().zip(&self.slots) {
            if label.covers(self.label(task.label)) {
                // Before the first one is marked: whoever begins the next replay unmarks them.
                self.marked.store(true, Ordering::Relaxed);
                inner.table.slot(*slot).request_cancel(request);
            }
        }
    }

    /// Whether `label` covers a task of this replay.
    pub(super) fn has_label(&self, label: Label) -> bool {
        self.plan.tasks.iter().any(|task| label.covers(self.label(task.label)))
    }

    /// The number of the replay.
    pub(super) fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    /// The label of a task in this replay.
    pub(super) fn label(&self, label: Label) -> Label {
        let batch = self.batch.load(Ordering::Relaxed).checked_sub(1);
        Label { batch: batch.map(|batch| batch as u32), ..label }
    }

    pub(super) fn cancelled_by(&self) -> Option<u32> {
        self.cancel.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The facts about a task in this replay, from those about it in all.
    pub(super) fn complete(&self, meta: Meta) -> Meta {
        let label = self.label(meta.label);
        let sequence = self.sequence.load(Ordering::Relaxed) + meta.sequence;
        Meta { label, sequence, ..meta }
    }
}
