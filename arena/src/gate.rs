//! A slot's memory behind its lease word: who reclaims.
//!
//! # Steps
//! `lease` and `release` touch the word only (see [`lease`](crate::lease)). The reclaimer, of
//! which there is exactly one per generation, locks the memory, reclaims it, and publishes the
//! next generation *while it holds the lock*. Whoever waits for that looks at the word
//! ([`Gate::state`]), and the reclaimer lets it look again after it has published.
//!
//! # The races, and why they are safe
//! *Allocation against reclaiming*: the owner allocates in open generations only, and under the
//! lock, so the lock is hardly ever contended; no worker is held up.
//! *The owner leaves* (`abandon`): it marks the memory and closes the generation under the
//! lock. A reclaimer is either before that, then the word is open again and the owner finds no
//! lease on it, or after it and sees the mark. What the memory gives up is handed out of the
//! critical section, exactly once, and is dropped without the lock.

use crate::lease::{LeaseWord, Refusal, State};
use crate::sync::{Mutex, MutexGuard, lock};

/// Memory that can be taken back when nobody uses it.
pub(crate) trait Reclaim {
    /// What reclaiming leaves for the reclaimer to drop, outside of the lock.
    type Left;

    /// Makes the memory ready for the next generation. Nobody uses it.
    fn reclaim(&mut self) -> Self::Left;
}

/// The word of a slot and the memory behind it.
#[derive(Debug)]
pub(crate) struct Gate<M> {
    word: LeaseWord,
    memory: Mutex<M>,
}

impl<M: Reclaim> Gate<M> {
    /// A gate that is open at `generation`.
    pub(crate) fn new(generation: u32, memory: M) -> Gate<M> {
        Gate { word: LeaseWord::new(generation), memory: Mutex::new(memory) }
    }

    /// Takes a lease on `generation`, if that is the open one.
    #[inline]
    pub(crate) fn lease(&self, generation: u32) -> Result<(), Refusal> {
        self.word.lease(generation)
    }

    /// Gives one lease back, and reclaims if it was the last one of a closed generation.
    #[inline]
    pub(crate) fn release(&self) -> Option<M::Left> {
        if self.word.release() { Some(self.reopen(lock(&self.memory))) } else { None }
    }

    /// Ends `generation`, and reclaims if nobody uses it.
    pub(crate) fn close(&self, generation: u32) -> Option<M::Left> {
        self.word.close(generation).then(|| self.reopen(lock(&self.memory)))
    }

    /// Applies `mark` to the memory and ends whatever generation is open, in one step.
    pub(crate) fn abandon(&self, mark: impl FnOnce(&mut M)) -> Option<M::Left> {
        let mut memory = lock(&self.memory);
        mark(&mut memory);
        match self.word.state() {
            State::Open(generation) => self.word.close(generation).then(|| self.reopen(memory)),
            State::Closed(_) | State::Retired => None,
        }
    }

    #[cold]
    fn reopen(&self, mut memory: MutexGuard<'_, M>) -> M::Left {
        let left = memory.reclaim();
        self.word.open_next();
        left
    }

    /// What the word says now.
    pub(crate) fn state(&self) -> State {
        self.word.state()
    }

    /// The memory, for the owner.
    pub(crate) fn memory(&self) -> MutexGuard<'_, M> {
        lock(&self.memory)
    }
}
