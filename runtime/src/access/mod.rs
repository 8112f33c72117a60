//! What a task declares, and what its body is handed.
#![allow(unsafe_code, reason = "declares the unsafe trait `Access`")]

mod collections;
mod handles;

pub use handles::{HandleAccess, HandleBlock, Handles};

use crate::claims::Claims;
use crate::error::SubmitError;

/// How a task uses a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reads; any number of readers run at once.
    Read,
    /// Reads and writes; alone.
    Write,
    /// Writes without reading what was there; alone.
    Overwrite,
    /// Reads and writes; alone, but in any order with others that do, if no task between them
    /// uses the handle in another mode.
    ///
    /// Such tasks form a *run*. Each waits for what came before the run, and what comes after it
    /// waits for all of them; none depends on another. So if one fails, the others are run all the
    /// same, on what it left, and whatever reads the data after the run is cancelled.
    ///
    /// A task has the data while its body runs: a [child](crate::TaskBuilder::child) may commute on
    /// it as well, and others may come in between.
    ///
    /// A guard takes it for [`Write`](Mode::Write), and so does a [recording](crate::replay).
    /// Without workers a run keeps the order of the program.
    Commute,
}

impl Mode {
    /// Whether the handle's content may change.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }
}

/// A data handle: an entry of one runtime's dependency table.
///
/// It names memory for the purpose of ordering tasks; the runtime never looks at the memory.
/// `epoch` tells apart successive uses of one entry: the first task that claims it under a new
/// epoch finds it without history. An owner starts a new epoch only when every task that
/// claimed the older one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Index into the table.
    pub index: u32,
    /// Which use of that entry.
    pub epoch: u32,
}

/// Something that a task can declare: an access to data, or a collection of them.
///
/// The declared access is the only access: [`Access::claim`] tells the runtime what will be
/// touched, [`Access::data`] borrows exactly that for the body.
///
/// # Safety
/// Between `claim` and the drop of the claim it returned, [`Access::data`] may hand out shared
/// references only to memory whose handles were claimed with [`Mode::Read`], and exclusive
/// ones only to memory claimed with another mode (or owned by the claim itself). That memory must stay valid, initialised and in place until the claim is
/// dropped, on whatever thread that happens. Two handles never name overlapping memory.
pub unsafe trait Access: 'static {
    /// What the task keeps from submission to its end: pointers and leases.
    /// Dropping it gives the leases back.
    type Claim: Send + 'static;
    /// What the body receives: `&[T]`, `&mut [T]`, or a collection of such.
    type Data<'a>;

    /// Declares every handle to `claims`, and secures the memory behind it.
    ///
    /// # Errors
    /// When the data cannot be used by a task of that runtime (stale, foreign). What was
    /// declared before the error is undone by dropping the claims.
    fn claim(self, claims: &mut Claims) -> Result<Self::Claim, SubmitError>;

    /// Borrows the declared data.
    ///
    /// # Safety
    /// The caller has been granted every handle of the claim in its mode: no other task or
    /// guard holds a conflicting grant for as long as `'a` lasts.
    unsafe fn data<'a>(claim: &'a mut Self::Claim) -> Self::Data<'a>;
}
