//! The task graph: slots, the edges between them, and the inference that draws the edges.
//!
//! # The protocol
//! A submitted task lives in a *slot* of a table that only grows. A task is named by its slot
//! and the slot's generation ([`TaskRef`]); the generation moves on when the task ends, so a
//! name outlives its task harmlessly.
//!
//! Each slot has two words that threads race on:
//!
//! | word | content | written by |
//! |---|---|---|
//! | `head` | generation (high half), head of the list of edges to successors (low half) | the submitter adds edges; the thread that ends the task takes the list and moves the generation on |
//! | `pending` | predecessors that have not ended, and those in whose lists the task does not hang (yet) | the submitter, then each predecessor that ends |
//!
//! 1. *Submission* (under the submission lock) sets `pending` to the number of predecessors, and
//!    hangs one edge into the list of each by compare-exchange on `head`. That fails when the
//!    generation has moved on: the predecessor has ended, no edge is needed.
//!    A predecessor may be found twice: then the last edge that was hung into its list is the
//!    task's, for nobody else adds edges meanwhile, and stays the only one.
//! 2. It then subtracts the number of those that have no edge of their own. If that leaves zero,
//!    the task is ready and the submitter queues it. If there are none such, the last exchange was
//!    the last touch: the task may have run by now.
//! 3. *Completion* swaps `head` to (generation + 1, no edges). From then on no edge can be
//!    added. It walks the list it took and subtracts one from each successor's `pending`; who
//!    reaches zero queues that successor. So a task is queued exactly once.
//! 4. The slot goes to the free list only after the walk. An edge is a field of the
//!    *successor's* slot, and that slot cannot be freed before all its predecessors have
//!    subtracted; the walk reads the next edge before it subtracts.
//!
//! *Reuse (ABA)*: a compare-exchange prepared against an older generation fails, because the
//! generation is half of the compared word. It wraps after 2^32 tasks in one slot; a name that
//! old would be taken for the slot's present task, which was submitted earlier than the task
//! being submitted: one needless edge, never a cycle and never a lost one.
//!
//! *Ordering*: the swap in step 3 is `AcqRel` and the loads in step 1 are `Acquire`, so whoever
//! finds a task ended also sees what its body wrote. The subtractions are `AcqRel`, so the
//! thread that reaches zero has seen the bodies of all predecessors.

mod crossing;
mod edges;
mod entry;
mod guard;
mod handles;
mod needs;
mod node;
mod prefetch;
mod segments;
mod slot;
mod table;

pub(crate) use crossing::Crossing;
pub(crate) use edges::Edge;
pub(crate) use guard::{GuardMark, Join};
pub(crate) use handles::HandleTable;
pub(crate) use needs::Need;
pub(crate) use node::NodeFacts;
pub(crate) use segments::{Segments, page};
pub(crate) use slot::{SUBMITTING, Slot, TaskRef};
pub(crate) use table::{Allocation, Linked, SlotTable};

#[cfg(all(test, loom))]
mod model;
