//! All `unsafe` code of this crate: memory that is shared with processes, and what a child does
//! between `fork` and `exec`.
//!
//! # Invariant of shared slots
//! Of each slot number of a mapping there is one [`SharedSlot`] in a process, made by [`map`] and
//! never cloned; so within a process the borrows of its bytes follow Rust's rules. Between the
//! processes the protocol passes the slot to and fro: a producer writes between a claim and its
//! answer, when the trainer has the `SharedSlot` put away and takes no borrow; the trainer reads
//! after the answer, and sends the next claim on it once nobody borrows it. A producer that ends
//! without an answer is killed and waited for before its slot is used again.
//!
//! A program that breaks the protocol and writes later changes bytes while they are read, as
//! with any mapped file. It can make values wrong, but no value invalid: only types without
//! invalid values are read from slots. Nor can it take the memory away: its size is sealed.
#![allow(unsafe_code, reason = "memory shared between processes has no safe interface")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

#[derive(Debug)]
struct Mapping {
    map: MmapRaw,
    slot_bytes: usize,
}

/// One slot of memory that is shared with processes.
#[derive(Debug)]
pub(crate) struct SharedSlot {
    mapping: Arc<Mapping>,
    number: u32,
}

/// Maps the slots in `memory`, a sealed file of at least as many bytes.
///
/// # Errors
/// When the file is smaller than that, or cannot be mapped.
pub(crate) fn map(
    memory: BorrowedFd<'_>,
    slots: u32,
    slot_bytes: usize,
) -> io::Result<Vec<SharedSlot>> {
    let wanted = slot_bytes.checked_mul(slots as usize).ok_or(io::ErrorKind::OutOfMemory)?;
    let found = u64::try_from(rustix::fs::fstat(memory)?.st_size).unwrap_or(0);
    if found < wanted as u64 {
        let text = format!("the memory has {found} bytes, {wanted} are needed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let map = MmapOptions::new().len(wanted).map_raw(memory.as_raw_fd())?;
    let mapping = Arc::new(Mapping { map, slot_bytes });
    let slot = |number| SharedSlot { mapping: Arc::clone(&mapping), number };
    Ok((0..slots).map(slot).collect())
}

impl SharedSlot {
    /// Which slot of the memory it is.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    fn start(&self) -> *mut u8 {
        let offset = self.number as usize * self.mapping.slot_bytes;
        // SAFETY: the mapping has slots x slot bytes, and `map` makes numbers below slots only.
        unsafe { self.mapping.map.as_mut_ptr().add(offset) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the slot lies in the mapping, which lives as long as `self`; it was zeroed by
        // the system, so it is initialised; nobody writes to it while it is borrowed, by the
        // invariant of this module.
        unsafe { std::slice::from_raw_parts(self.start(), self.mapping.slot_bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; and `self` is the only one with this number, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.mapping.slot_bytes) }
    }
}

/// The process that `command` starts will be killed when the thread that starts it ends.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the signal was asked for.
        let is_orphan = getppid().map(Pid::as_raw_pid) != Some(parent.as_raw_pid());
        if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: between `fork` and `exec` the closure makes two system calls; it does not allocate
    // (an error kind is no allocation), take a lock or touch memory of other threads.
    unsafe { command.pre_exec(ask) };
}
