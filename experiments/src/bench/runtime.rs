//! `bench runtime`: the cost of a task, by scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::ProgressBar;
use millrace_runtime::scenarios::{Body, NAMES, Scenario, ScenarioError, Timing, steps_for};

use super::peers::{Line, Peers};
use super::rows::{PeerFigure, RuntimeRow, median, render};
use super::{build, print, stopped};
use crate::failure::{Failure, chain};
use crate::options::BenchRuntimeOptions;
use crate::{interrupt, progress};

/// Runs of a scenario in each round.
const RUNS: usize = 7;
/// Peers that build a graph once and run it again and again: what replays are compared with.
const REPEATING: [&str; 2] = ["taskflow-rerun", "rayon-dag"];

/// Measures every scenario, in rounds with the peers, and prints the table.
///
/// # Errors
/// When a scenario runs in the wrong order, a peer fails, or the user stops it.
pub fn runtime(options: &BenchRuntimeOptions) -> Result<(), Failure> {
    let peers = options.bench.peers.as_deref().map(Peers::find).transpose()?;
    let scenarios = chosen(options)?;
    let settings: Vec<(usize, u64)> = options
        .workers
        .iter()
        .flat_map(|workers| options.bodies.iter().map(|body| (*workers, *body)))
        .collect();
    let steps = settings.len() * options.rounds as usize * scenarios.len();
    let bar = progress::bar(steps as u64, options.bench.quiet);
    let mut rows = Vec::new();
    for (workers, body_us) in settings {
        rows.extend(setting(options, peers.as_ref(), &scenarios, workers, body_us, &bar)?);
    }
    bar.finish_and_clear();
    print(&rows, options.bench.json, render)
}

fn chosen(options: &BenchRuntimeOptions) -> Result<Vec<&'static str>, Failure> {
    if options.scenarios.is_empty() {
        return Ok(NAMES.to_vec());
    }
    let find = |asked: &String| {
        NAMES.into_iter().find(|name| name == asked).ok_or_else(|| {
            let known = NAMES.join(", ");
            Failure::usage(format_args!("--scenarios {asked}: there are {known}"))
        })
    };
    options.scenarios.iter().map(find).collect()
}

/// Figures of one scenario, one per run or round.
#[derive(Default)]
struct Samples {
    total: Vec<f64>,
    submit: Vec<f64>,
    peers: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
}

impl Samples {
    /// Runs the scenario several times.
    fn measure(
        &mut self,
        scenario: &Scenario,
        mut run: impl FnMut() -> Result<Timing, ScenarioError>,
    ) -> Result<(), ScenarioError> {
        let per_task = |time: Duration| time.as_nanos() as f64 / scenario.len() as f64;
        // The first run finds the memory that all later ones use again.
        run()?;
        for _ in 0..RUNS {
            let timing = run()?;
            self.total.push(per_task(timing.total));
            self.submit.push(per_task(timing.submit));
        }
        Ok(())
    }

    fn add(&mut self, line: &Line) {
        let peer = self.peers.entry(line.peer.clone()).or_default();
        peer.0.push(line.total);
        peer.1.push(line.submit);
    }
}

/// Figures of one scenario, submitted task by task, and recorded and replayed.
#[derive(Default)]
struct Pair {
    submitted: Samples,
    replayed: Samples,
}

impl Pair {
    fn add(&mut self, line: &Line) {
        self.submitted.add(line);
        if REPEATING.contains(&line.peer.as_str()) {
            self.replayed.add(line);
        }
    }
}

/// All rounds with one number of workers and one length of bodies.
fn setting(
    options: &BenchRuntimeOptions,
    peers: Option<&Peers>,
    names: &[&'static str],
    workers: usize,
    body_us: u64,
    bar: &ProgressBar,
) -> Result<Vec<RuntimeRow>, Failure> {
    let time = Duration::from_micros(body_us);
    let body = if body_us == 0 { Body::Empty } else { Body::Spin(steps_for(time)) };
    let scenarios: Vec<Scenario> =
        names.iter().filter_map(|name| Scenario::new(name, time)).collect();
    let mut samples: Vec<Pair> = names.iter().map(|_| Pair::default()).collect();
    for round in 0..options.rounds {
        for (scenario, samples) in scenarios.iter().zip(&mut samples) {
            if interrupt::requested() {
                return Err(stopped());
            }
            bar.set_message(format!("{workers} workers, {body_us} us, {}", scenario.name()));
            ours(options, scenario, workers, body, round == 0, samples)?;
            if let Some(peers) = peers {
                let lines = peers.scenario(scenario.name(), workers, body_us)?;
                lines.iter().for_each(|line| samples.add(line));
            }
            bar.inc(1);
        }
        for line in peers.map_or(Ok(Vec::new()), |peers| peers.all(workers, body_us))? {
            if let Some(place) = names.iter().position(|name| *name == line.scenario) {
                samples[place].add(&line);
            }
        }
    }
    let rows = scenarios.iter().zip(&samples).flat_map(|(scenario, samples)| {
        [(false, &samples.submitted), (true, &samples.replayed)]
            .map(|(replay, samples)| row(scenario, replay, workers, body_us, samples))
    });
    Ok(rows.collect())
}

fn ours(
    options: &BenchRuntimeOptions,
    scenario: &Scenario,
    workers: usize,
    body: Body,
    check: bool,
    samples: &mut Pair,
) -> Result<(), Failure> {
    let failed = |error: ScenarioError| Failure::failed(chain(&error));
    let rt = build(&options.bench, workers)?;
    if check {
        scenario.check(&rt).and_then(|()| scenario.check_replay(&rt)).map_err(failed)?;
    }
    let submit = || scenario.run(&rt, body);
    samples.submitted.measure(scenario, submit).map_err(failed)?;
    let mut recorded = scenario.record(&rt, body).map_err(failed)?;
    samples.replayed.measure(scenario, || recorded.run(&rt)).map_err(failed)
}

fn row(
    scenario: &Scenario,
    replay: bool,
    workers: usize,
    body_us: u64,
    samples: &Samples,
) -> RuntimeRow {
    let (ns_per_task, least, most) = median(&samples.total);
    let parallel = if scenario.name() == "chain" { 1 } else { workers.max(1) as u64 };
    let peer = |(name, (total, submit)): (&String, &(Vec<f64>, Vec<f64>))| {
        let (total, submit) = (median(total).0, median(submit).0);
        let ratio = total / ns_per_task;
        (name.clone(), PeerFigure { ns_per_task: total, submit_ns_per_task: submit, ratio })
    };
    RuntimeRow {
        scenario: scenario.name(),
        workers,
        body_ns: body_us * 1000,
        tasks: scenario.len(),
        replay,
        ideal_ns: body_us * 1000 / parallel,
        ns_per_task,
        least,
        most,
        submit_ns_per_task: median(&samples.submit).0,
        peers: samples.peers.iter().map(peer).collect(),
    }
}
