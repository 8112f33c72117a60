//! What a recording comes to: its tasks, the edges between them, and how they use each handle.

use std::panic::Location;

use super::Bound;
use crate::graph::Crossing;
use crate::task::{BodyResult, Label};

/// A body that can be run any number of times.
pub(super) type Body = dyn Fn(&Bound) -> BodyResult + Send + Sync;

/// A recorded task.
pub(super) struct Planned {
    pub(super) name: &'static str,
    pub(super) location: &'static Location<'static>,
    pub(super) label: Label,
    pub(super) priority: i16,
    pub(super) body: Box<Body>,
    /// Recorded tasks that it waits for.
    pub(super) predecessors: u32,
    /// Whether tasks outside can get to know it: it is the last one that uses some handle.
    pub(super) named: bool,
}

/// An edge to a recorded task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedEdge {
    pub(super) to: u32,
    /// Whether only the order matters, not what the predecessor wrote.
    pub(super) order_only: bool,
    /// Whether the successor waits for nothing else, neither recorded nor outside.
    pub(super) alone: bool,
}

/// How the tasks use one handle of a parameter.
pub(super) struct PlannedCrossing {
    pub(super) parameter: u32,
    /// Which of the parameter's handles.
    pub(super) handle: u32,
    pub(super) crossing: Crossing,
}

/// The bytes that all tasks of one name declare.
pub(super) struct KindTotal {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
}

pub(super) struct Plan {
    pub(super) tasks: Box<[Planned]>,
    /// Where each task's edges begin in `edges`, and in the end their number.
    pub(super) first: Box<[u32]>,
    /// In submission order of the successors.
    pub(super) edges: Box<[PlannedEdge]>,
    /// Tasks without recorded predecessors.
    pub(super) roots: Box<[u32]>,
    pub(super) crossings: Box<[PlannedCrossing]>,
    pub(super) kinds: Box<[KindTotal]>,
    /// Whether no task has a priority.
    pub(super) plain: bool,
}

impl Plan {
    /// `needs` has for each task its recorded predecessors, and whether only their order matters.
    pub(super) fn new(
        mut tasks: Vec<Planned>,
        needs: &[Vec<(u32, bool)>],
        crossings: Vec<PlannedCrossing>,
        kinds: Vec<KindTotal>,
    ) -> Self {
        let mut entered = vec![false; tasks.len()];
        for PlannedCrossing { crossing, .. } in &crossings {
            let before = crossing.readers_before.iter().copied();
            before.chain(crossing.first_writer).for_each(|task| entered[task as usize] = true);
            crossing.last_users().for_each(|task| tasks[task as usize].named = true);
        }
        let mut first = vec![0u32; tasks.len() + 1];
        for (task, needs) in tasks.iter_mut().zip(needs) {
            task.predecessors = needs.len() as u32;
            needs.iter().for_each(|(from, _)| first[*from as usize + 1] += 1);
        }
        for place in 1..first.len() {
            first[place] += first[place - 1];
        }
        let nowhere = PlannedEdge { to: 0, order_only: false, alone: false };
        let mut edges = vec![nowhere; first[tasks.len()] as usize];
        let mut next = first.clone();
        for (to, needs) in needs.iter().enumerate() {
            let alone = needs.len() == 1 && !entered[to];
            for (from, order_only) in needs {
                let place = &mut next[*from as usize];
                edges[*place as usize] =
                    PlannedEdge { to: to as u32, order_only: *order_only, alone };
                *place += 1;
            }
        }
        let roots = (0..tasks.len()).filter(|task| needs[*task].is_empty());
        Plan {
            plain: tasks.iter().all(|task| task.priority == 0),
            first: first.into(),
            edges: edges.into(),
            roots: roots.map(|task| task as u32).collect(),
            tasks: tasks.into(),
            crossings: crossings.into(),
            kinds: kinds.into(),
        }
    }

    /// All tasks, each followed by the first of those that wait for it, unless that came before.
    pub(super) fn by_path(&self) -> impl Iterator<Item = u32> + '_ {
        let mut seen = vec![false; self.tasks.len()];
        let mut starts = 0..self.tasks.len() as u32;
        let mut next = None;
        std::iter::from_fn(move || {
            let task = next.take().or_else(|| starts.find(|task| !seen[*task as usize]))?;
            seen[task as usize] = true;
            let edges = self.first[task as usize]..self.first[task as usize + 1];
            let after = self.edges[edges.start as usize..edges.end as usize].first();
            next = after.map(|edge| edge.to).filter(|to| !seen[*to as usize]);
            Some(task)
        })
    }
}
