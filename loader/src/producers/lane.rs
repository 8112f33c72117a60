//! One producer's place: who works there, at what, and how often it was replaced.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::config::Restarts;

/// What a producer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProducerState {
    /// It was started and has not said anything yet.
    Starting,
    /// It waits for a free slot.
    Idle,
    /// It makes a sample.
    Working,
    /// It makes a sample for longer than the deadline, but gives signs of life.
    Slow,
    /// It ended and is replaced after a pause.
    Restarting,
    /// It was replaced too often and is given up.
    GivenUp,
    /// The run is over.
    Ended,
}

impl ProducerState {
    /// Its name: `starting`, `idle`, ...
    pub fn name(self) -> &'static str {
        match self {
            ProducerState::Starting => "starting",
            ProducerState::Idle => "idle",
            ProducerState::Working => "working",
            ProducerState::Slow => "slow",
            ProducerState::Restarting => "restarting",
            ProducerState::GivenUp => "given up",
            ProducerState::Ended => "ended",
        }
    }
}

/// The sample that a producer has in work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) sequence: u64,
    pub(crate) epoch: u32,
    pub(crate) index: u32,
    pub(crate) began: Instant,
    /// When it last gave a sign of life.
    pub(crate) sign: Instant,
}

/// When a producer has taken too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    pub(crate) deadline: Option<Duration>,
    pub(crate) limit: Option<Duration>,
}

impl Deadlines {
    /// When this work has taken too long, if nothing more is heard.
    pub(crate) fn end(self, work: &Work) -> Option<Instant> {
        let quiet = self.deadline.and_then(|deadline| work.sign.checked_add(deadline));
        let over = self.limit.and_then(|limit| work.began.checked_add(limit));
        [quiet, over].into_iter().flatten().min()
    }

    /// Why it has taken too long at `now`, if it has.
    pub(crate) fn missed(self, work: &Work, now: Instant) -> Option<String> {
        if self.end(work).is_none_or(|end| now < end) {
            return None;
        }
        let of = match (self.limit, self.deadline) {
            (Some(limit), _) if now.duration_since(work.began) >= limit => {
                format!("took longer than the limit of {limit:?}")
            }
            (_, Some(deadline)) => format!("gave no sign of life for {deadline:?}"),
            _ => return None,
        };
        Some(of)
    }

    /// Whether it takes longer than a sample should, and is alive all the same.
    fn is_slow(self, work: &Work, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now.duration_since(work.began) >= deadline)
    }
}

/// Whether and when a producer is replaced.
#[derive(Debug)]
pub(crate) struct RestartLog {
    rule: Restarts,
    recent: VecDeque<Instant>,
}

impl RestartLog {
    pub(crate) fn new(rule: Restarts) -> Self {
        RestartLog { rule, recent: VecDeque::new() }
    }

    /// The producer ended at `now`: the pause before the next takes its place, if one does.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Duration> {
        let is_over = |then: &Instant| now.duration_since(*then) >= self.rule.within;
        while self.recent.front().is_some_and(is_over) {
            self.recent.pop_front();
        }
        let before = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if before >= self.rule.limit {
            return None;
        }
        self.recent.push_back(now);
        let pause = 2u32.checked_pow(before).and_then(|factor| self.rule.pause.checked_mul(factor));
        Some(pause.map_or(self.rule.longest_pause, |pause| pause.min(self.rule.longest_pause)))
    }
}

/// One producer's place.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: ProducerState,
    /// Which of the producers that were here it is; one that was given up is of an earlier one.
    pub(crate) generation: u32,
    pub(crate) pid: Option<u32>,
    /// What it works on.
    pub(crate) work: Option<Work>,
    /// When the next one is to be started.
    pub(crate) restart_at: Option<Instant>,
    pub(crate) log: RestartLog,
    pub(crate) produced: u64,
    pub(crate) delivered: u64,
    pub(crate) restarts: u64,
    /// Time in which it made samples.
    pub(crate) busy: Duration,
}

impl Lane {
    pub(crate) fn new(rule: Restarts) -> Self {
        Lane {
            state: ProducerState::Starting,
            generation: 0,
            pid: None,
            work: None,
            restart_at: None,
            log: RestartLog::new(rule),
            produced: 0,
            delivered: 0,
            restarts: 0,
            busy: Duration::ZERO,
        }
    }

    /// Its state at `now`.
    pub(crate) fn state_at(&self, deadlines: Deadlines, now: Instant) -> ProducerState {
        match (self.state, &self.work) {
            (ProducerState::Working, Some(work)) if deadlines.is_slow(work, now) => {
                ProducerState::Slow
            }
            (state, _) => state,
        }
    }

    /// Whether a replacement is due; it is one now.
    pub(crate) fn take_restart(&mut self, now: Instant) -> bool {
        let is_due = self.restart_at.is_some_and(|at| at <= now);
        if is_due {
            self.restart_at = None;
            self.restarts += 1;
            self.state = ProducerState::Starting;
        }
        is_due
    }

    /// The producer has ended: another is to follow after a pause, or none.
    pub(crate) fn end(&mut self, now: Instant) {
        self.generation += 1;
        self.work = None;
        self.pid = None;
        self.restart_at = self.log.next(now).map(|pause| now + pause);
        self.state = match self.restart_at {
            Some(_) => ProducerState::Restarting,
            None => ProducerState::GivenUp,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_longest_and_then_it_is_given_up() {
        let rule = Restarts { limit: 4, within: 1000 * MS, pause: 10 * MS, longest_pause: 35 * MS };
        let start = Instant::now();
        let mut log = RestartLog::new(rule);
        let pauses: Vec<_> = (0..5).map(|i| log.next(start + i * MS)).collect();
        assert_eq!(pauses, [Some(10 * MS), Some(20 * MS), Some(35 * MS), Some(35 * MS), None]);
        // Once the first one is long ago, another is allowed.
        assert_eq!(log.next(start + 1000 * MS), Some(35 * MS));
        assert_eq!(log.next(start + 1000 * MS), None);
        assert_eq!(log.next(start + 9000 * MS), Some(10 * MS));
        assert_eq!(RestartLog::new(Restarts { limit: 0, ..rule }).next(start), None);
    }

    #[test]
    fn a_sign_of_life_moves_the_deadline_but_not_the_limit() {
        let start = Instant::now();
        let mut work = Work { sequence: 0, epoch: 0, index: 0, began: start, sign: start };
        let rule = Deadlines { deadline: Some(10 * MS), limit: Some(25 * MS) };
        assert_eq!(rule.end(&work), Some(start + 10 * MS));
        assert_eq!(rule.missed(&work, start + 9 * MS), None);
        assert_eq!(rule.missed(&work, start + 10 * MS).unwrap(), "gave no sign of life for 10ms");
        work.sign = start + 9 * MS;
        assert_eq!(rule.missed(&work, start + 18 * MS), None);
        work.sign = start + 20 * MS;
        let missed = rule.missed(&work, start + 25 * MS).unwrap();
        assert_eq!(missed, "took longer than the limit of 25ms");
        let none = Deadlines { deadline: None, limit: None };
        assert_eq!((none.end(&work), none.missed(&work, start + 9000 * MS)), (None, None));
    }

    #[test]
    fn slow_is_told_from_working() {
        let start = Instant::now();
        let mut lane = Lane::new(Restarts::default());
        lane.state = ProducerState::Working;
        lane.work =
            Some(Work { sequence: 0, epoch: 0, index: 0, began: start, sign: start + 9 * MS });
        let rule = Deadlines { deadline: Some(10 * MS), limit: None };
        assert_eq!(lane.state_at(rule, start + 9 * MS), ProducerState::Working);
        assert_eq!(lane.state_at(rule, start + 10 * MS), ProducerState::Slow);
        lane.end(start);
        assert_eq!(lane.state_at(rule, start + 10 * MS), ProducerState::Restarting);
    }
}
