//! The type-erased body of a task: the one place where a task's type is forgotten.
//!
//! # Invariant
//! A [`TaskCell`] has one owner at a time, and only the owner touches its content:
//!
//! | from | to | owner | content |
//! |---|---|---|---|
//! | slot allocated | last subtraction from `pending` | the submitter, under the submission lock | filled by [`TaskCell::fill`] |
//! | `pending` reached zero | [`TaskCell::clear`] returned | the thread that ends the task | a live job |
//! | cleared | slot allocated again | nobody | nothing |
//!
//! The cell of a recorded task is filled by [`TaskCell::fill_repeated`], once; each replay runs it
//! as in the second line, and nothing is to be cleared.
//!
//! Ownership passes with the release sequence of `pending` (and the ready queue), and with the
//! free list. A filled cell is always emptied by `clear`, exactly once, which drops the claim
//! and with it the leases; the body is consumed before, by `run` or by `discard`.
//!
//! The facts alone may be read by more than the owner: they are written once per task, under the
//! submission lock, and not touched again before the slot's next task is submitted. So whoever
//! holds that lock may read them as well, beside an owner that reads them, too.
#![allow(unsafe_code, reason = "type erasure of bodies; the invariant is stated above")]

use std::cell::UnsafeCell;
use std::error::Error;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, needs_drop, size_of};
use std::panic::Location;

use super::{Label, Outcome};
use crate::access::Access;

/// Words of job storage in a slot. A job that needs more is boxed.
const WORDS: usize = 12;

/// Facts about a task.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) name: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) label: Label,
    pub(crate) sequence: u64,
}

/// A claim and the body that will be handed its data.
pub(crate) struct Job<A: Access, F> {
    claim: A::Claim,
    body: ManuallyDrop<F>,
}

/// What a body ended with.
pub(crate) type BodyResult = Result<(), BodyError>;

/// What a body may return instead.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// A job that may be run any number of times. Dropping it does nothing.
pub(crate) trait Repeated: Copy + Send + 'static {
    /// Runs it once.
    fn run(&self) -> BodyResult;
}

/// How cells treat a repeated job.
struct RepeatedJob<N>(PhantomData<N>);

impl<N: Repeated> RepeatedJob<N> {
    const VTABLE: VTable = VTable { run: Self::run, discard: Self::discard, drop_claim: None };

    /// # Safety
    /// `storage` is the storage of such a job, and the caller owns its cell.
    unsafe fn run(storage: *mut u8) -> BodyResult {
        // SAFETY: the caller's promise.
        unsafe { &*storage.cast::<N>() }.run()
    }

    /// Does nothing, which is safe.
    unsafe fn discard(_: *mut u8) {}
}

/// How to treat a job whose type was forgotten. Each takes a pointer to the job.
struct VTable {
    run: unsafe fn(*mut u8) -> BodyResult,
    discard: unsafe fn(*mut u8),
    /// None where that is nothing to do.
    drop_claim: Option<unsafe fn(*mut u8)>,
}

/// In the order in which a slot wants them; see `graph::slot`.
#[repr(C)]
struct Content {
    vtable: &'static VTable,
    job: MaybeUninit<[usize; WORDS]>,
    meta: PackedMeta,
}

/// [`Meta`] in the fewest bytes. The highest bits of `sequence` tell which parts of a label there are.
#[derive(Clone, Copy)]
pub(crate) struct PackedMeta {
    name: &'static str,
    location: &'static Location<'static>,
    batch: u32,
    layer: u16,
    shard: u16,
    sequence: u64,
}

const BATCH: u64 = 1 << 63;
const LAYER: u64 = 1 << 62;
const SHARD: u64 = 1 << 61;

impl PackedMeta {
    /// The facts of a task whose place in submission order is not known yet.
    // Little is left of it where the parts of the label are known.
    #[inline(always)]
    pub(crate) fn new(
        name: &'static str,
        location: &'static Location<'static>,
        label: Label,
    ) -> Self {
        let Label { batch, layer, shard } = label;
        let parts = [(batch.is_some(), BATCH), (layer.is_some(), LAYER), (shard.is_some(), SHARD)];
        let parts = parts.iter().map(|(is, bit)| u64::from(*is) * bit).sum::<u64>();
        let (layer, shard) = (layer.unwrap_or(0), shard.unwrap_or(0));
        let batch = batch.unwrap_or(0);
        PackedMeta { name, location, batch, layer, shard, sequence: parts }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn unpack(self) -> Meta {
        let has = |part| self.sequence & part != 0;
        let batch = has(BATCH).then_some(self.batch);
        let layer = has(LAYER).then_some(self.layer);
        let shard = has(SHARD).then_some(self.shard);
        let sequence = self.sequence & !(BATCH | LAYER | SHARD);
        let label = Label { batch, layer, shard };
        Meta { name: self.name, location: self.location, label, sequence }
    }
}

/// Storage for one task's job and facts.
pub(crate) struct TaskCell(UnsafeCell<MaybeUninit<Content>>);

// SAFETY: only the owner touches the content (see the module's invariant), and jobs are `Send`:
// `fill` demands it of the claim (by `Access::Claim: Send`) and of the body.
unsafe impl Sync for TaskCell {}
// SAFETY: as above.
unsafe impl Send for TaskCell {}

impl<A: Access, F, R> Job<A, F>
where
    F: for<'a> FnOnce(A::Data<'a>) -> R + Send + 'static,
    R: Outcome,
{
    const INLINE: bool = size_of::<Self>() <= size_of::<[usize; WORDS]>()
        && align_of::<Self>() <= align_of::<usize>();

    const VTABLE: VTable = VTable {
        run: Self::run,
        discard: Self::discard,
        drop_claim: if Self::INLINE && !needs_drop::<A::Claim>() {
            None
        } else {
            Some(Self::drop_claim)
        },
    };

    pub(crate) fn new(claim: A::Claim, body: F) -> Self {
        Job { claim, body: ManuallyDrop::new(body) }
    }

    /// Drops a job that was never put into a cell.
    pub(crate) fn abandon(self) {
        drop(ManuallyDrop::into_inner(self.body));
    }

    /// The job behind the storage.
    ///
    /// # Safety
    /// `storage` is the storage of a live job of this type, and the caller owns its cell.
    unsafe fn locate(storage: *mut u8) -> *mut Self {
        if Self::INLINE {
            storage.cast()
        } else {
            // SAFETY: `fill` put the pointer of a boxed job here.
            unsafe { storage.cast::<*mut Self>().read() }
        }
    }

    /// # Safety
    /// As for `locate`; the body was not consumed yet. The task has been granted its claim.
    unsafe fn run(storage: *mut u8) -> BodyResult {
        // SAFETY: the caller's promise.
        let job = unsafe { &mut *Self::locate(storage) };
        // SAFETY: consumed once, here; `discard` is the alternative.
        let body = unsafe { ManuallyDrop::take(&mut job.body) };
        // SAFETY: the task is ready, so every claimed handle is granted until `clear`.
        let data = unsafe { A::data(&mut job.claim) };
        body(data).into_result()
    }

    /// # Safety
    /// As for `locate`; the body was not consumed yet.
    unsafe fn discard(storage: *mut u8) {
        // SAFETY: the caller's promise.
        let job = unsafe { &mut *Self::locate(storage) };
        // SAFETY: consumed once, here; `run` is the alternative.
        unsafe { ManuallyDrop::drop(&mut job.body) };
    }

    /// # Safety
    /// As for `locate`; the body has been consumed. The job is not used afterwards.
    unsafe fn drop_claim(storage: *mut u8) {
        // SAFETY: the caller's promise.
        let job = unsafe { Self::locate(storage) };
        if Self::INLINE {
            // SAFETY: live, owned, and never used again.
            unsafe { job.drop_in_place() }
        } else {
            // SAFETY: made by `Box::into_raw` in `fill`, freed once, here.
            drop(unsafe { Box::from_raw(job) });
        }
    }
}

impl TaskCell {
    pub(crate) fn new() -> Self {
        TaskCell(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Puts a job in.
    ///
    /// # Safety
    /// The caller owns the cell (it allocated the slot), and the cell is empty.
    #[inline]
    pub(crate) unsafe fn fill<A: Access, F, R>(&self, job: Job<A, F>)
    where
        F: for<'a> FnOnce(A::Data<'a>) -> R + Send + 'static,
        R: Outcome,
    {
        let content = self.0.get().cast::<Content>();
        // SAFETY: the caller owns the cell; the pointer is valid for writes.
        let job_place = unsafe { &raw mut (*content).job };
        // SAFETY: as above.
        unsafe { (&raw mut (*content).vtable).write(&Job::<A, F>::VTABLE) };
        if Job::<A, F>::INLINE {
            // SAFETY: as above; it fits, by `INLINE`.
            unsafe { job_place.cast::<Job<A, F>>().write(job) };
        } else {
            let boxed = Box::into_raw(Box::new(job));
            // SAFETY: as above; a pointer fits.
            unsafe { job_place.cast::<*mut Job<A, F>>().write(boxed) };
        }
    }

    /// Puts a job in that may be run any number of times, and needs no clearing.
    ///
    /// # Safety
    /// The caller owns the cell (it allocated the slot), and the cell is empty.
    pub(crate) unsafe fn fill_repeated<N: Repeated>(&self, job: N) {
        const { assert!(size_of::<N>() <= size_of::<[usize; WORDS]>()) };
        const { assert!(align_of::<N>() <= align_of::<usize>()) };
        let content = self.0.get().cast::<Content>();
        // SAFETY: the caller owns the cell; the pointer is valid for writes.
        unsafe { (&raw mut (*content).vtable).write(&RepeatedJob::<N>::VTABLE) };
        // SAFETY: as above; it fits.
        unsafe { (&raw mut (*content).job).cast::<N>().write(job) };
    }

    /// The job that [`fill_repeated`](Self::fill_repeated) has put in.
    ///
    /// # Safety
    /// The caller owns the cell, and it was filled with a job of this type.
    #[inline]
    pub(crate) unsafe fn repeated<N: Repeated>(&self) -> N {
        let content = self.0.get().cast::<Content>();
        // SAFETY: the caller's promise.
        unsafe { (&raw const (*content).job).cast::<N>().read() }
    }

    /// Writes the facts about the task, and its place in submission order, before or after it is
    /// filled.
    ///
    /// # Safety
    /// The caller owns the cell and holds the submission lock.
    #[inline(always)]
    pub(crate) unsafe fn describe(&self, meta: &PackedMeta, sequence: u64) {
        let content = self.0.get().cast::<Content>();
        // SAFETY: the caller owns the cell; the pointer is valid for writes.
        let place = unsafe { &raw mut (*content).meta };
        // SAFETY: as above.
        unsafe { place.write(PackedMeta { sequence: meta.sequence | sequence, ..*meta }) };
    }

    /// # Safety
    /// The caller owns the cell and it is filled.
    unsafe fn parts(&self) -> (&'static VTable, *mut u8) {
        let content = self.0.get().cast::<Content>();
        // SAFETY: the caller's promise.
        let vtable = unsafe { (*content).vtable };
        // SAFETY: as above.
        (vtable, unsafe { (&raw mut (*content).job).cast() })
    }

    /// Facts about the task.
    ///
    /// # Safety
    /// The cell is described, and the caller owns it or holds the submission lock.
    pub(crate) unsafe fn meta(&self) -> Meta {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.get().cast::<Content>()).meta }.unpack()
    }

    /// Runs the body. A panic passes through; the body counts as consumed.
    ///
    /// # Safety
    /// The caller owns the cell, it is filled, the task is ready, and the body was not
    /// consumed yet.
    pub(crate) unsafe fn run(&self) -> BodyResult {
        // SAFETY: the caller's promise.
        let (vtable, job) = unsafe { self.parts() };
        // SAFETY: the caller's promise; the table belongs to the job.
        unsafe { (vtable.run)(job) }
    }

    /// Drops the body without running it. A panic of its drop passes through.
    ///
    /// # Safety
    /// As for [`TaskCell::run`], except that the task need not be ready.
    pub(crate) unsafe fn discard(&self) {
        // SAFETY: the caller's promise.
        let (vtable, job) = unsafe { self.parts() };
        // SAFETY: the caller's promise; the table belongs to the job.
        unsafe { (vtable.discard)(job) }
    }

    /// Whether [`clear`](Self::clear) has nothing to drop.
    ///
    /// # Safety
    /// The caller owns the cell and it is filled.
    pub(crate) unsafe fn is_clear(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.parts() }.0.drop_claim.is_none()
    }

    /// Drops the claim; the cell is empty afterwards.
    ///
    /// # Safety
    /// The caller owns the cell, it is filled, and the body has been consumed.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: the caller's promise.
        let (vtable, job) = unsafe { self.parts() };
        if let Some(drop_claim) = vtable.drop_claim {
            // SAFETY: the caller's promise; the table belongs to the job.
            unsafe { drop_claim(job) }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn facts_are_told_as_they_were_noted() {
        let (location, sequence) = (Location::caller(), (1 << 61) - 1);
        for parts in 0..8u32 {
            for (batch, layer, shard) in [(0, 0, 0), (u32::MAX, u16::MAX, u16::MAX), (7, 0, 9)] {
                let label = Label {
                    batch: (parts & 1 != 0).then_some(batch),
                    layer: (parts & 2 != 0).then_some(layer),
                    shard: (parts & 4 != 0).then_some(shard),
                };
                let cell = TaskCell::new();
                // SAFETY: nobody else knows the cell.
                unsafe { cell.describe(&PackedMeta::new("t", location, label), sequence) };
                // SAFETY: as above; it is described.
                let meta = unsafe { cell.meta() };
                assert_eq!((meta.label, meta.sequence), (label, sequence));
                assert_eq!((meta.name, meta.location), ("t", location));
            }
        }
    }
}
