//! Guards: the content of a buffer outside of tasks.
//!
//! # Invariant
//! A guard calls [`Held::data`] once, keeps the slice that it got, and never calls it again; so
//! the slice stays valid until the guard, and with it the `Held`, is dropped.
#![allow(unsafe_code, reason = "keeps a slice beside the grant that it borrows from")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Pod;
use millrace_runtime::{Held, WaitError};

use crate::buffer::{Buffer, Read, Write};
use crate::slot::GuardMark;

/// The content of a buffer, for reading; see [`Buffer::acquire`].
pub struct ReadGuard<T: Pod> {
    data: NonNull<[T]>,
    _held: Held<Read<T>>,
    _mark: GuardMark,
}

/// The content of a buffer, for reading and writing; see [`Buffer::acquire_mut`].
pub struct WriteGuard<T: Pod> {
    data: NonNull<[T]>,
    _held: Held<Write<T>>,
    _mark: GuardMark,
}

impl<T: Pod> ReadGuard<T> {
    #[track_caller]
    pub(crate) fn new(buffer: Buffer<T>) -> Result<Self, WaitError> {
        let runtime = buffer.slot().runtime(buffer.generation(), "acquire")?;
        let mut held = runtime.acquire(buffer.read())?;
        let data = NonNull::from(held.data());
        Ok(ReadGuard { data, _held: held, _mark: buffer.slot().mark_guard() })
    }
}

impl<T: Pod> WriteGuard<T> {
    #[track_caller]
    pub(crate) fn new(buffer: Buffer<T>) -> Result<Self, WaitError> {
        let runtime = buffer.slot().runtime(buffer.generation(), "acquire")?;
        let mut held = runtime.acquire(buffer.write())?;
        let data = NonNull::from(held.data());
        Ok(WriteGuard { data, _held: held, _mark: buffer.slot().mark_guard() })
    }
}

impl<T: Pod> Deref for ReadGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: valid and granted for reading while the guard lives (see the invariant).
        unsafe { self.data.as_ref() }
    }
}

impl<T: Pod> Deref for WriteGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: valid and granted exclusively while the guard lives (see the invariant).
        unsafe { self.data.as_ref() }
    }
}

impl<T: Pod> DerefMut for WriteGuard<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: valid and granted exclusively while the guard lives (see the invariant); the
        // exclusive borrow of the guard keeps this the only reference.
        unsafe { self.data.as_mut() }
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for ReadGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&&**self).finish()
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for WriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&&**self).finish()
    }
}
