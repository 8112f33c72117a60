//! Slots: the headers that buffers refer to, and the pool that keeps them for ever.
//!
//! A [`Buffer`](crate::Buffer) is `Copy + 'static`, so it may outlive its arena. Its header must
//! then still be there to refuse it: headers are never freed. An arena takes its headers from a
//! process-wide pool, and each returns there once its arena was dropped and the last lease on
//! it is out. Generations go on counting through every owner, so a buffer of an earlier one is
//! stale like any other. The pool is kept by name: a header serves arenas of one name only, and
//! errors about old buffers name the right one. It holds as many headers as slots of that name
//! were ever alive at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard as StdGuard, PoisonError};
use std::thread::ThreadId;

use millrace_runtime::{Runtime, SubmitError};

use crate::gate::Gate;
use crate::lease::State;
use crate::memory::{Leftovers, Memory};
use crate::sync::MutexGuard;

type Pool = BTreeMap<&'static str, Vec<&'static SlotHeader>>;

static POOL: Mutex<Pool> = Mutex::new(BTreeMap::new());
/// Headers that have used their numbers up: only kept.
static RETIRED: Mutex<Vec<&'static SlotHeader>> = Mutex::new(Vec::new());

/// Locks one of this module's mutexes; none is held where anything could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> StdGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One slot. Lives for ever.
#[derive(Debug)]
pub(crate) struct SlotHeader {
    name: Box<str>,
    gate: Gate<Memory>,
    /// Identity of the owner's runtime; written when the slot is adopted, before any buffer of
    /// that owner exists.
    runtime: AtomicU64,
    /// The first generation of the present owner.
    since: AtomicU32,
    /// Refusals of buffers of the present owner.
    refusals: AtomicU64,
    /// Threads that hold guards here, once per guard.
    guards: Mutex<Vec<ThreadId>>,
}

/// One lease, given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease(&'static SlotHeader);

impl Drop for Lease {
    fn drop(&mut self) {
        let slot = self.0;
        slot.settle(slot.gate.release());
    }
}

/// Remembers that the creating thread holds a guard on a slot.
#[derive(Debug)]
pub(crate) struct GuardMark {
    slot: &'static SlotHeader,
    thread: ThreadId,
}

impl Drop for GuardMark {
    fn drop(&mut self) {
        let mut guards = lock(&self.slot.guards);
        if let Some(place) = guards.iter().position(|thread| *thread == self.thread) {
            guards.swap_remove(place);
        }
    }
}

impl SlotHeader {
    fn leak(name: &str, generation: u32) -> &'static SlotHeader {
        Box::leak(Box::new(SlotHeader {
            name: name.into(),
            gate: Gate::new(generation, Memory::default()),
            runtime: AtomicU64::new(0),
            since: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
            guards: Mutex::new(Vec::new()),
        }))
    }

    /// Takes a free slot for an arena called `name`, with `memory`; returns it and the
    /// generation that is open there.
    pub(crate) fn adopt(name: &str, memory: Memory, runtime: u64) -> (&'static SlotHeader, u32) {
        loop {
            let free = lock(&POOL).get_mut(name).and_then(Vec::pop);
            let slot = free.unwrap_or_else(|| SlotHeader::leak(name, 0));
            // A free slot is open, unless it has used its numbers up.
            if let State::Open(generation) = slot.gate.state() {
                *slot.gate.memory() = memory;
                slot.runtime.store(runtime, Ordering::Relaxed);
                slot.since.store(generation, Ordering::Relaxed);
                slot.refusals.store(0, Ordering::Relaxed);
                return (slot, generation);
            }
            slot.retire();
        }
    }

    /// Puts a header away whose numbers are used up.
    pub(crate) fn retire(&'static self) {
        lock(&RETIRED).push(self);
    }

    /// Puts a slot at `generation` into the pool, for the next arena called `name`.
    #[cfg(test)]
    pub(crate) fn seed(name: &'static str, generation: u32) {
        lock(&POOL).entry(name).or_default().push(SlotHeader::leak(name, generation));
    }

    /// The slot was reclaimed if anything is left. Drops what an abandoned slot left, and keeps
    /// its header for the next arena; else wakes those who wait for the slot.
    fn settle(&'static self, left: Option<Option<Leftovers>>) {
        match left {
            None => {}
            Some(None) => {
                let runtime = self.gate.memory().runtime();
                if let Some(runtime) = runtime {
                    runtime.notify_waiters();
                }
            }
            Some(Some(left)) => {
                drop(left);
                lock(&POOL).entry(&self.name).or_default().push(self);
            }
        }
    }

    /// Takes a lease for `task` on `generation`.
    pub(crate) fn lease(
        &'static self,
        generation: u32,
        task: &'static str,
    ) -> Result<Lease, SubmitError> {
        match self.gate.lease(generation) {
            Ok(()) => Ok(Lease(self)),
            Err(refusal) if refusal.full => Err(SubmitError::TooManyTasks { task }),
            Err(refusal) => Err(self.stale(generation, refusal.current, task)),
        }
    }

    /// Checks a further buffer of a submission that holds a lease on this slot already.
    pub(crate) fn check(&self, generation: u32, task: &'static str) -> Result<(), SubmitError> {
        match self.gate.state() {
            State::Open(leased) | State::Closed(leased) if leased == generation => Ok(()),
            State::Open(leased) | State::Closed(leased) => {
                Err(self.stale(generation, leased, task))
            }
            State::Retired => Err(self.stale(generation, u32::MAX, task)),
        }
    }

    #[cold]
    fn stale(&self, held: u32, current: u32, task: &'static str) -> SubmitError {
        if held >= self.since.load(Ordering::Relaxed) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        SubmitError::Stale { task, owner: self.name.to_string(), held, current }
    }

    /// The runtime that buffers of `generation` belong to.
    pub(crate) fn runtime(
        &self,
        generation: u32,
        task: &'static str,
    ) -> Result<Runtime, SubmitError> {
        let memory = self.gate.memory();
        let current = match self.gate.state() {
            State::Open(open) if open == generation => match memory.runtime() {
                Some(runtime) => return Ok(runtime),
                None => open,
            },
            State::Open(open) => open,
            State::Closed(closed) => closed.saturating_add(1),
            State::Retired => u32::MAX,
        };
        drop(memory);
        Err(self.stale(generation, current, task))
    }

    /// Identity of the runtime of the present owner. Stable while a lease is held.
    pub(crate) fn runtime_id(&self) -> u64 {
        self.runtime.load(Ordering::Relaxed)
    }

    /// Ends `generation`: it is reclaimed when nobody uses it, here or on the last user's
    /// thread.
    pub(crate) fn close(&'static self, generation: u32) {
        self.settle(self.gate.close(generation));
    }

    /// Ends the open generation, for ever: what the slot holds is freed when nobody uses it.
    pub(crate) fn abandon(&'static self) {
        self.settle(self.gate.abandon(Memory::abandon));
    }

    pub(crate) fn state(&self) -> State {
        self.gate.state()
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.gate.memory()
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes a guard of the calling thread.
    pub(crate) fn mark_guard(&'static self) -> GuardMark {
        let thread = std::thread::current().id();
        lock(&self.guards).push(thread);
        GuardMark { slot: self, thread }
    }

    /// Whether the calling thread holds a guard here.
    pub(crate) fn guarded_by_this_thread(&self) -> bool {
        lock(&self.guards).contains(&std::thread::current().id())
    }
}
