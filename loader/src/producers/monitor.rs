//! What producers and their trainer have been doing.

use std::fmt;
use std::time::{Duration, Instant};

use histogram::{Config, Histogram};
use serde::Serialize;

use super::claim::Position;
use super::error::{BadSample, End, EndKind};
use super::lane::ProducerState;
use super::ledger::Counts;

/// 2^5 buckets for each doubling: a quantile is off by 1/64 at most. Up to 2^44 ns.
const CONFIG: Config = match Config::new(5, 44) {
    Ok(config) => config,
    Err(_) => panic!("valid parameters"),
};
const LONGEST_NS: u64 = (1 << 44) - 1;

/// Waits of the trainer are charged to the input from this share of its time on.
const INPUT_BOUND: f64 = 0.05;

/// How long something takes, as it happens.
#[derive(Debug)]
pub(crate) struct TimeLog {
    histogram: Histogram,
    count: u64,
    total: Duration,
    squares: f64,
    longest: Duration,
}

impl TimeLog {
    pub(crate) fn new() -> Self {
        TimeLog {
            histogram: Histogram::with_config(&CONFIG),
            count: 0,
            total: Duration::ZERO,
            squares: 0.0,
            longest: Duration::ZERO,
        }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(LONGEST_NS);
        // Within the histogram's range.
        let _ = self.histogram.increment(ns);
        self.count += 1;
        self.total += time;
        self.squares += time.as_secs_f64().powi(2);
        self.longest = self.longest.max(time);
    }

    pub(crate) fn times(&self) -> Times {
        let quantile = |q: f64| {
            let found = self.histogram.quantile(q).ok().flatten();
            let bucket = found.and_then(|result| result.into_entries().into_values().next());
            bucket.map_or(0.0, |bucket| bucket.start().midpoint(bucket.end()) as f64 / 1e9)
        };
        let count = self.count.max(1) as f64;
        let mean = self.total.as_secs_f64() / count;
        Times {
            count: self.count,
            total: self.total.as_secs_f64(),
            mean,
            sd: (self.squares / count - mean * mean).max(0.0).sqrt(),
            median: quantile(0.5),
            p99: quantile(0.99),
            longest: self.longest.as_secs_f64(),
        }
    }
}

/// The waits of the trainer for batches, as they happen.
#[derive(Debug)]
pub(crate) struct WaitLog {
    first: Option<Duration>,
    /// When the first batch was given out.
    since: Option<Instant>,
    rest: TimeLog,
}

impl WaitLog {
    pub(crate) fn new() -> Self {
        WaitLog { first: None, since: None, rest: TimeLog::new() }
    }

    /// A batch was given out after a wait.
    pub(crate) fn add(&mut self, wait: Duration) {
        if self.first.is_some() {
            return self.rest.add(wait);
        }
        self.first = Some(wait);
        self.since = Some(Instant::now());
    }

    pub(crate) fn waits(&self) -> Waits {
        let first = self.first.unwrap_or_default().as_secs_f64();
        Waits { first, rest: self.rest.times() }
    }

    /// Who holds up whom, from the second batch on.
    pub(crate) fn verdict(&self) -> Verdict {
        let Some(since) = self.since.filter(|_| self.rest.count > 0) else {
            return Verdict::Unknown;
        };
        let elapsed = since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        match self.rest.total.as_secs_f64() / elapsed >= INPUT_BOUND {
            true => Verdict::InputBound,
            false => Verdict::ComputeBound,
        }
    }
}

/// How long something took, over many times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How often.
    pub count: u64,
    /// All together.
    pub total: f64,
    /// On average.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
    /// Half of them are not longer; off by 1/64 at most.
    pub median: f64,
    /// 99 of 100 are not longer; off by 1/64 at most.
    pub p99: f64,
    /// The longest.
    pub longest: f64,
}

/// How long the trainer waited for batches. The first wait, in which producers start and the
/// first samples are made, is told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// For the first batch, in seconds.
    pub first: f64,
    /// For each of the others.
    pub rest: Times,
}

/// Who holds up whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too early to say.
    Unknown,
    /// The trainer waits for samples for a twentieth of its time or more: more or faster
    /// producers would help.
    InputBound,
    /// The trainer has its samples; faster producers would not help.
    ComputeBound,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Unknown => "too early to say",
            Verdict::InputBound => "input-bound",
            Verdict::ComputeBound => "compute-bound",
        })
    }
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProducerStatus {
    /// What it is doing.
    pub state: ProducerState,
    /// Its process, if it is one.
    pub pid: Option<u32>,
    /// Samples that it made.
    pub produced: u64,
    /// Samples of it that were given out.
    pub delivered: u64,
    /// How often it was replaced.
    pub restarts: u64,
    /// Seconds in which it made samples.
    pub busy: f64,
}

/// Where the slots are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// All of them.
    pub total: usize,
    /// Those that wait for a claim.
    pub free: usize,
    /// Those that are being filled.
    pub in_work: usize,
    /// Those with a sample that waits for the trainer.
    pub ready: usize,
    /// Bytes of each.
    pub bytes_each: usize,
}

/// Numbers of producers that ended before their time, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndCounts {
    /// By themselves or by a signal, or could not be started.
    pub died: u64,
    /// Missed a deadline.
    pub hung: u64,
    /// Broke a rule of the protocol.
    pub rubbish: u64,
}

impl EndCounts {
    pub(crate) fn add(&mut self, kind: EndKind) {
        *match kind {
            EndKind::Died => &mut self.died,
            EndKind::Hung => &mut self.hung,
            EndKind::Rubbish => &mut self.rubbish,
        } += 1;
    }
}

/// A look at producers; [`Display`](fmt::Display) makes one line of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// `inline`, `threads` or `processes`.
    pub kind: &'static str,
    /// Each producer.
    pub producers: Vec<ProducerStatus>,
    /// The account of the samples.
    pub counts: Counts,
    /// Where the slots are.
    pub slots: Slots,
    /// The trainer's waits.
    pub waits: Waits,
    /// How long a sample took, from its claim to its answer. Of answers that came together only
    /// the first counts.
    pub making: Times,
    /// Who holds up whom.
    pub verdict: Verdict,
    /// Where a later run would go on.
    pub position: Position,
    /// Every sample that was skipped or substituted.
    pub bad: Vec<BadSample>,
    /// Producers that ended before their time.
    pub ended: EndCounts,
    /// How the last of them ended, at most [`Status::ENDS`].
    pub ends: Vec<End>,
    /// Threads that did not end when they were asked to, and still run.
    pub left_behind: usize,
}

impl Status {
    /// So many ends of producers are told in full.
    pub const ENDS: usize = 64;

    /// Replacements of producers, together.
    pub fn restarts(&self) -> u64 {
        self.producers.iter().map(|producer| producer.restarts).sum()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { counts, slots, waits, position, .. } = self;
        let count = |state| self.producers.iter().filter(|lane| lane.state == state).count();
        write!(
            f,
            "epoch {}, {} samples given out, {} ready; {} {}: {} working",
            position.epoch,
            counts.delivered,
            slots.ready,
            self.producers.len(),
            self.kind,
            count(ProducerState::Working),
        )?;
        use ProducerState::{GivenUp, Restarting, Slow, Starting};
        for state in [Starting, Slow, Restarting, GivenUp] {
            match count(state) {
                0 => {}
                n => write!(f, ", {n} {}", state.name())?,
            }
        }
        for (n, what) in [
            (self.restarts(), "restarts"),
            (counts.skipped, "samples skipped"),
            (counts.substituted, "samples substituted"),
        ] {
            if n > 0 {
                write!(f, "; {n} {what}")?;
            }
        }
        write!(f, "; wait {:.3} ms, {}", waits.rest.mean * 1e3, self.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_wait_is_apart_from_the_others() {
        let mut log = WaitLog::new();
        assert_eq!(log.verdict(), Verdict::Unknown);
        log.add(500 * MS);
        assert_eq!(
            (log.waits().first, log.waits().rest.count, log.waits().rest.p99),
            (0.5, 0, 0.0)
        );
        for _ in 0..99 {
            log.add(2 * MS);
        }
        log.add(102 * MS);
        let waits = log.waits().rest;
        assert_eq!((waits.count, waits.longest), (100, 0.102));
        assert!((waits.mean - 0.003).abs() < 1e-9 && (waits.total - 0.3).abs() < 1e-9);
        // 99 waits 1 ms below the mean and one 99 ms above.
        assert!((waits.sd - 0.00995).abs() < 1e-5, "{}", waits.sd);
        assert!((waits.median - 0.002).abs() <= 0.002 / 64.0);
        assert!((waits.p99 - 0.002).abs() <= 0.002 / 64.0);
        // 300 ms of waits in far less time than that: whoever waits that much is held up.
        assert_eq!(log.verdict(), Verdict::InputBound);
    }

    #[test]
    fn whoever_does_not_wait_is_not_held_up() {
        let mut log = WaitLog::new();
        log.add(500 * MS);
        log.add(Duration::ZERO);
        assert_eq!(log.verdict(), Verdict::ComputeBound);
        assert_eq!(log.waits().rest.mean, 0.0);
    }
}
