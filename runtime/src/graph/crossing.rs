//! How a recording uses a handle, as seen from outside.

use smallvec::SmallVec;

use crate::access::Mode;

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
