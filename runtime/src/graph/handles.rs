//! The dependency table: who wrote each handle last, who has read it since.

use std::ops::Range;

use smallvec::SmallVec;

use super::TaskRef;
use crate::access::{Handle, Mode};

/// A predecessor that a claim needs to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The task to wait for.
    pub(crate) task: TaskRef,
    /// Whether only the order matters, not what it wrote.
    pub(crate) order_only: bool,
}

struct Entry {
    writer: TaskRef,
    epoch: u32,
    /// Length of `readers` at which ended ones are dropped next.
    prune_at: u32,
    readers: SmallVec<[TaskRef; 4]>,
}

/// Looking whether a reader has ended may mean to fetch its slot from another core, so a handle
/// keeps this many before it looks.
const PRUNE_FIRST: u32 = 64;

/// Readers of a handle that are told before they are looked at.
const FORESEEN: usize = 32;

impl Entry {
    fn new(epoch: u32) -> Self {
        Entry { writer: TaskRef::NONE, epoch, prune_at: PRUNE_FIRST, readers: SmallVec::new() }
    }

    #[inline]
    fn read_by(&mut self, task: TaskRef, has_ended: impl Fn(TaskRef) -> bool) {
        if self.readers.len() as u32 >= self.prune_at {
            self.readers.retain(|reader| !has_ended(*reader));
            // At least doubling keeps the cost of pruning constant per reader.
            self.prune_at = PRUNE_FIRST.max(2 * self.readers.len() as u32);
        }
        self.readers.push(task);
    }
}

/// How the tasks of a recording use one handle, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Crossing {
    /// Those that read it before any of them writes it.
    pub(crate) readers_before: SmallVec<[u32; 2]>,
    pub(crate) first_writer: Option<u32>,
    /// Whether that one does not need the old content.
    pub(crate) overwrites: bool,
    pub(crate) last_writer: u32,
    /// Those that read it after the last write.
    pub(crate) readers_after: SmallVec<[u32; 2]>,
}

impl Crossing {
    /// Notes that `task`, which was recorded after all others, uses the handle.
    pub(crate) fn note(&mut self, task: u32, mode: Mode) {
        if mode.writes() {
            if self.first_writer.is_none() {
                self.first_writer = Some(task);
                self.overwrites = mode == Mode::Overwrite;
            }
            self.last_writer = task;
            self.readers_after.clear();
        } else if self.first_writer.is_none() {
            self.readers_before.push(task);
        } else {
            self.readers_after.push(task);
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.first_writer.is_some() || !self.readers_before.is_empty()
    }

    /// The tasks that others may have to wait for.
    pub(crate) fn last_users(&self) -> impl Iterator<Item = u32> + '_ {
        let writer = self.first_writer.map(|_| self.last_writer);
        let readers = if writer.is_some() { &self.readers_after } else { &self.readers_before };
        writer.into_iter().chain(readers.iter().copied())
    }
}

/// Entries by handle index, and which indices are free.
pub(crate) struct HandleTable {
    entries: Vec<Entry>,
    free: Vec<Range<u32>>,
}

impl HandleTable {
    pub(crate) fn new() -> Self {
        HandleTable { entries: Vec::new(), free: Vec::new() }
    }

    /// Hands out `count` consecutive indices; `None` when 2^32 are in use.
    pub(crate) fn register(&mut self, count: u32) -> Option<Range<u32>> {
        let fits = self.free.iter().position(|range| range.end - range.start >= count);
        if let Some(place) = fits {
            let range = &mut self.free[place];
            let taken = range.start..range.start + count;
            range.start = taken.end;
            if range.start == range.end {
                self.free.swap_remove(place);
            }
            return Some(taken);
        }
        let first = u32::try_from(self.entries.len()).ok()?;
        let end = first.checked_add(count)?;
        self.entries.resize_with(end as usize, || Entry::new(0));
        Some(first..end)
    }

    /// Takes indices back. The next owner finds no history.
    pub(crate) fn release(&mut self, range: Range<u32>) {
        for entry in &mut self.entries[range.start as usize..range.end as usize] {
            *entry = Entry::new(0);
        }
        if range.start != range.end {
            self.free.push(range);
        }
    }

    /// Calls `each` for tasks that [`claim`](Self::claim) will look at, most of them at most.
    #[inline]
    pub(crate) fn foresee(&self, handle: Handle, mode: Mode, each: impl FnMut(TaskRef)) {
        let entry = &self.entries[handle.index as usize];
        if mode.writes() && !entry.readers.is_empty() {
            entry.readers.iter().copied().take(FORESEEN).for_each(each);
        } else {
            std::iter::once(entry.writer).for_each(each);
        }
    }

    /// Records that `task` uses `handle` from here on, in program order, and tells what it has
    /// to wait for: a reader for the last writer, a writer for the last writer and all readers
    /// since.
    #[inline]
    pub(crate) fn claim(
        &mut self,
        handle: Handle,
        mode: Mode,
        task: TaskRef,
        has_ended: impl Fn(TaskRef) -> bool,
        mut need: impl FnMut(Need),
    ) {
        let entry = &mut self.entries[handle.index as usize];
        if entry.epoch != handle.epoch {
            *entry = Entry::new(handle.epoch);
        }
        // Also after readers: if the writer fails, whoever reads its data is cancelled.
        let order_only = mode == Mode::Overwrite;
        let ordered_by_readers = order_only && !entry.readers.is_empty();
        if entry.writer != TaskRef::NONE && !ordered_by_readers {
            need(Need { task: entry.writer, order_only });
        }
        if mode.writes() {
            for reader in entry.readers.drain(..) {
                need(Need { task: reader, order_only: true });
            }
            entry.prune_at = PRUNE_FIRST;
            entry.writer = task;
        } else {
            entry.read_by(task, has_ended);
        }
    }

    /// Records that a replay uses `handle` from here on, in program order; tells what its tasks
    /// have to wait for outside. The same as if each of them had claimed it.
    pub(crate) fn cross(
        &mut self,
        handle: Handle,
        crossing: &Crossing,
        name: impl Fn(u32) -> TaskRef,
        has_ended: impl Fn(TaskRef) -> bool,
        mut need: impl FnMut(u32, Need),
    ) {
        let entry = &mut self.entries[handle.index as usize];
        if entry.epoch != handle.epoch {
            *entry = Entry::new(handle.epoch);
        }
        let writer = entry.writer;
        if writer != TaskRef::NONE {
            let data = Need { task: writer, order_only: false };
            crossing.readers_before.iter().for_each(|reader| need(*reader, data));
        }
        let Some(first) = crossing.first_writer else {
            crossing.readers_before.iter().for_each(|r| entry.read_by(name(*r), &has_ended));
            return;
        };
        let order_only = crossing.overwrites;
        let readers = !entry.readers.is_empty() || !crossing.readers_before.is_empty();
        if writer != TaskRef::NONE && !(order_only && readers) {
            need(first, Need { task: writer, order_only });
        }
        for reader in entry.readers.drain(..) {
            need(first, Need { task: reader, order_only: true });
        }
        entry.prune_at = PRUNE_FIRST;
        entry.writer = name(crossing.last_writer);
        entry.readers.extend(crossing.readers_after.iter().map(|reader| name(*reader)));
    }

    /// Calls `need` for each task that [`claim`](Self::claim) would make the caller wait for;
    /// changes nothing.
    pub(crate) fn preview(&self, handle: Handle, mode: Mode, mut need: impl FnMut(TaskRef)) {
        let entry = &self.entries[handle.index as usize];
        if entry.epoch != handle.epoch {
            return;
        }
        if entry.writer != TaskRef::NONE {
            need(entry.writer);
        }
        if mode.writes() {
            entry.readers.iter().copied().for_each(need);
        }
    }

    /// The last writers of all handles.
    pub(crate) fn writers(&self) -> impl Iterator<Item = TaskRef> {
        self.entries.iter().map(|entry| entry.writer)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::graph::SlotTable;
    use crate::graph::slot::Allocation;

    struct World {
        table: SlotTable,
        allocation: Allocation,
        handles: HandleTable,
    }

    impl World {
        fn new() -> Self {
            let mut handles = HandleTable::new();
            handles.register(2).expect("two handles");
            World { table: SlotTable::new(), allocation: Allocation::new(), handles }
        }

        fn task(&mut self) -> TaskRef {
            self.table.allocate(&mut self.allocation).expect("a slot")
        }

        fn claim(&mut self, epoch: u32, mode: Mode, task: TaskRef) -> Vec<Need> {
            let mut needs = Vec::new();
            let table = &self.table;
            let handle = Handle { index: 0, epoch };
            self.handles.claim(handle, mode, task, |t| table.has_ended(t), |n| needs.push(n));
            needs
        }
    }

    fn data(task: TaskRef) -> Need {
        Need { task, order_only: false }
    }

    fn order(task: TaskRef) -> Need {
        Need { task, order_only: true }
    }

    #[test]
    fn readers_need_the_writer_and_a_writer_needs_all() {
        let mut w = World::new();
        let [a, b, c, d] = std::array::from_fn(|_| w.task());
        assert_eq!(w.claim(0, Mode::Overwrite, a), []);
        assert_eq!(w.claim(0, Mode::Read, b), [data(a)]);
        assert_eq!(w.claim(0, Mode::Read, c), [data(a)]);
        assert_eq!(w.claim(0, Mode::Write, d), [data(a), order(b), order(c)]);
        let e = w.task();
        assert_eq!(w.claim(0, Mode::Overwrite, e), [order(d)]);
        let (f, g) = (w.task(), w.task());
        assert_eq!(w.claim(0, Mode::Read, f), [data(e)]);
        assert_eq!(w.claim(0, Mode::Overwrite, g), [order(f)]);
    }

    #[test]
    fn a_new_epoch_has_no_history() {
        let mut w = World::new();
        let (a, b) = (w.task(), w.task());
        w.claim(0, Mode::Write, a);
        assert_eq!(w.claim(1, Mode::Write, b), []);
    }

    #[test]
    fn readers_that_ended_are_dropped() {
        let mut w = World::new();
        for _ in 0..1000 {
            let task = w.task();
            w.claim(0, Mode::Read, task);
            w.table.end(task.slot(), None, |_, _| {});
        }
        assert!(w.handles.entries[0].readers.len() <= 2 * PRUNE_FIRST as usize);
    }

    #[test]
    fn released_indices_are_used_again() {
        let mut h = HandleTable::new();
        let a = h.register(8).expect("eight");
        let b = h.register(8).expect("eight");
        h.release(a.clone());
        assert_eq!(h.register(3), Some(0..3));
        assert_eq!(h.register(5), Some(3..8));
        assert_eq!(h.register(1), Some(b.end..b.end + 1));
        assert_eq!(h.register(0), Some(17..17));
    }
}
