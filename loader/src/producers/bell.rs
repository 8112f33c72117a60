//! Something that can be waited for together with links.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a thread that waits in `poll`. A ring is kept until it is heard; several are one.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // It fails only when the counter is full; then there is a ring to be heard already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets the rings so far.
    pub(crate) fn hear(&self) {
        // It fails only when there was none.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
