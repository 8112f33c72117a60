//! The task graph: columns by timesteps, whose tasks hand their outputs on.
//!
//! Each column has two output cells, for even and odd timesteps. Task `(t, i)` overwrites a cell
//! of column `i` and reads the other cells of the columns that it depends on, which is how the
//! runtime finds the dependencies, and also that a cell may be overwritten. A cell holds the
//! task's timestep, counted over all runs, and its column; each body looks whether its inputs are
//! of the timestep before, and in a checking run also of which columns.
//!
//! Working sets are only read, so that they order no tasks. Each belongs to as many columns as
//! there are for each worker, which read it in turn, each on from where the one before ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_arena::{Arena, Buffer, Read};
use millrace_runtime::{Access, Runtime, SubmitError};

use super::kernel::{self, Kernel, PIECE, WORKING_SET};
use super::pattern::Pattern;
use crate::failure::{Failure, chain};

/// Values in an output cell: a cache line.
const CELL: usize = 8;

/// Where an output cell has its task's timestep, counted from 1: what nobody wrote is no output.
const STEP: usize = 0;

/// Where an output cell has its task's column.
const COLUMN: usize = 1;

/// Where an output cell has the body's result.
const RESULT: usize = 2;

/// What a body does beside handing on its timestep, and the data that it needs for that.
trait Work: Send + 'static {
    type Uses: Access;

    /// Looks at the inputs, of which it is known that they are of the timestep before.
    fn inspect(&self, _inputs: &[&[u64]]) -> Result<(), String> {
        Ok(())
    }

    /// Does it; the result goes into the output.
    fn run(self, data: <Self::Uses as Access>::Data<'_>) -> f64;
}

/// [`Kernel::Compute`].
struct Compute {
    iterations: u32,
}

impl Work for Compute {
    type Uses = ();

    #[inline]
    fn run(self, (): ()) -> f64 {
        kernel::compute(self.iterations)
    }
}

/// [`Kernel::Memory`], with a working set.
struct Stream {
    first: u32,
    iterations: u32,
}

impl Work for Stream {
    type Uses = Read<f64>;

    #[inline]
    fn run(self, set: &[f64]) -> f64 {
        kernel::read(set, self.first, self.iterations)
    }
}

/// When each task ran.
struct Stamps {
    clock: AtomicU64,
    /// By timestep and column; 0 for what did not run.
    stamps: Vec<AtomicU64>,
    repeated: AtomicUsize,
}

/// Stamps its task and looks where its inputs come from, for a check.
struct Stamp {
    stamps: Arc<Stamps>,
    task: usize,
    /// The columns that the inputs are to be of.
    before: Vec<usize>,
}

impl Work for Stamp {
    type Uses = ();

    fn inspect(&self, inputs: &[&[u64]]) -> Result<(), String> {
        let columns = inputs.iter().map(|input| input[COLUMN] as usize);
        if columns.clone().eq(self.before.iter().copied()) {
            return Ok(());
        }
        let columns: Vec<usize> = columns.collect();
        Err(format!("inputs of columns {columns:?}, not {:?}", self.before))
    }

    fn run(self, (): ()) -> f64 {
        let Stamps { clock, stamps, repeated } = &*self.stamps;
        let now = clock.fetch_add(1, Ordering::SeqCst);
        if stamps[self.task].swap(now, Ordering::SeqCst) != 0 {
            repeated.fetch_add(1, Ordering::SeqCst);
        }
        0.0
    }
}

/// A graph of one pattern and width, with its memory.
pub(super) struct Graph {
    rt: Runtime,
    pattern: Pattern,
    /// Columns that a column depends on, by dependence set and column. The first timestep's,
    /// which has none, come before all sets.
    predecessors: Vec<Vec<Vec<usize>>>,
    /// Output cells by parity and column.
    cells: [Vec<Buffer<u64>>; 2],
    /// Working sets, one per worker; none for a kernel that needs none.
    sets: Vec<Buffer<f64>>,
    /// Owns cells and working sets.
    _arena: Arena,
    /// Timesteps of all runs so far.
    steps: u64,
}

impl Graph {
    /// Makes the graph's memory in the runtime, and the working sets if `kernel` needs them.
    pub(super) fn new(
        rt: Runtime,
        pattern: Pattern,
        kernel: Kernel,
        width: usize,
    ) -> Result<Self, Failure> {
        let arena = Arena::new(&rt, "columns");
        let alloc = |len: usize| arena.alloc::<u64>(len).map_err(failed);
        let row = || (0..width).map(|_| alloc(CELL)).collect::<Result<Vec<_>, _>>();
        let cells = [row()?, row()?];
        let workers = if kernel == Kernel::Memory { rt.workers().max(1) } else { 0 };
        let set = |_| {
            let set = arena.alloc::<f64>(WORKING_SET).map_err(failed)?;
            set.acquire_mut().map_err(failed)?.fill(1.0);
            Ok(set)
        };
        let sets = (0..workers).map(set).collect::<Result<Vec<_>, Failure>>()?;
        let of_set = |set| (0..width).map(|i| pattern.predecessors(set, i, width)).collect();
        let none = vec![Vec::new(); width];
        let predecessors = [none].into_iter().chain((0..pattern.sets(width)).map(of_set)).collect();
        Ok(Graph { rt, pattern, predecessors, cells, sets, _arena: arena, steps: 0 })
    }

    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        self.cells[0].len()
    }

    /// Runs `timesteps` timesteps whose bodies do so many iterations of the kernel that the
    /// graph was made for; returns the time from the first submission until all have ended.
    pub(super) fn run(&mut self, timesteps: u32, iterations: u32) -> Result<Duration, Failure> {
        if self.sets.is_empty() {
            return self.submit(timesteps, |_, _, _| (Compute { iterations }, ()));
        }
        let pieces = (WORKING_SET / PIECE) as u64;
        let sets = self.sets.len();
        let turns = self.width().div_ceil(sets) as u64;
        self.submit(timesteps, |graph, step, column| {
            let turn = step * turns + (column / sets) as u64;
            let first = (turn % pieces * u64::from(iterations) % pieces) as u32;
            (Stream { first, iterations }, graph.sets[column % sets].read())
        })
    }

    /// Runs `timesteps` timesteps and checks that each task ran once, after all that it
    /// depends on, and found their outputs.
    pub(super) fn check(&mut self, timesteps: u32) -> Result<(), Failure> {
        let width = self.width();
        let stamps = (0..timesteps as usize * width).map(|_| AtomicU64::new(0)).collect();
        let stamps = Stamps { clock: AtomicU64::new(1), stamps, repeated: AtomicUsize::new(0) };
        let stamps = Arc::new(stamps);
        let (of, base) = (stamps.clone(), self.steps);
        self.submit(timesteps, |graph, step, column| {
            let task = (step - base) as usize * width + column;
            let before = graph.before(step - base)[column].clone();
            (Stamp { stamps: of.clone(), task, before }, ())
        })?;
        let ran: Vec<u64> =
            stamps.stamps.iter().map(|stamp| stamp.load(Ordering::SeqCst)).collect();
        let repeated = stamps.repeated.load(Ordering::SeqCst);
        match (self.faults(&ran), repeated) {
            ((0, 0), 0) => Ok(()),
            ((lost, broken), _) => Err(Failure::failed(format_args!(
                "{}: {lost} tasks did not run, {repeated} ran twice, {broken} dependencies were \
                 not kept",
                self.pattern.name()
            ))),
        }
    }

    /// Tasks that did not run, and dependencies that were not kept, by the stamps of a run.
    fn faults(&self, ran: &[u64]) -> (usize, usize) {
        let width = self.width();
        let lost = ran.iter().filter(|stamp| **stamp == 0).count();
        let broken = ran.iter().enumerate().map(|(task, stamp)| {
            let (step, column) = (task / width, task % width);
            let too_late = |from: &&usize| ran[(step - 1) * width + **from] >= *stamp;
            self.before(step as u64)[column].iter().filter(too_late).count()
        });
        (lost, broken.sum())
    }

    /// The columns that each column depends on in timestep `step` of a run.
    fn before(&self, step: u64) -> &[Vec<usize>] {
        match step {
            0 => &self.predecessors[0],
            _ => &self.predecessors[1 + self.pattern.set_at(step, self.width())],
        }
    }

    fn submit<W: Work>(
        &mut self,
        timesteps: u32,
        work: impl Fn(&Graph, u64, usize) -> (W, W::Uses),
    ) -> Result<Duration, Failure> {
        let base = self.steps;
        self.steps += u64::from(timesteps);
        let start = Instant::now();
        for step in base..self.steps {
            for (column, before) in self.before(step - base).iter().enumerate() {
                let work = work(self, step, column);
                self.spawn(step, before, column, work).map_err(failed)?;
            }
        }
        self.rt.wait().map_err(failed)?;
        Ok(start.elapsed())
    }

    fn spawn<W: Work>(
        &self,
        step: u64,
        before: &[usize],
        column: usize,
        work: (W, W::Uses),
    ) -> Result<(), SubmitError> {
        let output = &self.cells[(step % 2) as usize][column];
        let inputs = &self.cells[((step + 1) % 2) as usize];
        let read = |column: usize| inputs[column].read();
        let point = (step, column as u64);
        // As a program would: a small number of inputs is in the task's type.
        match *before {
            [] => task::<W, [Read<u64>; 0]>(&self.rt, point, output, [], work),
            [a] => task(&self.rt, point, output, [a].map(read), work),
            [a, b] => task(&self.rt, point, output, [a, b].map(read), work),
            [a, b, c] => task(&self.rt, point, output, [a, b, c].map(read), work),
            [a, b, c, d] => task(&self.rt, point, output, [a, b, c, d].map(read), work),
            [a, b, c, d, e] => task(&self.rt, point, output, [a, b, c, d, e].map(read), work),
            ref many => {
                let inputs: Vec<Read<u64>> = many.iter().map(|column| read(*column)).collect();
                task(&self.rt, point, output, inputs, work)
            }
        }
    }
}

/// Submits the task of a timestep and column.
fn task<W, I>(
    rt: &Runtime,
    (step, column): (u64, u64),
    output: &Buffer<u64>,
    inputs: I,
    (work, uses): (W, W::Uses),
) -> Result<(), SubmitError>
where
    W: Work,
    I: Access,
    for<'d> I::Data<'d>: AsRef<[&'d [u64]]>,
{
    rt.spawn("task", (output.overwrite(), uses, inputs), move |(output, data, inputs)| {
        for input in inputs.as_ref() {
            if input[STEP] != step {
                return Err(format!("timestep {step} found an input of {}", input[STEP]));
            }
        }
        work.inspect(inputs.as_ref())?;
        output[RESULT] = work.run(data).to_bits();
        output[COLUMN] = column;
        output[STEP] = step + 1;
        Ok(())
    })?;
    Ok(())
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::failed(chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(workers: usize, pattern: Pattern, kernel: Kernel, width: usize) -> Graph {
        let rt = Runtime::builder().workers(workers).main_helps(true).window(100).build();
        Graph::new(rt.expect("a runtime"), pattern, kernel, width).expect("memory")
    }

    #[test]
    fn every_pattern_keeps_its_order() {
        for workers in [0, 1, 2, 4] {
            for (pattern, width) in Pattern::ALL.into_iter().flat_map(|p| [(p, 1), (p, 9)]) {
                let mut graph = graph(workers, pattern, Kernel::Compute, width);
                assert_eq!(graph.width(), width);
                // An odd number: the parities of the next run are the other way round.
                graph.check(33).expect("in order");
                graph.check(20).expect("in order again");
                graph.run(40, 3).expect("inputs are of the timestep before");
            }
        }
    }

    #[test]
    fn bodies_read_the_whole_working_set_in_turn() {
        let mut graph = graph(2, Pattern::Trivial, Kernel::Memory, 4);
        let iterations = (WORKING_SET / PIECE - 1) as u32;
        for (set, pieces) in graph.sets.iter().zip([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) {
            let mut set = set.acquire_mut().expect("nobody else has it");
            set.fill(0.0);
            // The first, the second and the last piece.
            let last = WORKING_SET / PIECE - 1;
            for (piece, value) in [0, 1, last].into_iter().zip(pieces) {
                set[piece * PIECE] = value;
            }
        }
        // Four columns share two sets: the first two tasks of each read all pieces but the last,
        // and all but the last but one, from the last on.
        graph.run(1, iterations).expect("it runs");
        let result = |column: usize| {
            let output = graph.cells[0][column].acquire().expect("the timestep's");
            assert_eq!([output[STEP], output[COLUMN]], [1, column as u64]);
            f64::from_bits(output[RESULT])
        };
        assert_eq!([result(0), result(1), result(2), result(3)], [3.0, 9.0, 6.0, 15.0]);
    }

    #[test]
    fn inputs_of_other_columns_are_told() {
        let stamps =
            Stamps { clock: AtomicU64::new(1), stamps: Vec::new(), repeated: AtomicUsize::new(0) };
        let stamp = Stamp { stamps: Arc::new(stamps), task: 0, before: vec![1, 2] };
        let [one, two] = [[5, 1, 0], [5, 2, 0]];
        assert_eq!(stamp.inspect(&[&one, &two]), Ok(()));
        for inputs in [&[&two[..], &one[..]][..], &[&one[..]], &[&one[..], &two[..], &two[..]]] {
            let error = stamp.inspect(inputs).expect_err("other columns");
            assert!(error.contains("not [1, 2]"), "{error}");
        }
    }

    #[test]
    fn a_wrong_input_is_told() {
        let mut graph = graph(2, Pattern::Trivial, Kernel::Compute, 3);
        // Column 2 reads itself, but in odd timesteps its cell is one that column 1 has in even
        // ones, and so has overwritten by then.
        graph.predecessors[1][2] = vec![2];
        graph.cells[1][2] = graph.cells[0][1];
        graph.run(2, 0).expect("right so far");
        let error = graph.run(3, 0).expect_err("a wrong graph").to_string();
        assert!(error.contains("timestep 4 found an input of 5"), "{error}");
    }

    #[test]
    fn faults_are_counted() {
        let graph = graph(0, Pattern::Stencil1d, Kernel::Compute, 2);
        assert_eq!(graph.faults(&[1, 2, 3, 4]), (0, 0));
        assert_eq!(graph.faults(&[1, 4, 3, 2]), (0, 2));
        assert_eq!(graph.faults(&[1, 2, 0, 4]).0, 1);
    }
}
