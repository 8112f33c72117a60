//! What recorded tasks declare, and what is bound to a recording's parameters.
#![allow(unsafe_code, reason = "declares unsafe traits, implements them part by part")]

use std::fmt;

use crate::access::{HandleBlock, Mode};
use crate::claims::Claims;
use crate::error::SubmitError;

/// Data that a recording can be replayed with: a block of handles, and the memory behind it.
///
/// # Safety
/// [`claim`](Binding::claim) declares one run of handles, as many as every binding of an equal
/// [shape](Binding::Shape) has, in the mode that it is given, and returns the start of the memory
/// behind them. That memory has the layout that the shape tells; it is valid, initialised and in
/// place until the lease is dropped and those that the same claims took from the same owner
/// before. No two handles name overlapping memory.
pub unsafe trait Binding: Copy + Send + Sync + 'static {
    /// What keeps the memory in place; dropped when all tasks of a replay have ended.
    type Lease: Send + 'static;
    /// All that a recording relies on. What is bound to one parameter has one shape.
    type Shape: Clone + PartialEq + fmt::Display + Send + 'static;

    /// Its shape.
    fn shape(&self) -> Self::Shape;

    /// Declares all of its handles in `mode`, and secures the memory behind them.
    ///
    /// # Errors
    /// When the data cannot be used by tasks of that runtime (stale, foreign).
    fn claim(&self, claims: &mut Claims, mode: Mode)
    -> Result<(Self::Lease, *mut u8), SubmitError>;
}

/// Stands, in a recording, for data that each replay may have another of.
///
/// Made by [`Recording::parameter`](super::Recording::parameter); its accesses are declared by
/// recorded tasks.
pub struct Parameter<B> {
    pub(super) place: ParameterPlace,
    like: B,
}

/// Which parameter of which recording, and its first handle in the recording's own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParameterPlace {
    pub(super) recording: u64,
    pub(super) index: u32,
    pub(super) first: u32,
    pub(super) handles: u32,
}

impl<B: Binding> Parameter<B> {
    pub(super) fn new(place: ParameterPlace, like: B) -> Self {
        Parameter { place, like }
    }

    /// What it was recorded with: whatever is bound later has the shape of this.
    pub fn recorded(&self) -> &B {
        &self.like
    }

    /// Access to `count` of its handles from `first` on, for those who implement
    /// [`RecordedAccess`].
    ///
    /// # Panics
    /// When it has no such handles.
    pub fn part(&self, first: u32, count: u32, mode: Mode) -> Part {
        let has = self.place.handles;
        let fits = first <= has && count <= has - first;
        assert!(fits, "handles {first} and {count} more of a parameter that has {has}");
        Part { place: self.place, first, count, mode }
    }
}

impl<B: Copy> Clone for Parameter<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Copy> Copy for Parameter<B> {}

impl<B> fmt::Debug for Parameter<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameter").field("index", &self.place.index).finish_non_exhaustive()
    }
}

/// Some handles of a parameter, in one mode.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    place: ParameterPlace,
    first: u32,
    count: u32,
    mode: Mode,
}

impl Part {
    /// The same handles in another mode.
    pub fn with_mode(self, mode: Mode) -> Part {
        Part { mode, ..self }
    }

    /// Declares it, with `bytes` of memory behind.
    ///
    /// # Errors
    /// When `claims` is not that of a task of the same recording.
    pub fn declare(&self, claims: &mut Claims, bytes: usize) -> Result<(), SubmitError> {
        let ParameterPlace { recording, first, .. } = self.place;
        if claims.runtime_id() != recording {
            return Err(SubmitError::WrongRecording { task: claims.task() });
        }
        let first = first + self.first;
        claims.declare_bytes(first..first + self.count, 0, self.mode, bytes);
        Ok(())
    }

    /// The memory that is bound to its parameter: from the parameter's start, not the part's.
    pub fn memory(&self, bound: &Bound) -> *mut u8 {
        bound.memory[self.place.index as usize]
    }
}

/// The memory that is bound to the parameters of one replay.
#[derive(Debug)]
pub struct Bound {
    pub(super) memory: Box<[*mut u8]>,
}

// SAFETY: these are addresses, and nobody goes there but a recorded access inside of a body, on
// whatever thread runs it. What keeps the memory in place (`Binding::Lease`) is `Send`.
unsafe impl Send for Bound {}

/// What a recorded task can declare: as an [`Access`](crate::Access), but of parameters, and for
/// any number of replays.
///
/// # Safety
/// [`data`](RecordedAccess::data) may hand out shared references only to memory of parts that
/// were declared with [`Mode::Read`], and exclusive ones only to memory declared with another
/// mode, or owned by the state. Memory of a part is that behind its handles.
pub unsafe trait RecordedAccess: Send + Sync + 'static {
    /// What the body receives.
    type Data<'a>;
    /// What one execution of the body needs besides.
    type State: Default;

    /// Declares every part.
    ///
    /// # Errors
    /// As for [`Part::declare`].
    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError>;

    /// Borrows the declared data.
    ///
    /// # Safety
    /// The caller has been granted every declared handle in its mode, of the data that is bound,
    /// for as long as `'a` lasts.
    unsafe fn data<'a>(&self, bound: &'a Bound, state: &'a mut Self::State) -> Self::Data<'a>;
}

macro_rules! tuple {
    ($($name:ident $state:ident)*) => {
        // SAFETY: each part keeps the promise of the trait for its own handles.
        unsafe impl<$($name: RecordedAccess),*> RecordedAccess for ($($name,)*) {
            type Data<'a> = ($($name::Data<'a>,)*);
            type State = ($($name::State,)*);

            #[expect(non_snake_case, reason = "type names name the parts")]
            fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
                let ($($name,)*) = self;
                $($name.declare(claims)?;)*
                Ok(())
            }

            #[inline]
            #[expect(non_snake_case, reason = "type names name the parts")]
            unsafe fn data<'a>(
                &self,
                bound: &'a Bound,
                state: &'a mut Self::State,
            ) -> Self::Data<'a> {
                let ($($name,)*) = self;
                let ($($state,)*) = state;
                // SAFETY: the caller's promise covers every part.
                ($(unsafe { $name.data(bound, $state) },)*)
            }
        }
    };
}

// SAFETY: nothing is declared and nothing handed out.
unsafe impl RecordedAccess for () {
    type Data<'a> = ();
    type State = ();

    fn declare(&self, _: &mut Claims) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    unsafe fn data(&self, _: &Bound, (): &mut ()) {}
}

tuple!(A a);
tuple!(A a B b);
tuple!(A a B b C c);
tuple!(A a B b C c D d);
tuple!(A a B b C c D d E e);
tuple!(A a B b C c D d E e F f);
tuple!(A a B b C c D d E e F f G g);
tuple!(A a B b C c D d E e F f G g H h);
tuple!(A a B b C c D d E e F f G g H h I i);
tuple!(A a B b C c D d E e F f G g H h I i J j);
tuple!(A a B b C c D d E e F f G g H h I i J j K k);
tuple!(A a B b C c D d E e F f G g H h I i J j K k L l);

// SAFETY: each part keeps the promise of the trait for its own handles.
unsafe impl<A: RecordedAccess> RecordedAccess for Vec<A> {
    type Data<'a> = Vec<A::Data<'a>>;
    type State = Vec<A::State>;

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.iter().try_for_each(|part| part.declare(claims))
    }

    unsafe fn data<'a>(&self, bound: &'a Bound, state: &'a mut Self::State) -> Self::Data<'a> {
        state.resize_with(self.len(), A::State::default);
        // SAFETY: the caller's promise covers every part.
        self.iter().zip(state).map(|(part, state)| unsafe { part.data(bound, state) }).collect()
    }
}

/// Access to one handle of a parameter without memory; see
/// [`Parameter::read`](Parameter#impl-Parameter<HandleBlock>).
#[derive(Clone, Copy, Debug)]
pub struct RecordedHandle(Part);

// SAFETY: nothing is handed out.
unsafe impl RecordedAccess for RecordedHandle {
    type Data<'a> = ();
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims, 0)
    }

    #[inline]
    unsafe fn data(&self, _: &Bound, (): &mut ()) {}
}

impl Parameter<HandleBlock> {
    /// Reads handle `index`.
    ///
    /// # Panics
    /// When there is no such handle.
    pub fn read(&self, index: usize) -> RecordedHandle {
        self.handle(index, Mode::Read)
    }

    /// Reads and writes handle `index`.
    ///
    /// # Panics
    /// When there is no such handle.
    pub fn write(&self, index: usize) -> RecordedHandle {
        self.handle(index, Mode::Write)
    }

    /// Writes handle `index` without reading what was there.
    ///
    /// # Panics
    /// When there is no such handle.
    pub fn overwrite(&self, index: usize) -> RecordedHandle {
        self.handle(index, Mode::Overwrite)
    }

    fn handle(&self, index: usize, mode: Mode) -> RecordedHandle {
        // One too large for the type is one that the parameter does not have.
        RecordedHandle(self.part(u32::try_from(index).unwrap_or(u32::MAX), 1, mode))
    }
}

/// Number of handles of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleCount(usize);

impl fmt::Display for HandleCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} handles without memory", self.0)
    }
}

// SAFETY: there is no memory.
unsafe impl Binding for HandleBlock {
    type Lease = ();
    type Shape = HandleCount;

    fn shape(&self) -> HandleCount {
        HandleCount(self.len())
    }

    fn claim(&self, claims: &mut Claims, mode: Mode) -> Result<((), *mut u8), SubmitError> {
        self.declare(claims, mode)?;
        Ok(((), std::ptr::null_mut()))
    }
}
