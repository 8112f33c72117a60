//! `bench metg`: the minimum effective task granularity, as Task Bench defines it.
//!
//! E. Slaughter et al., "Task Bench: A Parameterized Benchmark for Evaluating Parallel Runtime
//! Performance", SC20. METG(50%) is the smallest average task granularity (wall time times
//! workers, divided by the number of tasks) at which a runtime still does at least half of the
//! work per second that the machine can do; shorter tasks drown in the runtime's own cost.
//!
//! The graph has columns and timesteps ([`Pattern`]; `graph.rs`). As published, there is one
//! column for each worker; with few workers, most tasks then lack some of their pattern's
//! dependencies, so there is a second graph with 16 for each, which makes 32 columns for two, as
//! published for 32 cores. A [`Kernel`] runs for a number of iterations that is halved until the
//! efficiency is clearly below one half, and the crossing is interpolated. The rate of a granularity is the median of several rounds, each of which runs
//! every setting once, so that a disturbance of the machine spoils one round of many settings,
//! not all of one. What counts as the machine's speed is the best such rate of the whole sitting
//! with the same kernel and number of workers, no matter whose.

mod graph;
mod kernel;
mod pattern;
mod peer;
mod rows;
mod sweep;

use indicatif::ProgressBar;
pub use kernel::Kernel;
pub use pattern::Pattern;
pub use rows::MetgRow;
pub use sweep::Efficiency;

use self::graph::Graph;
use self::peer::Peer;
use self::rows::render;
use self::sweep::{Point, Sweep, halves};
use super::{build, print, stopped};
use crate::failure::Failure;
use crate::options::BenchMetgOptions;
use crate::{interrupt, progress};

/// How long the bodies of a run take together, per worker, if nothing else is asked for, in
/// seconds: long against starting and stopping.
const RUN: f64 = 0.05;

/// Timesteps of a run if nothing else is asked for.
const TIMESTEPS: std::ops::RangeInclusive<u32> = 20..=50_000;

/// Timesteps of the run that checks the order.
const CHECKED: u32 = 200;

/// What is measured in one sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    pattern: Pattern,
    kernel: Kernel,
    workers: usize,
    width: usize,
    /// Seconds of one iteration of the kernel.
    seconds: f64,
    /// Work of one iteration of the kernel.
    work: f64,
}

impl Setting {
    /// Whether both are measured against the same best rate.
    fn is_like(&self, other: &Setting) -> bool {
        (self.kernel, self.workers) == (other.kernel, other.workers)
    }
}

/// The sweeps of one setting, one per round: ours and the peer's.
#[derive(Clone, Debug, Default)]
struct Sweeps {
    ours: Vec<Sweep>,
    theirs: Vec<Sweep>,
    peer: Option<String>,
}

impl Sweeps {
    /// The best rate of a run so far.
    fn peak(&self) -> f64 {
        self.ours.iter().chain(&self.theirs).map(Sweep::peak).fold(0.0, f64::max)
    }
}

/// Measures every setting, in one sitting with StarPU if there are peers, and prints the table.
///
/// # Errors
/// When tasks run in the wrong order, the peer fails, or the user stops it.
pub fn metg(options: &BenchMetgOptions) -> Result<(), Failure> {
    let peer = options.bench.peers.as_deref().map(Peer::find).transpose()?;
    let settings = settings(options);
    let steps = |settings: &[Setting]| -> u64 {
        settings.iter().map(|setting| halves(largest(options, setting)).count() as u64).sum()
    };
    let round_steps = steps(&settings);
    let bar = progress::bar(u64::from(options.rounds) * round_steps, options.bench.quiet);
    let mut sweeps = vec![Sweeps::default(); settings.len()];
    for round in 0..options.rounds {
        for (index, setting) in settings.iter().enumerate() {
            bar.set_position(u64::from(round) * round_steps + steps(&settings[..index]));
            let alike = settings.iter().zip(&sweeps).filter(|(other, _)| other.is_like(setting));
            let peak = alike.map(|(_, sweeps)| sweeps.peak()).fold(0.0, f64::max);
            let check = round == 0;
            measure(options, setting, peer.as_ref(), check, peak, &mut sweeps[index], &bar)?;
        }
    }
    bar.finish_and_clear();
    print(&rows(&settings, &sweeps), options.bench.json, render)
}

/// The settings that the options ask for.
fn settings(options: &BenchMetgOptions) -> Vec<Setting> {
    let patterns = if options.patterns.is_empty() { &Pattern::ALL } else { &options.patterns[..] };
    let kernels = if options.kernels.is_empty() { &Kernel::ALL } else { &options.kernels[..] };
    let mut settings = Vec::new();
    for kernel in kernels.iter().copied() {
        let (seconds, work) = (kernel.seconds(), kernel.work());
        for workers in options.workers.iter().copied().map(usize::from) {
            for width in options.width.iter().map(|columns| workers * usize::from(*columns)) {
                settings.extend(patterns.iter().map(|pattern| Setting {
                    pattern: *pattern,
                    kernel,
                    workers,
                    width,
                    seconds,
                    work,
                }));
            }
        }
    }
    settings
}

/// The iterations with which a sweep begins.
fn largest(options: &BenchMetgOptions, setting: &Setting) -> u32 {
    (f64::from(options.largest) * 1e-6 / setting.seconds).round() as u32
}

/// Sweeps once over the granularities of one setting, our run and the peer's in turn. `peak` is
/// the best rate so far.
fn measure(
    options: &BenchMetgOptions,
    setting: &Setting,
    peer: Option<&Peer>,
    check: bool,
    mut peak: f64,
    sweeps: &mut Sweeps,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let Setting { pattern, kernel, workers, width, .. } = *setting;
    bar.set_message(format!("{workers} workers, {}, {}", kernel.name(), pattern.name()));
    let mut graph = Graph::new(build(&options.bench, workers)?, pattern, kernel, width)?;
    // The first run finds the memory that all later ones use again.
    let first = options.timesteps.unwrap_or(CHECKED).min(CHECKED);
    if check {
        graph.check(first)?;
    }
    graph.run(first, 1)?;
    let (mut ours, mut theirs) = (Sweep::default(), Sweep::default());
    for iterations in halves(largest(options, setting)) {
        let peer = peer.filter(|_| !theirs.is_done(peak));
        if ours.is_done(peak) && peer.is_none() {
            break;
        }
        if interrupt::requested() {
            return Err(stopped());
        }
        let timesteps = timesteps(options, setting, iterations);
        if !ours.is_done(peak) {
            let wall = graph.run(timesteps, iterations)?.as_secs_f64();
            ours.points.push(point(setting, timesteps, iterations, wall, setting.work));
        }
        if let Some(peer) = peer {
            let answer = peer.run(setting, timesteps, iterations)?;
            let wall = answer.wall_ns * 1e-9;
            theirs.points.push(point(setting, timesteps, iterations, wall, answer.work));
            sweeps.peer = Some(answer.peer);
        }
        peak = peak.max(ours.peak()).max(theirs.peak());
        bar.inc(1);
    }
    sweeps.ours.push(ours);
    sweeps.theirs.push(theirs);
    Ok(())
}

/// The timesteps of a run.
fn timesteps(options: &BenchMetgOptions, setting: &Setting, iterations: u32) -> u32 {
    let step = f64::from(iterations) * setting.seconds * setting.width as f64;
    let wanted = (RUN * setting.workers as f64 / step) as u32;
    options.timesteps.unwrap_or(wanted.clamp(*TIMESTEPS.start(), *TIMESTEPS.end()))
}

/// What `wall` seconds of a run say.
fn point(setting: &Setting, timesteps: u32, iterations: u32, wall: f64, work: f64) -> Point {
    let (workers, tasks) = (setting.workers as f64, f64::from(timesteps) * setting.width as f64);
    Point {
        iterations,
        // A clock that has not moved in between would make a rate infinite.
        granularity_us: wall.max(1e-9) * 1e6 * workers / tasks,
        work: f64::from(iterations) * work * workers,
    }
}

/// The rows of all settings; those that are alike share the best of their rates.
fn rows(settings: &[Setting], sweeps: &[Sweeps]) -> Vec<MetgRow> {
    let medians: Vec<[Sweep; 2]> = sweeps
        .iter()
        .map(|sweeps| [&sweeps.ours, &sweeps.theirs].map(|all| Sweep::median(all)))
        .collect();
    let row = |(index, setting): (usize, &Setting)| {
        let alike = settings.iter().zip(&medians).filter(|(other, _)| other.is_like(setting));
        let peak_rate = alike.flat_map(|(_, both)| both).map(Sweep::peak).fold(0.0, f64::max);
        let [points, peer_points] =
            medians[index].each_ref().map(|all| all.efficiencies(peak_rate));
        let metg_us = sweep::metg(&points);
        MetgRow {
            pattern: setting.pattern,
            kernel: setting.kernel,
            workers: setting.workers,
            width: setting.width,
            metg_us,
            tasks_per_s: metg_us.map(|metg_us| setting.workers as f64 * 1e6 / metg_us),
            points,
            peak_rate,
            peer: sweeps[index].peer.clone(),
            peer_metg_us: sweep::metg(&peer_points),
            peer_points,
        }
    };
    settings.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting {
        pattern: Pattern::Stencil1d,
        kernel: Kernel::Compute,
        workers: 2,
        width: 8,
        seconds: 1e-9,
        work: 96.0,
    };

    fn options(arguments: &[&str]) -> BenchMetgOptions {
        use crate::options::{BenchCommand, Cli, Command, parse};
        let line = ["millrace", "bench", "metg"].iter().chain(arguments);
        let cli = parse::<Cli>(line).expect("valid").expect("no help was asked for");
        match cli.command {
            Some(Command::Bench(BenchCommand::Metg(options))) => options,
            other => panic!("another subcommand: {other:?}"),
        }
    }

    #[test]
    fn a_point_is_time_per_task_and_work_per_time() {
        // 100 timesteps of 8 columns in 1 ms on 2 workers.
        let point = point(&SETTING, 100, 1000, 1e-3, 96.0);
        assert!((point.granularity_us - 2.5).abs() < 1e-9, "{point:?}");
        assert!((point.rate() / (800.0 * 96e3 / 1e-3) - 1.0).abs() < 1e-9, "{point:?}");
        assert!(self::point(&SETTING, 100, 1000, 0.0, 96.0).rate().is_finite());
    }

    #[test]
    fn runs_are_of_one_length_within_bounds() {
        let of =
            |arguments: &[&str], iterations| timesteps(&options(arguments), &SETTING, iterations);
        assert_eq!(of(&[], 50_000), 250); // 8 bodies of 50 µs in each timestep, on 2 workers
        assert_eq!(of(&[], 10_000_000), 20);
        assert_eq!(of(&[], 1), 50_000);
        assert_eq!(of(&["--timesteps", "7"], 1), 7);
    }

    #[test]
    fn every_setting_is_measured() {
        let all = settings(&options(&["--width", "1,3", "--workers", "2,1"]));
        assert_eq!(all.len(), 2 * 2 * 2 * 6);
        let few = settings(&options(&["--patterns", "fft", "--kernels", "memory"]));
        let few: Vec<_> = few.iter().map(|s| (s.pattern, s.kernel, s.workers, s.width)).collect();
        let of = |workers, width| (Pattern::Fft, Kernel::Memory, workers, width);
        assert_eq!(few, [of(1, 1), of(1, 16), of(2, 2), of(2, 32)]);
    }

    #[test]
    fn rows_that_are_alike_share_the_best_rate() {
        // Points of 1 µs less in each further row, with work for the given rates.
        let sweep = |rates: &[f64]| {
            let point = |(index, rate): (usize, &f64)| {
                let granularity_us = 16.0 / f64::from(1 << index);
                Point { iterations: 16 >> index, granularity_us, work: rate * granularity_us }
            };
            Sweep { points: rates.iter().enumerate().map(point).collect() }
        };
        let sweeps = |ours: &[f64], theirs: &[f64]| Sweeps {
            ours: vec![sweep(ours)],
            theirs: vec![sweep(theirs)],
            peer: Some("other".to_owned()),
        };
        let settings = [
            SETTING,
            Setting { pattern: Pattern::Fft, ..SETTING },
            Setting { workers: 1, ..SETTING },
        ];
        let measured = [
            sweeps(&[10.0, 8.0, 4.0, 1.0], &[8.0, 4.0, 1.0]),
            sweeps(&[9.0, 9.0, 2.0], &[20.0, 6.0]),
            sweeps(&[3.0, 2.0, 1.0], &[1.0, 0.5]),
        ];
        let [first, second, alone] = rows(&settings, &measured).try_into().expect("three rows");
        assert_eq!((first.peak_rate, second.peak_rate), (20e6, 20e6));
        assert_eq!(alone.peak_rate, 3e6);
        assert_eq!((first.points[1].efficiency, second.peer_points[0].efficiency), (0.4, 1.0));
        // Half of 20 is reached by the first point, and never by the peer's.
        let metg_us = first.metg_us.expect("a crossing");
        assert!((metg_us - 16.0).abs() < 1e-9, "{metg_us}");
        assert_eq!((first.peer_metg_us, second.metg_us), (None, None));
        let tasks = alone.tasks_per_s.expect("a crossing") * alone.metg_us.expect("a crossing");
        assert!((tasks / 1e6 - 1.0).abs() < 1e-9);
    }
}
