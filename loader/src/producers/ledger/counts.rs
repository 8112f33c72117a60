//! Numbers of samples by what became of them.

use serde::Serialize;

/// How samples went through a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Claims that went out, also again.
    pub claimed: u64,
    /// Claims that went out again because their producer ended.
    pub reissued: u64,
    /// Samples that came back.
    pub produced: u64,
    /// Samples that were given out in batches.
    pub delivered: u64,
    /// Samples that are ready to be given out.
    pub queued: u64,
    /// Ready samples that were left out with a last batch that is dropped.
    pub discarded_last_batch: u64,
    /// Samples that came back after their producer had been given up as hung.
    pub discarded_stale: u64,
    /// Ready samples that were not given out before the stop.
    pub discarded_stopped: u64,
    /// Samples that could not be made and were left out.
    pub skipped: u64,
    /// Samples that could not be made and were substituted.
    pub substituted: u64,
    /// Samples that were given out twice in an epoch, by an account of its own.
    pub duplicates: u64,
    /// Samples that finished epochs lack, by an account of its own.
    pub lost: u64,
}

impl Counts {
    /// Whether every sample that came back is accounted for.
    pub fn is_balanced(&self) -> bool {
        let discarded = self.discarded_last_batch + self.discarded_stale + self.discarded_stopped;
        self.produced == self.delivered + self.queued + discarded
    }
}
