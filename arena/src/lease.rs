//! The word of one slot: which generation it is in, whether that is closed, who still uses it.
//!
//! # The words
//! ```text
//!         63            32   31     30           0
//! word    [ generation   | closed | leases         ]
//! credit  [ generation   |   0    | leases         ]
//! ```
//! Workers give leases back on the word, which so travels between their cores. A submission
//! would fetch it from there each time; it takes [`CREDIT`] leases at once instead, and puts
//! those that it does not need into the *credit*, where the next ones find them. A lease in the
//! credit is out like any other: the generation is not reclaimed before it is back.
//!
//! | state | word | who may leave it |
//! |---|---|---|
//! | open `g`, `n` leases | `[g, 0, n]` | anyone: [`lease`](LeaseWord::lease), [`release`](LeaseWord::release); the owner: [`close`](LeaseWord::close) |
//! | closed `g`, `n > 0` leases | `[g, 1, n]` | holders only: `release` |
//! | closed `g`, no lease | `[g, 1, 0]` | the one *reclaimer*: [`open_next`](LeaseWord::open_next) |
//! | retired | `[u32::MAX, 1, 0]` | nobody |
//!
//! # Steps
//! 1. A submission leases the generation of the buffers that it names: from the credit of that
//!    very generation if there is any, else from the word. The compare-exchange there
//!    succeeds only on an open word of that generation, so one step answers "stale",
//!    "closed" and "alive" together.
//! 2. The end of a task, run or cancelled, releases its lease.
//! 3. The owner closes the generation. From here on the count can only fall. Then it takes the
//!    credit back.
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
//! No credit is left behind. Whoever puts leases there looks at the word afterwards, by an
//! exchange: that one is before the closing one in the word's modification order, and then the
//! closer sees the credit and takes it back, or it finds the word closed, and takes its credit
//! back itself; it holds a lease meanwhile, so it never reclaims by that. A credit is taken from
//! until it has been taken back: another thread's submission that still finds some came before
//! the closing. The closer's own submissions find none.
//!
//! # Orderings
//! | step | ordering | partner |
//! |---|---|---|
//! | `lease` | Acquire on success | Release of `open_next`, by way of the credit's AcqRel where it is stored, if it comes from there: the holder sees the rewound memory |
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

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering};

/// Leases that are taken from the word at once: enough that its line is fetched seldom. A model
/// has to see the credit run out.
const CREDIT: u64 = if cfg!(loom) { 2 } else { 64 };

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

/// Generation, closed bit and lease count of one slot, in one atomic word; and the leases that
/// submissions have in store, on a cache line of their own.
#[derive(Debug)]
pub(crate) struct LeaseWord {
    word: CachePadded<AtomicU64>,
    credit: CachePadded<AtomicU64>,
}

impl LeaseWord {
    /// A word that is open at `generation`, without leases.
    pub(crate) fn new(generation: u32) -> LeaseWord {
        debug_assert_ne!(generation, u32::MAX, "the last number marks a retired word");
        LeaseWord::holding(open_word(generation))
    }

    fn holding(word: u64) -> LeaseWord {
        let [word, credit] = [word, open_word(generation_of(word))]
            .map(|word| CachePadded::new(AtomicU64::new(word)));
        LeaseWord { word, credit }
    }

    /// Takes a lease on `generation`, if that is the open one.
    #[inline]
    pub(crate) fn lease(&self, generation: u32) -> Result<(), Refusal> {
        let took = |credit: u64| {
            let some = generation_of(credit) == generation && credit & LEASES != 0;
            some.then(|| credit - 1)
        };
        match self.credit.fetch_update(Ordering::Acquire, Ordering::Relaxed, took) {
            Ok(_) => Ok(()),
            Err(_) => self.lease_many(generation),
        }
    }

    /// Takes as many leases as fit, [`CREDIT`] at most; all but one go into the credit.
    #[cold]
    fn lease_many(&self, generation: u32) -> Result<(), Refusal> {
        let mut word = self.word.load(Ordering::Relaxed);
        let taken = loop {
            if generation_of(word) != generation || word & CLOSED != 0 {
                return Err(Refusal { current: current(word), full: false });
            }
            let taken = CREDIT.min(LEASES - (word & LEASES));
            if taken == 0 {
                return Err(Refusal { current: generation, full: true });
            }
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word + taken, success, failure) {
                Ok(_) => break taken,
                Err(seen) => word = seen,
            }
        };
        self.store_credit(generation, taken - 1);
        if self.word.fetch_or(0, Ordering::AcqRel) & CLOSED != 0 {
            let last = self.withdraw_credit(generation);
            debug_assert_ne!(last, Some(true), "this thread holds a lease");
        }
        Ok(())
    }

    /// Puts leases on `generation` into the credit. The caller holds one, so that is the
    /// generation of the word, and a credit of another one is an old one, and spent.
    fn store_credit(&self, generation: u32, leases: u64) {
        let more = |credit: u64| match generation_of(credit) == generation {
            true => Some(credit + leases),
            false => Some(open_word(generation) | leases),
        };
        // Never refuses.
        let _ = self.credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    /// Gives the leases back that are in the credit of `generation`; tells as
    /// [`release`](Self::release) does, and nothing if there are none.
    fn withdraw_credit(&self, generation: u32) -> Option<bool> {
        let all = |credit: u64| {
            let some = generation_of(credit) == generation && credit & LEASES != 0;
            some.then(|| open_word(generation))
        };
        let credit = self.credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, all).ok()?;
        Some(self.release_many(credit & LEASES))
    }

    /// Gives one lease back. `true`: it was the last one of a closed generation, and the
    /// caller is the reclaimer.
    #[must_use = "the last lease out must reclaim"]
    #[inline]
    pub(crate) fn release(&self) -> bool {
        self.release_many(1)
    }

    #[inline]
    fn release_many(&self, leases: u64) -> bool {
        let before = self.word.fetch_sub(leases, Ordering::AcqRel);
        debug_assert!(before & LEASES >= leases, "a lease was released twice");
        before & CLOSED != 0 && before & LEASES == leases
    }

    /// Ends `generation`. `true`: no lease was out, and the caller is the reclaimer.
    ///
    /// Does nothing, and returns `false`, if that generation is not the open one.
    #[must_use = "closing an unused generation must reclaim"]
    pub(crate) fn close(&self, generation: u32) -> bool {
        let open = |word: u64| {
            let open = generation_of(word) == generation && word & CLOSED == 0;
            open.then_some(word | CLOSED)
        };
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, open) {
            Ok(word) => self.withdraw_credit(generation).unwrap_or(word & LEASES == 0),
            Err(_) => false,
        }
    }

    /// Publishes the next generation. Only for the reclaimer, once the memory is rewound.
    ///
    /// A plain store is enough: on a closed word without leases no other step succeeds.
    pub(crate) fn open_next(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & (CLOSED | LEASES), CLOSED, "only the reclaimer may open");
        let next = match generation_of(word).saturating_add(1) {
            u32::MAX => open_word(u32::MAX) | CLOSED,
            generation => open_word(generation),
        };
        self.word.store(next, Ordering::Release);
    }

    /// What the word says now.
    pub(crate) fn state(&self) -> State {
        let word = self.word.load(Ordering::Acquire);
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
        let word = LeaseWord::holding(open_word(3) | LEASES);
        assert_eq!(word.lease(3), Err(Refusal { current: 3, full: true }));
        assert!(!word.release());
        word.lease(3).unwrap();
        assert_eq!(word.state(), State::Open(3));
    }
}
