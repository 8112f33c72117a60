//! Task graphs to measure a runtime with: six shapes, each with bodies of a chosen length.
//!
//! | scenario | tasks with empty bodies | accesses |
//! |---|---|---|
//! | independent | 200,000 | none |
//! | chain | 100,000 | writes one handle |
//! | wide64 | 99,968 | writes handle `i % 64` |
//! | grid | 300 x 300 | writes `h[i][j]`, reads `h[i-1][j]` and `h[i][j-1]` |
//! | fan32 | 3,000 x (1 + 32) | one write, then 32 reads, of one handle |
//! | cholesky32 | 5,984 | the tiled Cholesky factorisation of 32 x 32 tiles |
//!
//! With bodies that take time there are fewer tasks, about 0.1 s of bodies in all.
//!
//! ```
//! use millrace_runtime::Runtime;
//! use millrace_runtime::scenarios::{Body, Scenario};
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let chain = Scenario::sized("chain", 1000).expect("a scenario of that name");
//! chain.check(&rt)?; // runs it once, and looks at the order
//! let time = chain.run(&rt, Body::Empty)?;
//! println!("{} ns per task", time.total.as_nanos() / chain.len() as u128);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod recorded;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use recorded::RecordedScenario;

use crate::replay::ReplayError;
use crate::{Handles, Runtime, SubmitError, WaitError};

/// The scenarios' names, in the order of the table.
pub const NAMES: [&str; 6] = ["independent", "chain", "wide64", "grid", "fan32", "cholesky32"];

/// One task: what it writes, and what it reads.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    write: Option<u32>,
    reads: [Option<u32>; 2],
    priority: i16,
}

/// A task graph as a list of tasks in submission order.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: &'static str,
    handles: u32,
    tasks: Vec<Task>,
}

/// What each body does.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing.
    Empty,
    /// So many steps of a calculation that the compiler cannot shorten ([`steps_for`]).
    Spin(u64),
}

/// How long a scenario took.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the first submission until the last one returned.
    pub submit: Duration,
    /// From the first submission until the wait for all tasks returned.
    pub total: Duration,
}

/// What is wrong with how a scenario ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A task was refused.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A replay was refused.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A task failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// There are 2^32 handles already.
    #[error("the runtime gives no further handles")]
    Handles,
    /// Tasks did not run, or before one that they depend on.
    #[error("{scenario}: {lost} tasks did not run, {broken} ran before one that they depend on")]
    Wrong {
        /// The scenario's name.
        scenario: &'static str,
        /// Tasks that did not run.
        lost: usize,
        /// Dependencies that were not kept.
        broken: usize,
    },
}

impl Scenario {
    /// The scenario called `name`, for bodies of about `body`.
    pub fn new(name: &str, body: Duration) -> Option<Self> {
        let nanos = u64::try_from(body.as_nanos()).unwrap_or(u64::MAX);
        let most = 100_000_000u64.checked_div(nanos).map_or(1_000_000, |tasks| tasks.max(4000));
        Self::sized(name, u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// The scenario called `name` with about `most` tasks, or its full size if that is smaller.
    pub fn sized(name: &str, most: u32) -> Option<Self> {
        let name = NAMES.into_iter().find(|known| *known == name)?;
        let writer = |handle| Task { write: Some(handle), ..Task::default() };
        let reader = |handle| Task { reads: [Some(handle), None], ..Task::default() };
        let (handles, tasks) = match name {
            "independent" => (0, vec![Task::default(); most.min(200_000) as usize]),
            "chain" => (1, vec![writer(0); most.min(100_000) as usize]),
            "wide64" => (64, (0..most.min(100_000) / 64 * 64).map(|i| writer(i % 64)).collect()),
            "grid" => grid(most),
            "fan32" => {
                let round = || std::iter::once(writer(0)).chain([reader(0); 32]);
                (1, (0..(most / 33).min(3000)).flat_map(|_| round()).collect())
            }
            _ => cholesky(if most < 5984 { 16 } else { 32 }),
        };
        Some(Scenario { name, handles, tasks })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The same tasks with priorities: the more tasks follow one another after a task, the
    /// higher is its priority, so that a [scheduler](crate::scheduler) that respects priorities
    /// keeps the longest chain going (list scheduling by critical path: Graham 1969).
    ///
    /// ```
    /// # use millrace_runtime::{Runtime, scenarios::{Body, Scenario}, scheduler::Schedule};
    /// let rt = Runtime::builder().workers(2).scheduler(Schedule::priority()).build()?;
    /// let cholesky = Scenario::sized("cholesky32", 1000).expect("a scenario of that name");
    /// cholesky.critical_path_first().check(&rt)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn critical_path_first(mut self) -> Self {
        let mut behind = vec![0u32; self.len()];
        // Edges go from earlier to later tasks, in the order of the later ones.
        for (from, to) in self.edges().into_iter().rev() {
            behind[from as usize] = behind[from as usize].max(behind[to as usize] + 1);
        }
        for (task, behind) in self.tasks.iter_mut().zip(behind) {
            task.priority = i16::try_from(behind).unwrap_or(i16::MAX);
        }
        self
    }

    /// Submits all tasks and waits for them.
    ///
    /// # Errors
    /// When the runtime refuses a task or a task fails.
    pub fn run(&self, rt: &Runtime, body: Body) -> Result<Timing, ScenarioError> {
        match body {
            Body::Empty => self.submit(rt, |_| || ()),
            Body::Spin(steps) => self.submit(rt, |_| move || spin(steps)),
        }
    }

    /// Runs it once and checks that each task ran, after all that it depends on.
    ///
    /// # Errors
    /// When that is not so, and as for [`run`](Self::run).
    pub fn check(&self, rt: &Runtime) -> Result<(), ScenarioError> {
        let clock = Arc::new(AtomicU32::new(1));
        let stamps = Stamps::new(self);
        self.submit(rt, |task| {
            let (clock, stamps) = (clock.clone(), stamps.clone());
            move || stamps.set(task, clock.fetch_add(1, Ordering::SeqCst))
        })?;
        stamps.check(self)
    }

    fn submit<F, B>(&self, rt: &Runtime, mut body: F) -> Result<Timing, ScenarioError>
    where
        F: FnMut(usize) -> B,
        B: FnOnce() + Send + 'static,
    {
        let handles = rt.handles(self.handles).ok_or(ScenarioError::Handles)?;
        let start = Instant::now();
        for (index, task) in self.tasks.iter().enumerate() {
            spawn(rt, &handles, *task, body(index))?;
        }
        let submit = start.elapsed();
        rt.wait()?;
        Ok(Timing { submit, total: start.elapsed() })
    }

    /// The dependencies, found in the plainest way: task, and a later one that waits for it.
    fn edges(&self) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        let mut writer = vec![None; self.handles as usize];
        let mut readers = vec![Vec::new(); self.handles as usize];
        for (index, task) in self.tasks.iter().enumerate() {
            let index = index as u32;
            for handle in task.reads.into_iter().flatten() {
                edges.extend(writer[handle as usize].map(|from| (from, index)));
                readers[handle as usize].push(index);
            }
            if let Some(handle) = task.write {
                edges.extend(writer[handle as usize].map(|from| (from, index)));
                edges.extend(readers[handle as usize].drain(..).map(|from| (from, index)));
                writer[handle as usize] = Some(index);
            }
        }
        edges
    }
}

/// When each task ran.
#[derive(Clone)]
struct Stamps(Arc<[AtomicU32]>);

impl Stamps {
    fn new(scenario: &Scenario) -> Self {
        Stamps(scenario.tasks.iter().map(|_| AtomicU32::new(0)).collect())
    }

    fn set(&self, task: usize, stamp: u32) {
        self.0[task].store(stamp, Ordering::SeqCst);
    }

    fn clear(&self) {
        self.0.iter().for_each(|stamp| stamp.store(0, Ordering::SeqCst));
    }

    fn check(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let stamp = |task: u32| self.0[task as usize].load(Ordering::SeqCst);
        let lost = (0..scenario.len() as u32).filter(|task| stamp(*task) == 0).count();
        let edges = scenario.edges();
        let broken = edges.iter().filter(|(from, to)| stamp(*from) >= stamp(*to)).count();
        if lost + broken == 0 {
            return Ok(());
        }
        Err(ScenarioError::Wrong { scenario: scenario.name, lost, broken })
    }
}

fn spawn(
    rt: &Runtime,
    handles: &Handles,
    task: Task,
    body: impl FnOnce() + Send + 'static,
) -> Result<(), SubmitError> {
    // As a program would: what is known about a task's accesses is in its type.
    let write = |handle: u32| handles.write(handle as usize);
    let read = |handle: u32| handles.read(handle as usize);
    let spawn = rt.task("task").priority(task.priority);
    match (task.write, task.reads) {
        (None, [None, _]) => spawn.spawn((), move |()| body()),
        (None, [Some(a), _]) => spawn.spawn(read(a), move |()| body()),
        (Some(w), [None, None]) => spawn.spawn(write(w), move |()| body()),
        (Some(w), [Some(a), None] | [None, Some(a)]) => {
            spawn.spawn((write(w), read(a)), move |_| body())
        }
        (Some(w), [Some(a), Some(b)]) => spawn.spawn((write(w), read(a), read(b)), move |_| body()),
    }?;
    Ok(())
}

fn grid(most: u32) -> (u32, Vec<Task>) {
    let side = (1..=300u32).rev().find(|side| side * side <= most).unwrap_or(1);
    let at = |row: u32, column: u32| row * side + column;
    let task = |row: u32, column: u32| Task {
        write: Some(at(row, column)),
        reads: [
            row.checked_sub(1).map(|above| at(above, column)),
            column.checked_sub(1).map(|left| at(row, left)),
        ],
        priority: 0,
    };
    let tasks = (0..side).flat_map(|row| (0..side).map(move |column| task(row, column)));
    (side * side, tasks.collect())
}

fn cholesky(tiles: u32) -> (u32, Vec<Task>) {
    let at = |row: u32, column: u32| row * tiles + column;
    let mut tasks = Vec::new();
    let mut push = |write, reads| tasks.push(Task { write: Some(write), reads, priority: 0 });
    for k in 0..tiles {
        push(at(k, k), [None, None]);
        for i in k + 1..tiles {
            push(at(i, k), [Some(at(k, k)), None]);
        }
        for i in k + 1..tiles {
            push(at(i, i), [Some(at(i, k)), None]);
            for j in k + 1..i {
                push(at(i, j), [Some(at(i, k)), Some(at(j, k))]);
            }
        }
    }
    (tiles * tiles, tasks)
}

/// A calculation of so many dependent steps, one multiplication and one addition each.
#[inline(never)]
fn spin(steps: u64) {
    let mut value = steps;
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// How many steps of [`Body::Spin`] take `time` on a quiet core: the best of 15 measurements.
pub fn steps_for(time: Duration) -> u64 {
    const STEPS: u64 = 500_000;
    let best = (0..15)
        .map(|_| {
            let start = Instant::now();
            spin(STEPS);
            start.elapsed()
        })
        .min();
    let best = best.unwrap_or_default().as_secs_f64().max(1e-9);
    (time.as_secs_f64() * STEPS as f64 / best) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table() {
        let sizes = NAMES.map(|name| Scenario::new(name, Duration::ZERO).expect("known").len());
        assert_eq!(sizes, [200_000, 100_000, 99_968, 90_000, 99_000, 5984]);
        assert!(Scenario::new("ring", Duration::ZERO).is_none());
        let five = Scenario::new("grid", Duration::from_micros(5)).expect("known");
        assert_eq!(five.len(), 141 * 141);
    }

    #[test]
    fn every_scenario_keeps_its_order() {
        for (workers, helps) in [(0, false), (1, false), (2, false), (2, true), (4, true)] {
            let builder = Runtime::builder().workers(workers).main_helps(helps).window(500);
            let rt = builder.build().expect("a runtime");
            for name in NAMES {
                let scenario = Scenario::sized(name, 5000).expect("known");
                scenario.check(&rt).expect("in order");
                scenario.check_replay(&rt).expect("in order");
            }
        }
    }

    #[test]
    fn the_critical_path_has_the_highest_priorities() {
        let grid = Scenario::sized("grid", 9).expect("known").critical_path_first();
        let priorities: Vec<_> = grid.tasks.iter().map(|task| task.priority).collect();
        assert_eq!(priorities, [4, 3, 2, 3, 2, 1, 2, 1, 0]);
    }

    #[test]
    fn a_wrong_order_is_told() {
        let chain = Scenario::sized("chain", 3).expect("known");
        assert_eq!(chain.edges(), [(0, 1), (1, 2)]);
        let grid = Scenario::sized("grid", 4).expect("known");
        assert_eq!(grid.edges(), [(0, 1), (0, 2), (1, 3), (2, 3)]);
    }
}
