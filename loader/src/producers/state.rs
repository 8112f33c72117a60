//! What is under the lock of [`Shared`](super::shared): where samples, slots and producers are.

use std::time::Instant;

use super::claim::Claim;
use super::config::{ProducersConfig, Sizes};
use super::error::{End, EndKind, ProducersError};
use super::lane::{Lane, ProducerState, Work};
use super::ledger::Ledger;
use super::monitor::{EndCounts, ProducerStatus, Slots, Status, TimeLog, WaitLog};
use super::shared::Shared;
use super::slot::Slot;

/// A claim with the slot that its sample goes into.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) sequence: u64,
    pub(crate) claim: Claim,
    pub(crate) slot: Slot,
    /// Whether a producer ended before with this claim.
    pub(crate) is_again: bool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ledger: Ledger<Slot>,
    pub(super) free: Vec<Slot>,
    pub(super) slots: usize,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) failure: Option<ProducersError>,
    pub(crate) stopping: bool,
    /// Whether the account is closed: slots that come back are no longer needed.
    pub(super) is_closed: bool,
    /// Threads that have not ended, those that were given up among them.
    pub(crate) alive: usize,
    pub(super) left_behind: usize,
    pub(super) trainer_waits: bool,
    pub(super) idle: usize,
    pub(super) held: usize,
    pub(super) waits: WaitLog,
    making: TimeLog,
    pub(super) ended: EndCounts,
    pub(super) ends: Vec<End>,
}

impl State {
    /// A state in which nothing has been claimed.
    pub(super) fn new(
        config: &ProducersConfig,
        producers: usize,
        sizes: Sizes,
        slots: Vec<Slot>,
    ) -> Self {
        State {
            ledger: Ledger::new(config, sizes.window),
            free: slots,
            slots: sizes.slots,
            lanes: (0..producers).map(|_| Lane::new(config.restarts)).collect(),
            failure: None,
            stopping: false,
            is_closed: false,
            alive: 0,
            left_behind: 0,
            trainer_waits: false,
            idle: 0,
            held: 0,
            waits: WaitLog::new(),
            making: TimeLog::new(),
            ended: EndCounts::default(),
            ends: Vec::new(),
        }
    }

    /// Whether the trainer has something to be told.
    pub(super) fn is_decided(&mut self) -> bool {
        self.stopping || self.failure.is_some() || self.ledger.is_ready() || self.ledger.is_over()
    }

    pub(super) fn can_claim(&self) -> bool {
        !self.free.is_empty() && self.failure.is_none() && self.ledger.is_claimable()
    }

    /// Gives a producer something to do, if there is something and a slot for it.
    pub(crate) fn claim(&mut self, producer: usize) -> Option<Job> {
        if !self.can_claim() {
            return None;
        }
        let is_again = self.ledger.is_next_again();
        let (sequence, claim) = self.ledger.claim(producer)?;
        let slot = self.free.pop()?;
        Some(Job { sequence, claim, slot, is_again })
    }

    /// Slots come back.
    pub(super) fn put_back(&mut self, slots: impl IntoIterator<Item = Slot>) {
        if self.is_closed { slots.into_iter().for_each(drop) } else { self.free.extend(slots) }
    }

    /// The producer begins to make the sample of a job, or has nothing to do.
    pub(crate) fn begin(&mut self, producer: usize, job: Option<&Job>) {
        let now = Instant::now();
        let lane = &mut self.lanes[producer];
        lane.work = job.map(|job| {
            let Job { sequence, claim: Claim { epoch, index, .. }, .. } = *job;
            Work { sequence, epoch, index, began: now, sign: now }
        });
        lane.state = match job {
            Some(_) => ProducerState::Working,
            None => ProducerState::Idle,
        };
    }

    /// The producer has made its sample, or says why it cannot.
    pub(crate) fn finish(
        &mut self,
        producer: usize,
        job: Job,
        made: Result<(), String>,
        now: Instant,
    ) {
        let lane = &mut self.lanes[producer];
        if let Some(work) = lane.work.take() {
            let time = now.duration_since(work.began);
            lane.busy += time;
            self.making.add(time);
        }
        let result = match made {
            Ok(()) => {
                lane.produced += 1;
                if let Err(slot) = self.ledger.complete(job.sequence, producer, job.slot) {
                    self.put_back([slot]);
                }
                Ok(())
            }
            Err(cause) => {
                self.put_back([job.slot]);
                self.ledger.fail(job.sequence, producer, cause)
            }
        };
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
    }

    /// Whether the bell is to ring when there is something to claim.
    pub(crate) fn wants_ring(&mut self, wanted: bool) {
        self.idle = usize::from(wanted);
    }

    /// A sign of life.
    pub(crate) fn beat(&mut self, producer: usize, generation: u32) {
        let lane = &mut self.lanes[producer];
        if lane.generation == generation
            && let Some(work) = &mut lane.work
        {
            work.sign = Instant::now();
        }
    }

    /// A producer has ended before its time. Its claims are open again; `jobs` are those of which
    /// the slots came back.
    pub(crate) fn end(
        &mut self,
        producer: usize,
        kind: EndKind,
        how: &str,
        jobs: Vec<Job>,
        now: Instant,
    ) {
        let lane = &mut self.lanes[producer];
        let work = lane.work.take();
        let claims = jobs.iter().map(|job| (job.claim.epoch, job.claim.index));
        let samples = match &work {
            Some(work) if jobs.is_empty() => vec![(work.epoch, work.index)],
            _ => claims.collect(),
        };
        let end = End { producer, pid: lane.pid, kind, how: how.to_owned(), samples };
        lane.end(now);
        // Of several claims any may have ended it, because answers are sent together: all are
        // made again, each alone, and then it is known.
        let blamed = work.filter(|_| jobs.len() <= 1);
        if let Some(work) = blamed
            && let Err(failure) = self.ledger.release(work.sequence, producer, how)
        {
            self.failure.get_or_insert(failure);
        }
        for job in jobs {
            self.ledger.unclaim(job.sequence, producer);
            self.put_back([job.slot]);
        }
        self.ended.add(kind);
        if self.ends.len() == Status::ENDS {
            self.ends.remove(0);
        }
        self.ends.push(end);
        if self.lanes.iter().all(|lane| lane.state == ProducerState::GivenUp) {
            let last_of =
                |producer| self.ends.iter().rev().find(|end| end.producer == producer).cloned();
            let ends = (0..self.lanes.len()).filter_map(last_of).collect();
            self.failure.get_or_insert(ProducersError::NoneLeft { ends });
        }
    }

    pub(super) fn status(&self, shared: &Shared) -> Status {
        let now = Instant::now();
        let status = |lane: &Lane| ProducerStatus {
            state: lane.state_at(shared.deadlines, now),
            pid: lane.pid,
            produced: lane.produced,
            delivered: lane.delivered,
            restarts: lane.restarts,
            busy: lane.busy.as_secs_f64(),
        };
        let counts = self.ledger.counts();
        Status {
            kind: shared.kind,
            producers: self.lanes.iter().map(status).collect(),
            counts,
            slots: Slots {
                total: self.slots,
                free: self.free.len(),
                in_work: self.ledger.in_work_count(),
                ready: counts.queued as usize,
                bytes_each: shared.layout.slot_bytes(),
            },
            waits: self.waits.waits(),
            making: self.making.times(),
            verdict: self.waits.verdict(),
            position: self.ledger.position(),
            bad: self.ledger.bad().to_vec(),
            ended: self.ended,
            ends: self.ends.clone(),
            left_behind: self.left_behind,
        }
    }
}
