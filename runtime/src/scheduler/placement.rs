//! A schedule that is given: which worker runs which task, in which order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;

use super::{ReadyTask, Scheduler};
use crate::sync::lock_plain;

/// For each worker, the tasks that it runs, in order, by their place in submission order
/// ([`TaskId::sequence`](crate::TaskId::sequence)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    workers: Vec<Vec<u64>>,
}

/// Why lists of tasks are no placement.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// A task has two places.
    #[error("task {sequence} is placed on worker {first} and again on worker {second}")]
    Twice {
        /// The task's place in submission order.
        sequence: u64,
        /// The worker that has it first.
        first: usize,
        /// The worker that has it once more (the same one, perhaps).
        second: usize,
    },
}

impl Placement {
    /// `workers[w]` lists the tasks of worker `w` in the order in which it runs them.
    ///
    /// A task that is not listed runs on worker 0 (or whichever has nothing left to run) once
    /// it is ready and nothing that is placed comes first. The order must be possible: a task
    /// that is placed before one that it depends on never runs, and the wait for it never ends.
    ///
    /// # Errors
    /// When a task is listed twice.
    pub fn new(workers: Vec<Vec<u64>>) -> Result<Self, PlacementError> {
        let mut places = HashMap::new();
        for (second, tasks) in workers.iter().enumerate() {
            for &sequence in tasks {
                if let Some(first) = places.insert(sequence, second) {
                    return Err(PlacementError::Twice { sequence, first, second });
                }
            }
        }
        Ok(Placement { workers })
    }

    /// The lists that it was made from.
    pub fn workers(&self) -> &[Vec<u64>] {
        &self.workers
    }
}

/// Hands out tasks as a [`Placement`] says: a worker waits for its next task, whatever else is
/// ready.
#[derive(Debug)]
pub struct Static {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What each worker has still to run.
    order: Vec<VecDeque<u64>>,
    /// All tasks of it.
    placed: HashSet<u64>,
    /// Ready tasks that are placed, by sequence.
    ready: HashMap<u64, ReadyTask>,
    /// Ready tasks that are not.
    others: VecDeque<ReadyTask>,
}

impl Static {
    /// A scheduler that follows `placement` once.
    pub fn new(placement: Placement) -> Self {
        let order: Vec<VecDeque<u64>> = placement.workers.into_iter().map(Into::into).collect();
        let placed = order.iter().flatten().copied().collect();
        let (ready, others) = (HashMap::new(), VecDeque::new());
        Static { state: Mutex::new(State { order, placed, ready, others }) }
    }
}

impl Scheduler for Static {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        let mut state = lock_plain(&self.state);
        if state.placed.contains(&task.sequence) {
            state.ready.insert(task.sequence, task);
        } else {
            state.others.push_back(task);
        }
    }

    fn pop(&self, worker: usize) -> Option<ReadyTask> {
        let State { order, placed, ready, others } = &mut *lock_plain(&self.state);
        let Some(order) = order.get_mut(worker) else { return others.pop_front() };
        let Some(next) = order.front() else { return others.pop_front() };
        let task = ready.remove(next);
        if task.is_some() {
            placed.remove(next);
            order.pop_front();
            return task;
        }
        // Only worker 0 goes past its list, so that the others stay in step with theirs.
        if worker == 0 { others.pop_front() } else { None }
    }

    fn any_worker(&self) -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn task(sequence: u64) -> ReadyTask {
        ReadyTask { slot: sequence as u32, priority: 0, sequence }
    }

    #[test]
    fn each_worker_keeps_to_its_list() {
        let placement = Placement::new(vec![vec![2, 0], vec![1]]).expect("no task twice");
        let scheduler = Static::new(placement);
        for sequence in [0, 1, 9] {
            scheduler.push(task(sequence), None);
        }
        // Worker 0 has to run task 2 before task 0; task 9 is nowhere.
        assert_eq!(scheduler.pop(1), Some(task(1)));
        assert_eq!(scheduler.pop(0), Some(task(9)));
        assert_eq!(scheduler.pop(0), None);
        scheduler.push(task(2), Some(1));
        assert_eq!(scheduler.pop(0), Some(task(2)));
        assert_eq!(scheduler.pop(0), Some(task(0)));
        scheduler.push(task(2), Some(1));
        assert_eq!(scheduler.pop(1), Some(task(2)), "its place has been used");
    }

    #[test]
    fn a_task_has_one_place() {
        let error = Placement::new(vec![vec![0, 1], vec![1]]).expect_err("twice");
        assert_eq!(error, PlacementError::Twice { sequence: 1, first: 0, second: 1 });
    }
}
