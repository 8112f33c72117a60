//! Which sample is where: the account of a run, without threads, processes or time.
//!
//! Each place of the stream has an *entry* from when it is first claimed until it has been given
//! out and all before it have, too. An entry's state changes only as follows, and only by the
//! method that is named:
//!
//! | from | to | by |
//! |---|---|---|
//! | nothing | in work | [`Ledger::claim`], at the end of the entries |
//! | open | in work | [`Ledger::claim`], the oldest open one first |
//! | in work | ready | [`Ledger::complete`], by the producer that has it, and no other |
//! | in work | open | [`Ledger::release`] and [`Ledger::unclaim`] (its producer ended), [`Ledger::fail`] (substituted) |
//! | in work | skipped | [`Ledger::fail`] |
//! | ready | taken | [`Ledger::take`] |
//! | ready | open | [`Ledger::stop`]; nothing is claimed after that |
//!
//! So a sample that has been given out can never be given out again, and one that is in work
//! with a producer that ended is always claimed anew. [`Audit`] counts both all the same, from
//! what is given out alone.
//!
//! **No deadlock.** A claim needs a free slot. Open entries are claimed before any place is
//! entered, and the slot of an entry that opens becomes free with it; so the oldest entry that
//! is not ready is in work or has a slot to be had, whatever the ready ones behind it occupy.

mod audit;
mod counts;

use std::collections::{BTreeSet, VecDeque};

use audit::Audit;
pub use counts::Counts;

use super::claim::{Claim, Place, Position, Stream};
use super::config::{BadSamples, Delivery, LastBatch, ProducersConfig};
use super::error::{BadSample, ProducersError};

#[derive(Debug)]
enum State<S> {
    Open,
    InWork { producer: usize },
    Ready { producer: usize, slot: S },
    Skipped,
    Taken,
}

#[derive(Debug)]
struct Entry<S> {
    place: Place,
    /// The sample to be made: that of the place, or a substitute.
    index: u32,
    substitutes: u32,
    /// Producers that ended with it since it, or its substitute, was first claimed.
    attempts: u32,
    state: State<S>,
}

impl<S> Entry<S> {
    fn new(place: Place, state: State<S>) -> Self {
        Entry { place, index: place.index, substitutes: 0, attempts: 0, state }
    }
}

/// A sample that is given out.
#[derive(Debug)]
pub(crate) struct Taken<S> {
    pub(crate) index: u32,
    pub(crate) producer: usize,
    pub(crate) slot: S,
}

/// A batch that is given out.
#[derive(Debug)]
pub(crate) struct TakenBatch<S> {
    pub(crate) epoch: u32,
    pub(crate) index_in_epoch: u32,
    /// Samples that do not pad.
    pub(crate) counted: usize,
    /// Whether it is a last batch that is to be dropped.
    pub(crate) dropped: bool,
    pub(crate) samples: Vec<Taken<S>>,
}

#[derive(Debug)]
pub(crate) struct Ledger<S> {
    stream: Stream,
    rules: Rules,
    entries: VecDeque<Entry<S>>,
    /// Sequence number of the first entry.
    base: u64,
    open: BTreeSet<u64>,
    /// Entries from the first on that are neither open nor in work: the window begins after them.
    settled: usize,
    /// What is given out next.
    position: Position,
    /// Places of the first epoch that an earlier run has given out, from the first on that has
    /// no entry yet.
    resumed: VecDeque<u32>,
    /// Places of that epoch that are neither given out nor skipped.
    left: usize,
    ready: ReadyOnes,
    audit: Audit,
    counts: Counts,
    bad: Vec<BadSample>,
}

#[derive(Debug)]
struct Rules {
    batch_size: usize,
    epochs: u32,
    window: usize,
    in_order: bool,
    drops_last: bool,
    bad: BadSamples,
    attempts: u32,
}

/// What is known of the entries that can be given out, so that nothing is counted twice.
#[derive(Debug, Default)]
struct ReadyOnes {
    /// In order: entries from the first on that are ready or skipped, and how many are ready.
    scanned: usize,
    found: usize,
    /// As ready: entries of the epoch that is given out, and of later ones. The oldest go first,
    /// so that none stays behind for ever.
    now: BTreeSet<u64>,
    later: BTreeSet<u64>,
}

impl<S> Ledger<S> {
    /// `config` has been checked.
    pub(crate) fn new(config: &ProducersConfig, window: usize) -> Self {
        let position = config.first();
        let stream = Stream::new(config, &position);
        let before = position.next as usize + position.ahead.len();
        let mut ledger = Ledger {
            left: (stream.places() as usize).saturating_sub(before),
            audit: Audit::new(&stream, &position),
            stream,
            rules: Rules {
                batch_size: config.batch_size,
                epochs: config.epochs,
                window,
                in_order: config.delivery == Delivery::InOrder,
                drops_last: config.last == LastBatch::Drop,
                bad: config.bad,
                attempts: config.attempts,
            },
            entries: VecDeque::new(),
            base: 0,
            open: BTreeSet::new(),
            settled: 0,
            resumed: position.ahead.iter().copied().collect(),
            position,
            ready: ReadyOnes::default(),
            counts: Counts::default(),
            bad: Vec::new(),
        };
        ledger.enter_resumed();
        ledger
    }

    /// Whether there is something to claim.
    pub(crate) fn is_claimable(&self) -> bool {
        !self.open.is_empty() || (self.is_within_window() && !self.stream.is_over())
    }

    /// Whether the next claim is one that went out before.
    pub(crate) fn is_next_again(&self) -> bool {
        !self.open.is_empty()
    }

    /// Gives a sample to a producer, under a sequence number. The caller has a slot for it.
    pub(crate) fn claim(&mut self, producer: usize) -> Option<(u64, Claim)> {
        let sequence = match self.open.pop_first() {
            Some(sequence) => {
                self.counts.reissued += 1;
                sequence
            }
            None if self.is_within_window() => self.enter()?,
            None => return None,
        };
        self.counts.claimed += 1;
        let (epoch, index) = {
            let entry = self.entry(sequence)?;
            entry.state = State::InWork { producer };
            (entry.place.epoch, entry.index)
        };
        Some((sequence, self.stream.claim(epoch, index)))
    }

    /// Whether the next place is not too far beyond the oldest that is open or in work.
    fn is_within_window(&self) -> bool {
        self.entries.len() - self.settled < self.rules.window
    }

    /// Goes on over entries that are settled: no entry comes back from that.
    fn settle(&mut self) {
        let is_settled =
            |entry: &Entry<S>| !matches!(entry.state, State::Open | State::InWork { .. });
        while self.entries.get(self.settled).is_some_and(is_settled) {
            self.settled += 1;
        }
    }

    fn enter(&mut self) -> Option<u64> {
        let place = self.stream.next()?;
        self.entries.push_back(Entry::new(place, State::Open));
        let sequence = self.base + self.entries.len() as u64 - 1;
        self.enter_resumed();
        Some(sequence)
    }

    /// Enters the places that follow and were given out by an earlier run.
    fn enter_resumed(&mut self) {
        let epoch = self.position.epoch;
        while self.resumed.front().is_some_and(|&place| self.stream.is_next(epoch, place)) {
            self.resumed.pop_front();
            let taken = self.stream.next().map(|place| Entry::new(place, State::Taken));
            self.entries.extend(taken);
        }
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut Entry<S>> {
        let at = usize::try_from(sequence.checked_sub(self.base)?).ok()?;
        self.entries.get_mut(at)
    }

    /// The entry if it is in work with this producer.
    fn in_work(&mut self, sequence: u64, by: usize) -> Option<&mut Entry<S>> {
        let is_theirs = |entry: &&mut Entry<S>| matches!(entry.state, State::InWork { producer } if producer == by);
        self.entry(sequence).filter(is_theirs)
    }

    /// The producer's sample is in the slot. Gives the slot back when the claim is not theirs.
    pub(crate) fn complete(&mut self, sequence: u64, producer: usize, slot: S) -> Result<(), S> {
        let epoch = self.position.epoch;
        let Some(entry) = self.in_work(sequence, producer) else { return Err(slot) };
        let is_now = entry.place.epoch == epoch;
        entry.state = State::Ready { producer, slot };
        self.counts.produced += 1;
        self.counts.queued += 1;
        if !self.rules.in_order {
            let ready = if is_now { &mut self.ready.now } else { &mut self.ready.later };
            ready.insert(sequence);
        }
        self.settle();
        Ok(())
    }

    /// A sample came back for a claim that is somebody else's by now.
    pub(crate) fn discard_stale(&mut self) {
        self.counts.produced += 1;
        self.counts.discarded_stale += 1;
    }

    /// The producer ended with this claim; another one is to make the sample, unless it has
    /// ended too many of them.
    pub(crate) fn release(
        &mut self,
        sequence: u64,
        producer: usize,
        how: &str,
    ) -> Result<(), ProducersError> {
        let most = self.rules.attempts;
        let Some(entry) = self.in_work(sequence, producer) else { return Ok(()) };
        entry.attempts += 1;
        if entry.attempts >= most {
            let cause = format!("it ended {} producers; the last {how}", entry.attempts);
            return self.fail(sequence, producer, cause);
        }
        self.reopen(sequence);
        Ok(())
    }

    /// The claim was not begun when its producer ended: it is open again.
    pub(crate) fn unclaim(&mut self, sequence: u64, producer: usize) {
        if self.in_work(sequence, producer).is_some() {
            self.reopen(sequence);
        }
    }

    fn reopen(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.state = State::Open;
            self.open.insert(sequence);
        }
    }

    /// The sample cannot be made: what the rule for bad samples says.
    pub(crate) fn fail(
        &mut self,
        sequence: u64,
        producer: usize,
        cause: String,
    ) -> Result<(), ProducersError> {
        let Some(entry) = self.in_work(sequence, producer) else { return Ok(()) };
        let (place, index, before) = (entry.place, entry.index, entry.substitutes);
        let mut bad = BadSample { epoch: place.epoch, index, cause, substitute: None };
        let limit = match self.rules.bad {
            BadSamples::Fail => return Err(ProducersError::BadSample(bad)),
            BadSamples::Skip { limit } | BadSamples::Substitute { limit } => limit,
        };
        if self.bad.len() as u64 >= u64::from(limit) {
            return Err(ProducersError::TooManyBad { limit, last: bad });
        }
        if self.rules.bad.skips() {
            self.skip(sequence, place.epoch);
        } else {
            let substitute = self.stream.substitute(place, before);
            bad.substitute = Some(substitute);
            self.counts.substituted += 1;
            if let Some(entry) = self.entry(sequence) {
                entry.index = substitute;
                entry.substitutes += 1;
                entry.attempts = 0;
            }
            self.reopen(sequence);
        }
        self.bad.push(bad);
        Ok(())
    }

    fn skip(&mut self, sequence: u64, epoch: u32) {
        self.counts.skipped += 1;
        if let Some(entry) = self.entry(sequence) {
            entry.state = State::Skipped;
        }
        if epoch == self.position.epoch {
            self.left -= 1;
            self.audit.excused += 1;
        }
        self.settle();
    }

    /// Whether every batch of every epoch has been given out.
    pub(crate) fn is_over(&mut self) -> bool {
        self.end_epochs();
        self.position.epoch >= self.rules.epochs || self.stream.places() == 0
    }

    /// Whether [`take`](Self::take) would give something.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.is_over() && self.available() >= self.wanted()
    }

    /// Samples of the next batch, at least 1.
    fn wanted(&self) -> usize {
        self.rules.batch_size.min(self.left)
    }

    /// Samples that could go into the next batch, at most as many as are wanted.
    fn available(&mut self) -> usize {
        let wanted = self.wanted();
        if !self.rules.in_order {
            return self.ready.now.len().min(wanted);
        }
        let epoch = self.position.epoch;
        while self.ready.found < wanted {
            match self.entries.get(self.ready.scanned) {
                Some(entry) if entry.place.epoch != epoch => break,
                Some(Entry { state: State::Ready { .. }, .. }) => self.ready.found += 1,
                Some(Entry { state: State::Skipped, .. }) => {}
                _ => break,
            }
            self.ready.scanned += 1;
        }
        self.ready.found
    }

    /// Gives out the next batch if all of it is ready.
    pub(crate) fn take(&mut self) -> Option<TakenBatch<S>> {
        if !self.is_ready() {
            return None;
        }
        let wanted = self.wanted();
        let dropped = self.rules.drops_last && wanted < self.rules.batch_size;
        let mut batch = TakenBatch {
            epoch: self.position.epoch,
            index_in_epoch: self.position.batches,
            counted: 0,
            dropped,
            samples: Vec::with_capacity(wanted),
        };
        let mut at = 0;
        while batch.samples.len() < wanted {
            let sequence = match self.rules.in_order {
                true => self.base + at,
                false => self.ready.now.pop_first()?,
            };
            at += 1;
            let counted = self.take_one(sequence, dropped, &mut batch.samples);
            batch.counted += usize::from(counted);
        }
        self.ready.scanned = 0;
        self.ready.found = 0;
        self.left -= wanted;
        self.position.batches += u32::from(!dropped);
        self.counts.queued -= wanted as u64;
        match dropped {
            true => self.counts.discarded_last_batch += wanted as u64,
            false => self.counts.delivered += wanted as u64,
        }
        self.forget_taken();
        Some(batch)
    }

    /// Takes an entry if it is ready. Whether its sample counts, and does not pad.
    fn take_one(&mut self, sequence: u64, dropped: bool, samples: &mut Vec<Taken<S>>) -> bool {
        let counted = self.stream.counted();
        let Some(entry) = self.entry(sequence) else { return false };
        if !matches!(entry.state, State::Ready { .. }) {
            return false;
        }
        let State::Ready { producer, slot } = std::mem::replace(&mut entry.state, State::Taken)
        else {
            return false;
        };
        samples.push(Taken { index: entry.index, producer, slot });
        let place = entry.place;
        let counts = place.place < counted;
        if dropped {
            self.audit.excused += 1;
        } else if counts {
            self.audit.see(place.index);
        }
        counts
    }

    /// Drops the entries of the epoch that are over, from the oldest on, and notes the position.
    fn forget_taken(&mut self) {
        let epoch = self.position.epoch;
        while let Some(Entry { place, state: State::Taken | State::Skipped, .. }) =
            self.entries.front()
            && place.epoch == epoch
        {
            self.position.next = place.place + 1;
            self.entries.pop_front();
            self.base += 1;
            self.settled -= 1;
        }
    }

    /// Goes on to the next epoch while the one that is given out has nothing left.
    fn end_epochs(&mut self) {
        while self.left == 0 && self.position.epoch < self.rules.epochs && self.stream.places() > 0
        {
            self.forget_taken();
            let (duplicates, lost) = self.audit.end_epoch(self.stream.counted() as u64);
            self.counts.duplicates += duplicates;
            self.counts.lost += lost;
            self.position.epoch += 1;
            self.position.batches = 0;
            self.position.next = 0;
            let epoch = self.position.epoch;
            let is_skipped = |entry: &&Entry<S>| {
                entry.place.epoch == epoch && matches!(entry.state, State::Skipped)
            };
            let skipped = self.entries.iter().filter(is_skipped).count();
            self.audit.excused += skipped as u64;
            self.left = self.stream.places() as usize - skipped;
            let later = std::mem::take(&mut self.ready.later);
            for sequence in later {
                let is_now = self.entry(sequence).is_some_and(|entry| entry.place.epoch == epoch);
                let ready = if is_now { &mut self.ready.now } else { &mut self.ready.later };
                ready.insert(sequence);
            }
        }
    }

    /// Drops the slots of what is ready and will not be given out.
    pub(crate) fn stop(&mut self) {
        let mut dropped = 0;
        for entry in &mut self.entries {
            if matches!(entry.state, State::Ready { .. }) {
                entry.state = State::Open;
                dropped += 1;
            }
        }
        self.counts.queued -= dropped;
        self.counts.discarded_stopped += dropped;
    }

    /// Where a later run would go on.
    pub(crate) fn position(&self) -> Position {
        let is_done = |entry: &&Entry<S>| {
            entry.place.epoch == self.position.epoch
                && matches!(entry.state, State::Taken | State::Skipped)
        };
        let done = self.entries.iter().filter(is_done).map(|entry| entry.place.place);
        let ahead = done.chain(self.resumed.iter().copied());
        // A run that resumes goes in the order of places; in order, what was skipped is tried
        // again, with the same result.
        let ahead = if self.rules.in_order { Vec::new() } else { ahead.collect() };
        Position { ahead, ..self.position.clone() }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { duplicates: self.counts.duplicates + self.audit.duplicates, ..self.counts }
    }

    pub(crate) fn bad(&self) -> &[BadSample] {
        &self.bad
    }

    /// Samples in work.
    pub(crate) fn in_work_count(&self) -> usize {
        let is_in_work = |entry: &&Entry<S>| matches!(entry.state, State::InWork { .. });
        self.entries.iter().filter(is_in_work).count()
    }
}

#[cfg(test)]
mod tests;
