//! `bench nn`: how fast small networks are trained, beside the machine's multiply-add peak and, if
//! asked for, beside PyTorch in the same sitting.
//!
//! A case is a network, a batch size and a number of workers. In each round every case runs once,
//! and each mode of the peer right after it; the median of the rounds counts, so that a disturbance
//! of the machine spoils one round of many cases, not all of one. Data is in memory on both sides.

mod layers;
mod net;
mod ours;
mod peak;
mod peer;
mod rows;

pub use net::Net;
pub use peer::Mode;
pub use rows::{LayerRow, NnRow};

use self::ours::Measured;
use self::peer::Peer;
use super::{print, stopped};
use crate::failure::Failure;
use crate::options::BenchNnOptions;
use crate::{interrupt, progress};

/// Seconds of one measurement, and of one with `--quick`.
const SECONDS: [f64; 2] = [1.0, 0.02];

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    net: Net,
    batch: usize,
    workers: usize,
}

/// The rounds of a case.
#[derive(Clone, Debug, Default)]
struct Rounds {
    ours: Vec<Measured>,
    /// By mode of the peer: images per second, or why there is no figure.
    peers: Vec<(Mode, Vec<f64>)>,
}

/// Measures every case, and prints the table.
///
/// # Errors
/// When the training or the peer fails, or the user stops it.
pub fn nn(options: &BenchNnOptions) -> Result<(), Failure> {
    let seconds = SECONDS[usize::from(options.quick)];
    if options.layers {
        return layers::layers(options, seconds / 10.0);
    }
    let cases = cases(options);
    let peer = options.peer.as_deref().map(Peer::start).transpose();
    let mut peer = peer?;
    let modes = match (&peer, options.modes.is_empty()) {
        (None, _) => &[][..],
        (Some(_), true) => &Mode::ALL,
        (Some(_), false) => &options.modes,
    };
    let bar = progress::bar(u64::from(options.rounds) * cases.len() as u64, options.quiet);
    let mut rounds = vec![Rounds::default(); cases.len()];
    for _ in 0..options.rounds {
        for (case, rounds) in cases.iter().zip(&mut rounds) {
            let Case { net, batch, workers } = *case;
            bar.set_message(format!("{}, batch {batch}, {workers} workers", net.name()));
            rounds.ours.push(ours::measure(case, options.shards, seconds)?);
            for &mode in modes {
                if interrupt::requested() {
                    return Err(stopped());
                }
                let peer = peer.as_mut().expect("modes are of a peer");
                rounds.add(mode, peer.rate(case, mode, seconds)?);
            }
            bar.inc(1);
            if interrupt::requested() {
                return Err(stopped());
            }
        }
    }
    bar.finish_and_clear();
    let rows: Vec<NnRow> = cases
        .iter()
        .zip(&rounds)
        .map(|(case, rounds)| NnRow::new(case, rounds, peak::gflops(case.workers, seconds / 4.0)))
        .collect();
    print(&rows, options.json, rows::render)
}

impl Rounds {
    fn add(&mut self, mode: Mode, rate: f64) {
        match self.peers.iter_mut().find(|(known, _)| *known == mode) {
            Some((_, rates)) => rates.push(rate),
            None => self.peers.push((mode, vec![rate])),
        }
    }
}

/// The cases that the options ask for. The reference network has its own batch size, unless one is
/// asked for.
fn cases(options: &BenchNnOptions) -> Vec<Case> {
    let nets = if options.nets.is_empty() { &Net::ALL } else { &options.nets[..] };
    let mut cases = Vec::new();
    for &net in nets {
        let batches = match options.batches.is_empty() {
            true => net.batches(),
            false => &options.batches,
        };
        for batch in batches.iter().map(|&batch| usize::from(batch)) {
            let workers = options.workers.iter().map(|&workers| usize::from(workers));
            cases.extend(workers.map(|workers| Case { net, batch, workers }));
        }
    }
    cases
}
