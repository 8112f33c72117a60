//! One run: joins runtime, arenas, loader and network, and measures what they do.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use millrace_arena::Arena;
use millrace_loader::{Loader, LoaderConfig, LoaderKind};
use millrace_runtime::Runtime;
use millrace_runtime::scheduler::{Placement, Schedule};
use millrace_runtime::topology::Topology;
use millrace_runtime::trace::Trace;
use millrace_runtime::watchdog::{StallReport, Watchdog};

use crate::charts;
use crate::combination::{Combination, LoaderMode};
use crate::counters::Counters;
use crate::data::Data;
use crate::energy::EnergyMeter;
use crate::failure::{Failure, chain};
use crate::interrupt;
use crate::learner::Learner;
use crate::machine::{self, Machine};
use crate::options::{Bytes, SchedulerChoice, Settings, pin};
use crate::protocol::Progress;
use crate::result::{ArenaReport, RunResult, TimeReport};
use crate::terminal;

/// How often the energy meters are read: far more often than one passes its range.
const ENERGY_EVERY: Duration = Duration::from_secs(20);
/// Batches that the trace goes on for after the last one it is to show: the main thread may be
/// that far ahead of the workers.
const TRACE_RUNS_ON: u32 = 4;

/// What is to be run.
#[derive(Debug)]
pub struct Run {
    /// Batch arena and loader.
    pub combination: Combination,
    /// The parameters.
    pub settings: Settings,
    /// The samples.
    pub data: Data,
    /// Whether a trace of [`Settings::trace_batches`] is wanted.
    pub traced: bool,
    /// Is told when nothing moves any more, if [`Settings::watchdog`] asks for that.
    pub stalled: fn(&StallReport),
}

/// Trains, tests and reports; `progress` is told after each batch and may stop the run.
///
/// # Errors
/// When the user stopped the run, when memory or threads cannot be had, when a task failed, or
/// when `progress` failed.
pub fn run(
    run: Run,
    progress: &mut dyn FnMut(&Progress) -> Result<(), Failure>,
) -> Result<(RunResult, Option<Trace>), Failure> {
    let Run { combination, settings, data, traced, stalled } = run;
    let Data { name, mut train, test } = data;
    train.truncate(settings.samples);
    let counters = Counters::new(settings.workers);
    let rt = runtime(&settings, &counters, stalled)?;
    let config = LoaderConfig {
        batch_size: settings.batch_size,
        shards: settings.shards,
        epochs: settings.epochs,
        seed: u64::from(settings.seed),
        shuffle: settings.shuffle,
        // One batch is loaded ahead, and as many are in work as there are batch arenas: with one
        // slot more, loading never waits.
        ring: combination.arena.depth() + 2,
        ..LoaderConfig::default()
    };
    let loader = Loader::new(&rt, loader_kind(combination.loader), &train, config)
        .map_err(|error| stopped("loader", &error))?;
    let learner = Learner::new(&rt, combination.arena, &settings, &train)?;
    // The loader has its own copy.
    drop(train);

    let mut training = Training {
        rt: &rt,
        settings: &settings,
        loader,
        learner,
        recorder: traced.then(|| Recorder::new(&settings)),
        warm: None,
    };
    let mut energy = EnergyMeter::start();
    let before = rt.statistics();
    counters.start();
    let start = Instant::now();
    training.train(&mut energy, progress)?;
    let seconds = start.elapsed().as_secs_f64();
    let counters = counters.stop();
    let statistics = rt.statistics().since(&before);
    let energy = energy.stop();
    let displaced = rt.displaced_tasks();
    if displaced > 0 {
        terminal::warn(format_args!(
            "the schedule of the trace was not kept: {displaced} tasks ran elsewhere or out of turn"
        ));
    }

    let trace = traced.then(|| {
        rt.trace_stop();
        rt.trace_take(combination.to_string(), facts(&settings, &name, rt.topology()))
    });
    let arenas = training.arenas();
    // The test needs memory of its own, which is not the training's.
    let peak_resident = machine::peak_resident();
    let test_accuracy = training.learner.accuracy(&test)?;
    let result = RunResult {
        combination,
        machine: Machine::describe(),
        dataset: name,
        seconds,
        images: u64::from(settings.epochs) * settings.samples as u64,
        epochs: training.learner.epochs()?,
        test_accuracy,
        test_samples: test.len(),
        time: TimeReport::new(&statistics),
        arenas,
        peak_resident,
        counters,
        energy,
        traced: traced.then_some(settings.trace_batches),
        settings,
    };
    Ok((result, trace))
}

fn runtime(
    settings: &Settings,
    counters: &Counters,
    stalled: fn(&StallReport),
) -> Result<Runtime, Failure> {
    let counters = counters.clone();
    let mut builder = Runtime::builder()
        .workers(settings.workers)
        .pin(pin(settings.pin))
        .main_helps(true)
        .scheduler(schedule(settings)?)
        .on_worker_start(move |worker| counters.open_on_worker(worker));
    if let Some(window) = settings.window {
        builder = builder.window(window);
    }
    if let Some(seconds) = settings.watchdog {
        let watchdog = Watchdog::after(Duration::from_secs_f64(seconds));
        builder = builder.watchdog(watchdog.on_stall(stalled));
    }
    if let Some(Bytes(bytes)) = settings.memory_window {
        // `Bytes` are read as a number of addresses.
        builder = builder.memory_window(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(spans) = settings.trace_capacity {
        builder = builder.trace_capacity(spans);
    }
    builder.build().map_err(|error| stopped("runtime", &error))
}

fn schedule(settings: &Settings) -> Result<Schedule, Failure> {
    match (settings.scheduler, &settings.placement) {
        (SchedulerChoice::Static, Some(path)) => {
            let placement = Placement::from_trace(&charts::read(path)?).map_err(|error| {
                Failure::failed(format_args!("{}: {}", path.display(), chain(&error)))
            })?;
            Ok(Schedule::placed(placement))
        }
        (SchedulerChoice::Priority, _) => Ok(Schedule::priority()),
        (SchedulerChoice::Fifo, _) => Ok(Schedule::fifo()),
        // `static` without a placement is refused earlier.
        (SchedulerChoice::WorkStealing | SchedulerChoice::Static, _) => {
            Ok(Schedule::work_stealing())
        }
    }
}

fn loader_kind(mode: LoaderMode) -> LoaderKind {
    match mode {
        LoaderMode::Naive => LoaderKind::Naive,
        LoaderMode::Prefetch => LoaderKind::Prefetch,
        LoaderMode::Double => LoaderKind::Double,
        LoaderMode::Advanced => LoaderKind::Advanced,
    }
}

/// Facts for the chart and for whoever reads the trace, in order of their names.
fn facts(settings: &Settings, dataset: &str, topology: &Topology) -> BTreeMap<String, String> {
    let facts: [(&str, &dyn Display); 7] = [
        ("batch size", &settings.batch_size),
        ("batches", &settings.trace_batches),
        ("data set", &dataset),
        ("shards", &settings.shards),
        ("workers", &settings.workers),
        ("seed", &settings.seed),
        ("topology", topology),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

/// A part of the run failed.
fn stopped(part: &str, error: &dyn std::error::Error) -> Failure {
    Failure::failed(format_args!("{part}: {}", chain(error)))
}

/// The training loop, the same for every combination.
struct Training<'a> {
    rt: &'a Runtime,
    settings: &'a Settings,
    loader: Loader,
    learner: Learner,
    recorder: Option<Recorder>,
    /// Chunks of each arena once the memory should have settled.
    warm: Option<Vec<usize>>,
}

impl Training<'_> {
    fn train(
        &mut self,
        energy: &mut EnergyMeter,
        progress: &mut dyn FnMut(&Progress) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let batches = self.loader.batches();
        let per_epoch = batches / self.settings.epochs;
        let warm_from = if self.settings.epochs > 1 { per_epoch } else { per_epoch / 2 };
        let mut energy_read = Instant::now();
        for index in 0..batches {
            let epoch = index / per_epoch;
            if interrupt::requested() {
                return Err(Failure::interrupted(format_args!(
                    "stopped in epoch {epoch}, before batch {index} of {batches}"
                )));
            }
            if index == warm_from {
                self.warm = Some(self.chunks());
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.before_batch(self.rt, index);
            }
            if index % per_epoch == 0 {
                self.rt.mark_epoch(epoch);
            }
            self.rt.mark_batch(index);
            let batch = self.loader.next().map_err(|error| stopped("loader", &error))?;
            let Some(batch) = batch else { break };
            self.learner.learn(&batch)?;
            self.rt.check().map_err(|error| stopped("training", &error))?;
            if energy_read.elapsed() >= ENERGY_EVERY {
                energy.sample();
                energy_read = Instant::now();
            }
            let loss = self.learner.last_loss();
            progress(&Progress { batch: index + 1, batches, epoch, loss })?;
        }
        self.rt.wait().map_err(|error| stopped("training", &error))
    }

    fn all_arenas(&self) -> impl Iterator<Item = &Arena> {
        self.loader.arenas().chain(self.learner.arenas())
    }

    fn chunks(&self) -> Vec<usize> {
        self.all_arenas().map(|arena| arena.statistics().chunks).collect()
    }

    fn arenas(&self) -> Vec<ArenaReport> {
        let now = self.chunks();
        let warm = self.warm.as_ref().unwrap_or(&now);
        let reports = self.all_arenas().zip(warm).map(|(arena, warm)| {
            let statistics = arena.statistics();
            ArenaReport {
                name: statistics.name,
                depth: statistics.depth,
                peak_bytes: statistics.held as u64,
                generation_bytes: statistics.high_water as u64,
                chunks: statistics.chunks,
                late_chunks: statistics.chunks.saturating_sub(*warm),
                waits: statistics.waits,
                wait_seconds: statistics.wait_time.as_secs_f64(),
            }
        });
        reports.collect()
    }
}

/// Switches the trace on for the batches that are to be shown.
struct Recorder {
    first: u32,
    stop: u32,
}

impl Recorder {
    fn new(settings: &Settings) -> Self {
        let range = settings.trace_batches;
        Recorder { first: range.first, stop: range.end.saturating_add(TRACE_RUNS_ON) }
    }

    fn before_batch(&mut self, rt: &Runtime, index: u32) {
        if index == self.first {
            rt.trace_start();
        }
        if index == self.stop {
            rt.trace_stop();
        }
    }
}
