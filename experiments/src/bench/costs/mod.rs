//! `bench costs`: what the calls beside a task's own cost, and what a task and a handle weigh.
//!
//! Each figure stands beside the goal that it is held against and beside what bounds it, where
//! the machine has a limit that no runtime can pass: [`Limits`], measured in the same sitting. A
//! figure is the median of many short repetitions, so that what else the machine does spoils
//! some of them, not the figure. Two figures whose ratio matters are measured in turn.

mod bulk;
mod calls;
mod limits;
mod load;
mod memory;
mod peers;
mod rows;

use std::time::Instant;

use indicatif::ProgressBar;
use millrace_runtime::{Builder, Runtime};
pub use rows::{CostRow, Unit};

use self::limits::Limits;
use self::load::Load;
use self::memory::Probe;
use self::peers::CostPeers;
use self::rows::{Cost, Measured, render};
use super::{print, stopped};
use crate::failure::{Failure, chain};
use crate::options::BenchCostsOptions;
use crate::{interrupt, progress};

/// Measures every cost and prints the table.
///
/// # Errors
/// When the runtime refuses something, a peer fails, or the user stops it.
pub fn costs(options: &BenchCostsOptions) -> Result<(), Failure> {
    if let Some(probe) = &options.probe {
        return memory::probe(Probe::named(probe)?);
    }
    let peers = options.peers.as_deref().map(CostPeers::find).transpose()?;
    let steps = 2 + Probe::ALL.len() + calls::COSTS + bulk::COSTS;
    let mut sitting = Sitting {
        quick: options.quick,
        bar: progress::bar(steps as u64, options.quiet),
        rows: Vec::new(),
    };
    sitting.begin("the machine's limits")?;
    let limits = Limits::measure(&sitting);
    sitting.rows.extend(limits.rows());
    memory::measure(&mut sitting)?;
    calls::measure(&mut sitting, &limits)?;
    bulk::measure(&mut sitting, &limits)?;
    if let Some(peers) = peers {
        sitting.begin("peers")?;
        peers.measure(&mut sitting.rows)?;
    }
    sitting.bar.finish_and_clear();
    print(&sitting.rows, options.json, render)
}

/// One sitting: how thorough it is, and what it has found.
struct Sitting {
    quick: bool,
    bar: ProgressBar,
    rows: Vec<CostRow>,
}

impl Sitting {
    /// Repetitions of something short, and of something that takes a second or so.
    fn short(&self) -> usize {
        if self.quick { 11 } else { 201 }
    }

    fn long(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// Something else is measured from now on.
    fn begin(&self, what: &str) -> Result<(), Failure> {
        if interrupt::requested() {
            return Err(stopped());
        }
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
        Ok(())
    }

    /// Measures one cost.
    fn add(
        &mut self,
        cost: Cost,
        measure: impl FnOnce(&Self) -> Result<Vec<f64>, Failure>,
    ) -> Result<(), Failure> {
        self.begin(cost.what)?;
        let load = Load::now();
        let values = measure(self)?;
        self.rows.push(cost.row(&Measured { values, others: load.others() }));
        Ok(())
    }
}

/// A runtime without timing, so that only what is asked for is paid for.
fn runtime(describe: impl FnOnce(Builder) -> Builder) -> Result<Runtime, Failure> {
    describe(Runtime::builder().timing(false)).build().map_err(failed)
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::failed(chain(&error))
}

/// Nanoseconds of one of `calls` calls, of each of `repetitions` repetitions after a first one
/// that finds the memory that the others use again.
fn per_call<E>(
    repetitions: usize,
    calls: u32,
    mut call: impl FnMut(u32) -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut times = Vec::with_capacity(repetitions);
    for repetition in 0..=repetitions {
        let start = Instant::now();
        (0..calls).try_for_each(&mut call)?;
        let time = start.elapsed();
        if repetition > 0 {
            times.push(time.as_nanos() as f64 / f64::from(calls));
        }
    }
    Ok(times)
}
