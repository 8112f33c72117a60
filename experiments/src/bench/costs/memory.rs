//! What a task and a handle weigh: the growth of a process that does nothing else.
//!
//! An allocator that has freed memory gives it out again, so each repetition has a process of
//! its own: this program, which prints the figure.

use std::hint::black_box;
use std::process::Command;

use super::rows::{Cost, Unit};
use super::{Sitting, failed, runtime};
use crate::failure::Failure;
use crate::machine::resident_bytes;
use crate::terminal;

/// How many tasks or handles there are.
const MANY: u32 = 1_000_000;
/// Handles that the tasks write in turn.
const HANDLES: u32 = 1024;

/// What is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// An unfinished task with four accesses and 64 captured bytes.
    Task,
    /// A registered handle.
    Handle,
}

impl Probe {
    pub(super) const ALL: [Probe; 2] = [Probe::Task, Probe::Handle];

    fn name(self) -> &'static str {
        match self {
            Probe::Task => "task.memory",
            Probe::Handle => "handle.memory",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        let unknown = || Failure::usage(format_args!("--probe {name}: there is no such probe"));
        Self::ALL.into_iter().find(|probe| probe.name() == name).ok_or_else(unknown)
    }

    fn cost(self) -> Cost {
        let (what, goal, bound) = match self {
            Probe::Task => (
                "memory of a waiting task, 4 accesses, 64 B captured",
                256.0,
                "a slot of 192 B, 12 B for each predecessor above three, 8 B in the handle's list \
                 for each read",
            ),
            Probe::Handle => (
                "memory of a registered handle",
                128.0,
                "the last writer, the epoch, the readers since, and those that commute: 48 B",
            ),
        };
        let aim = goal / 2.0;
        Cost { unit: Unit::Bytes, ..Cost::time(self.name(), what) }
            .goal(goal)
            .aim(aim)
            .bound(bound, None)
    }
}

/// Weighs everything.
pub(super) fn measure(sitting: &mut Sitting) -> Result<(), Failure> {
    for probe in Probe::ALL {
        sitting.add(probe.cost(), |sitting| (0..sitting.long()).map(|_| ask(probe)).collect())?;
    }
    Ok(())
}

/// Lets a process of its own weigh.
fn ask(probe: Probe) -> Result<f64, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let arguments = ["bench", "costs", "--probe", probe.name()];
    let output = Command::new(program).args(arguments).output().map_err(Failure::failed)?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().map_err(|_| {
        let error = String::from_utf8_lossy(&output.stderr);
        Failure::failed(format_args!("{}: {}", arguments.join(" "), error.trim()))
    })
}

/// Weighs in this process, and prints the bytes for each.
pub(super) fn probe(probe: Probe) -> Result<(), Failure> {
    let bytes = match probe {
        Probe::Task => tasks()?,
        Probe::Handle => handles()?,
    };
    let text = format!("{}\n", bytes as f64 / f64::from(MANY));
    terminal::write(|stdout| stdout.write_all(text.as_bytes()))
}

fn growth(before: Option<u64>) -> Result<u64, Failure> {
    let unknown = || Failure::failed("the system does not tell how much memory is resident");
    let (before, after) = before.zip(resident_bytes()).ok_or_else(unknown)?;
    Ok(after.saturating_sub(before))
}

fn tasks() -> Result<u64, Failure> {
    let rt = runtime(|builder| builder.workers(1).window(usize::MAX))?;
    let handles = rt.handles(HANDLES + 1).ok_or_else(no_handles)?;
    let gate = HANDLES as usize;
    let held = rt.acquire(handles.write(gate)).map_err(failed)?;
    let before = resident_bytes();
    for task in 0..MANY as usize {
        let at = |back: usize| (task + HANDLES as usize - back) % HANDLES as usize;
        let access =
            (handles.write(at(0)), handles.read(at(1)), handles.read(at(2)), handles.read(gate));
        let captured = [task as u64; 8];
        rt.spawn("task", access, move |_| _ = black_box(captured)).map_err(failed)?;
    }
    let bytes = growth(before)?;
    drop(held);
    rt.wait().map_err(failed)?;
    Ok(bytes)
}

fn handles() -> Result<u64, Failure> {
    let rt = runtime(|builder| builder.workers(0))?;
    let before = resident_bytes();
    for _ in 0..MANY {
        rt.register_handles(1).ok_or_else(no_handles)?;
    }
    growth(before)
}

pub(super) fn no_handles() -> Failure {
    Failure::failed("the runtime gives no further handles")
}
