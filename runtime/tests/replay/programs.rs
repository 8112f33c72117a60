//! Random programs of replays and other tasks are equal to their serial execution, also when
//! tasks fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_runtime::replay::{Parameter, RecordedGraph};
use millrace_runtime::scheduler::Schedule;
use millrace_runtime::{Builder, Mode, Runtime, WaitError};
use proptest::prelude::*;

use crate::block::{Block, Data, Numbers};
use crate::common::quiet_panics;

/// Blocks, and numbers in each; parameters of a graph.
const BLOCKS: usize = 4;
const NUMBERS: usize = 3;
const PARAMETERS: usize = 2;

/// A number: its block (or parameter), and its place there.
type At = (usize, usize);

/// A task, recorded or not: what it does to which numbers.
#[derive(Clone, Debug)]
struct Step {
    accesses: BTreeMap<At, Mode>,
    /// How many tasks before this one another stands that it comes after; of the same graph.
    after: Option<usize>,
    panics: bool,
    priority: i16,
}

/// What a program does next.
#[derive(Clone, Debug)]
enum Event {
    Task(Step),
    /// Replays a graph with its parameters bound to these blocks.
    Replay {
        graph: usize,
        blocks: Vec<usize>,
    },
    /// Drops a graph and records it anew.
    Renew {
        graph: usize,
    },
}

#[derive(Clone, Debug)]
struct Program {
    graphs: Vec<Vec<Step>>,
    events: Vec<Event>,
}

fn mix(state: u64, value: u64) -> u64 {
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn step(blocks: usize, failures: u32) -> impl Strategy<Value = Step> {
    let modes = prop_oneof![
        4 => Just(Mode::Read),
        2 => Just(Mode::Write),
        1 => Just(Mode::Overwrite),
    ];
    (
        prop::collection::btree_map((0..blocks, 0..NUMBERS), modes, 0..5),
        prop_oneof![4 => Just(None), 1 => (1usize..8).prop_map(Some)],
        prop::bool::weighted(f64::from(failures) / 100.0),
        prop_oneof![3 => Just(0i16), 1 => -2i16..3],
    )
        .prop_map(|(accesses, after, panics, priority)| Step {
            accesses,
            after,
            panics,
            priority,
        })
}

fn program(failures: u32) -> impl Strategy<Value = Program> {
    let blocks = Just((0..BLOCKS).collect::<Vec<_>>()).prop_shuffle();
    let event = prop_oneof![
        4 => step(BLOCKS, failures).prop_map(Event::Task),
        4 => (0usize..2, blocks).prop_map(|(graph, blocks)| Event::Replay { graph, blocks }),
        1 => (0usize..2).prop_map(|graph| Event::Renew { graph }),
    ];
    let graph = prop::collection::vec(step(PARAMETERS, failures), 0..20);
    (prop::collection::vec(graph, 2), prop::collection::vec(event, 1..60))
        .prop_map(|(graphs, events)| Program { graphs, events })
}

/// What a program leaves: the numbers (`None`: not valid), how many tasks of each event ran,
/// and the first failure: its event, and its place in the graph if it is a replay's.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    numbers: Vec<Option<u64>>,
    ran: Vec<u64>,
    first_failure: Option<(u32, Option<u16>)>,
}

/// What a task writes into a number, from what it reads in the order of its accesses.
fn result(read: impl Iterator<Item = u64>) -> u64 {
    read.fold(1, mix)
}

/// The meaning of a program.
fn serial(program: &Program) -> Outcome {
    let mut numbers = vec![Some(0u64); BLOCKS * NUMBERS];
    let mut outcome = Outcome::default();
    let mut tasks = Vec::new();
    for (event, what) in program.events.iter().enumerate() {
        let mut ran = 0;
        let mut run = |step: &Step, blocks: &[usize], before: Option<bool>, place: Option<u16>| {
            let at = |(block, number): &At| blocks[*block] * NUMBERS + number;
            let read = || step.accesses.iter().filter(|(_, mode)| **mode != Mode::Overwrite);
            let valid = read().all(|(at_, _)| numbers[at(at_)].is_some()) && before.unwrap_or(true);
            let well = valid && !step.panics;
            ran += u64::from(valid);
            if valid && step.panics && outcome.first_failure.is_none() {
                outcome.first_failure = Some((event as u32, place));
            }
            let state = result(read().filter_map(|(place, _)| numbers[at(place)]));
            for (place, _) in step.accesses.iter().filter(|(_, mode)| mode.writes()) {
                numbers[at(place)] = well.then(|| mix(state, place.1 as u64));
            }
            well
        };
        match what {
            Event::Task(step) => {
                let before = step.after.and_then(|back| tasks.len().checked_sub(back));
                let before = before.map(|before| tasks[before]);
                let well = run(step, &Vec::from_iter(0..BLOCKS), before, None);
                tasks.push(well);
            }
            Event::Replay { graph, blocks } => {
                let mut its = Vec::new();
                for (place, step) in program.graphs[*graph].iter().enumerate() {
                    let before = step.after.and_then(|back| its.len().checked_sub(back));
                    let before = before.map(|before| its[before]);
                    its.push(run(step, blocks, before, Some(place as u16)));
                }
            }
            Event::Renew { .. } => (),
        }
        outcome.ran.push(ran);
    }
    outcome.numbers = numbers;
    outcome
}

/// The places and modes of a step that a body gets as shared and as exclusive references.
fn split(step: &Step) -> (Vec<At>, Vec<(At, Mode)>) {
    let reads = step.accesses.iter().filter(|(_, mode)| !mode.writes()).map(|(at, _)| *at);
    let writes = step.accesses.iter().filter(|(_, mode)| mode.writes());
    (reads.collect(), writes.map(|(at, mode)| (*at, *mode)).collect())
}

/// What the body of a step does.
fn run(step: &Step, reads: &[&u64], writes: &mut [&mut u64]) {
    assert!(!step.panics, "task {step:?} was told to");
    let (read_places, write_places) = split(step);
    let mut values = BTreeMap::new();
    values.extend(read_places.iter().zip(reads).map(|(at, number)| (*at, **number)));
    for ((at, mode), number) in write_places.iter().zip(&*writes) {
        if *mode == Mode::Write {
            values.insert(*at, **number);
        }
    }
    let state = result(values.into_values());
    for ((at, _), number) in write_places.iter().zip(writes) {
        **number = mix(state, at.1 as u64);
    }
}

/// How many tasks of each graph, and then of each event, ran.
type Ran = Arc<Vec<AtomicU64>>;

struct Graph {
    graph: RecordedGraph,
    parameters: Vec<Parameter<Data>>,
}

fn record(rt: &Runtime, steps: &[Step], blocks: &[Block], ran: &Ran, graph: usize) -> Graph {
    let mut recording = rt.record();
    let bind = |block: &Block| recording.parameter(block.data()).expect("accepted");
    let parameters: Vec<_> = blocks[..PARAMETERS].iter().map(bind).collect();
    let mut tasks = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let (reads, writes) = split(step);
        let reads: Vec<_> = reads.iter().map(|(p, number)| parameters[*p].read(*number)).collect();
        let access = |((p, number), mode): &(At, Mode)| match mode {
            Mode::Overwrite => parameters[*p].overwrite(*number),
            _ => parameters[*p].write(*number),
        };
        let writes: Vec<_> = writes.iter().map(access).collect();
        let (step, ran) = (step.clone(), ran.clone());
        let before = step.after.and_then(|back| tasks.len().checked_sub(back));
        let mut task = recording.task("recorded").layer(place as u16).priority(step.priority);
        if let Some(before) = before {
            task = task.after(tasks[before]);
        }
        let body = move |(reads, mut writes): (Vec<&u64>, Vec<&mut u64>)| {
            ran[graph].fetch_add(1, Ordering::Relaxed);
            run(&step, &reads, &mut writes);
        };
        tasks.push(task.spawn((reads, writes), body).expect("no conflict"));
    }
    Graph { graph: recording.finish(), parameters }
}

fn parallel(builder: Builder, program: &Program) -> Outcome {
    let rt = builder.build().expect("a runtime");
    let blocks: Vec<_> = (0..BLOCKS).map(|_| Block::new(&rt, NUMBERS)).collect();
    let count = program.graphs.len() + program.events.len();
    let ran: Ran = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let record = |graph: usize| record(&rt, &program.graphs[graph], &blocks, &ran, graph);
    let mut graphs: Vec<_> = (0..program.graphs.len()).map(record).collect();
    let mut tasks = Vec::new();
    for (event, what) in program.events.iter().enumerate() {
        match what {
            Event::Task(step) => {
                let (reads, writes) = split(step);
                let reads: Vec<_> =
                    reads.iter().map(|(b, number)| blocks[*b].read(*number)).collect();
                let access = |((b, number), mode): &(At, Mode)| match mode {
                    Mode::Overwrite => blocks[*b].overwrite(*number),
                    _ => blocks[*b].write(*number),
                };
                let writes: Vec<_> = writes.iter().map(access).collect();
                let (step, ran) = (step.clone(), ran.clone());
                let place = program.graphs.len() + event;
                let before = step.after.and_then(|back| tasks.len().checked_sub(back));
                let mut task = rt.task("task").batch(event as u32).priority(step.priority);
                if let Some(before) = before {
                    task = task.after(tasks[before]);
                }
                let body = move |(reads, mut writes): (Vec<&u64>, Vec<&mut u64>)| {
                    ran[place].fetch_add(1, Ordering::Relaxed);
                    run(&step, &reads, &mut writes);
                };
                tasks.push(task.spawn((reads, writes), body).expect("no conflict"));
            }
            Event::Replay { graph, blocks: order } => {
                let Graph { graph, parameters } = &mut graphs[*graph];
                for (parameter, block) in parameters.iter().zip(order) {
                    graph.bind(parameter, blocks[*block].data()).expect("the same shape");
                }
                graph.set_batch(Some(event as u32));
                graph.replay().expect("accepted");
            }
            Event::Renew { graph } => graphs[*graph] = record(*graph),
        }
    }
    drop(graphs);
    let first_failure = match rt.wait() {
        Ok(()) => None,
        Err(WaitError::Failed { failure, .. }) => {
            let label = failure.label();
            label.batch.map(|event| (event, label.layer))
        }
        Err(other) => panic!("{other}"),
    };
    rt.wait().expect("a failure is reported once");
    let value = |block: &Block, number| match rt.acquire(block.read(number)) {
        Ok(mut held) => Some(*held.data()),
        Err(WaitError::Spoilt { .. }) => None,
        Err(other) => panic!("{other}"),
    };
    let numbers = blocks.iter().flat_map(|block| (0..NUMBERS).map(|n| value(block, n))).collect();
    let ran = ran.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    Outcome { numbers, ran, first_failure }
}

/// Counts runs as [`parallel`] does: replays by their graph.
fn by_graph(program: &Program, outcome: Outcome) -> Outcome {
    let mut ran = vec![0; program.graphs.len()];
    ran.resize(program.graphs.len() + program.events.len(), 0);
    for (event, what) in program.events.iter().enumerate() {
        let place = match what {
            Event::Replay { graph, .. } => *graph,
            _ => program.graphs.len() + event,
        };
        ran[place] += outcome.ran[event];
    }
    Outcome { ran, ..outcome }
}

fn compare(program: &Program, window: usize, scheduler: &str) {
    let expected = by_graph(program, serial(program));
    for workers in [0, 1, 2, 4, 16] {
        for helps in [false, true] {
            let schedule = scheduler.parse().expect("a scheduler");
            let builder = Runtime::builder().workers(workers).main_helps(helps);
            let outcome = parallel(builder.window(window).scheduler(schedule), program);
            assert_eq!(outcome, expected, "{workers} workers, {scheduler}, main helps: {helps}");
        }
    }
}

fn scheduler() -> impl Strategy<Value = &'static str> {
    // The default twice as often as each other.
    prop_oneof![Just("work-stealing"), prop::sample::select(&Schedule::NAMES)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn replays_and_tasks_equal_serial_execution(
        program in program(0),
        window in 1usize..100,
        scheduler in scheduler(),
    ) {
        compare(&program, window, scheduler);
    }

    #[test]
    fn failures_cancel_exactly_what_depends_on_them_in_replays_and_outside(
        program in program(6),
        scheduler in scheduler(),
    ) {
        quiet_panics();
        compare(&program, 4096, scheduler);
    }
}
