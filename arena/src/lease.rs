//! The word of one slot: which generation it is in, whether that is closed, who still uses it.
//!
//! # The word
//! ```text
//! 63            32   31     30           0
//! [ generation   | closed | leases         ]
//! ```
//! | state | word | who may leave it |
//! |---|---|---|
//! | open `g`, `n` leases | `[g, 0, n]` | anyone: [`lease`](LeaseWord::lease), [`release`](LeaseWord::release); the owner: [`close`](LeaseWord::close) |
//! | closed `g`, `n > 0` leases | `[g, 1, n]` | holders only: `release` |
//! | closed `g`, no lease | `[g, 1, 0]` | the one *reclaimer*: [`open_next`](LeaseWord::open_next) |
//! | retired | `[u32::MAX, 1, 0]` | nobody |
//!
//! # Steps
//! 1. A submission leases the generation of the buffers that it names. The compare-exchange
//!    succeeds only on an open word of that very generation, so one step answers "stale",
//!    "closed" and "alive" together.
//! 2. The end of a task, run or cancelled, releases its lease.
//! 3. The owner closes the generation. From here on the count can only fall.
//! 4. Whoever takes the closed count to zero is the reclaimer: the owner, if `close` found no
//!    lease, otherwise the thread whose `release` gave back the last one. It rewinds the memory
//!    and publishes the next generation.
//!
//! # The race, and why it is safe
//! The reclaimer must be unique, and nobody may be inside the memory when it starts. `closed`
//! and the count share one word, so every step is one position in the word's modification
//! order. Before `close` no step makes a reclaimer. After it no lease is granted, the count
//! falls monotonically, and exactly one step moves the word to `[g, 1, 0]`. A lease taken by
//! adding first and undoing the addition on refusal would break this: the undo of a refused
//! lease can take a closed count to zero a second time. `tests/loom_lease.rs` keeps that
//! variant as a model that must fail.
//!
//! # Orderings
//! | step | ordering | partner |
//! |---|---|---|
//! | `lease` | Acquire on success | Release of `open_next`: the holder sees the rewound memory |
//! | `release` | Release; Acquire for the last one out | each other `release`: the reclaimer sees what every holder wrote |
//! | `close` | AcqRel | Acquire: as the last one out; Release: keeps the owner's earlier writes before it |
//! | `open_next` | Release | Acquire of `lease` and `state` |
//!
//! # The end of the numbers
//! Generation `u32::MAX` is never opened: after `u32::MAX - 1` the word is *retired*, refuses
//! every lease for ever, and the arena continues on another slot. A number is therefore never
//! used twice, and a buffer that was kept for 2^32 generations is still refused.
//! A count that is full (2^31 - 1 leases, reachable only by forgetting guards) refuses too
//! rather than run into the closed bit.

use crate::sync::atomic::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 31;
const LEASES: u64 = CLOSED - 1;
const GENERATION_SHIFT: u32 = 32;

fn generation_of(word: u64) -> u32 {
    (word >> GENERATION_SHIFT) as u32
}

fn open_word(generation: u32) -> u64 {
    u64::from(generation) << GENERATION_SHIFT
}

/// What the word of a slot says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// This generation accepts leases.
    Open(u32),
    /// This generation has ended; its last lease is still out, or is being reclaimed.
    Closed(u32),
    /// The numbers are used up; nothing will ever be leased here again.
    Retired,
}

/// Why a lease was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The generation that is current in program order: the open one, or the successor of a
    /// closed one. It does not depend on how far the tasks of the closed one have come.
    pub(crate) current: u32,
    /// The generation is the right one and open, but its count is full.
    pub(crate) full: bool,
}

/// Generation, closed bit and lease count of one slot, in one atomic word.
#[derive(Debug)]
pub(crate) struct LeaseWord(AtomicU64);

impl LeaseWord {
    /// A word that is open at `generation`, without leases.
    pub(crate) fn new(generation: u32) -> LeaseWord {
        debug_assert_ne!(generation, u32::MAX, "the last number marks a retired word");
        LeaseWord(AtomicU64::new(open_word(generation)))
    }

    /// Takes a lease on `generation`, if that is the open one.
    pub(crate) fn lease(&self, generation: u32) -> Result<(), Refusal> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if generation_of(word) != generation || word & CLOSED != 0 {
                return Err(Refusal { current: current(word), full: false });
            }
            if word & LEASES == LEASES {
                return Err(Refusal { current: generation, full: true });
            }
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(seen) => word = seen,
            }
        }
    }

    /// Gives one lease back. `true`: it was the last one of a closed generation, and the
    /// caller is the reclaimer.
    #[must_use = "the last lease out must reclaim"]
    pub(crate) fn release(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before & LEASES, 0, "a lease was released twice");
        before & CLOSED != 0 && before & LEASES == 1
    }

    /// Ends `generation`. `true`: no lease was out, and the caller is the reclaimer.
    ///
    /// Does nothing, and returns `false`, if that generation is not the open one.
    #[must_use = "closing an unused generation must reclaim"]
    pub(crate) fn close(&self, generation: u32) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if generation_of(word) != generation || word & CLOSED != 0 {
                return false;
            }
            match self.0.compare_exchange_weak(
                word,
                word | CLOSED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return word & LEASES == 0,
                Err(seen) => word = seen,
            }
        }
    }

    /// Publishes the next generation. Only for the reclaimer, once the memory is rewound.
    ///
    /// A plain store is enough: on a closed word without leases no other step succeeds.
    pub(crate) fn open_next(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & (CLOSED | LEASES), CLOSED, "only the reclaimer may open");
        let next = match generation_of(word).saturating_add(1) {
            u32::MAX => open_word(u32::MAX) | CLOSED,
            generation => open_word(generation),
        };
        self.0.store(next, Ordering::Release);
    }

    /// What the word says now.
    pub(crate) fn state(&self) -> State {
        let word = self.0.load(Ordering::Acquire);
        match (generation_of(word), word & CLOSED != 0) {
            (u32::MAX, _) => State::Retired,
            (generation, false) => State::Open(generation),
            (generation, true) => State::Closed(generation),
        }
    }
}

/// The generation that is current in program order.
fn current(word: u64) -> u32 {
    generation_of(word).saturating_add(u32::from(word & CLOSED != 0))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_lease_out_of_a_closed_generation_reclaims() {
        let word = LeaseWord::new(7);
        word.lease(7).unwrap();
        word.lease(7).unwrap();
        assert!(!word.release(), "an open generation is never reclaimed");
        word.lease(7).unwrap();
        assert!(!word.close(7));
        assert!(!word.release());
        assert_eq!(word.state(), State::Closed(7));
        assert!(word.release());
        word.open_next();
        assert_eq!(word.state(), State::Open(8));
    }

    #[test]
    fn a_closed_generation_refuses_at_once_and_names_its_successor() {
        let word = LeaseWord::new(1);
        word.lease(1).unwrap();
        assert!(!word.close(1));
        let refusal = Refusal { current: 2, full: false };
        assert_eq!(word.lease(1), Err(refusal));
        assert!(word.release());
        word.open_next();
        assert_eq!(word.lease(1), Err(refusal), "reclaimed or not, the refusal is the same");
    }

    #[test]
    fn closing_twice_or_another_generation_does_nothing() {
        let word = LeaseWord::new(1);
        assert!(!word.close(0));
        assert!(word.close(1));
        assert!(!word.close(1), "one reclaimer only");
    }

    #[test]
    fn the_last_number_retires_the_word() {
        let word = LeaseWord::new(u32::MAX - 1);
        word.lease(u32::MAX - 1).unwrap();
        assert!(!word.close(u32::MAX - 1));
        assert!(word.release());
        word.open_next();
        assert_eq!(word.state(), State::Retired);
        assert!(word.lease(u32::MAX).is_err());
        assert!(word.lease(0).is_err(), "no number is used twice");
        assert!(!word.close(u32::MAX));
    }

    #[test]
    fn a_full_count_refuses_instead_of_closing() {
        let word = LeaseWord(AtomicU64::new(open_word(3) | LEASES));
        assert_eq!(word.lease(3), Err(Refusal { current: 3, full: true }));
        assert!(!word.release());
        word.lease(3).unwrap();
        assert_eq!(word.state(), State::Open(3));
    }
}
