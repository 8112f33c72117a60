//! A list of threads that want to be unparked, whose length is read without its lock.

use smallvec::SmallVec;

use crate::sync::{AtomicU32, Mutex, Ordering, Thread, current, lock};

/// Threads in the order in which they entered. Each entry has a ticket of its own, for a thread
/// may be in the list twice.
pub(crate) struct Roster {
    len: AtomicU32,
    list: Mutex<List>,
}

struct List {
    threads: Vec<(u64, Thread)>,
    tickets: u64,
}

impl Roster {
    pub(crate) fn new() -> Self {
        let list = List { threads: Vec::new(), tickets: 0 };
        Roster { len: AtomicU32::new(0), list: Mutex::new(list) }
    }

    /// Whether nobody seems to be in the list; exact only after a fence.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Enters the calling thread. The caller fences: what it reads afterwards is newer than its
    /// entry.
    pub(crate) fn enter(&self) -> u64 {
        self.change(|list| {
            let ticket = list.tickets;
            list.tickets += 1;
            list.threads.push((ticket, current()));
            ticket
        })
    }

    /// Leaves the list; false when the entry was [taken](Self::take).
    pub(crate) fn leave(&self, ticket: u64) -> bool {
        self.change(|list| {
            let place = list.threads.iter().position(|(listed, _)| *listed == ticket);
            place.map(|place| list.threads.remove(place)).is_some()
        })
    }

    /// Whether the entry is still there.
    pub(crate) fn has(&self, ticket: u64) -> bool {
        lock(&self.list).threads.iter().any(|(listed, _)| *listed == ticket)
    }

    /// Takes the youngest entries off the list, at most `count`, and unparks their threads.
    #[cold]
    pub(crate) fn take(&self, count: usize) {
        let taken: SmallVec<[_; 4]> = self.change(|list| {
            let rest = list.threads.len().saturating_sub(count);
            list.threads.drain(rest..).collect()
        });
        // Outside of the lock, which the unparked threads take first.
        taken.iter().rev().for_each(|(_, thread)| thread.unpark());
    }

    /// Unparks every thread in the list, which stays as it is.
    pub(crate) fn unpark_all(&self) {
        lock(&self.list).threads.iter().for_each(|(_, thread)| thread.unpark());
    }

    fn change<R>(&self, change: impl FnOnce(&mut List) -> R) -> R {
        let mut list = lock(&self.list);
        let result = change(&mut list);
        self.len.store(list.threads.len() as u32, Ordering::Relaxed);
        result
    }
}
