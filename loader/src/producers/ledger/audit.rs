//! An account of what is given out that trusts no other.

use crate::producers::claim::{Position, Stream};

/// Sees what is given out, and nothing else: one bit for each sample of the epoch.
#[derive(Debug)]
pub(super) struct Audit {
    seen: Vec<u64>,
    distinct: u64,
    /// Samples that this epoch may lack: given out by an earlier run, skipped or dropped.
    pub(super) excused: u64,
    pub(super) duplicates: u64,
}

impl Audit {
    pub(super) fn new(stream: &Stream, start: &Position) -> Self {
        let words = (stream.samples() as usize).div_ceil(64);
        let counted = stream.counted();
        let ahead = start.ahead.iter().filter(|&&place| place < counted).count();
        let before = u64::from(start.next.min(counted)) + ahead as u64;
        Audit { seen: vec![0; words], distinct: 0, excused: before, duplicates: 0 }
    }

    pub(super) fn see(&mut self, index: u32) {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        match self.seen.get_mut(word) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.distinct += 1;
            }
            _ => self.duplicates += 1,
        }
    }

    /// Duplicates and losses of the epoch that ends.
    pub(super) fn end_epoch(&mut self, counted: u64) -> (u64, u64) {
        let lost = counted.saturating_sub(self.distinct + self.excused);
        self.seen.fill(0);
        self.distinct = 0;
        self.excused = 0;
        (std::mem::take(&mut self.duplicates), lost)
    }
}
