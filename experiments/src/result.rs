//! What one run gives, and the row of it in every table.

use std::collections::BTreeMap;

use millrace_runtime::trace::Cause;
use millrace_runtime::{Durations, Statistics};
use serde::{Deserialize, Serialize};

use crate::combination::Combination;
use crate::counters::{CounterReport, Event};
use crate::energy::EnergyReport;
use crate::machine::Machine;
use crate::options::{BatchRange, Settings};
use crate::reading::Reading;

/// Everything known about one finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// What was run.
    pub combination: Combination,
    /// With which parameters.
    pub settings: Settings,
    /// Where.
    pub machine: Machine,
    /// Name of the data set.
    pub dataset: String,
    /// Seconds of training, without loading the data set and without the test.
    pub seconds: f64,
    /// Samples trained on, over all epochs.
    pub images: u64,
    /// Loss and accuracy during each epoch.
    pub epochs: Vec<EpochResult>,
    /// Share of the test samples that the trained network gets right.
    pub test_accuracy: f64,
    /// Test samples.
    pub test_samples: usize,
    /// Where the time went.
    pub time: TimeReport,
    /// What the arenas used.
    pub arenas: Vec<ArenaReport>,
    /// Most memory of the process, in bytes.
    pub peak_resident: Reading<u64>,
    /// What was counted.
    pub counters: CounterReport,
    /// Energy spent.
    pub energy: EnergyReport,
    /// Batches in the trace, where one was written.
    pub traced: Option<BatchRange>,
}

/// Means over the batches of one epoch, each before its update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochResult {
    /// Mean loss; a training that diverges has none.
    pub loss: Reading<f64>,
    /// Share of the samples that the network got right.
    pub accuracy: f64,
}

/// Where the time of the threads went while the network was trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeReport {
    /// What the main thread waited for.
    pub main_waits: Vec<WaitTime>,
    /// Seconds for which workers were idle, per cause, summed over the workers.
    pub worker_idle: Vec<CauseTime>,
    /// Seconds of that in which they were awake and looked for tasks, summed over the workers.
    pub worker_looking: f64,
    /// Seconds of that in which they slept, summed over the workers.
    pub worker_sleeping: f64,
    /// How often they fell asleep.
    pub worker_sleeps: u64,
    /// Seconds for which workers ran bodies, summed over the workers.
    pub worker_busy: f64,
    /// Seconds for which the main thread ran bodies: all of them where there is no worker.
    pub main_busy: f64,
    /// Number of workers.
    pub workers: usize,
    /// Tasks that were run.
    pub tasks: u64,
    /// The same by kind of task, in the order of their names.
    pub kinds: Vec<KindTime>,
}

/// What the tasks of one name did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindTime {
    /// Their name: `conv.forward`, ...
    pub name: String,
    /// How often a body ran, and for how long.
    pub body: Spread,
    /// How often and how long a task that was ready waited for a worker.
    pub delay: Spread,
    /// Bytes of memory that the tasks declared, each access by itself.
    pub bytes: u64,
}

/// How long something took, over many times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How often.
    pub count: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Mean in seconds.
    pub mean: f64,
    /// Median in seconds.
    pub median: f64,
    /// Seconds that 99% did not exceed.
    pub p99: f64,
}

impl Spread {
    fn new(durations: &Durations) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Spread {
            count: durations.count(),
            seconds: seconds(durations.total_ns()),
            mean: seconds(durations.mean_ns()),
            median: seconds(durations.median_ns()),
            p99: seconds(durations.p99_ns()),
        }
    }
}

/// How often and how long the main thread waited for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitTime {
    /// Why.
    pub cause: Cause,
    /// For what: `arena batch`, ...
    pub name: String,
    /// How often.
    pub count: u64,
    /// For how long in all.
    pub seconds: f64,
}

/// Seconds that one cause took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CauseTime {
    /// Why a thread waited.
    pub cause: Cause,
    /// For how long.
    pub seconds: f64,
}

/// Memory that one arena used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaReport {
    /// Its name: `weights`, `batch`, ...
    pub name: String,
    /// Slots of its ring.
    pub depth: usize,
    /// The most bytes that were ever handed out in all its slots.
    pub peak_bytes: u64,
    /// The most bytes that one generation took.
    pub generation_bytes: u64,
    /// Chunks at the end.
    pub chunks: usize,
    /// Chunks that it allocated after the first epoch, or after the first half of a run of one
    /// epoch; 0 once the memory has settled.
    pub late_chunks: usize,
    /// Times that somebody waited for its memory.
    pub waits: u64,
    /// Seconds that these waits took together.
    pub wait_seconds: f64,
}

impl TimeReport {
    /// What the runtime counted over the training.
    pub fn new(statistics: &Statistics) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let workers = &statistics.workers;
        let idle = |cause| {
            let ns = workers.iter().filter_map(|worker| worker.idle_ns.get(&cause)).sum();
            CauseTime { cause, seconds: seconds(ns) }
        };
        let waits = statistics.waits.iter().map(|((cause, name), total)| WaitTime {
            cause: *cause,
            name: name.clone(),
            count: total.count,
            seconds: seconds(total.ns),
        });
        let kinds = statistics.kinds.iter().map(|(name, kind)| KindTime {
            name: name.clone(),
            body: Spread::new(&kind.body),
            delay: Spread::new(&kind.delay),
            bytes: kind.bytes,
        });
        TimeReport {
            main_waits: waits.collect(),
            worker_idle: Cause::ALL.into_iter().map(idle).collect(),
            worker_looking: seconds(workers.iter().map(|worker| worker.looking_ns).sum()),
            worker_sleeping: seconds(workers.iter().map(|worker| worker.sleeping_ns).sum()),
            worker_sleeps: workers.iter().map(|worker| worker.sleeps).sum(),
            worker_busy: seconds(workers.iter().map(|worker| worker.busy_ns).sum()),
            main_busy: seconds(statistics.inline.busy_ns),
            workers: workers.len(),
            tasks: workers.iter().map(|worker| worker.tasks).sum::<u64>() + statistics.inline.tasks,
            kinds: kinds.collect(),
        }
    }

    /// Seconds for which the main thread waited because of `cause`.
    pub fn main_wait(&self, cause: Cause) -> f64 {
        let waits = self.main_waits.iter().filter(|wait| wait.cause == cause);
        sum(waits.map(|wait| wait.seconds))
    }

    /// Share of the workers' time for which they were idle because of `cause`, in a run of
    /// `seconds`.
    pub fn idle_share(&self, cause: Cause, seconds: f64) -> Reading<f64> {
        let idle = self.worker_idle.iter().filter(|time| time.cause == cause);
        self.worker_share(sum(idle.map(|time| time.seconds)), seconds)
    }

    /// Share of the workers' time for which they ran bodies, in a run of `seconds`.
    pub fn busy_share(&self, seconds: f64) -> Reading<f64> {
        self.worker_share(self.worker_busy, seconds)
    }

    /// Share of the workers' time that is neither spent in bodies nor idle: the runtime's own
    /// work between tasks, and time that the system gave to other threads meanwhile.
    pub fn scheduling_share(&self, seconds: f64) -> Reading<f64> {
        let idle = sum(self.worker_idle.iter().map(|idle| idle.seconds));
        let all = seconds * self.workers as f64;
        self.worker_share((all - self.worker_busy - idle).max(0.0), seconds)
    }

    fn worker_share(&self, part: f64, seconds: f64) -> Reading<f64> {
        match self.workers {
            0 => Reading::unavailable("there is no worker: tasks ran where they were submitted"),
            workers => Reading::finite(part / (seconds * workers as f64)),
        }
    }
}

/// Like `Iterator::sum`, which gives -0 for nothing.
fn sum(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(0.0, |total, seconds| total + seconds)
}

impl RunResult {
    /// Samples per second of training.
    pub fn images_per_second(&self) -> Reading<f64> {
        Reading::finite(self.images as f64 / self.seconds)
    }

    /// Sum of the peaks of all arenas, in bytes.
    pub fn peak_arena_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.peak_bytes).sum()
    }

    /// Chunks that any arena allocated after its memory should have settled.
    pub fn late_chunks(&self) -> usize {
        self.arenas.iter().map(|arena| arena.late_chunks).sum()
    }

    /// Share of the run for which the main thread waited because of `cause`.
    pub fn wait_share(&self, cause: Cause) -> Reading<f64> {
        Reading::finite(self.time.main_wait(cause) / self.seconds)
    }

    /// Misses per load of the last-level cache, over the workers.
    pub fn llc_load_miss_ratio(&self) -> Reading<f64> {
        self.counters.workers.ratio(Event::LlcLoadMisses, Event::LlcLoads)
    }

    /// Misses per store of the last-level cache, over the workers.
    pub fn llc_store_miss_ratio(&self) -> Reading<f64> {
        self.counters.workers.ratio(Event::LlcStoreMisses, Event::LlcStores)
    }

    /// The last epoch's means.
    pub fn last_epoch(&self) -> Option<&EpochResult> {
        self.epochs.last()
    }
}

/// A run, as a row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name in tables: the combination, and what else is varied.
    pub label: String,
    /// The same for names of files.
    pub stem: String,
    /// Batch arena and batch loader.
    pub combination: Combination,
    /// The level of each factor of an experiment.
    pub levels: BTreeMap<String, String>,
    /// Which run of the same it is, from 1.
    pub repetition: u32,
    /// How that went.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It came to its end.
    Finished {
        /// What it gave.
        result: Box<RunResult>,
    },
    /// It stopped before its end.
    Failed {
        /// Why.
        reason: String,
    },
    /// The user stopped it.
    Stopped,
    /// It has not begun.
    NotRun,
}

impl Row {
    /// The row of a run that belongs to no experiment.
    pub fn single(combination: Combination, outcome: Outcome) -> Self {
        Row {
            label: combination.to_string(),
            stem: combination.file_name(),
            combination,
            levels: BTreeMap::new(),
            repetition: 1,
            outcome,
        }
    }

    /// The result, where the run was finished.
    pub fn result(&self) -> Option<&RunResult> {
        match &self.outcome {
            Outcome::Finished { result } => Some(result),
            _ => None,
        }
    }

    /// Why there is no result.
    pub fn missing(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Finished { .. } => None,
            Outcome::Failed { reason } => Some(format!("failed: {reason}")),
            Outcome::Stopped => Some("stopped by the user".to_owned()),
            Outcome::NotRun => Some("not run".to_owned()),
        }
    }
}

/// A made-up result for the tests of everything that shows results.
#[cfg(test)]
pub(crate) fn example(combination: Combination) -> RunResult {
    use clap::Parser;

    let cli = crate::options::SingleCli::parse_from(["x", "--epochs", "2", "--workers", "2"]);
    let absent = "perf_event_open: No such file or directory (os error 2)";
    let mut counts = crate::counters::Counts::unavailable(absent);
    for count in &mut counts.counts {
        if count.event == Event::TaskClock {
            count.reading = Reading::Measured { value: 3_000_000_000 };
            count.group = Some(100);
        }
    }
    let spread = |count, mean| Spread {
        count,
        seconds: count as f64 * mean,
        mean,
        median: mean,
        p99: 2.0 * mean,
    };
    RunResult {
        combination,
        settings: Settings::check(&cli.run, 600, |_| 2).expect("valid"),
        machine: Machine::describe(),
        dataset: "example".to_owned(),
        seconds: 2.0,
        images: 1200,
        epochs: vec![
            EpochResult { loss: Reading::finite(2.25), accuracy: 0.125 },
            EpochResult { loss: Reading::finite(f64::NAN), accuracy: 0.5 },
        ],
        test_accuracy: 0.625,
        test_samples: 1000,
        time: TimeReport {
            main_waits: vec![WaitTime {
                cause: Cause::Barrier,
                name: "arena batch".to_owned(),
                count: 120,
                seconds: 0.5,
            }],
            worker_idle: vec![CauseTime { cause: Cause::Barrier, seconds: 1.0 }],
            worker_looking: 0.25,
            worker_sleeping: 0.75,
            worker_sleeps: 120,
            worker_busy: 2.5,
            main_busy: 0.0,
            workers: 2,
            tasks: 4321,
            kinds: vec![KindTime {
                name: "conv.forward".to_owned(),
                body: spread(480, 2e-3),
                delay: spread(480, 1e-5),
                bytes: 5 << 20,
            }],
        },
        arenas: vec![ArenaReport {
            name: "batch".to_owned(),
            depth: 1,
            peak_bytes: 3 << 20,
            generation_bytes: 3 << 20,
            chunks: 1,
            late_chunks: 0,
            waits: 120,
            wait_seconds: 0.5,
        }],
        peak_resident: Reading::Measured { value: 50 << 20 },
        counters: CounterReport {
            threads: vec![("worker 0".to_owned(), counts.clone())],
            workers: counts,
        },
        energy: EnergyReport {
            packages: Reading::unavailable("/sys/class/powercap: No such file or directory"),
            domains: Vec::new(),
        },
        traced: Some(BatchRange { first: 60, end: 120 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_json() {
        let combination = Combination::ALL[3];
        for outcome in [
            Outcome::Finished { result: Box::new(example(combination)) },
            Outcome::Failed { reason: "killed".to_owned() },
            Outcome::Stopped,
            Outcome::NotRun,
        ] {
            let row = Row::single(combination, outcome);
            let text = serde_json::to_string(&row).expect("plain data");
            assert_eq!(serde_json::from_str::<Row>(&text).expect("own output"), row);
        }
    }

    #[test]
    fn shares_are_of_the_run_and_of_the_workers() {
        let result = example(Combination::ALL[0]);
        assert_eq!(result.wait_share(Cause::Barrier).value(), Some(0.25));
        assert_eq!(result.time.idle_share(Cause::Barrier, 2.0).value(), Some(0.25));
        assert_eq!(result.time.busy_share(2.0).value(), Some(0.625));
        assert_eq!(result.time.scheduling_share(2.0).value(), Some(0.125));
        assert_eq!(result.images_per_second().value(), Some(600.0));
        let inline = TimeReport { workers: 0, ..result.time };
        assert!(inline.busy_share(2.0).reason().is_some());
    }
}
