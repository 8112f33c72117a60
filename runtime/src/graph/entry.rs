//! What is known of one handle: who used it last.

use super::TaskRef;
use super::needs::Need;
use crate::access::Mode;

/// The last uses of a handle.
pub(super) struct Entry {
    pub(super) writer: TaskRef,
    pub(super) epoch: u32,
    /// When it is full, and not short, ended ones are dropped.
    pub(super) readers: Vec<TaskRef>,
    /// Stands for the writer from when tasks commute on the handle until one writes it.
    pub(super) run: Option<Box<Run>>,
}

/// Tasks that commute on a handle, with none between them that uses it in another mode. It is open
/// to more of them while nobody has read the handle since.
#[derive(Default)]
pub(super) struct Run {
    /// What each of them waits for.
    pub(super) before: Vec<Need>,
    pub(super) members: Vec<TaskRef>,
    /// Length of `members` at which needless ones are dropped next.
    prune_at: usize,
}

/// Looking whether a reader has ended may mean to fetch its slot from another core, so a handle
/// keeps this many before it looks.
pub(super) const PRUNE_FIRST: usize = 64;

impl Entry {
    pub(super) fn new(epoch: u32) -> Self {
        Entry { writer: TaskRef::NONE, epoch, readers: Vec::new(), run: None }
    }

    /// Forgets what was before `epoch`, but keeps its memory.
    #[inline]
    pub(super) fn renew(&mut self, epoch: u32) {
        if self.epoch != epoch {
            self.written_by(TaskRef::NONE);
            self.epoch = epoch;
        }
    }

    /// Forgets all; keeps memory that is not much.
    pub(super) fn clear(&mut self) {
        if self.readers.capacity() > PRUNE_FIRST {
            *self = Entry::new(0);
        } else {
            self.written_by(TaskRef::NONE);
            self.epoch = 0;
        }
    }

    #[inline]
    pub(super) fn read_by(&mut self, task: TaskRef, is_needless: impl Fn(TaskRef) -> bool) {
        if self.readers.len() == self.readers.capacity() {
            self.make_room(is_needless);
        }
        self.readers.push(task);
    }

    #[cold]
    fn make_room(&mut self, is_needless: impl Fn(TaskRef) -> bool) {
        let full = self.readers.len();
        if full >= PRUNE_FIRST {
            self.readers.retain(|reader| !is_needless(*reader));
        }
        // Half of it free, or twice as much, keeps the cost constant per reader.
        if self.readers.len() > full / 2 {
            self.readers.reserve(1.max(2 * full - self.readers.len()));
        }
    }

    /// The last writer, or the tasks of the last run.
    pub(super) fn last_writers(&self) -> impl Iterator<Item = TaskRef> + '_ {
        let writer = Some(self.writer).filter(|writer| *writer != TaskRef::NONE);
        writer.into_iter().chain(self.run.iter().flat_map(|run| run.members.iter().copied()))
    }

    /// A write by `task`: others wait for this one only.
    pub(super) fn written_by(&mut self, task: TaskRef) {
        self.readers.clear();
        self.run = None;
        self.writer = task;
    }

    /// The run that is open, or a new one behind all that used the handle before.
    pub(super) fn open_run(&mut self) -> &mut Run {
        if self.run.is_none() || !self.readers.is_empty() {
            let writers = self.last_writers().map(|task| Need { task, order_only: false });
            let readers = self.readers.iter().map(|task| Need { task: *task, order_only: true });
            let before = writers.chain(readers).collect();
            self.written_by(TaskRef::NONE);
            self.run = Some(Box::new(Run { before, ..Run::default() }));
        }
        self.run.get_or_insert_default()
    }

    /// What [`HandleTable::claim`] does where tasks commute.
    #[cold]
    pub(super) fn claim_around_run(
        &mut self,
        mode: Mode,
        task: TaskRef,
        is_needless: impl Fn(TaskRef) -> bool,
        mut need: impl FnMut(Need),
    ) {
        if mode == Mode::Commute {
            let run = self.open_run();
            run.before.iter().copied().for_each(need);
            run.add(task, is_needless);
            return;
        }
        let order_only = mode == Mode::Overwrite;
        let ordered_by_readers = order_only && !self.readers.is_empty();
        if !ordered_by_readers {
            self.last_writers().for_each(|task| need(Need { task, order_only }));
        }
        if mode.writes() {
            self.readers.iter().for_each(|task| need(Need { task: *task, order_only: true }));
            self.written_by(task);
        } else {
            self.read_by(task, is_needless);
        }
    }
}

impl Run {
    pub(super) fn add(&mut self, task: TaskRef, is_needless: impl Fn(TaskRef) -> bool) {
        if self.members.len() >= self.prune_at {
            self.members.retain(|member| !is_needless(*member));
            self.before.retain(|before| !is_needless(before.task));
            self.prune_at = PRUNE_FIRST.max(2 * self.members.len());
        }
        self.members.push(task);
    }
}
