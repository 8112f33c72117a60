//! Traces made up by a small simulation of a training run.

use millrace_runtime::trace::{
    Cause, FORMAT, Lane, LaneKind, Mark, MarkKind, Span, SpanKind, Trace, VERSION,
};

/// Task kinds of a batch in order, each with the mean length of its body in nanoseconds.
const KINDS: [(&str, u64); 12] = [
    ("load", 90_000),
    ("conv2d.forward", 520_000),
    ("relu.forward", 70_000),
    ("maxpool.forward", 110_000),
    ("dense.forward", 160_000),
    ("softmax.loss", 30_000),
    ("dense.backward", 260_000),
    ("maxpool.backward", 120_000),
    ("relu.backward", 80_000),
    ("conv2d.backward", 900_000),
    ("conv2d.reduce", 50_000),
    ("sgd.update", 40_000),
];
const BARRIER: u32 = KINDS.len() as u32;
const LOADER: u32 = BARRIER + 1;
const NONE_READY: u32 = BARRIER + 2;
const DRAIN: u32 = BARRIER + 3;

/// A run to make up.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) title: String,
    pub(crate) workers: u32,
    pub(crate) batches: u32,
    pub(crate) batches_per_epoch: u32,
    /// Whether batches are separated by a barrier.
    pub(crate) barrier: bool,
    /// Whether a batch is loaded only when it is needed.
    pub(crate) late: bool,
}

impl Plan {
    pub(crate) fn new(title: &str, workers: u32, batches: u32) -> Self {
        let title = title.to_owned();
        Plan { title, workers, batches, batches_per_epoch: 50, barrier: true, late: true }
    }
}

/// Numbers that look random, the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound.max(1)
    }

    fn around(&mut self, mean: u64) -> u64 {
        mean * (75 + self.below(50)) / 100
    }
}

/// A trace without lanes and spans.
pub(crate) fn empty(title: &str) -> Trace {
    Trace {
        format: FORMAT.into(),
        version: VERSION,
        title: title.to_owned(),
        meta: Default::default(),
        origin: 0.0,
        lanes: Vec::new(),
        names: Vec::new(),
        spans: Vec::new(),
        marks: Vec::new(),
        dropped: 0,
        keep: Default::default(),
    }
}

pub(crate) fn lanes(workers: u32) -> Vec<Lane> {
    let main = Lane { name: "main".into(), kind: LaneKind::Main, dropped: 0 };
    let worker = |i| Lane { name: format!("worker {i}"), kind: LaneKind::Worker, dropped: 0 };
    std::iter::once(main).chain((0..workers).map(worker)).collect()
}

pub(crate) fn span(
    lane: u32,
    kind: SpanKind,
    name: u32,
    cause: Cause,
    (start, end): (u64, u64),
) -> Span {
    let (batch, layer, shard, sequence) = (None, None, None, None);
    Span { lane, kind, name, start, end, cause, batch, layer, shard, sequence }
}

/// A trace in which `workers` lanes alternate `spans` times in all between tasks and sleep.
pub(crate) fn dense(workers: u32, spans: usize) -> Trace {
    let mut trace = empty("dense");
    trace.lanes = lanes(workers);
    trace.names = KINDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut random = Random(9);
    for lane in 1..=workers {
        let mut now = 0;
        for index in 0..spans / workers as usize {
            let end = now + 200 + random.below(20_000);
            let name = random.below(KINDS.len() as u64) as u32;
            let sleeps = index % 4 == 3;
            let (kind, cause) = if sleeps {
                (SpanKind::Idle, Cause::ALL[random.below(6) as usize])
            } else {
                (SpanKind::Task, Cause::None)
            };
            trace.spans.push(span(lane, kind, name, cause, (now, end)));
            now = end + random.below(900);
        }
    }
    trace
}

/// Simulates a run.
pub(crate) fn simulate(plan: &Plan) -> Trace {
    let mut trace = empty(&plan.title);
    for (key, value) in [
        ("workers", plan.workers.to_string()),
        ("batch size", "64".to_owned()),
        ("batches", plan.batches.to_string()),
        ("data set", "Fashion-MNIST".to_owned()),
    ] {
        trace.meta.insert(key.to_owned(), value);
    }
    trace.lanes = lanes(plan.workers);
    trace.names = KINDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let waits = ["arena batch", "next batch", "no ready task", "wait"];
    trace.names.extend(waits.map(str::to_owned));
    Simulation {
        random: Random(plan.title.len() as u64 * 77 + u64::from(plan.batches)),
        free: vec![60_000; plan.workers as usize],
        trace,
    }
    .run(plan)
}

struct Simulation {
    random: Random,
    /// When each worker becomes free.
    free: Vec<u64>,
    trace: Trace,
}

impl Simulation {
    fn run(mut self, plan: &Plan) -> Trace {
        let mut main = 20_000;
        for batch in 0..plan.batches {
            let begin =
                if plan.barrier { main } else { main.max(self.least().saturating_sub(900_000)) };
            if begin > main {
                self.push(0, SpanKind::Wait, BARRIER, Cause::Barrier, (main + 4000, begin), batch);
                main = begin;
            }
            self.trace.marks.push(Mark { time: main, kind: MarkKind::Batch, index: batch });
            if batch % plan.batches_per_epoch == 0 {
                let index = batch / plan.batches_per_epoch;
                self.trace.marks.push(Mark { time: main, kind: MarkKind::Epoch, index });
            }
            self.batch(plan, batch, main);
            main += self.random.around(300_000);
            if plan.barrier {
                let until = self.free.iter().copied().max().unwrap_or(main).max(main + 1);
                self.push(0, SpanKind::Wait, BARRIER, Cause::Barrier, (main, until), batch);
                main = until + self.random.around(120_000);
            }
        }
        let end = self.free.iter().copied().max().unwrap_or(main).max(main + 1);
        self.push(0, SpanKind::Wait, DRAIN, Cause::Drain, (main, end), plan.batches);
        self.trace.spans.sort_by_key(|span| (span.lane, span.start));
        self.trace
    }

    fn least(&self) -> u64 {
        self.free.iter().copied().min().unwrap_or(0)
    }

    fn batch(&mut self, plan: &Plan, batch: u32, start: u64) {
        let mut ready = start + 30_000;
        for (name, (kind, mean)) in KINDS.iter().enumerate() {
            let shards = if kind.contains("reduce") || kind.contains("update") {
                1
            } else {
                2 * plan.workers as usize
            };
            let mut done = ready;
            for shard in 0..shards {
                let worker = (shard + batch as usize) % self.free.len();
                let cause = match (name, plan.barrier, plan.late) {
                    (0, true, _) => (BARRIER, Cause::Barrier),
                    (1, _, true) => (LOADER, Cause::Loader),
                    _ => (NONE_READY, Cause::NoReadyTask),
                };
                done = done.max(self.task(worker, ready, (name as u32, *mean), cause, batch));
            }
            // Without a barrier the shards of the next layer start as soon as theirs are done.
            if plan.barrier || shards == 1 {
                ready = done + 3000;
            }
        }
    }

    fn task(
        &mut self,
        worker: usize,
        ready: u64,
        (name, mean): (u32, u64),
        (why, cause): (u32, Cause),
        batch: u32,
    ) -> u64 {
        let lane = worker as u32 + 1;
        let mut now = self.free[worker];
        if ready > now + 12_000 {
            self.push(lane, SpanKind::Idle, why, cause, (now + 2000, ready), batch);
            now = ready;
        }
        let start = now.max(ready) + self.random.around(3000);
        let end = start + self.random.around(mean);
        self.push(lane, SpanKind::Task, name, Cause::None, (start, end), batch);
        self.free[worker] = end;
        end
    }

    fn push(
        &mut self,
        lane: u32,
        kind: SpanKind,
        name: u32,
        cause: Cause,
        times: (u64, u64),
        batch: u32,
    ) {
        let batch = (kind == SpanKind::Task).then_some(batch);
        self.trace.spans.push(Span { batch, ..span(lane, kind, name, cause, times) });
    }
}
