//! Cells: the smallest thing that tasks can share, for tests of the runtime alone.
#![allow(unsafe_code, reason = "implements the unsafe trait `Access` for tests")]
#![allow(dead_code, reason = "each test file uses another part")]

use std::cell::UnsafeCell;
use std::sync::Arc;

use millrace_runtime::{Access, Claims, Mode, Runtime, SubmitError};

struct Value(UnsafeCell<u64>);

// SAFETY: the value is reached through granted accesses only, which the runtime orders.
unsafe impl Sync for Value {}

/// A value behind one data handle.
pub(crate) struct Shared {
    value: Arc<Value>,
    handle: u32,
}

pub(crate) struct Claim(Arc<Value>);

/// A read access.
pub(crate) struct Read(Claim, u32);
/// A write or overwrite access.
pub(crate) struct Write(Claim, u32, Mode);

impl Shared {
    pub(crate) fn new(rt: &Runtime) -> Self {
        let handle = rt.register_handles(1).expect("a handle").start;
        Shared { value: Arc::new(Value(UnsafeCell::new(0))), handle }
    }

    pub(crate) fn read(&self) -> Read {
        Read(Claim(self.value.clone()), self.handle)
    }

    pub(crate) fn write(&self) -> Write {
        Write(Claim(self.value.clone()), self.handle, Mode::Write)
    }

    pub(crate) fn overwrite(&self) -> Write {
        Write(Claim(self.value.clone()), self.handle, Mode::Overwrite)
    }

    pub(crate) fn value(&self, rt: &Runtime) -> u64 {
        *rt.acquire(self.read()).expect("valid data").data()
    }
}

// SAFETY: shared references under `Mode::Read` only; the value lives as long as the claim.
unsafe impl Access for Read {
    type Claim = Claim;
    type Data<'a> = &'a u64;

    fn claim(self, claims: &mut Claims) -> Result<Claim, SubmitError> {
        claims.declare(self.1..self.1 + 1, 0, Mode::Read);
        Ok(self.0)
    }

    unsafe fn data(claim: &mut Claim) -> &u64 {
        // SAFETY: the caller was granted the handle.
        unsafe { &*claim.0.0.get() }
    }
}

// SAFETY: exclusive references under a writing mode only; the value lives as long as the claim.
unsafe impl Access for Write {
    type Claim = Claim;
    type Data<'a> = &'a mut u64;

    fn claim(self, claims: &mut Claims) -> Result<Claim, SubmitError> {
        claims.declare(self.1..self.1 + 1, 0, self.2);
        Ok(self.0)
    }

    unsafe fn data(claim: &mut Claim) -> &mut u64 {
        // SAFETY: the caller was granted the handle.
        unsafe { &mut *claim.0.0.get() }
    }
}
