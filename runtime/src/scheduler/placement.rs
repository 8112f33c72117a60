//! A schedule that is given: which worker runs which task, in which order.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Mutex;

use super::{ReadyTask, Scheduler};
use crate::sync::lock_plain;
use crate::trace::{LaneKind, SpanKind, Trace};

/// For each worker, the tasks that it runs, in order, by their place in submission order
/// ([`TaskId::sequence`](crate::TaskId::sequence)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    workers: Vec<Vec<u64>>,
}

/// Why lists of tasks, or a trace, are no placement.
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
    /// The trace does not say which task a span shows.
    #[error(
        "the trace does not tell its tasks' places in submission order: it is of version \
         {version}, or bodies took 18 minutes or longer"
    )]
    NoSequence {
        /// The version of the document.
        version: u32,
    },
    /// The trace has lost spans.
    #[error("the trace does not have all tasks: {dropped} spans were lost")]
    Incomplete {
        /// How many.
        dropped: u64,
    },
}

impl Placement {
    /// `workers[w]` lists the tasks of worker `w` in the order in which it runs them.
    ///
    /// What becomes of a task that is not listed, and of an order that is not possible, because a
    /// task stands before one that it depends on or is never submitted, tells
    /// [`Schedule::placed`](super::Schedule::placed).
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

    /// What a trace shows: each task on the worker that ran it, in that order.
    ///
    /// A run that submits the same tasks in the same order, from one thread, to as many workers
    /// repeats that schedule task by task, except for tasks that commute where the timing has them
    /// meet. Tasks that the trace does not show, since they ran before or after it was recorded,
    /// have no place.
    ///
    /// ```
    /// use millrace_runtime::{Runtime, SubmitError, scheduler::{Placement, Schedule}, trace::Trace};
    ///
    /// fn traced(schedule: Schedule) -> Result<Trace, Box<dyn std::error::Error>> {
    ///     let rt = Runtime::builder().workers(2).scheduler(schedule).build()?;
    ///     rt.trace_start();
    ///     for _ in 0..100 {
    ///         rt.spawn("task", (), |()| ())?;
    ///     }
    ///     rt.wait()?;
    ///     assert_eq!(rt.displaced_tasks(), 0);
    ///     Ok(rt.trace_take("run", Default::default()))
    /// }
    ///
    /// let placement = Placement::from_trace(&traced(Schedule::work_stealing())?)?;
    /// let again = traced(Schedule::placed(placement.clone()))?;
    /// assert_eq!(Placement::from_trace(&again)?, placement);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the trace has lost spans, does not tell which tasks they are, or shows a task twice.
    pub fn from_trace(trace: &Trace) -> Result<Self, PlacementError> {
        if trace.dropped > 0 {
            return Err(PlacementError::Incomplete { dropped: trace.dropped });
        }
        let lanes = trace.lanes.iter().enumerate();
        let workers: Vec<usize> =
            lanes.filter(|(_, lane)| lane.kind == LaneKind::Worker).map(|(lane, _)| lane).collect();
        let mut tasks = vec![Vec::new(); workers.len()];
        for span in trace.spans.iter().filter(|span| span.kind == SpanKind::Task) {
            let version = trace.version;
            let sequence = span.sequence.ok_or(PlacementError::NoSequence { version })?;
            // Without workers the tasks are on the main thread's lane.
            if let Some(worker) = workers.iter().position(|lane| *lane == span.lane as usize) {
                tasks[worker].push((span.start, span.end, sequence));
            }
        }
        // Documents are in that order, but nobody has checked it.
        tasks.iter_mut().for_each(|tasks| tasks.sort_unstable());
        let sequences =
            |tasks: Vec<(u64, u64, u64)>| tasks.into_iter().map(|task| task.2).collect();
        Placement::new(tasks.into_iter().map(sequences).collect())
    }

    /// The lists that it was made from.
    pub fn workers(&self) -> &[Vec<u64>] {
        &self.workers
    }
}

/// Hands out tasks as a [`Placement`] says: a worker waits for its next task, whatever else is
/// ready.
pub(super) struct Static {
    state: Mutex<State>,
}

struct State {
    /// What each worker has still to run.
    order: Vec<VecDeque<u64>>,
    /// All tasks of it, and whose they are.
    placed: HashMap<u64, usize>,
    /// From the first to the last one that had a place.
    range: RangeInclusive<u64>,
    /// Ready tasks that are placed, by sequence.
    ready: BTreeMap<u64, ReadyTask>,
    /// Ready tasks that are not.
    others: VecDeque<ReadyTask>,
    /// Whether each worker runs what it was handed last.
    busy: Vec<bool>,
    displaced: u64,
}

impl Static {
    /// A scheduler that follows `placement` once.
    pub(super) fn new(placement: Placement) -> Self {
        let order: Vec<VecDeque<u64>> = placement.workers.into_iter().map(Into::into).collect();
        let lists = order.iter().enumerate();
        let placed: HashMap<u64, usize> =
            lists.flat_map(|(worker, list)| list.iter().map(move |task| (*task, worker))).collect();
        let first = placed.keys().min().copied().unwrap_or(1);
        let range = first..=placed.keys().max().copied().unwrap_or(0);
        let (ready, others, busy) = (BTreeMap::new(), VecDeque::new(), vec![false; order.len()]);
        let state = State { order, placed, range, ready, others, busy, displaced: 0 };
        Static { state: Mutex::new(state) }
    }
}

impl State {
    /// Takes its place from the next task in the list of `worker`; returns it.
    fn displace(&mut self, worker: usize) -> Option<u64> {
        let sequence = self.order[worker].pop_front()?;
        self.placed.remove(&sequence);
        self.others.extend(self.ready.remove(&sequence));
        Some(sequence)
    }

    fn is_stuck(&self) -> bool {
        let next =
            |list: &VecDeque<u64>| list.front().is_some_and(|task| self.ready.contains_key(task));
        !self.ready.is_empty()
            && self.others.is_empty()
            && !self.busy.contains(&true)
            && !self.order.iter().any(next)
    }
}

impl Scheduler for Static {
    fn push(&self, task: ReadyTask, _worker: Option<usize>) {
        let mut state = lock_plain(&self.state);
        if state.placed.contains_key(&task.sequence) {
            state.ready.insert(task.sequence, task);
        } else {
            state.others.push_back(task);
        }
    }

    fn pop(&self, worker: usize) -> Option<ReadyTask> {
        let state = &mut *lock_plain(&self.state);
        let next = state.order[worker].front().and_then(|next| state.ready.remove(next));
        let task = match next {
            Some(task) => {
                state.order[worker].pop_front();
                state.placed.remove(&task.sequence);
                Some(task)
            }
            None => state.others.pop_front().inspect(|task| {
                state.displaced += u64::from(state.range.contains(&task.sequence));
            }),
        };
        state.busy[worker] = task.is_some();
        task
    }

    fn any_worker(&self) -> bool {
        false
    }

    fn is_stuck(&self) -> bool {
        lock_plain(&self.state).is_stuck()
    }

    fn go_on(&self) {
        let mut state = lock_plain(&self.state);
        if !state.is_stuck() {
            return;
        }
        let Some((&oldest, _)) = state.ready.first_key_value() else { return };
        let worker = state.placed[&oldest];
        // It is in that list, and what stands before it waits for something that does not come.
        while state.displace(worker).is_some_and(|sequence| sequence != oldest) {}
    }

    fn leaves(&self, worker: usize) {
        let mut state = lock_plain(&self.state);
        state.busy[worker] = false;
        while state.displace(worker).is_some() {}
    }

    fn displaced(&self) -> u64 {
        lock_plain(&self.state).displaced
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
