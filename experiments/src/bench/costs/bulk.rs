//! Costs that show only over many tasks, or over none: draining, growing graphs, times and
//! traces, idling.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use millrace_runtime::scenarios::{Body, Scenario};
use millrace_runtime::{Handles, Runtime};

use super::calls::hold_up;
use super::limits::Limits;
use super::load::own_seconds;
use super::memory::no_handles;
use super::rows::{Cost, Unit};
use super::{Sitting, failed, runtime};
use crate::failure::Failure;

/// How many costs there are here.
pub(super) const COSTS: usize = 11;

/// Outstanding tasks: few and many.
const TASKS: (usize, usize) = (10_000, 1_000_000);
/// Handles that these write in turn.
const HANDLES: usize = 64;

/// Measures them.
pub(super) fn measure(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    drain_costs(sitting, limits)?;
    fan_costs(sitting)?;
    recording_costs(sitting, limits)?;
    idle_costs(sitting)
}

fn two_workers(window: usize) -> Result<Runtime, Failure> {
    runtime(|builder| builder.workers(2).main_helps(true).window(window))
}

/// What two figures of each repetition come to: the first ones, the second ones, the ratios.
fn with_ratios(pairs: &[(f64, f64)]) -> [Vec<f64>; 3] {
    [
        pairs.iter().map(|pair| pair.0).collect(),
        pairs.iter().map(|pair| pair.1).collect(),
        pairs.iter().map(|pair| pair.1 / pair.0).collect(),
    ]
}

/// The mean over as many short runs as take about as long as a long one: what disturbs one of the
/// two disturbs the other as well.
fn mean(runs: usize, mut run: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let times: Result<Vec<f64>, Failure> = (0..runs).map(|_| run()).collect();
    Ok(times?.iter().sum::<f64>() / runs as f64)
}

fn drain_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    let mut pairs = Vec::new();
    let few = Cost::time("drain.few", "end of a task, of 10,000 that were held up").bound(
        "a cache line to another core, for tasks that were submitted there",
        Some(limits.line),
    );
    sitting.add(few, |sitting| {
        let (few, many) = (two_workers(TASKS.0 + 2)?, two_workers(TASKS.1 + 2)?);
        let few = (few.handles(HANDLES as u32).ok_or_else(no_handles)?, few);
        let many = (many.handles(HANDLES as u32).ok_or_else(no_handles)?, many);
        for repetition in 0..=sitting.long() {
            let times = mean(TASKS.1 / TASKS.0, || drain(&few.1, &few.0, TASKS.0))?;
            let pair = (times, drain(&many.1, &many.0, TASKS.1)?);
            if repetition > 0 {
                pairs.push(pair);
            }
        }
        Ok(with_ratios(&pairs)[0].clone())
    })?;
    let [_, many, ratios] = with_ratios(&pairs);
    let cost = Cost::time("drain.million", "the same, of 1,000,000")
        .bound("each slot comes from memory, not from a cache", None);
    sitting.add(cost, |_| Ok(many))?;
    let cost = Cost::time("drain.growth", "how many times that of the 10,000").goal(1.5);
    sitting.add(Cost { unit: Unit::Times, ..cost }, |_| Ok(ratios))
}

/// Nanoseconds per task from when the worker is let go until all tasks have ended.
fn drain(rt: &Runtime, handles: &Handles, tasks: usize) -> Result<f64, Failure> {
    let gate = hold_up(rt)?;
    for task in 0..tasks {
        rt.spawn("task", handles.write(task % HANDLES), |()| ()).map_err(failed)?;
    }
    let start = Instant::now();
    drop(gate);
    rt.wait().map_err(failed)?;
    Ok(start.elapsed().as_nanos() as f64 / tasks as f64)
}

fn fan_costs(sitting: &mut Sitting) -> Result<(), Failure> {
    let rt = two_workers(4096)?;
    let sized = |tasks| Scenario::sized("fan32", tasks).ok_or_else(|| Failure::failed("no fan32"));
    let (few, many) = (sized(3300)?, sized(99_000)?);
    let mut pairs = Vec::new();
    let cost = Cost::time("fan.few", "a task of 100 rounds of 1 writer and 32 readers");
    sitting.add(cost, |sitting| {
        for repetition in 0..=3 * sitting.long() {
            let times = mean(many.len() / few.len(), || scenario(&few, &rt))?;
            let pair = (times, scenario(&many, &rt)?);
            if repetition > 0 {
                pairs.push(pair);
            }
        }
        Ok(with_ratios(&pairs)[0].clone())
    })?;
    let [_, many, ratios] = with_ratios(&pairs);
    sitting.add(Cost::time("fan.many", "the same, of 3,000 rounds"), |_| Ok(many))?;
    let cost = Cost::time("fan.growth", "how many times that of the 100 rounds").goal(1.1);
    sitting.add(Cost { unit: Unit::Times, ..cost }, |_| Ok(ratios))
}

/// Nanoseconds of a task.
fn scenario(scenario: &Scenario, rt: &Runtime) -> Result<f64, Failure> {
    let timing = scenario.run(rt, Body::Empty).map_err(failed)?;
    Ok(timing.total.as_nanos() as f64 / scenario.len() as f64)
}

fn recording_costs(sitting: &mut Sitting, limits: &Limits) -> Result<(), Failure> {
    let graph = Scenario::sized("wide64", 20_000).ok_or_else(|| Failure::failed("no wide64"))?;
    let plain = two_workers(4096)?;
    let timed = runtime(|builder| builder.workers(2).main_helps(true).timing(true))?;
    let traced = two_workers(4096)?;
    let mut all: [Vec<f64>; 3] = Default::default();
    let cost = Cost::time("task.plain", "a task with one access, two workers, no times taken")
        .bound("a cache line to another core and back", Some(2.0 * limits.line));
    sitting.add(cost, |sitting| {
        for repetition in 0..=sitting.short() / 5 {
            let plain = scenario(&graph, &plain)?;
            let timed = scenario(&graph, &timed)?;
            traced.trace_start();
            let time = scenario(&graph, &traced)?;
            traced.trace_stop();
            drop(traced.trace_take("costs", BTreeMap::new()));
            if repetition > 0 {
                all.iter_mut().zip([plain, timed, time]).for_each(|(all, time)| all.push(time));
            }
        }
        Ok(all[0].clone())
    })?;
    let [_, timed, traced] = all;
    let bound = "the same, and two readings of the clock";
    let cost = Cost::time("task.timed", "the same, with timing").bound(bound, None);
    sitting.add(cost, |_| Ok(timed))?;
    let cost = Cost::time("task.traced", "the same, with a trace")
        .bound(format!("{bound}; 32 B written for each"), None);
    sitting.add(cost, |_| Ok(traced))
}

fn idle_costs(sitting: &mut Sitting) -> Result<(), Failure> {
    let rt = runtime(|builder| builder.workers(2).timing(true))?;
    let second = Duration::from_millis(if sitting.quick { 100 } else { 1000 });
    let share = |cost| Cost { unit: Unit::Share, ..cost };
    let idle = Cost::time("idle.cpu", "processor time of two idle workers").goal(0.01);
    sitting.add(share(idle), |sitting| {
        // What they do until they sleep is not idling.
        rt.spawn("task", (), |()| ()).map_err(failed)?;
        rt.wait().map_err(failed)?;
        thread::sleep(Duration::from_millis(50));
        Ok((0..sitting.long()).map(|_| cpu_share(|| thread::sleep(second))).collect())
    })?;
    let cost = Cost::time("paced.cpu", "the same, while a task comes each millisecond")
        .bound("looking for tasks before sleeping; Statistics has it as looking_ns", None);
    sitting.add(share(cost), |sitting| {
        let mut shares = Vec::new();
        for _ in 0..sitting.long() {
            let mut result = Ok(());
            shares.push(cpu_share(|| result = paced(&rt, second)));
            result?;
        }
        Ok(shares)
    })
}

/// Submits a task each millisecond.
fn paced(rt: &Runtime, time: Duration) -> Result<(), Failure> {
    let start = Instant::now();
    while start.elapsed() < time {
        rt.spawn("task", (), |()| ()).map_err(failed)?;
        thread::sleep(Duration::from_millis(1));
    }
    rt.wait().map_err(failed)
}

/// The processor time of this process while `wait` runs, as a share of one core.
fn cpu_share(wait: impl FnOnce()) -> f64 {
    let (start, before) = (Instant::now(), own_seconds());
    wait();
    (own_seconds() - before) / start.elapsed().as_secs_f64()
}
