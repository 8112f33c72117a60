//! Numbers behind one handle each, in a block that recorded tasks and others use.
#![allow(unsafe_code, reason = "implements the access traits for tests")]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, mpsc};

use millrace_runtime::replay::{Binding, Bound, Parameter, Part, RecordedAccess};
use millrace_runtime::{Access, Claims, Mode, Runtime, SubmitError};

const BYTES: usize = size_of::<u64>();

/// A block of numbers, which lives until no task uses it.
pub(crate) struct Block {
    rt: Runtime,
    handles: Range<u32>,
    numbers: Box<[UnsafeCell<u64>]>,
}

impl Block {
    pub(crate) fn new(rt: &Runtime, len: usize) -> Self {
        let handles = rt.register_handles(len as u32).expect("enough handles");
        let numbers = (0..len).map(|_| UnsafeCell::new(0)).collect();
        Block { rt: rt.clone(), handles, numbers }
    }

    pub(crate) fn data(&self) -> Data {
        let memory = self.numbers.as_ptr().cast_mut().cast();
        Data { runtime: self.rt.id(), first: self.handles.start, len: self.numbers.len(), memory }
    }

    pub(crate) fn read(&self, index: usize) -> Read {
        Read(self.number(index))
    }

    pub(crate) fn write(&self, index: usize) -> Write {
        Write(self.number(index), Mode::Write)
    }

    pub(crate) fn overwrite(&self, index: usize) -> Write {
        Write(self.number(index), Mode::Overwrite)
    }

    fn number(&self, index: usize) -> Number {
        Number { handle: self.handles.start + index as u32, place: self.numbers[index].get() }
    }

    /// A number, once those have ended that write it.
    pub(crate) fn value(&self, index: usize) -> u64 {
        *self.rt.acquire(self.read(index)).expect("valid data").data()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Tests that want failures have seen them by now.
        let _ = self.rt.wait();
        self.rt.release_handles(self.handles.clone());
    }
}

/// One number of a block.
pub(crate) struct Number {
    handle: u32,
    place: *mut u64,
}

// SAFETY: the number is reached through granted accesses only.
unsafe impl Send for Number {}

impl Number {
    fn declare(self, claims: &mut Claims, mode: Mode) -> Self {
        claims.declare_bytes(self.handle..self.handle + 1, 0, mode, BYTES);
        self
    }
}

pub(crate) struct Read(Number);
pub(crate) struct Write(Number, Mode);

// SAFETY: `Mode::Read` is declared; the block outlives the tasks that use it.
unsafe impl Access for Read {
    type Claim = Number;
    type Data<'a> = &'a u64;

    fn claim(self, claims: &mut Claims) -> Result<Number, SubmitError> {
        Ok(self.0.declare(claims, Mode::Read))
    }

    unsafe fn data(number: &mut Number) -> &u64 {
        // SAFETY: the caller was granted the handle.
        unsafe { &*number.place }
    }
}

// SAFETY: a writing mode is declared; the block outlives the tasks that use it.
unsafe impl Access for Write {
    type Claim = Number;
    type Data<'a> = &'a mut u64;

    fn claim(self, claims: &mut Claims) -> Result<Number, SubmitError> {
        Ok(self.0.declare(claims, self.1))
    }

    unsafe fn data(number: &mut Number) -> &mut u64 {
        // SAFETY: the caller was granted the handle.
        unsafe { &mut *number.place }
    }
}

/// What a recording's parameter is bound to: a block.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    runtime: u64,
    first: u32,
    len: usize,
    memory: *mut u64,
}

// SAFETY: the memory is reached through granted accesses only.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

/// How many numbers there are.
#[derive(Clone, PartialEq)]
pub(crate) struct Len(usize);

impl fmt::Display for Len {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} numbers", self.0)
    }
}

// SAFETY: the block's handles are one run, and their numbers lie one after the other in memory
// that stays until no task uses it.
unsafe impl Binding for Data {
    type Lease = ();
    type Shape = Len;

    fn shape(&self) -> Len {
        Len(self.len)
    }

    fn claim(&self, claims: &mut Claims, mode: Mode) -> Result<((), *mut u8), SubmitError> {
        if claims.runtime_id() != self.runtime {
            let owner = "a block".to_owned();
            return Err(SubmitError::WrongRuntime { task: claims.task(), owner });
        }
        claims.declare_bytes(self.first..self.first + self.len as u32, 0, mode, self.len * BYTES);
        Ok(((), self.memory.cast()))
    }
}

/// Accesses to a parameter's numbers.
pub(crate) trait Numbers {
    fn read(&self, index: usize) -> ReadNumber;
    fn write(&self, index: usize) -> WriteNumber;
    fn overwrite(&self, index: usize) -> WriteNumber;
}

impl Numbers for Parameter<Data> {
    fn read(&self, index: usize) -> ReadNumber {
        ReadNumber(self.part(index as u32, 1, Mode::Read), index)
    }

    fn write(&self, index: usize) -> WriteNumber {
        WriteNumber(self.part(index as u32, 1, Mode::Write), index)
    }

    fn overwrite(&self, index: usize) -> WriteNumber {
        WriteNumber(self.part(index as u32, 1, Mode::Overwrite), index)
    }
}

pub(crate) struct ReadNumber(Part, usize);
pub(crate) struct WriteNumber(Part, usize);

// SAFETY: declared with `Mode::Read`; number `index` is what that handle stands for.
unsafe impl RecordedAccess for ReadNumber {
    type Data<'a> = &'a u64;
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims, BYTES)
    }

    unsafe fn data<'a>(&self, bound: &'a Bound, (): &mut ()) -> &'a u64 {
        // SAFETY: the caller was granted the handle; the number is in the bound block.
        unsafe { &*self.0.memory(bound).cast::<u64>().add(self.1) }
    }
}

// SAFETY: declared with a writing mode; number `index` is what that handle stands for.
unsafe impl RecordedAccess for WriteNumber {
    type Data<'a> = &'a mut u64;
    type State = ();

    fn declare(&self, claims: &mut Claims) -> Result<(), SubmitError> {
        self.0.declare(claims, BYTES)
    }

    unsafe fn data<'a>(&self, bound: &'a Bound, (): &mut ()) -> &'a mut u64 {
        // SAFETY: the caller was granted the handle; the number is in the bound block.
        unsafe { &mut *self.0.memory(bound).cast::<u64>().add(self.1) }
    }
}

/// Where recorded bodies say that they have begun, and wait until they are let go.
pub(crate) struct Gate {
    begun: mpsc::Sender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    /// With what the test has of it: to hear of the beginning, and to let go.
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((begun, begins), (let_go, gate)) = (mpsc::channel(), mpsc::channel());
        (Gate { begun, gate: Mutex::new(gate) }, begins, let_go)
    }

    pub(crate) fn pass(&self) {
        self.begun.send(()).expect("the test listens");
        self.gate.lock().expect("no panics").recv().expect("let go");
    }
}
