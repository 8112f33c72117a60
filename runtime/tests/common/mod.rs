//! What tests of the runtime alone have in common: cells, the smallest thing that tasks can share,
//! and some ways to make a wait come about.
#![allow(unsafe_code, reason = "implements the unsafe trait `Access` for tests")]
#![allow(dead_code, reason = "each test file uses another part")]

use std::cell::UnsafeCell;
use std::sync::{Arc, mpsc};

use millrace_runtime::trace::Cause;
use millrace_runtime::{Access, Claims, Mode, Runtime, SubmitError, TaskId};

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
/// An access in any other mode.
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

    pub(crate) fn commute(&self) -> Write {
        Write(Claim(self.value.clone()), self.handle, Mode::Commute)
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

/// An access that declares so much memory, and no data.
pub(crate) struct Bytes(pub(crate) usize);

// SAFETY: there is no data.
unsafe impl Access for Bytes {
    type Claim = ();
    type Data<'a> = ();

    fn claim(self, claims: &mut Claims) -> Result<(), SubmitError> {
        claims.declare_bytes(0..0, 0, Mode::Read, self.0);
        Ok(())
    }

    unsafe fn data(_: &mut ()) {}
}

/// A task that runs until it is let go.
pub(crate) fn blocked(rt: &Runtime) -> (TaskId, mpsc::Sender<()>) {
    let (let_go, gate) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let body = move |()| {
        begun.send(()).expect("the test waits");
        gate.recv().expect("let go");
    };
    let task = rt.spawn("blocked", (), body).expect("accepted");
    begins.recv().expect("it begins");
    (task, let_go)
}

/// Returns once a thread outside the pool has begun to wait for `cause`.
pub(crate) fn until_waiting(rt: &Runtime, cause: Cause) {
    while rt.statistics().waits.iter().all(|((c, _), total)| *c != cause || total.count == 0) {
        std::thread::yield_now();
    }
}

/// Keeps panics that a test wants out of its output.
pub(crate) fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>();
            if !text.is_some_and(|text| text.contains("was told to")) {
                default(info);
            }
        }));
    });
}
