//! Submission: naming a task, drawing its edges, queueing it when it is ready.
#![allow(unsafe_code, reason = "reads the facts of tasks under the submission lock")]

mod task;

use std::ops::Range;
use std::sync::Arc;

use crossbeam_deque::Worker;
use smallvec::SmallVec;

use crate::access::Handle;
use crate::claims::Claim;
use crate::graph::{Allocation, Crossing, HandleTable, Linked, Need, Slot, TaskRef};
use crate::pool::{holds, holds_any};
use crate::replay::{Cover, Entered, Instance};
use crate::runtime::Inner;
use crate::statistics::SubmittedKinds;
use crate::sync::Ordering;
use crate::task::{Failures, Label, Meta};

pub use task::TaskBuilder;

/// What the submission lock protects.
pub(crate) struct Submitter {
    pub(crate) handles: HandleTable,
    failures: Failures,
    pub(crate) kinds: SubmittedKinds,
    allocation: Allocation,
    /// What the task that is being submitted has to wait for; empty in between.
    needs: Vec<Need>,
    /// Joins of parents that have a child which waits for others than its siblings.
    pub(crate) entangled: Vec<TaskRef>,
    /// Handles to be taken back once no task is unfinished.
    pub(crate) retired: Vec<Range<u32>>,
    /// Places of replays, of all recorded graphs.
    pub(crate) instances: Vec<Arc<Instance>>,
    pub(crate) cover: Cover,
    /// Ready tasks that threads outside the pool submitted; workers steal from it.
    queue: Worker<u32>,
}

impl Submitter {
    pub(crate) fn new(queue: Worker<u32>) -> Self {
        Submitter {
            handles: HandleTable::new(),
            failures: Failures::default(),
            kinds: SubmittedKinds::default(),
            allocation: Allocation::new(),
            needs: Vec::new(),
            entangled: Vec::new(),
            retired: Vec::new(),
            instances: Vec::new(),
            cover: Cover::default(),
            queue,
        }
    }

    /// Takes retired handles back, unless tasks that use them may be unfinished.
    pub(crate) fn release_retired(&mut self, inner: &Inner) {
        if !self.retired.is_empty() && inner.is_drained() {
            self.uncover(inner);
            self.retired.drain(..).for_each(|handles| self.handles.release(handles));
        }
    }

    /// Takes handles back.
    pub(crate) fn release(&mut self, inner: &Inner, handles: Range<u32>) {
        self.uncover(inner);
        self.handles.release(handles);
    }

    /// Queues a task that this thread has made ready; the caller wakes a worker.
    #[inline]
    pub(crate) fn push(&mut self, inner: &Inner, slot: u32) {
        inner.enqueue(slot, &self.queue, None);
    }

    /// The same for a task of priority 0, where all threads steal from one another.
    #[inline]
    pub(crate) fn push_plain(&mut self, slot: u32) {
        self.queue.push(slot);
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Changes what is known of failures; whether a wait has to report some is known without the
    /// lock afterwards.
    pub(crate) fn change_failures<R>(
        &mut self,
        inner: &Inner,
        change: impl FnOnce(&mut Failures) -> R,
    ) -> R {
        let result = change(&mut self.failures);
        inner.unreported.store(self.failures.unreported(), Ordering::Relaxed);
        result
    }

    /// Remembers that an ended (or ending) task left no valid data.
    pub(crate) fn spoil(&mut self, inner: &Inner, task: TaskRef, label: Option<Label>, blame: u32) {
        inner.failed.store(true, Ordering::Relaxed);
        self.uncover(inner);
        self.failures.spoil(task, label, blame);
        self.failures.prune(self.handles.len(), self.handles.writers());
    }

    /// Notes what `task` uses, and gathers what it has to wait for; fetches those tasks' slots.
    #[inline(always)]
    pub(crate) fn gather(
        &mut self,
        inner: &Inner,
        task: TaskRef,
        claims: &[Claim],
        explicit: impl IntoIterator<Item = Need>,
    ) {
        if !claims.is_empty() {
            self.uncover(inner);
        }
        let Submitter { handles, failures, needs, .. } = self;
        let table = &inner.table;
        let mut need = |need: Need| {
            table.prefetch_slot(need.task.slot());
            needs.push(need);
        };
        for claim in claims {
            for handle in claim.handles() {
                let needless = |task| table.has_ended(task) && failures.spoilt_by(task).is_none();
                handles.claim(handle, claim.mode(), task, needless, &mut need);
            }
        }
        explicit.into_iter().for_each(need);
    }

    /// Draws the edges of `task`, from what was [gathered](Self::gather), and publishes it; true
    /// when it is ready at once. The cell of its slot must be filled by then.
    #[inline(always)]
    pub(crate) fn publish(&mut self, inner: &Inner, task: TaskRef, slot: &Slot) -> bool {
        let Submitter { failures, allocation, needs, .. } = self;
        let (found, mut edges) = (needs.len() as u32, 0);
        slot.announce(found);
        for need in needs.iter() {
            let linked = inner.table.link(*need, (task.slot(), slot), &mut edges, allocation);
            if linked == Linked::Ended
                && !need.order_only
                && let Some(failure) = failures.spoilt_by(need.task)
            {
                slot.cancel(failure);
            }
        }
        needs.clear();
        slot.publish(found, edges)
    }

    /// Counts tasks as submitted; returns the place of the first in submission order.
    #[inline(always)]
    pub(crate) fn count_submitted(&mut self, inner: &Inner, tasks: u64) -> u64 {
        // Written under the lock only.
        let sequence = inner.submitted.load(Ordering::Relaxed);
        inner.submitted.store(sequence + tasks, Ordering::Release);
        if inner.totals.clock.is_waiting() {
            inner.feed();
        }
        sequence
    }

    /// Draws the edges of a replay that come from how it uses `handle`; all are uncovered.
    pub(crate) fn cross(
        &mut self,
        inner: &Inner,
        handle: Handle,
        crossing: &Crossing,
        name: impl Fn(u32) -> TaskRef,
        entered: &mut Entered,
    ) {
        let (table, allocation, failures) = (&inner.table, &mut self.allocation, &self.failures);
        let has_ended = |task| table.has_ended(task);
        self.handles.cross(handle, crossing, &name, has_ended, |task, need| {
            let mut linked = Linked::Ended;
            if !has_ended(need.task) {
                let mut made = entered.edges(task);
                linked = table.link_node(need, name(task), &mut made, allocation);
                entered.set_edges(task, made);
            }
            if linked == Linked::Ended
                && !need.order_only
                && let Some(failure) = failures.spoilt_by(need.task)
            {
                table.slot(name(task).slot()).cancel(failure);
            }
        });
    }

    /// Calls `each` for every unfinished task that `wanted` covers.
    pub(crate) fn unfinished(
        &self,
        inner: &Inner,
        wanted: Label,
        mut each: impl FnMut(TaskRef, &Slot),
    ) {
        let all = wanted == Label::default();
        inner.table.unfinished(&self.allocation, |task, slot| {
            // SAFETY: who has the submitter holds the submission lock, and the slots of submitted
            // tasks are described.
            if all || wanted.covers(unsafe { slot.cell.meta() }.label) {
                each(task, slot);
            }
        });
    }

    /// Calls `each` for every unfinished task and every guard that stands for a thread, but for
    /// recorded tasks, with what is known about it.
    pub(crate) fn survey(&self, inner: &Inner, mut each: impl FnMut(u32, &Slot, Meta)) {
        inner.table.live(&self.allocation, |task, slot| {
            if slot.join().is_none() {
                // SAFETY: who has the submitter holds the submission lock, and the slots of
                // submitted tasks and of threads' guards are described.
                each(task.slot(), slot, unsafe { slot.cell.meta() });
            }
        });
    }

    /// Calls `each` for the slots of tasks whose bodies have ended, and of the joins behind their
    /// children.
    pub(crate) fn joins(&self, inner: &Inner, mut each: impl FnMut(u32, u32)) {
        inner.table.live(&self.allocation, |task, slot| {
            slot.join().iter().for_each(|join| each(join.parent, task.slot()));
        });
    }

    /// Whether a guard with these claims would have to wait.
    pub(crate) fn would_wait(&mut self, inner: &Inner, claims: &[Claim]) -> bool {
        let mut waits = false;
        self.unfinished_needs(inner, claims, |_| waits = true);
        waits
    }

    /// Calls `each` for the unfinished tasks that these claims would have to wait for.
    pub(crate) fn unfinished_needs(
        &mut self,
        inner: &Inner,
        claims: &[Claim],
        mut each: impl FnMut(TaskRef),
    ) {
        self.uncover(inner);
        for claim in claims {
            for handle in claim.handles() {
                self.handles.preview(handle, claim.mode(), |task| {
                    if !inner.table.has_ended(task) {
                        each(task);
                    }
                });
            }
        }
    }

    /// Whether a guard with these claims would have to wait, and one of the guards that the
    /// calling thread holds is, or may be, in the way of that.
    #[inline]
    pub(crate) fn would_block_itself(&mut self, inner: &Inner, claims: &[Claim]) -> bool {
        holds_any() && self.meets_a_guard_of_this_thread(inner, claims)
    }

    #[cold]
    fn meets_a_guard_of_this_thread(&mut self, inner: &Inner, claims: &[Claim]) -> bool {
        let mut needs: SmallVec<[u32; 8]> = SmallVec::new();
        self.unfinished_needs(inner, claims, |task| needs.push(task.slot()));
        let in_the_way = |held| needs.contains(&held) || inner.table.slot(held).has_successors();
        !needs.is_empty() && holds(inner.id, in_the_way)
    }

    /// Gives back the slot of a guard that has ended.
    pub(crate) fn free(&mut self, slot: u32) {
        self.allocation.free(slot);
    }

    /// Takes a slot for a task or guard.
    #[inline(always)]
    pub(crate) fn allocate<'i>(&mut self, inner: &'i Inner) -> Option<(TaskRef, &'i Slot)> {
        inner.table.allocate(&mut self.allocation)
    }
}
