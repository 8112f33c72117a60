//! What the trainer, the producers and their supervisor share: one lock, and who waits for what.
//!
//! Everything is in [`State`], behind one lock that is held for some hundred instructions at a
//! time and never while a sample is made, a process is waited for or a payload is touched. Each
//! waits on a condition variable of its own:
//!
//! | who | waits until | told by |
//! |---|---|---|
//! | the trainer | a batch is ready, the run is over, failed or stopped | [`Shared::update`] |
//! | idle threads | there is a free slot and something to claim, or a stop | [`Shared::update`] |
//! | the supervisor of threads | a deadline or a restart is due, or a stop | its own clock, [`Shared::stop`] |
//! | the supervisor of processes | a link is ready, or as idle threads and the supervisor of threads | the system, [`Bell`] |
//! | whoever stops | all threads have ended | [`Shared::update`] |
//!
//! Whoever changes the state does it inside [`Shared::update`], which looks afterwards who must
//! be told; so no change can forget it. Nobody looks again and again: a sleeper is woken by the
//! change that it waits for, or by its own deadline.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::budget::Budget;
use super::config::{ProducersConfig, Sizes};
use super::error::ProducersError;
use super::lane::{Deadlines, ProducerState};
use super::layout::Layout;
use super::ledger::TakenBatch;
use super::monitor::Status;
use super::slot::Slot;
use super::state::{Job, State};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) kind: &'static str,
    pub(crate) layout: Layout,
    pub(crate) deadlines: Deadlines,
    pub(crate) grace: Duration,
    budget: Budget,
    most_held: usize,
    state: Mutex<State>,
    trainer: Condvar,
    idle: Condvar,
    supervisor: Condvar,
    gone: Condvar,
    pub(crate) bell: Option<Bell>,
}

impl Shared {
    /// `slots` are as many as `sizes` says; `bell` wakes a supervisor that waits for links.
    pub(crate) fn new(
        kind: &'static str,
        layout: Layout,
        config: &ProducersConfig,
        producers: usize,
        sizes: Sizes,
        slots: Vec<Slot>,
        bell: Option<Bell>,
    ) -> Self {
        let state = State::new(config, producers, sizes, slots);
        Shared {
            kind,
            layout,
            deadlines: Deadlines { deadline: config.deadline, limit: config.limit },
            grace: config.grace,
            budget: config.budget.clone(),
            most_held: config.held,
            state: Mutex::new(state),
            trainer: Condvar::new(),
            idle: Condvar::new(),
            supervisor: Condvar::new(),
            gone: Condvar::new(),
            bell,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // What runs under the lock is ours and leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells whoever waits for what it is now.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        self.tell(state);
        result
    }

    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let trainer = state.trainer_waits && state.is_decided();
        // Whoever is woken is counted as awake, so that it is not woken again meanwhile. One that
        // wakes by itself is counted twice, and at most woken in vain.
        state.trainer_waits &= !trainer;
        let wake = match (state.stopping, state.can_claim()) {
            (true, _) => state.idle,
            (false, true) => state.idle.min(state.free.len()),
            (false, false) => 0,
        };
        state.idle -= wake;
        let gone = state.stopping && state.alive == 0;
        let stopping = state.stopping;
        drop(state);
        if trainer {
            self.trainer.notify_all();
        }
        match &self.bell {
            None => (0..wake).for_each(|_| self.idle.notify_one()),
            Some(bell) if wake > 0 || stopping => bell.ring(),
            Some(_) => {}
        }
        if gone {
            self.gone.notify_all();
        }
        if stopping {
            self.supervisor.notify_all();
        }
    }

    /// The next batch, or `None` when the run is over; waits for it.
    pub(crate) fn next(&self) -> Result<Option<TakenBatch<Slot>>, ProducersError> {
        let mut began = None;
        let mut state = self.lock();
        loop {
            if let Some(result) = self.try_next(&mut state, began) {
                self.tell(state);
                return result;
            }
            began.get_or_insert_with(Instant::now);
            state.trainer_waits = true;
            state = self.trainer.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What [`next`](Self::next) gives, if that is decided; `began` is when the wait began.
    pub(crate) fn try_next(
        &self,
        state: &mut State,
        began: Option<Instant>,
    ) -> Option<Result<Option<TakenBatch<Slot>>, ProducersError>> {
        if state.stopping {
            return Some(Err(ProducersError::Stopped));
        }
        if state.held >= self.most_held && !state.ledger.is_over() {
            return Some(Err(ProducersError::Held { held: state.held }));
        }
        // What is ready is given out even if something failed after it.
        while let Some(batch) = state.ledger.take() {
            if batch.dropped {
                state.free.extend(batch.samples.into_iter().map(|sample| sample.slot));
                continue;
            }
            for sample in &batch.samples {
                state.lanes[sample.producer].delivered += 1;
            }
            state.held += 1;
            state.waits.add(began.map_or(Duration::ZERO, |began| began.elapsed()));
            return Some(Ok(Some(batch)));
        }
        if state.ledger.is_over() {
            return Some(Ok(None));
        }
        state.failure.clone().map(Err)
    }

    /// A batch is no longer needed.
    pub(crate) fn give_back(&self, slots: impl Iterator<Item = Slot>) {
        self.update(|state| {
            state.put_back(slots);
            state.held -= 1;
        });
    }

    /// Waits for a claim; `None` when there will be none for this producer any more.
    pub(crate) fn claim(&self, producer: usize, generation: u32) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stopping || state.lanes[producer].generation != generation {
                return None;
            }
            if let Some(job) = state.claim(producer) {
                state.begin(producer, Some(&job));
                return Some(job);
            }
            state.begin(producer, None);
            state.idle += 1;
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A producer is done with its claim. Whether it may go on.
    pub(crate) fn finish(
        &self,
        producer: usize,
        generation: u32,
        job: Job,
        made: Result<(), String>,
    ) -> bool {
        self.update(|state| {
            if state.lanes[producer].generation != generation {
                // Given up as hung: another has the claim, and its memory was replaced.
                if made.is_ok() {
                    state.ledger.discard_stale();
                }
                return false;
            }
            state.finish(producer, job, made, Instant::now());
            true
        })
    }

    /// Lets the supervisor sleep until something is due; false once it is to end.
    pub(crate) fn supervise(&self, look: impl Fn(&mut State, Instant) -> Option<Instant>) -> bool {
        let due = self.update(|state| look(state, Instant::now()));
        let state = self.lock();
        if state.stopping {
            return false;
        }
        let state = match due {
            None => self.supervisor.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let timeout = due.saturating_duration_since(Instant::now());
                let wait = self.supervisor.wait_timeout(state, timeout);
                wait.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        !state.stopping
    }

    /// Why a producer has taken too long at `now`, if it has.
    pub(crate) fn missed(&self, producer: usize, now: Instant) -> Option<String> {
        let state = self.lock();
        self.deadlines.missed(state.lanes[producer].work.as_ref()?, now)
    }

    /// A new slot in place of one that a hung thread keeps.
    pub(crate) fn replace_slot(&self, state: &mut State) -> Result<(), ProducersError> {
        state.free.push(Slot::new(&self.layout, &self.budget)?);
        Ok(())
    }

    /// Nothing more is to be made.
    pub(crate) fn stop(&self) {
        self.update(|state| state.stopping = true);
    }

    /// Waits until all threads have ended, but not longer than the grace; those that have not
    /// are left behind.
    pub(crate) fn wait_for_threads(&self) {
        let wait = self.gone.wait_timeout_while(self.lock(), self.grace, |state| state.alive > 0);
        let (mut state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        state.left_behind = state.alive;
    }

    /// Closes the account of a run that is over or stopped.
    pub(crate) fn close(&self) {
        self.update(|state| {
            // Threads may hold the state for a moment longer; the memory must not wait for that.
            state.is_closed = true;
            state.ledger.stop();
            state.free.clear();
            for lane in &mut state.lanes {
                if lane.state != ProducerState::GivenUp {
                    lane.state = ProducerState::Ended;
                }
                lane.work = None;
            }
        });
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status(self)
    }
}
