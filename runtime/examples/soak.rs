//! Many tasks for as long as it takes: `cargo run --release -p millrace-runtime --example soak --
//! 100000000`.
//!
//! Rounds of about 98,000 tasks run on one runtime: chains, fans, tasks with children, replays of a
//! recorded graph, a task that panics and those that depend on it, tasks that are cancelled; each
//! round registers handles and releases them. After each round every task has run or been
//! cancelled exactly once, the sums are those of serial execution, and after each tenth of the
//! tasks the resident memory is printed. The exit code is 1 if a task was lost, ran twice or out
//! of order, or if memory grew: it goes up and down by some MiB, so what counts is its least
//! reading in the last four tenths, against that in the four before. The first two fill tables
//! whose size is bounded.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use millrace_runtime::replay::RecordedGraph;
use millrace_runtime::{Handles, Label, Runtime, WaitError};

/// Handles of the chains, and tasks of a round in them.
const CHAINS: usize = 64;
const LINKS: u64 = 60_000;
/// Fans of a round, and their readers.
const FANS: u64 = 300;
const READERS: u64 = 32;
/// Tasks with children, and how many each has.
const PARENTS: u64 = 500;
const CHILDREN: u64 = 10;
/// Replays of a round, and tasks of the recorded graph.
const REPLAYS: u64 = 100;
const RECORDED: u64 = 200;
/// Tasks that depend on one that panics.
const DEPENDENTS: u64 = 100;
/// Tasks that are cancelled by their label.
const UNWANTED: u64 = 1000;

/// Tasks of a round that run, and that are cancelled.
const RUN: u64 = LINKS + FANS * (1 + READERS) + PARENTS * (1 + CHILDREN) + REPLAYS * RECORDED + 1;
const CANCELLED: u64 = DEPENDENTS + UNWANTED;

/// How much more the least reading of the last tenths may be, in KiB: what the allocator may keep.
const SLACK: u64 = 6 << 10;

fn main() -> ExitCode {
    let tasks = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse::<u64>());
    let Ok(tasks) = tasks else {
        eprintln!("usage: soak [TASKS]");
        return ExitCode::from(2);
    };
    // One panic of each round is wanted.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&"wanted") {
            hook(info);
        }
    }));
    match soak(tasks) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(tasks: u64) -> Result<(), Box<dyn Error>> {
    let rt = Runtime::builder().main_helps(true).timing(false).build()?;
    let mut graph = Graph::new(&rt)?;
    let (rounds, start) = (tasks.div_ceil(RUN + CANCELLED).max(10), Instant::now());
    let mut readings = Vec::new();
    for round in 1..=rounds {
        run_round(&rt, &mut graph, round).map_err(|error| format!("round {round}: {error}"))?;
        if round * 10 / rounds > (round - 1) * 10 / rounds {
            let (done, seconds) = (round * (RUN + CANCELLED), start.elapsed().as_secs_f64());
            let per_task = seconds * 1e9 / done as f64;
            let memory = resident();
            let told = memory.map_or("unknown".to_owned(), |kib| format!("{kib} KiB"));
            println!("{done:>12} tasks, {seconds:7.1} s, {per_task:5.0} ns per task, {told}");
            readings.extend(memory);
        }
    }
    if let [_, _, before @ .., a, b, c, d] = &readings[..]
        && let (Some(before), Some(last)) = (before.iter().min(), [a, b, c, d].into_iter().min())
        && *last > before + SLACK
    {
        return Err(format!("memory has grown from {before} to {last} KiB").into());
    }
    let statistics = rt.statistics();
    let all = statistics.workers.iter().chain([&statistics.inline]);
    let ended = all.fold((0, 0), |(ran, cancelled), worker| {
        (ran + worker.tasks, cancelled + worker.cancelled)
    });
    same(
        "tasks",
        (statistics.submitted, ended),
        (rounds * (RUN + CANCELLED), (rounds * RUN, rounds * CANCELLED)),
    )
}

/// Resident memory in KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    wanted: T,
) -> Result<(), Box<dyn Error>> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {wanted:?}").into())
}

/// A step of a calculation whose result depends on the order of the steps.
fn mix(state: u64, value: u64) -> u64 {
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Numbers that only tasks touch which the runtime puts in order: they are read and written in
/// two steps, so that what runs at once, or in another order, leaves something else.
fn numbers(count: usize) -> Arc<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn step(number: &AtomicU64, value: u64) {
    number.store(mix(number.load(Relaxed), value), Relaxed);
}

/// A recorded graph of chains.
struct Graph {
    graph: RecordedGraph,
    /// They are the graph's for as long as it lives.
    _handles: Handles,
    numbers: Arc<[AtomicU64]>,
    wanted: Vec<u64>,
}

impl Graph {
    fn new(rt: &Runtime) -> Result<Self, Box<dyn Error>> {
        let handles = rt.handles(CHAINS as u32).ok_or("no handles")?;
        let numbers = numbers(CHAINS);
        let mut recording = rt.record();
        let data = recording.parameter(handles.block())?;
        for task in 0..RECORDED {
            let (numbers, place) = (numbers.clone(), task as usize % CHAINS);
            recording
                .spawn("recorded", data.write(place), move |()| step(&numbers[place], task))?;
        }
        let graph = recording.finish();
        Ok(Graph { graph, _handles: handles, numbers, wanted: vec![0; CHAINS] })
    }

    fn replay(&mut self) -> Result<(), Box<dyn Error>> {
        self.graph.replay()?;
        for task in 0..RECORDED {
            let wanted = &mut self.wanted[task as usize % CHAINS];
            *wanted = mix(*wanted, task);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Box<dyn Error>> {
        let found: Vec<u64> = self.numbers.iter().map(|number| number.load(Relaxed)).collect();
        same("replays", &found, &self.wanted)
    }
}

fn run_round(rt: &Runtime, graph: &mut Graph, round: u64) -> Result<(), Box<dyn Error>> {
    let links = chains(rt, round)?;
    let fans = fans(rt)?;
    let children = parents(rt)?;
    for _ in 0..REPLAYS {
        graph.replay()?;
    }
    rt.wait()?;
    let mut wanted = vec![0; CHAINS];
    (0..LINKS).for_each(|task| {
        let number = &mut wanted[task as usize % CHAINS];
        *number = mix(*number, task ^ round);
    });
    let found: Vec<u64> = links.iter().map(|number| number.load(Relaxed)).collect();
    same("chains", &found, &wanted)?;
    same("fans", fans.load(Relaxed), READERS * FANS * (FANS + 1) / 2)?;
    same("children", children.load(Relaxed), PARENTS * (1 + CHILDREN))?;
    graph.check()?;
    failure(rt)?;
    cancellation(rt, round as u32)
}

fn chains(rt: &Runtime, round: u64) -> Result<Arc<[AtomicU64]>, Box<dyn Error>> {
    let handles = rt.handles(CHAINS as u32).ok_or("no handles")?;
    let numbers = numbers(CHAINS);
    for task in 0..LINKS {
        let (place, numbers) = (task as usize % CHAINS, numbers.clone());
        rt.spawn("link", handles.write(place), move |()| step(&numbers[place], task ^ round))?;
    }
    Ok(numbers)
}

/// Each reader adds what the writer before it has made of the number.
fn fans(rt: &Runtime) -> Result<Arc<AtomicU64>, Box<dyn Error>> {
    let handle = rt.handles(1).ok_or("no handles")?;
    let (number, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for _ in 0..FANS {
        let written = number.clone();
        rt.spawn("writer", handle.write(0), move |()| {
            written.store(written.load(Relaxed) + 1, Relaxed);
        })?;
        for _ in 0..READERS {
            let (number, sum) = (number.clone(), sum.clone());
            rt.spawn("reader", handle.read(0), move |()| {
                sum.fetch_add(number.load(Relaxed), Relaxed);
            })?;
        }
    }
    Ok(sum)
}

fn parents(rt: &Runtime) -> Result<Arc<AtomicU64>, Box<dyn Error>> {
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..PARENTS {
        let (inner, count) = (rt.clone(), count.clone());
        rt.spawn("parent", (), move |()| {
            for _ in 0..CHILDREN {
                let count = count.clone();
                let add = move |()| _ = count.fetch_add(1, Relaxed);
                inner.task("child").child().spawn((), add)?;
            }
            count.fetch_add(1, Relaxed);
            Ok::<(), millrace_runtime::SubmitError>(())
        })?;
    }
    Ok(count)
}

/// A task that panics; those that depend on it are cancelled, and it is told once.
fn failure(rt: &Runtime) -> Result<(), Box<dyn Error>> {
    let handle = rt.handles(1).ok_or("no handles")?;
    let ran = Arc::new(AtomicU64::new(0));
    fn panics((): ()) {
        panic!("wanted");
    }
    rt.spawn("panics", handle.write(0), panics)?;
    for _ in 0..DEPENDENTS {
        let ran = ran.clone();
        rt.spawn("dependent", handle.read(0), move |()| _ = ran.fetch_add(1, Relaxed))?;
    }
    match rt.wait() {
        Err(WaitError::Failed { others: 0, cancelled: DEPENDENTS, .. }) => {}
        other => return Err(format!("after a panic: {other:?}").into()),
    }
    same("dependents", ran.load(Relaxed), 0)
}

/// Tasks that cannot begin, and are cancelled by their label.
fn cancellation(rt: &Runtime, batch: u32) -> Result<(), Box<dyn Error>> {
    let handle = rt.handles(1).ok_or("no handles")?;
    let ran = Arc::new(AtomicU64::new(0));
    let held = rt.acquire(handle.write(0))?;
    for _ in 0..UNWANTED {
        let ran = ran.clone();
        let body = move |()| _ = ran.fetch_add(1, Relaxed);
        rt.task("unwanted").batch(batch).spawn(handle.read(0), body)?;
    }
    rt.cancel_label(Label::batch(batch));
    drop(held);
    match rt.wait() {
        Err(WaitError::Cancelled) => {}
        other => return Err(format!("after a cancellation: {other:?}").into()),
    }
    same("unwanted tasks", ran.load(Relaxed), 0)
}
