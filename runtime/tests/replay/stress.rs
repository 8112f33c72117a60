//! Many replays of several graphs from several threads, on pools of all sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_runtime::Runtime;
use millrace_runtime::replay::{Parameter, RecordedGraph};

use crate::block::{Block, Data, Numbers};

const WIDTH: usize = 8;
const STEPS: usize = 6;
const ROUNDS: u64 = 60;

fn around(place: usize) -> [usize; 3] {
    [place.saturating_sub(1), place, (place + 1).min(WIDTH - 1)]
}

/// A stencil: each number is the sum of its neighbours, several times, in two blocks in turn.
fn stencil(rt: &Runtime, blocks: &[Block; 2]) -> (RecordedGraph, [Parameter<Data>; 2]) {
    let mut recording = rt.record();
    let data = blocks.each_ref().map(|block| recording.parameter(block.data()).expect("accepted"));
    for step in 0..STEPS {
        let (from, to) = (data[step % 2], data[(step + 1) % 2]);
        for place in 0..WIDTH {
            let reads: Vec<_> = around(place).iter().map(|place| from.read(*place)).collect();
            let body = |(reads, to): (Vec<&u64>, &mut u64)| {
                *to = reads.into_iter().fold(1, |sum, number| sum.wrapping_add(*number));
            };
            recording.spawn("sum", (reads, to.overwrite(place)), body).expect("recorded");
        }
    }
    (recording.finish(), data)
}

fn serial(numbers: &mut [u64; WIDTH]) {
    for _ in 0..STEPS {
        let before = *numbers;
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = around(place).iter().fold(1, |sum, place| sum.wrapping_add(before[*place]));
        }
    }
}

/// One thread's part: replays on three pairs of blocks in turn, with tasks in between.
fn submit(rt: &Runtime, seed: u64, others: &AtomicU64) {
    let pairs: [[Block; 2]; 3] = [0; 3].map(|_| [0; 2].map(|_| Block::new(rt, WIDTH)));
    let (mut graph, data) = stencil(rt, &pairs[0]);
    let mut expected = [[0; WIDTH]; 3];
    for round in 0..ROUNDS {
        let pair = ((round * seed) % 3) as usize;
        for (data, block) in data.iter().zip(&pairs[pair]) {
            graph.bind(data, block.data()).expect("the same shape");
        }
        let place = (round * seed % WIDTH as u64) as usize;
        let set = move |number: &mut u64| *number ^= round;
        rt.spawn("set", pairs[pair][0].write(place), set).expect("accepted");
        expected[pair][place] ^= round;
        let replay = graph.replay().expect("accepted");
        serial(&mut expected[pair]);
        if round % 16 == seed % 16 {
            replay.wait().expect("nothing failed");
            assert!(replay.has_ended());
        }
        if round % 29 == 28 {
            // From here on another recording of the same, while replays of this one go on.
            graph = stencil(rt, &pairs[0]).0;
            others.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    drop(graph);
    for (pair, expected) in pairs.iter().zip(&expected) {
        for (place, expected) in expected.iter().enumerate() {
            assert_eq!(pair[0].value(place), *expected);
        }
    }
}

#[test]
fn replays_from_several_threads_on_pools_of_all_sizes() {
    for workers in [1, 2, 3, 4, 8, 16] {
        for helps in [false, true] {
            let builder = Runtime::builder().workers(workers).main_helps(helps);
            let rt = builder.window(if helps { 64 } else { 4096 }).build().expect("a runtime");
            let others = Arc::new(AtomicU64::new(0));
            std::thread::scope(|scope| {
                for seed in 1..=3 {
                    let (rt, others) = (&rt, &others);
                    scope.spawn(move || submit(rt, seed, others));
                }
            });
            rt.wait().expect("nothing failed");
            assert_eq!(others.load(Ordering::Relaxed), 3);
        }
    }
}

/// Thousands of tasks that wait for nothing, and one that waits for all, again and again.
#[test]
fn wide_graphs_run_each_task_once_per_replay() {
    for workers in [1, 4, 16] {
        let rt = Runtime::builder().workers(workers).build().expect("a runtime");
        let ran = Arc::new(AtomicU64::new(0));
        let block = Block::new(&rt, 1000);
        let mut recording = rt.record();
        let data = recording.parameter(block.data()).expect("accepted");
        for place in 0..1000 {
            recording.spawn("adds", data.write(place), |number| *number += 1).expect("recorded");
        }
        let all: Vec<_> = (0..1000).map(|place| data.read(place)).collect();
        let total = ran.clone();
        let body = move |numbers: Vec<&u64>| {
            assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "all have run as often");
            total.fetch_add(*numbers[0], Ordering::SeqCst);
        };
        recording.spawn("all", all, body).expect("recorded");
        let mut graph = recording.finish();
        assert_eq!(graph.edges(), 1000);
        (0..50).for_each(|_| _ = graph.replay().expect("accepted"));
        rt.wait().expect("nothing failed");
        assert_eq!(ran.load(Ordering::SeqCst), (1..=50).sum::<u64>());
    }
}
