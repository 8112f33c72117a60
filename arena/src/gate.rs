//! A slot's memory behind its lease word: who reclaims, and how one waits for that.
//!
//! # Steps
//! `lease` and `release` touch the word only (see [`lease`](crate::lease)). The reclaimer, of
//! which there is exactly one per generation, locks the memory, reclaims it, publishes the next
//! generation *while it holds the lock*, and then wakes the waiters. A waiter looks at the word
//! while it holds the same lock, and sleeps on the condition variable.
//!
//! # The race, and why it is safe
//! *Lost wake-up*: between a waiter's look and its sleep the generation could be published and
//! the wake-up sent to nobody. It cannot: the look and the sleep are one critical section
//! (waiting gives the lock up atomically), and publishing happens inside another, so either the
//! waiter sees the new generation or it sleeps before the wake-up is sent.
//! *Allocation against reclaiming*: the owner allocates in open generations only, and under the
//! lock, so the lock is never contended except by a waiter; no worker is held up.
//! *The owner leaves* (`abandon`): it marks the memory and closes the generation under the
//! lock. A reclaimer is either before that, then the word is open again and the owner finds no
//! lease on it, or after it and sees the mark. What the memory gives up is handed out of the
//! critical section, exactly once, and is dropped without the lock.

use crate::lease::{LeaseWord, Refusal, State};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait};

/// Memory that can be taken back when nobody uses it.
pub(crate) trait Reclaim {
    /// What reclaiming leaves for the reclaimer to drop, outside of the lock.
    type Left;

    /// Makes the memory ready for the next generation. Nobody uses it.
    fn reclaim(&mut self) -> Self::Left;
}

/// The word of a slot, the memory behind it, and those who wait for it.
#[derive(Debug)]
pub(crate) struct Gate<M> {
    word: LeaseWord,
    memory: Mutex<M>,
    opened: Condvar,
}

impl<M: Reclaim> Gate<M> {
    /// A gate that is open at `generation`.
    pub(crate) fn new(generation: u32, memory: M) -> Gate<M> {
        Gate {
            word: LeaseWord::new(generation),
            memory: Mutex::new(memory),
            opened: Condvar::new(),
        }
    }

    /// Takes a lease on `generation`, if that is the open one.
    pub(crate) fn lease(&self, generation: u32) -> Result<(), Refusal> {
        self.word.lease(generation)
    }

    /// Gives one lease back, and reclaims if it was the last one of a closed generation.
    pub(crate) fn release(&self) -> Option<M::Left> {
        self.word.release().then(|| self.reopen(lock(&self.memory)))
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

    fn reopen(&self, mut memory: MutexGuard<'_, M>) -> M::Left {
        let left = memory.reclaim();
        self.word.open_next();
        drop(memory);
        self.opened.notify_all();
        left
    }

    /// Waits until no generation is closed: one is open, or the slot is retired.
    pub(crate) fn wait(&self) -> State {
        let mut memory = lock(&self.memory);
        loop {
            match self.word.state() {
                State::Closed(_) => memory = wait(&self.opened, memory),
                state => return state,
            }
        }
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
