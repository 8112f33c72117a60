//! Buffers, and the accesses through which tasks reach their memory.
//!
//! # Invariant
//! The memory of a buffer is reached only through a claim that was made by [`Buffer::secure`]
//! (by a replay through what is bound, see `recorded.rs`): it has declared the buffer's handles in the mode that the access hands out, and the task or
//! guard that it belongs to holds a lease on the buffer's generation until the claim is
//! dropped. While the lease is out the slot does not reclaim that memory (`lease.rs`), so it is
//! initialised, in place and disjoint from every other buffer (`chunk.rs`). Each run of
//! elements of one buffer has one handle, and a buffer claims the handles of all its elements.
//!
//! One task takes one lease per generation: the first claim on a slot carries it. The claims of
//! one task are dropped together, after its body.
#![allow(unsafe_code, reason = "borrows arena memory for bodies that were granted it")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use bytemuck::Pod;
use millrace_runtime::{Access, Claims, Mode, SubmitError, WaitError};

use crate::chunk::ALIGN;
use crate::guard::{ReadGuard, WriteGuard};
use crate::slot::{Lease, LeasedLen, SlotHeader};

/// Buffers without elements are aligned like all others.
#[repr(align(64))]
struct Aligned;

/// A place in an arena, without its element type.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) slot: &'static SlotHeader,
    pub(crate) generation: u32,
    /// The first of its handles.
    pub(crate) handle: u32,
    pub(crate) handles: u32,
    /// Start of its bytes; of none, an aligned place.
    pub(crate) data: NonNull<u8>,
}

impl Span {
    /// Where a buffer without bytes is.
    pub(crate) const NOWHERE: NonNull<u8> = NonNull::<Aligned>::dangling().cast();
}

/// A buffer in an arena: cheap to copy, and without access to the memory by itself.
///
/// A task declares [`read`](Buffer::read), [`write`](Buffer::write) or
/// [`overwrite`](Buffer::overwrite) and is handed the slice; outside of tasks
/// [`acquire`](Buffer::acquire) and [`acquire_mut`](Buffer::acquire_mut) give guards. Once the
/// buffer's generation has ended, all of these are refused; it is never undefined to keep one.
#[derive(Clone, Copy)]
pub struct Buffer<T> {
    span: Span,
    len: usize,
    elements: PhantomData<NonNull<T>>,
}

// SAFETY: a buffer is a name. Its memory is reached through claims only, which the runtime
// orders; and a value of a `Pod` type is its bytes, which any thread can make from any other's.
unsafe impl<T: Pod> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for Buffer<T> {}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("arena", &self.span.slot.name())
            .field("generation", &self.span.generation)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> Buffer<T> {
    /// Rejects element types that a buffer cannot hold, at compile time.
    pub(crate) const CHECKED: () = {
        assert!(align_of::<T>() <= ALIGN, "buffers are aligned to 64 bytes");
        assert!(size_of::<T>() > 0, "the elements of a buffer have a size");
    };

    /// The buffer of `len` elements in `span`, which was allocated for them.
    pub(crate) fn new(span: Span, len: usize) -> Buffer<T> {
        let () = Self::CHECKED;
        Buffer { span, len, elements: PhantomData }
    }

    /// The elements from `start` over `len`, which the handle `first + index` stands for.
    pub(crate) fn part(&self, index: u32, start: usize, len: usize) -> Buffer<T> {
        assert!(index < self.span.handles && start <= self.len && len <= self.len - start);
        // SAFETY: `start` is within the buffer, or at its end.
        let data = unsafe { self.data().add(start) }.cast();
        let span = Span { handle: self.span.handle + index, handles: 1, data, ..self.span };
        Buffer::new(span, len)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of data handles behind it.
    pub(crate) fn handles(&self) -> u32 {
        self.span.handles
    }

    /// Its data handles.
    pub(crate) fn handle_range(&self) -> std::ops::Range<u32> {
        self.span.handle..self.span.handle + self.span.handles
    }

    pub(crate) fn slot(&self) -> &'static SlotHeader {
        self.span.slot
    }

    pub(crate) fn generation(&self) -> u32 {
        self.span.generation
    }

    /// Reading access: the body gets `&[T]`.
    pub fn read(&self) -> Read<T> {
        Read(*self)
    }

    /// Reading and writing access: the body gets `&mut [T]`.
    pub fn write(&self) -> Write<T> {
        Write(*self)
    }

    /// Writing access that does not need the old content: the body gets `&mut [T]`. It does not
    /// depend on what older tasks wrote, only on their end. The content is initialised, but
    /// arbitrary.
    pub fn overwrite(&self) -> Overwrite<T> {
        Overwrite(*self)
    }

    /// Reading and writing access in any order with other tasks that commute on the buffer: the
    /// body gets `&mut [T]`, while no other has it; see
    /// [`Mode::Commute`](millrace_runtime::Mode::Commute).
    ///
    /// ```
    /// # use millrace_arena::Arena;
    /// # use millrace_runtime::Runtime;
    /// # let rt = Runtime::builder().workers(2).build()?;
    /// # let arena = Arena::new(&rt, "counts");
    /// let counts = arena.alloc::<u64>(10)?;
    /// for number in 0..1000 {
    ///     // Whichever has found its digit first counts it first.
    ///     rt.spawn("count", counts.commute(), move |counts| counts[number % 10] += 1)?;
    /// }
    /// assert_eq!(*counts.acquire()?, [100; 10]); // after all of them
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What is computed must not depend on the order: sums of floats do.
    pub fn commute(&self) -> Commute<T> {
        Commute(*self)
    }

    /// Waits for the last task that writes the buffer, and only for it, and gives the content
    /// to this thread. Tasks submitted meanwhile that write it wait for the drop of the guard.
    ///
    /// # Errors
    /// When the buffer is stale; when the task that was to write it failed; inside a body; when
    /// this thread would wait for a guard of its own.
    #[track_caller]
    pub fn acquire(&self) -> Result<ReadGuard<T>, WaitError> {
        ReadGuard::new(*self)
    }

    /// Waits for all tasks that use the buffer, and gives the content to this thread for
    /// reading and writing.
    ///
    /// # Errors
    /// As for [`acquire`](Buffer::acquire).
    #[track_caller]
    pub fn acquire_mut(&self) -> Result<WriteGuard<T>, WaitError> {
        WriteGuard::new(*self)
    }

    /// The first of its bytes, or a place that is aligned alike if there are none.
    pub(crate) fn start(&self) -> *mut u8 {
        self.span.data.as_ptr()
    }

    #[inline(always)]
    fn data(&self) -> NonNull<T> {
        self.span.data.cast()
    }

    // Little of it is left where the number of a task's accesses is known.
    #[inline(always)]
    fn claim(self, claims: &mut Claims, mode: Mode) -> Result<Claim<T>, SubmitError> {
        let lease = self.secure(claims, mode)?;
        Ok(Claim { data: self.data(), len: LeasedLen::new(self.len, lease) })
    }

    /// Declares the buffer for a task, or a replay, and takes a lease, unless that one has one
    /// already.
    #[inline(always)]
    pub(crate) fn secure(
        self,
        claims: &mut Claims,
        mode: Mode,
    ) -> Result<Option<Lease>, SubmitError> {
        let Span { slot, generation, handle, handles, .. } = self.span;
        let lease = match claims.leased_last(slot.key(), generation) {
            true => None,
            false => slot.lease_for(claims, generation)?,
        };
        let bytes = self.len * size_of::<T>();
        claims.declare_bytes(handle..handle + handles, generation, mode, bytes);
        Ok(lease)
    }
}

/// What a task keeps of a buffer from submission to its end.
#[derive(Debug)]
pub struct Claim<T> {
    data: NonNull<T>,
    len: LeasedLen,
}

// SAFETY: the pointer is used in `Access::data` only, under the runtime's grant; see `Buffer`
// for the elements. A lease may be given back on any thread.
unsafe impl<T: Pod> Send for Claim<T> {}

/// Reading access to a buffer; see [`Buffer::read`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a task or acquired"]
pub struct Read<T>(Buffer<T>);

// SAFETY: `Buffer::secure` declares every handle of the buffer with `Mode::Read` and secures the
// memory by a lease that lives as long as the task's claims (see the module's invariant).
unsafe impl<T: Pod> Access for Read<T> {
    type Claim = Claim<T>;
    type Data<'a> = &'a [T];

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<Claim<T>, SubmitError> {
        self.0.claim(claims, Mode::Read)
    }

    unsafe fn data(claim: &mut Claim<T>) -> &[T] {
        // SAFETY: the lease keeps `len` initialised elements at `data` in place, and the caller
        // was granted their handles for reading.
        unsafe { slice::from_raw_parts(claim.data.as_ptr(), claim.len.len()) }
    }
}

/// Reading and writing access to a buffer; see [`Buffer::write`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a task or acquired"]
pub struct Write<T>(Buffer<T>);

// SAFETY: `Buffer::secure` declares every handle of the buffer with `Mode::Write` and secures the
// memory by a lease that lives as long as the task's claims (see the module's invariant).
unsafe impl<T: Pod> Access for Write<T> {
    type Claim = Claim<T>;
    type Data<'a> = &'a mut [T];

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<Claim<T>, SubmitError> {
        self.0.claim(claims, Mode::Write)
    }

    unsafe fn data(claim: &mut Claim<T>) -> &mut [T] {
        // SAFETY: the lease keeps `len` initialised elements at `data` in place, and the caller
        // was granted their handles exclusively.
        unsafe { slice::from_raw_parts_mut(claim.data.as_ptr(), claim.len.len()) }
    }
}

/// Writing access to a buffer that does not need its old content; see
/// [`Buffer::overwrite`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a task or acquired"]
pub struct Overwrite<T>(Buffer<T>);

// SAFETY: `Buffer::secure` declares every handle of the buffer with `Mode::Overwrite` and secures the
// memory by a lease that lives as long as the task's claims (see the module's invariant).
unsafe impl<T: Pod> Access for Overwrite<T> {
    type Claim = Claim<T>;
    type Data<'a> = &'a mut [T];

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<Claim<T>, SubmitError> {
        self.0.claim(claims, Mode::Overwrite)
    }

    unsafe fn data(claim: &mut Claim<T>) -> &mut [T] {
        // SAFETY: the lease keeps `len` initialised elements at `data` in place, and the caller
        // was granted their handles exclusively.
        unsafe { slice::from_raw_parts_mut(claim.data.as_ptr(), claim.len.len()) }
    }
}

/// Reading and writing access to a buffer in any order with others; see [`Buffer::commute`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a task or acquired"]
pub struct Commute<T>(Buffer<T>);

// SAFETY: `Buffer::claim` declares every handle of the buffer with `Mode::Commute` and secures the
// memory by a lease that lives as long as the task's claims (see the module's invariant).
unsafe impl<T: Pod> Access for Commute<T> {
    type Claim = Claim<T>;
    type Data<'a> = &'a mut [T];

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<Claim<T>, SubmitError> {
        self.0.claim(claims, Mode::Commute)
    }

    unsafe fn data(claim: &mut Claim<T>) -> &mut [T] {
        // SAFETY: the lease keeps `len` initialised elements at `data` in place, and the caller
        // was granted their handles exclusively.
        unsafe { slice::from_raw_parts_mut(claim.data.as_ptr(), claim.len.len()) }
    }
}
