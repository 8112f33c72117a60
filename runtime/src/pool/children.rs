//! Tasks with children: they end once their children have.
//!
//! # The protocol
//! A body notes each [child](crate::TaskBuilder::child) that it spawns; only its thread knows them.
//! When the body has ended, that thread puts a *join* behind the children: a guard that stands for
//! no thread but for the parent's end. Whoever ends the last of them finds the join released, and
//! ends the parent then, as if its body had ended there. So no worker waits and no stack grows,
//! however deep the children go, and a task is as easily a parent as a child.
//!
//! * The body of a parent, and with it all borrows of its data, has ended before the join is
//!   published; what is left of the task is its place in the graph.
//! * A join has no other predecessors than tasks, so only threads that end tasks release one.
//!
//! # Tasks that would wait for themselves
//! A child that waits for its parent's end would never run, and the parent never end. A child that
//! does so at once, by its data or its explicit edges, is refused when it is submitted. Through
//! others it may: a task that waits for the parent, submitted meanwhile by another thread; and
//! through a child of another parent. Edges to a task are drawn at its submission, from older
//! ones, so a circle closes only when a join is published, whose edge leads to a parent that is
//! older than the children. So that is where we look, under the submission lock: if the parent's
//! end, followed along all edges and from each join to its parent, leads to one of its children,
//! the parent fails and does not wait.
//!
//! Edges between siblings lead forward, those from children to parents lead up; so every circle
//! has an edge down: a child that waits for another than a sibling. As long as no unfinished
//! parent has such a child, nothing is looked at.
#![allow(unsafe_code, reason = "reads the facts of tasks under the submission lock")]

use rustc_hash::FxHashSet;

use super::local::{is_child, running_task, take_children};
use crate::claims::Claim;
use crate::error::SubmitError;
use crate::graph::{Join, Need, TaskRef};
use crate::runtime::Inner;
use crate::submit::Submitter;
use crate::task::{Meta, TaskId};

/// The children of one task.
#[derive(Debug, Default)]
pub(crate) struct Children {
    tasks: FxHashSet<TaskRef>,
    /// Whether one of them waits for others than its siblings.
    entangled: bool,
}

impl Children {
    pub(super) fn add(&mut self, child: TaskRef, entangled: bool) {
        self.tasks.insert(child);
        self.entangled |= entangled;
    }

    pub(super) fn has(&self, task: TaskRef) -> bool {
        self.tasks.contains(&task)
    }
}

impl Submitter {
    /// Whether a child that is about to be submitted, with these claims and after these tasks,
    /// waits for others than its siblings; an error if it has no parent or waits for that.
    pub(crate) fn check_child(
        &mut self,
        inner: &Inner,
        task: &'static str,
        claims: &[Claim],
        after: &[TaskId],
    ) -> Result<bool, SubmitError> {
        let parent = running_task(inner.id).filter(|slot| !inner.table.slot(*slot).is_node());
        let slot = parent.ok_or(SubmitError::NoParent { task })?;
        let parent = inner.table.current(slot);
        let (mut entangled, mut refused) = (false, false);
        let mut each = |need| {
            refused |= need == parent;
            entangled |= !is_child(need);
        };
        self.unfinished_needs(inner, claims, &mut each);
        let after = after.iter().map(|before| before.task);
        after.filter(|before| !inner.table.has_ended(*before)).for_each(each);
        if refused {
            return Err(SubmitError::NeedsParent { task, parent: inner.facts(self, slot).name });
        }
        Ok(entangled)
    }
}

impl Inner {
    /// The facts about a task that is submitted and has not ended.
    fn facts(&self, _lock: &Submitter, slot: u32) -> Meta {
        // SAFETY: the caller has the submitter, so it holds the submission lock; tasks that are no
        // guards are described.
        unsafe { self.table.slot(slot).cell.meta() }
    }

    /// The task in `slot`, whose body and claim are gone, waits for its children from now on:
    /// `None`. If there is nothing to wait for: its failure, which may be that of a child.
    #[cold]
    pub(super) fn join_children(&self, slot: u32, failure: Option<u32>) -> Option<Option<u32>> {
        let children = take_children();
        let mut submitter = self.submitter();
        submitter.entangled.retain(|join| !self.table.has_ended(*join));
        let circle = (children.entangled || !submitter.entangled.is_empty())
            && self.leads_to(slot, &children);
        let join = if circle { None } else { submitter.allocate(self) };
        let Some((join, its)) = join else {
            let meta = self.facts(&submitter, slot);
            drop(submitter);
            let message = match circle {
                true => "one of its children waits for its end",
                false => "too many unfinished tasks to wait for its children",
            };
            return Some(failure.or_else(|| Some(self.fail(slot, meta, false, message.into()))));
        };
        its.set_join(Join { parent: slot, failure });
        if children.entangled {
            submitter.entangled.push(join);
        }
        let needs = children.tasks.into_iter().map(|task| Need { task, order_only: false });
        submitter.gather(self, join, &[], needs);
        let ended = submitter.publish(self, join, its);
        drop(submitter);
        if !ended {
            return None;
        }
        self.close_join(join.slot()).map(|join| join.failure)
    }

    /// If `guard`, which is released, is a join: ends it; returns whose it was, with the failure
    /// that is to blame in the end.
    pub(super) fn close_join(&self, guard: u32) -> Option<Join> {
        let its = self.table.slot(guard);
        let Join { parent, failure } = its.join()?;
        let blame = its.cancelled_by();
        self.table.end(guard, None, |_, _| {});
        self.table.free(&[guard]);
        if failure.is_none()
            && let Some(blame) = blame
        {
            let mut submitter = self.submitter();
            let label = self.facts(&submitter, parent).label;
            submitter.spoil(self, self.table.current(parent), Some(label), blame);
        }
        Some(Join { parent, failure: failure.or(blame) })
    }

    /// Whether one of `children` waits for the end of the task in `slot`; with the submission lock
    /// held. That task has not ended, so nothing that waits for it does meanwhile.
    fn leads_to(&self, slot: u32, children: &Children) -> bool {
        let (mut seen, mut left) = (FxHashSet::default(), vec![slot]);
        while let Some(slot) = left.pop() {
            let its = self.table.slot(slot);
            let mut reach = |next| {
                if seen.insert(next) {
                    left.push(next);
                }
            };
            if let Some(join) = its.join() {
                reach(join.parent);
            }
            if its.is_node() {
                // SAFETY: it waits for a task that has not ended.
                unsafe { self.recorded_successors(slot, &mut reach) };
            }
            self.table.successors(slot, &mut reach);
        }
        seen.into_iter().any(|slot| children.has(self.table.current(slot)))
    }
}
