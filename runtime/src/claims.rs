//! Collecting what one task declares, before it is submitted.

use std::fmt;
use std::ops::Range;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use crate::access::{Access, Handle, Mode};
use crate::error::SubmitError;

/// One declared access: a run of handles in one mode. Two words, which are copied as such: a copy
/// of many small fields as a whole would wait until each of them has been written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The first handle, and above it how many there are.
    handles: u64,
    /// The epoch, and above it the mode.
    how: u64,
}

const MODES: [Mode; 4] = [Mode::Read, Mode::Write, Mode::Overwrite, Mode::Commute];

impl Claim {
    #[inline(always)]
    fn new(Range { start, end }: Range<u32>, epoch: u32, mode: Mode) -> Self {
        let handles = u64::from(end - start) << 32 | u64::from(start);
        Claim { handles, how: (mode as u64) << 32 | u64::from(epoch) }
    }

    #[inline(always)]
    fn start(&self) -> u32 {
        self.handles as u32
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        (self.handles >> 32) as u32
    }

    #[inline(always)]
    fn end(&self) -> u32 {
        self.start() + self.count()
    }

    #[inline(always)]
    fn epoch(&self) -> u32 {
        self.how as u32
    }

    /// Its handles.
    #[inline]
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + use<> {
        let epoch = self.epoch();
        (self.start()..self.end()).map(move |index| Handle { index, epoch })
    }

    /// How they are used.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        MODES[(self.how >> 32) as usize % MODES.len()]
    }

    /// The first of its handles.
    pub(crate) fn first(&self) -> Handle {
        Handle { index: self.start(), epoch: self.epoch() }
    }

    /// A bit for each of its handles, or all bits. Claims of the same handle have a bit in common,
    /// others seldom.
    #[inline(always)]
    fn bits(&self) -> u64 {
        if self.count() == 1 { bit_of(self.start()) } else { self.many_bits() }
    }

    fn many_bits(&self) -> u64 {
        match self.count() {
            0..=8 => (self.start()..self.end()).fold(0, |bits, handle| bits | bit_of(handle)),
            _ => u64::MAX,
        }
    }

    fn overlaps(&self, other: &Claim) -> bool {
        self.start().max(other.start()) < self.end().min(other.end())
    }
}

/// One bit of 64. Handles that a program uses together, such as those of one column of a matrix,
/// are at distances that have many factors; multiplied by this, they spread.
#[inline(always)]
fn bit_of(handle: u32) -> u64 {
    1 << (handle.wrapping_mul(0x9e37_79b1) >> 26)
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handles, mode) = (self.start()..self.end(), self.mode());
        write!(f, "Claim({handles:?}, {mode:?}, epoch {})", self.epoch())
    }
}

/// Most tasks have fewer claims.
const FEW: usize = 8;

/// No key is 0.
const NO_LEASE: (usize, u32) = (0, 0);

/// What a task declares; an [`Access`] adds to it.
#[derive(Debug)]
pub struct Claims {
    task: &'static str,
    runtime: u64,
    /// All claims, or the first ones if they do not fit.
    few: ArrayVec<Claim, FEW>,
    /// All claims if they do not fit there, else none.
    many: Vec<Claim>,
    /// A bit for each handle, by its index; two may have the same.
    handles: u64,
    /// Whether two claims have a bit in common.
    met: bool,
    /// Size of the memory behind all of them.
    bytes: u64,
    /// The modes among them, a bit for each.
    modes: u8,
    /// Keys and generations of the leases that were taken, and of the last one.
    leased: SmallVec<[(usize, u32); 4]>,
    leased_last: (usize, u32),
}

impl Claims {
    /// No claims yet, of a task of that name.
    #[inline]
    pub(crate) fn new(task: &'static str, runtime: u64) -> Self {
        let (few, many, leased) = (ArrayVec::new(), Vec::new(), SmallVec::new());
        Claims {
            task,
            runtime,
            few,
            many,
            handles: 0,
            met: false,
            bytes: 0,
            modes: 0,
            leased,
            leased_last: NO_LEASE,
        }
    }

    /// Collects what `access` declares.
    // Where the number of claims is known, as in a tuple of accesses, little is left of all this.
    #[inline(always)]
    pub(crate) fn collect<A: Access>(&mut self, access: A) -> Result<A::Claim, SubmitError> {
        let claim = access.claim(self)?;
        self.check_conflicts()?;
        Ok(claim)
    }

    /// Refuses one handle twice with a write among them.
    #[inline(always)]
    pub(crate) fn check_conflicts(&self) -> Result<(), SubmitError> {
        if self.met && self.modes & !bit(Mode::Read) != 0 { self.check() } else { Ok(()) }
    }

    #[cold]
    fn check(&self) -> Result<(), SubmitError> {
        let claims = self.list();
        let clash = if claims.len() <= PAIRED { pair(claims) } else { sweep(claims) };
        clash.map_or(Ok(()), |(first, second)| Err(self.conflict(first, second)))
    }

    /// Forgets what was declared.
    pub(crate) fn clear(&mut self) {
        self.few.clear();
        self.many.clear();
        self.handles = 0;
        self.met = false;
        self.leased.clear();
        self.leased_last = NO_LEASE;
        self.bytes = 0;
        self.modes = 0;
    }

    /// Turns accesses that commute into ones that write.
    #[inline]
    pub(crate) fn order_all(&mut self) {
        if self.modes & bit(Mode::Commute) != 0 {
            self.modes = self.modes & !bit(Mode::Commute) | bit(Mode::Write);
            let all = self.few.iter_mut().chain(&mut self.many);
            let commuting = all.filter(|claim| claim.mode() == Mode::Commute);
            commuting.for_each(|claim| {
                *claim = Claim::new(claim.start()..claim.end(), claim.epoch(), Mode::Write);
            });
        }
    }

    /// The handles that it commutes on, if there are such.
    #[inline]
    pub(crate) fn commuting(&self) -> Option<impl Iterator<Item = u32>> {
        (self.modes & bit(Mode::Commute) != 0).then(|| {
            let commuting = self.list().iter().filter(|claim| claim.mode() == Mode::Commute);
            commuting.flat_map(|claim| claim.handles().map(|handle| handle.index))
        })
    }

    /// Number of handles of the last declared access.
    pub(crate) fn handles(&self) -> u32 {
        self.list().last().map_or(0, Claim::count)
    }

    /// What was declared.
    #[inline(always)]
    pub(crate) fn list(&self) -> &[Claim] {
        if self.few.is_full() && !self.many.is_empty() { &self.many } else { &self.few }
    }

    /// Size of the memory behind it.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The task's name, for error messages.
    pub fn task(&self) -> &'static str {
        self.task
    }

    /// Identity of the runtime that the task is submitted to
    /// ([`Runtime::id`](crate::Runtime::id)). Handles of another one must be refused.
    #[inline]
    pub fn runtime_id(&self) -> u64 {
        self.runtime
    }

    /// Declares one access to the handles `range`, under `epoch` (see [`Handle`]), without
    /// memory behind them.
    #[inline(always)]
    pub fn declare(&mut self, range: Range<u32>, epoch: u32, mode: Mode) {
        self.declare_bytes(range, epoch, mode, 0);
    }

    /// Declares one access to the handles `range`, under `epoch`, which stand for `bytes` of
    /// memory: what the body is handed. The sum over a kind's tasks is in
    /// [`KindStatistics::bytes`](crate::KindStatistics::bytes), and
    /// [`Builder::memory_window`](crate::Builder::memory_window) bounds that over unfinished ones.
    #[inline(always)]
    pub fn declare_bytes(&mut self, range: Range<u32>, epoch: u32, mode: Mode, bytes: usize) {
        let claim = Claim::new(range, epoch, mode);
        let handles = claim.bits();
        self.met |= self.handles & handles != 0;
        self.handles |= handles;
        if self.few.try_push(claim).is_err() {
            self.push_many(claim);
        }
        self.bytes += bytes as u64;
        self.modes |= bit(mode);
    }

    #[cold]
    fn push_many(&mut self, claim: Claim) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(claim);
    }

    /// The generation of `key` on which this task has a lease: one task takes one lease on each
    /// thing that it uses, however many accesses go there.
    #[inline]
    pub fn leased(&self, key: usize) -> Option<u32> {
        self.leased.iter().find(|(leased, _)| *leased == key).map(|(_, generation)| *generation)
    }

    /// Whether the last lease of this task is on that generation of `key`.
    #[inline(always)]
    pub fn leased_last(&self, key: usize, generation: u32) -> bool {
        self.leased_last == (key, generation)
    }

    /// Remembers that this task has taken a lease on a generation of `key`, which is not 0.
    #[inline]
    pub fn note_lease(&mut self, key: usize, generation: u32) {
        self.leased_last = (key, generation);
        self.leased.push((key, generation));
    }

    fn conflict(&self, first: usize, second: usize) -> SubmitError {
        let (first, second) = (first.min(second), first.max(second));
        SubmitError::Conflict {
            task: self.task,
            first,
            first_mode: self.list()[first].mode(),
            second,
            second_mode: self.list()[second].mode(),
        }
    }
}

fn bit(mode: Mode) -> u8 {
    1 << mode as u8
}

/// Tasks with very many accesses exist (a reduction); for them, sorting is less than pairing.
const PAIRED: usize = 32;

/// Two claims of one handle, with a write among them: looks at each pair.
fn pair(claims: &[Claim]) -> Option<(usize, usize)> {
    for (second, b) in claims.iter().enumerate().skip(1) {
        for (first, a) in claims[..second].iter().enumerate() {
            if a.overlaps(b) && (a.mode().writes() || b.mode().writes()) {
                return Some((first, second));
            }
        }
    }
    None
}

/// The same for many claims.
fn sweep(claims: &[Claim]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..claims.len()).filter(|i| claims[*i].count() > 0).collect();
    order.sort_by_key(|i| claims[*i].start());
    // The claims so far that reach furthest: of all, and of the writing ones.
    let (mut any, mut writer): (Option<usize>, Option<usize>) = (None, None);
    for i in order {
        let claim = &claims[i];
        let rival = if claim.mode().writes() { any } else { writer };
        if let Some(rival) = rival
            && claims[rival].overlaps(claim)
        {
            return Some((rival, i));
        }
        let end = |i: usize| claims[i].end();
        if any.is_none_or(|a| end(a) < end(i)) {
            any = Some(i);
        }
        if claim.mode().writes() && writer.is_none_or(|w| end(w) < end(i)) {
            writer = Some(i);
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_claim_tells_what_was_declared() {
        for mode in MODES {
            for (first, end) in [(0, 0), (3, 4), (u32::MAX - 1, u32::MAX), (0, u32::MAX)] {
                let claim = Claim::new(first..end, u32::MAX, mode);
                assert_eq!((claim.start(), claim.count(), claim.end()), (first, end - first, end));
                assert_eq!((claim.epoch(), claim.mode()), (u32::MAX, mode));
            }
        }
    }

    fn modes() -> impl Strategy<Value = Mode> {
        prop_oneof![
            2 => Just(Mode::Read),
            1 => Just(Mode::Write),
            1 => Just(Mode::Overwrite),
            1 => Just(Mode::Commute)
        ]
    }

    proptest! {
        #[test]
        fn both_checks_agree_with_the_definition(
            list in prop::collection::vec((0u32..200, 0u32..6, modes()), 0..40)
        ) {
            let mut claims = Claims::new("t", 0);
            for (first, count, mode) in &list {
                claims.declare(*first..first + count, 0, *mode);
            }
            let expected = (0..list.len()).any(|b| (0..b).any(|a| {
                let ((fa, ca, ma), (fb, cb, mb)) = (list[a], list[b]);
                (ma.writes() || mb.writes()) && (fa..fa + ca).any(|h| (fb..fb + cb).contains(&h))
            }));
            prop_assert_eq!(claims.check_conflicts().is_err(), expected);
            prop_assert_eq!(pair(claims.list()).is_some(), expected);
            prop_assert_eq!(sweep(claims.list()).is_some(), expected);
        }
    }
}
