//! The dependency table: who wrote each handle last, who has read it since.

use std::ops::Range;

use super::TaskRef;
use super::crossing::Crossing;
use super::entry::Entry;
use super::needs::Need;
use crate::access::{Handle, Mode};

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
            entry.clear();
        }
        if range.start != range.end {
            self.free.push(range);
        }
    }

    /// What is known of a handle, under its present epoch.
    #[inline]
    fn entry(&mut self, handle: Handle) -> &mut Entry {
        let entry = &mut self.entries[handle.index as usize];
        entry.renew(handle.epoch);
        entry
    }

    /// Records that `task` uses `handle` from here on, in program order, and tells what it has
    /// to wait for: a reader for the last writer, a writer for the last writer and all readers
    /// since; one that commutes as a writer, except that the others of its run are no such.
    ///
    /// `is_needless` tells whether a task has ended, and nobody has to know how.
    #[inline]
    pub(crate) fn claim(
        &mut self,
        handle: Handle,
        mode: Mode,
        task: TaskRef,
        is_needless: impl Fn(TaskRef) -> bool,
        mut need: impl FnMut(Need),
    ) {
        let entry = self.entry(handle);
        if entry.run.is_some() | (mode == Mode::Commute) {
            return entry.claim_around_run(mode, task, is_needless, need);
        }
        // Also after readers: if the writer fails, whoever reads its data is cancelled.
        let order_only = mode == Mode::Overwrite;
        let ordered_by_readers = order_only && !entry.readers.is_empty();
        if entry.writer != TaskRef::NONE && !ordered_by_readers {
            need(Need { task: entry.writer, order_only });
        }
        if mode.writes() {
            if !entry.readers.is_empty() {
                entry.readers.iter().for_each(|r| need(Need { task: *r, order_only: true }));
                entry.readers.clear();
            }
            entry.writer = task;
        } else {
            entry.read_by(task, is_needless);
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
        let entry = self.entry(handle);
        for task in entry.last_writers() {
            let data = Need { task, order_only: false };
            crossing.readers_before.iter().for_each(|reader| need(*reader, data));
        }
        let Some(first) = crossing.first_writer else {
            crossing.readers_before.iter().for_each(|r| entry.read_by(name(*r), &has_ended));
            return;
        };
        let order_only = crossing.overwrites;
        let readers = !entry.readers.is_empty() || !crossing.readers_before.is_empty();
        if !(order_only && readers) {
            entry.last_writers().for_each(|task| need(first, Need { task, order_only }));
        }
        for reader in &entry.readers {
            need(first, Need { task: *reader, order_only: true });
        }
        entry.written_by(name(crossing.last_writer));
        entry.readers.extend(crossing.readers_after.iter().map(|reader| name(*reader)));
    }

    /// A later replay of the recording that has crossed the handle last has used it as well; there
    /// `name` tells the tasks' names.
    pub(crate) fn rename(
        &mut self,
        handle: Handle,
        crossing: &Crossing,
        name: impl Fn(u32) -> TaskRef,
        has_ended: impl Fn(TaskRef) -> bool,
    ) {
        let entry = self.entry(handle);
        if crossing.first_writer.is_some() {
            entry.written_by(name(crossing.last_writer));
            entry.readers.extend(crossing.readers_after.iter().map(|reader| name(*reader)));
        } else {
            crossing.readers_before.iter().for_each(|r| entry.read_by(name(*r), &has_ended));
        }
    }

    /// Calls `need` for each task that [`claim`](Self::claim) would make the caller wait for;
    /// changes nothing.
    pub(crate) fn preview(&self, handle: Handle, mode: Mode, mut need: impl FnMut(TaskRef)) {
        let entry = &self.entries[handle.index as usize];
        if entry.epoch != handle.epoch {
            return;
        }
        if mode == Mode::Commute
            && entry.readers.is_empty()
            && let Some(run) = &entry.run
        {
            return run.before.iter().for_each(|before| need(before.task));
        }
        entry.last_writers().for_each(&mut need);
        if mode.writes() {
            entry.readers.iter().copied().for_each(need);
        }
    }

    /// The tasks of which later ones may have to know whether they failed: the last writers of all
    /// handles.
    pub(crate) fn writers(&self) -> impl Iterator<Item = TaskRef> {
        self.entries.iter().flat_map(|entry| {
            let before = entry.run.iter().flat_map(|run| run.before.iter().map(|need| need.task));
            entry.last_writers().chain(before)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::graph::Allocation;
    use crate::graph::SlotTable;
    use crate::graph::entry::PRUNE_FIRST;

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
            self.table.allocate(&mut self.allocation).expect("a slot").0
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
    fn the_tasks_of_a_run_need_what_was_before_it_and_not_each_other() {
        let mut w = World::new();
        let [a, b, c, d, e, f, g] = std::array::from_fn(|_| w.task());
        w.claim(0, Mode::Write, a);
        w.claim(0, Mode::Read, b);
        assert_eq!(w.claim(0, Mode::Commute, c), [data(a), order(b)]);
        assert_eq!(w.claim(0, Mode::Commute, d), [data(a), order(b)]);
        assert_eq!(w.claim(0, Mode::Read, e), [data(c), data(d)]);
        // A read ends the run.
        assert_eq!(w.claim(0, Mode::Commute, f), [data(c), data(d), order(e)]);
        assert_eq!(w.claim(0, Mode::Write, g), [data(f)]);
        let (h, i, j) = (w.task(), w.task(), w.task());
        assert_eq!(w.claim(0, Mode::Commute, h), [data(g)]);
        assert_eq!(w.claim(0, Mode::Overwrite, i), [order(h)]);
        assert_eq!(w.claim(0, Mode::Read, j), [data(i)]);
        assert_eq!(w.claim(1, Mode::Commute, j), []);
    }

    #[test]
    fn a_replay_waits_for_a_run_as_for_a_writer() {
        let mut w = World::new();
        let [a, b, c, d] = std::array::from_fn(|_| w.task());
        w.claim(0, Mode::Commute, a);
        w.claim(0, Mode::Commute, b);
        let handle = Handle { index: 0, epoch: 0 };
        let cross = |crossing: &Crossing, w: &mut World| {
            let mut needs = Vec::new();
            let name = |task| [c, d][task as usize];
            w.handles.cross(
                handle,
                crossing,
                name,
                |_| false,
                |task, need| needs.push((task, need)),
            );
            needs
        };
        let mut reads = Crossing::default();
        reads.note(0, Mode::Read);
        assert_eq!(cross(&reads, &mut w), [(0, data(a)), (0, data(b))]);
        let mut writes = Crossing::default();
        writes.note(1, Mode::Write);
        assert_eq!(cross(&writes, &mut w), [(1, data(a)), (1, data(b)), (1, order(c))]);
        let e = w.task();
        assert_eq!(w.claim(0, Mode::Commute, e), [data(d)]);
    }

    #[test]
    fn names_whose_failure_matters_are_kept() {
        let mut w = World::new();
        let [a, b, c] = std::array::from_fn(|_| w.task());
        w.claim(0, Mode::Write, a);
        w.claim(0, Mode::Commute, b);
        w.claim(0, Mode::Commute, c);
        assert_eq!(w.handles.writers().collect::<Vec<_>>(), [b, c, a]);
    }

    #[test]
    fn a_new_epoch_has_no_history() {
        let mut w = World::new();
        let (a, b) = (w.task(), w.task());
        w.claim(0, Mode::Write, a);
        assert_eq!(w.claim(1, Mode::Write, b), []);
    }

    #[test]
    fn readers_and_tasks_of_a_run_that_ended_are_dropped() {
        let mut w = World::new();
        for _ in 0..1000 {
            let task = w.task();
            w.claim(0, Mode::Read, task);
            w.table.end(task.slot(), None, |_, _| {});
        }
        assert!(w.handles.entries[0].readers.len() <= 2 * PRUNE_FIRST);
        let [mut run, mut before] = [0, 0];
        for _ in 0..1000 {
            let task = w.task();
            w.claim(0, Mode::Commute, task);
            w.table.end(task.slot(), None, |_, _| {});
            let open = w.handles.entries[0].run.as_ref().expect("open");
            (run, before) = (run.max(open.members.len()), open.before.len());
        }
        assert!(run <= 2 * PRUNE_FIRST && before == 0, "{run} {before}");
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
