//! What is under the lock of [`Shared`](super::shared): where samples, slots and producers are.

use std::time::Instant;

use super::claim::Claim;
use super::config::{ProducersConfig, Sizes};
use super::error::{End, ProducersError};
use super::lane::{Lane, ProducerState, Work};
use super::ledger::Ledger;
use super::monitor::{ProducerStatus, Slots, Status, WaitLog};
use super::shared::Shared;
use super::slot::Slot;

/// A claim with the slot that its sample goes into.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) sequence: u64,
    pub(crate) claim: Claim,
    pub(crate) slot: Slot,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ledger: Ledger<Slot>,
    pub(super) free: Vec<Slot>,
    pub(super) slots: usize,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) failure: Option<ProducersError>,
    pub(crate) stopping: bool,
    /// Threads that have not ended, those that were given up among them.
    pub(crate) alive: usize,
    pub(super) left_behind: usize,
    pub(super) trainer_waits: bool,
    pub(super) idle: usize,
    pub(super) held: usize,
    pub(super) waits: WaitLog,
    pub(super) ended: u64,
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
            alive: 0,
            left_behind: 0,
            trainer_waits: false,
            idle: 0,
            held: 0,
            waits: WaitLog::new(),
            ended: 0,
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
        let (sequence, claim) = self.ledger.claim(producer)?;
        let slot = self.free.pop()?;
        let now = Instant::now();
        let Claim { epoch, index, .. } = claim;
        let lane = &mut self.lanes[producer];
        lane.work = Some(Work { sequence, epoch, index, began: now, sign: now });
        lane.state = ProducerState::Working;
        Some(Job { sequence, claim, slot })
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
            lane.busy += now.duration_since(work.began);
        }
        let result = match made {
            Ok(()) => {
                lane.produced += 1;
                if let Err(slot) = self.ledger.complete(job.sequence, producer, job.slot) {
                    self.free.push(slot);
                }
                Ok(())
            }
            Err(cause) => {
                self.free.push(job.slot);
                self.ledger.fail(job.sequence, producer, cause)
            }
        };
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
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

    /// A producer has ended before its time.
    pub(crate) fn end(&mut self, producer: usize, how: &str, now: Instant) {
        let lane = &mut self.lanes[producer];
        let work = lane.work.take();
        let samples = work.iter().map(|work| (work.epoch, work.index)).collect();
        let end = End { producer, pid: lane.pid, how: how.to_owned(), samples };
        lane.end(now);
        if let Some(work) = work
            && let Err(failure) = self.ledger.release(work.sequence, producer, how)
        {
            self.failure.get_or_insert(failure);
        }
        self.ended += 1;
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
            verdict: self.waits.verdict(),
            position: self.ledger.position(),
            bad: self.ledger.bad().to_vec(),
            ended: self.ended,
            ends: self.ends.clone(),
            left_behind: self.left_behind,
        }
    }
}
