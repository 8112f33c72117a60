//! Buffers as parameters of recorded graphs.
//!
//! A recording's parameter stands for a buffer; what it is bound to when the graph is replayed,
//! typically the buffer of the next batch, has the same length and is cut at the same places. A replay takes its
//! leases as a submission does: one per generation, until its last task has ended.
//!
//! # Invariant
//! An access to a parameter is a run of elements, and the handles of all of these. It was made
//! within the buffer that was recorded, and what is bound has the same
//! [shape](millrace_runtime::replay::Binding::Shape): as many elements of the same type, cut at
//! the same places. So the run lies in what is bound, behind the same handles of it, and the
//! replay's lease keeps it in place.
#![allow(unsafe_code, reason = "borrows arena memory for recorded bodies that were granted it")]

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::slice;

use bytemuck::Pod;
use millrace_runtime::replay::{Binding, Bound, Parameter, Part, RecordedAccess};
use millrace_runtime::{Claims, Mode, SubmitError};

use crate::buffer::Buffer;
use crate::scratch::{Scratch, ScratchBlock};
use crate::sharded::Sharded;
use crate::slot::Lease;

/// Keeps what a replay is bound to in place.
#[derive(Debug)]
pub struct BufferLease {
    _lease: Option<Lease>,
}

/// What is fixed about the buffers that one parameter can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferShape {
    element: &'static str,
    rows: usize,
    row_len: usize,
    shards: u32,
}

impl fmt::Display for BufferShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BufferShape { element, rows, row_len, shards } = self;
        match (row_len, shards) {
            (1, 1) => write!(f, "{rows} elements `{element}`"),
            _ => write!(f, "{rows} rows of {row_len} `{element}` in {shards} shards"),
        }
    }
}

// SAFETY: `Buffer::secure` declares the buffer's handles, which are one run, and as many as the
// shape tells. The lease that it returns, or that the same claims took before, keeps the buffer's
// elements in place and initialised (see `buffer.rs`).
unsafe impl<T: Pod> Binding for Buffer<T> {
    type Lease = BufferLease;
    type Shape = BufferShape;

    fn shape(&self) -> BufferShape {
        let (rows, shards) = (self.len(), self.handles());
        BufferShape { element: type_name::<T>(), rows, row_len: 1, shards }
    }

    fn claim(
        &self,
        claims: &mut Claims,
        mode: Mode,
    ) -> Result<(BufferLease, *mut u8), SubmitError> {
        let lease = self.secure(claims, mode)?;
        Ok((BufferLease { _lease: lease }, self.start()))
    }
}

// SAFETY: as for the buffer that has all of its rows.
unsafe impl<T: Pod> Binding for Sharded<T> {
    type Lease = BufferLease;
    type Shape = BufferShape;

    fn shape(&self) -> BufferShape {
        let (rows, row_len) = (self.rows(), self.row_len());
        BufferShape { rows, row_len, ..self.whole().shape() }
    }

    fn claim(
        &self,
        claims: &mut Claims,
        mode: Mode,
    ) -> Result<(BufferLease, *mut u8), SubmitError> {
        Binding::claim(&self.whole(), claims, mode)
    }
}

/// What a parameter that stands for a [`Buffer`] has of it: its accesses, for recorded tasks.
pub trait BufferParameter<T: Pod> {
    /// The buffer, as recorded tasks know it.
    fn buffer(&self) -> RecordedBuffer<T>;

    /// Reading access: the body gets `&[T]`.
    fn read(&self) -> RecordedRead<T> {
        self.buffer().read()
    }

    /// Reading and writing access: the body gets `&mut [T]`.
    fn write(&self) -> RecordedWrite<T> {
        self.buffer().write()
    }

    /// Writing access that does not need the old content; see [`Buffer::overwrite`].
    fn overwrite(&self) -> RecordedWrite<T> {
        self.buffer().overwrite()
    }
}

impl<T: Pod> BufferParameter<T> for Parameter<Buffer<T>> {
    fn buffer(&self) -> RecordedBuffer<T> {
        let like = self.recorded();
        let part = self.part(0, like.handles(), Mode::Read);
        RecordedBuffer { part, start: 0, len: like.len(), elements: PhantomData }
    }
}

/// What a parameter that stands for a [`Sharded`] buffer has of it: its shards and the whole, for
/// recorded tasks.
pub trait ShardedParameter<T: Pod> {
    /// Shard `index`.
    ///
    /// # Panics
    /// If there is no such shard.
    fn shard(&self, index: usize) -> RecordedBuffer<T>;

    /// All rows as one contiguous buffer.
    fn whole(&self) -> RecordedBuffer<T>;
}

impl<T: Pod> ShardedParameter<T> for Parameter<Sharded<T>> {
    fn shard(&self, index: usize) -> RecordedBuffer<T> {
        let like = self.recorded();
        let (rows, row_len) = (like.shard_rows(index), like.row_len());
        let part = self.part(index as u32, 1, Mode::Read);
        let (start, len) = (rows.start * row_len, rows.len() * row_len);
        RecordedBuffer { part, start, len, elements: PhantomData }
    }

    fn whole(&self) -> RecordedBuffer<T> {
        let like = self.recorded().whole();
        let part = self.part(0, like.handles(), Mode::Read);
        RecordedBuffer { part, start: 0, len: like.len(), elements: PhantomData }
    }
}

/// A buffer, or a shard of one, that is another one in each replay.
#[derive(Clone, Copy)]
pub struct RecordedBuffer<T> {
    part: Part,
    start: usize,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for RecordedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Pod> RecordedBuffer<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reading access: the body gets `&[T]`.
    pub fn read(&self) -> RecordedRead<T> {
        RecordedRead(self.with(Mode::Read))
    }

    /// Reading and writing access: the body gets `&mut [T]`.
    pub fn write(&self) -> RecordedWrite<T> {
        RecordedWrite(self.with(Mode::Write))
    }

    /// Writing access that does not need the old content; see [`Buffer::overwrite`].
    pub fn overwrite(&self) -> RecordedWrite<T> {
        RecordedWrite(self.with(Mode::Overwrite))
    }

    fn with(&self, mode: Mode) -> Self {
        RecordedBuffer { part: self.part.with_mode(mode), ..*self }
    }

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.part.declare(claims, self.len * size_of::<T>())
    }

    /// The first of its elements in what is bound, where `len` of them lie.
    fn first(&self, bound: &Bound) -> *mut T {
        // Within what is bound, or at its end.
        self.part.memory(bound).cast::<T>().wrapping_add(self.start)
    }
}

/// Reading access of a recorded task.
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a recorded task"]
pub struct RecordedRead<T>(RecordedBuffer<T>);

// SAFETY: declared with `Mode::Read`; shared references only.
unsafe impl<T: Pod> RecordedAccess for RecordedRead<T> {
    type Data<'a> = &'a [T];
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims)
    }

    #[inline]
    unsafe fn data<'a>(&self, bound: &'a Bound, (): &'a mut ()) -> &'a [T] {
        // SAFETY: these are initialised elements of what is bound (see the module's invariant),
        // and the caller was granted their handles for reading.
        unsafe { slice::from_raw_parts(self.0.first(bound), self.0.len) }
    }
}

/// Writing access of a recorded task.
#[derive(Clone, Copy, Debug)]
#[must_use = "an access is declared by a recorded task"]
pub struct RecordedWrite<T>(RecordedBuffer<T>);

// SAFETY: declared with `Mode::Write` or `Mode::Overwrite`.
unsafe impl<T: Pod> RecordedAccess for RecordedWrite<T> {
    type Data<'a> = &'a mut [T];
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims)
    }

    #[inline]
    unsafe fn data<'a>(&self, bound: &'a Bound, (): &'a mut ()) -> &'a mut [T] {
        // SAFETY: these are initialised elements of what is bound (see the module's invariant),
        // and the caller was granted their handles exclusively.
        unsafe { slice::from_raw_parts_mut(self.0.first(bound), self.0.len) }
    }
}

// SAFETY: the memory that is handed out is owned by the state, and borrowed from it.
unsafe impl<T: Pod> RecordedAccess for Scratch<T> {
    type Data<'a> = &'a mut [T];
    type State = ScratchBlock;

    fn declare(&self, _: &mut Claims) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    unsafe fn data<'a>(&self, _: &'a Bound, block: &'a mut ScratchBlock) -> &'a mut [T] {
        block.lend(self.len())
    }
}
