//! Handles without memory: accesses that order tasks and hand out nothing.
#![allow(unsafe_code, reason = "implements the unsafe trait `Access`")]

use std::ops::Range;

use super::{Access, Mode};
use crate::claims::Claims;
use crate::error::SubmitError;
use crate::runtime::Runtime;

/// A block of data handles for things that the runtime's users keep themselves: a file, a
/// device, a step of a protocol. Bodies are handed `()` for them; the tasks' order is all that
/// they give. Made by [`Runtime::handles`].
///
/// ```
/// # let rt = millrace_runtime::Runtime::builder().workers(2).build()?;
/// let log = rt.handles(1).expect("fewer than 2^32 handles");
/// for line in 0..3 {
///     rt.spawn("print", log.write(0), move |()| println!("line {line}"))?; // in this order
/// }
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the block gives the handles back once no task is unfinished.
#[derive(Debug)]
pub struct Handles {
    runtime: Runtime,
    range: Range<u32>,
}

impl Handles {
    pub(crate) fn new(runtime: Runtime, range: Range<u32>) -> Self {
        Handles { runtime, range }
    }

    /// Number of handles.
    #[inline]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Reads handle `index`: any number of readers run at once.
    ///
    /// # Panics
    /// When there is no such handle.
    #[inline]
    pub fn read(&self, index: usize) -> HandleAccess {
        self.access(index, Mode::Read)
    }

    /// Reads and writes handle `index`: alone.
    ///
    /// # Panics
    /// When there is no such handle.
    #[inline]
    pub fn write(&self, index: usize) -> HandleAccess {
        self.access(index, Mode::Write)
    }

    /// Writes handle `index` without reading what was there: alone, and not cancelled when the
    /// task that wrote it before fails.
    ///
    /// # Panics
    /// When there is no such handle.
    #[inline]
    pub fn overwrite(&self, index: usize) -> HandleAccess {
        self.access(index, Mode::Overwrite)
    }

    /// Reads and writes handle `index`: alone, in any order with others that commute on it; see
    /// [`Mode::Commute`].
    ///
    /// ```
    /// # let rt = millrace_runtime::Runtime::builder().workers(2).build()?;
    /// let printer = rt.handles(1).expect("fewer than 2^32 handles");
    /// for page in 0..3 {
    ///     rt.spawn("print", printer.commute(0), move |()| println!("page {page}"))?; // one by one
    /// }
    /// rt.spawn("switch off", printer.write(0), |()| println!("done"))?; // after all of them
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When there is no such handle.
    #[inline]
    pub fn commute(&self, index: usize) -> HandleAccess {
        self.access(index, Mode::Commute)
    }

    /// All of them, for a parameter of a [recording](crate::replay). It does not keep them: once
    /// the block has been dropped they may be another's.
    pub fn block(&self) -> HandleBlock {
        HandleBlock {
            runtime: self.runtime.id(),
            first: self.range.start,
            count: self.range.end - self.range.start,
        }
    }

    #[inline]
    fn access(&self, index: usize, mode: Mode) -> HandleAccess {
        assert!(index < self.len(), "handle {index} of a block of {}", self.len());
        HandleAccess { runtime: self.runtime.id(), index: self.range.start + index as u32, mode }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.runtime.inner().release_when_drained(self.range.clone());
    }
}

/// A block of handles without memory; see [`Handles::block`].
#[derive(Clone, Copy, Debug)]
pub struct HandleBlock {
    runtime: u64,
    first: u32,
    count: u32,
}

impl HandleBlock {
    /// Number of handles.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn declare(&self, claims: &mut Claims, mode: Mode) -> Result<(), SubmitError> {
        check_owner(claims, self.runtime)?;
        claims.declare(self.first..self.first + self.count, 0, mode);
        Ok(())
    }
}

#[inline]
fn check_owner(claims: &Claims, runtime: u64) -> Result<(), SubmitError> {
    if claims.runtime_id() == runtime { Ok(()) } else { Err(not_the_owner(claims)) }
}

#[cold]
fn not_the_owner(claims: &Claims) -> SubmitError {
    let owner = "handles without memory".to_owned();
    SubmitError::WrongRuntime { task: claims.task(), owner }
}

/// An access to one of a block of [`Handles`].
#[derive(Clone, Copy, Debug)]
pub struct HandleAccess {
    runtime: u64,
    index: u32,
    mode: Mode,
}

// SAFETY: nothing is handed out.
unsafe impl Access for HandleAccess {
    type Claim = ();
    type Data<'a> = ();

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<(), SubmitError> {
        check_owner(claims, self.runtime)?;
        claims.declare(self.index..self.index + 1, 0, self.mode);
        Ok(())
    }

    #[inline]
    unsafe fn data(_: &mut ()) {}
}
