//! Slots: the headers that buffers refer to, and the pool that keeps them for ever.
//!
//! A [`Buffer`](crate::Buffer) is `Copy + 'static`, so it may outlive its arena. Its header must
//! then still be there to refuse it: headers are never freed. An arena takes its headers from a
//! process-wide pool, and each returns there once its arena was dropped and the last lease on
//! it is out. Generations go on counting through every owner, so a buffer of an earlier one is
//! stale like any other. The pool is kept by name: a header serves arenas of one name only, and
//! errors about old buffers name the right one. It holds as many headers as slots of that name
//! were ever alive at once. Each header has a number, by which what a task keeps is small.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard as StdGuard, PoisonError};
use std::thread::ThreadId;

use append_only_vec::AppendOnlyVec;
use millrace_runtime::{Claims, Runtime, SubmitError};

use crate::gate::Gate;
use crate::lease::State;
use crate::memory::{Leftovers, Memory};
use crate::sync::MutexGuard;

type Pool = BTreeMap<&'static str, Vec<&'static SlotHeader>>;

/// All headers, by number.
static HEADERS: AppendOnlyVec<&SlotHeader> = AppendOnlyVec::new();
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
    /// Its place among all headers; written before anybody else has it.
    number: AtomicU32,
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
    #[inline]
    fn drop(&mut self) {
        let slot = self.0;
        if let Some(left) = slot.gate.release() {
            slot.settle(left);
        }
    }
}

/// Headers that there can be, which leaves one number for none in a [`LeasedLen`].
const MOST_HEADERS: usize = (1 << LEASE_BITS) - 1;

const LEASE_BITS: u32 = 24;

/// A length, and maybe a lease, in one word: in the low bits 0, or one more than the number of the
/// lease's header.
pub(crate) struct LeasedLen(u64);

impl LeasedLen {
    /// Buffers are shorter than this.
    pub(crate) const LIMIT: u64 = 1 << (u64::BITS - LEASE_BITS);

    /// # Panics
    /// If the length is not below [`LIMIT`](Self::LIMIT).
    #[inline]
    pub(crate) fn new(len: usize, lease: Option<Lease>) -> Self {
        assert!((len as u64) < Self::LIMIT, "longer than a buffer can be");
        let number = lease.map_or(0, |lease| {
            let number = u64::from(lease.0.number.load(Ordering::Relaxed)) + 1;
            // From here on it is given back by the number.
            std::mem::forget(lease);
            number
        });
        LeasedLen((len as u64) << LEASE_BITS | number)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.0 >> LEASE_BITS) as usize
    }
}

impl Drop for LeasedLen {
    #[inline]
    fn drop(&mut self) {
        if let Some(number) = (self.0 as usize & MOST_HEADERS).checked_sub(1) {
            drop(Lease(HEADERS[number]));
        }
    }
}

impl std::fmt::Debug for LeasedLen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LeasedLen").field(&self.len()).finish()
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
    /// Makes a header, which lives for ever.
    fn make(name: &str, generation: u32) -> &'static SlotHeader {
        let slot: &SlotHeader = Box::leak(Box::new(SlotHeader {
            number: AtomicU32::new(0),
            name: name.into(),
            gate: Gate::new(generation, Memory::default()),
            runtime: AtomicU64::new(0),
            since: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
            guards: Mutex::new(Vec::new()),
        }));
        let place = HEADERS.push(slot);
        assert!(place < MOST_HEADERS, "more than {MOST_HEADERS} slots of arenas");
        slot.number.store(place as u32, Ordering::Relaxed);
        slot
    }

    /// Takes a free slot for an arena called `name`, with `memory`; returns it and the
    /// generation that is open there.
    pub(crate) fn adopt(name: &str, memory: Memory, runtime: u64) -> (&'static SlotHeader, u32) {
        loop {
            let free = lock(&POOL).get_mut(name).and_then(Vec::pop);
            let slot = free.unwrap_or_else(|| SlotHeader::make(name, 0));
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
        lock(&POOL).entry(name).or_default().push(SlotHeader::make(name, generation));
    }

    /// The slot was reclaimed. Drops what an abandoned slot left, and keeps its header for the next
    /// arena; else wakes those who wait for the slot.
    #[cold]
    fn settle(&'static self, left: Option<Leftovers>) {
        match left {
            None => {
                let runtime = self.gate.memory().runtime();
                if let Some(runtime) = runtime {
                    runtime.notify_waiters();
                }
            }
            Some(left) => {
                drop(left);
                lock(&POOL).entry(&self.name).or_default().push(self);
            }
        }
    }

    /// What [`Claims`] tell slots apart by.
    #[inline]
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes a lease on `generation` for a task that claims a buffer of it, unless it has one.
    #[inline(never)]
    pub(crate) fn lease_for(
        &'static self,
        claims: &mut Claims,
        generation: u32,
    ) -> Result<Option<Lease>, SubmitError> {
        let (task, key) = (claims.task(), self.key());
        if let Some(leased) = claims.leased(key) {
            return if leased == generation {
                Ok(None)
            } else {
                Err(self.refuse(generation, task))
            };
        }
        self.gate.lease(generation).map_err(|refusal| match refusal.full {
            true => SubmitError::TooManyTasks { task },
            false => self.stale(generation, refusal.current, task),
        })?;
        let lease = Lease(self);
        // The owner's identity is stable from here on.
        if claims.runtime_id() != self.runtime.load(Ordering::Relaxed) {
            return Err(SubmitError::WrongRuntime { task, owner: self.name.to_string() });
        }
        claims.note_lease(key, generation);
        Ok(Some(lease))
    }

    /// The refusal of a buffer to a task that holds a lease on another generation.
    #[cold]
    fn refuse(&self, held: u32, task: &'static str) -> SubmitError {
        let current = match self.gate.state() {
            State::Open(generation) | State::Closed(generation) => generation,
            State::Retired => u32::MAX,
        };
        self.stale(held, current, task)
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

    /// Ends `generation`: it is reclaimed when nobody uses it, here or on the last user's
    /// thread.
    pub(crate) fn close(&'static self, generation: u32) {
        if let Some(left) = self.gate.close(generation) {
            self.settle(left);
        }
    }

    /// Ends the open generation, for ever: what the slot holds is freed when nobody uses it.
    pub(crate) fn abandon(&'static self) {
        if let Some(left) = self.gate.abandon(Memory::abandon) {
            self.settle(left);
        }
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
