//! What producers are told.

use std::time::Duration;

use super::budget::Budget;
use super::claim::{Position, check_start, stream_digest};
use super::error::ProducersError;
use super::layout::Layout;

/// In which order samples are given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// In the order of the epoch, whoever is ready first.
    #[default]
    InOrder,
    /// As they get ready, within a window and never across the edge of an epoch: the same
    /// samples in an order that depends on time.
    AsReady,
}

/// What becomes of the last batch of an epoch when the samples do not fill it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastBatch {
    /// It is smaller.
    #[default]
    Keep,
    /// It is left out; its samples count as discarded or are not made at all.
    Drop,
    /// It is filled with the first samples of the epoch's order again, which
    /// [`SampleBatch::counted`](super::SampleBatch::counted) leaves out.
    Pad,
}

/// What becomes of a sample that cannot be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadSamples {
    /// The run fails, with an error that names it.
    #[default]
    Fail,
    /// It is left out and listed in the report; more than `limit` of them fail the run.
    Skip {
        /// How many in a run at most.
        limit: u32,
    },
    /// Another sample, decided by seed, epoch and index, takes its place; both are listed. More
    /// than `limit` of them fail the run.
    Substitute {
        /// How many in a run at most.
        limit: u32,
    },
}

impl BadSamples {
    pub(crate) fn skips(self) -> bool {
        matches!(self, BadSamples::Skip { .. })
    }
}

/// How often a producer may be replaced, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarts {
    /// Replacements of one producer within `within`; after that it is given up, and the run goes
    /// on with the others. 3 by default.
    pub limit: u32,
    /// The time in which they are counted; 60 s by default.
    pub within: Duration,
    /// The pause before the first of them; each further one within the time waits twice as long
    /// as the one before. 10 ms by default.
    pub pause: Duration,
    /// The longest pause; 1 s by default.
    pub longest_pause: Duration,
}

impl Default for Restarts {
    fn default() -> Self {
        Restarts {
            limit: 3,
            within: Duration::from_secs(60),
            pause: Duration::from_millis(10),
            longest_pause: Duration::from_secs(1),
        }
    }
}

/// Which samples are to be made, and what is done when that does not go well.
///
/// ```
/// use millrace_loader::producers::ProducersConfig;
///
/// let config = ProducersConfig { samples: 60_000, batch_size: 32, ..ProducersConfig::default() };
/// assert_eq!(config.epochs, 1);
/// ```
#[derive(Clone, Debug)]
pub struct ProducersConfig {
    /// Samples of an epoch; 0 by default, which is a stream that ends at once.
    pub samples: usize,
    /// Samples of a batch, at least 1; 10 by default.
    pub batch_size: usize,
    /// How often all samples are gone through; 1 by default.
    pub epochs: u32,
    /// Decides the order of the samples, with `shuffle`, and the random numbers of each; 0 by
    /// default.
    pub seed: u64,
    /// Whether each epoch has another order ([`sample_order`](crate::sample_order)); off by
    /// default.
    pub shuffle: bool,
    /// In which order samples are given out.
    pub delivery: Delivery,
    /// What becomes of the last batch of an epoch.
    pub last: LastBatch,
    /// What becomes of a sample that cannot be made.
    pub bad: BadSamples,
    /// Slots for samples that are being made or wait for the trainer, at least a batch; by
    /// default one for each producer and two batches more, or up to 1 MiB if that is more slots,
    /// but never more than 1024 for that.
    pub ahead: Option<usize>,
    /// Batches that may be held at once; each has its slots besides those `ahead`. At least 1,
    /// which is the default.
    pub held: usize,
    /// How many places beyond the oldest one that is not made a sample may be made; with
    /// [`Delivery::AsReady`] that is how far others go on past one that takes long. By default
    /// 4 times the slots.
    pub window: Option<usize>,
    /// How long a producer may work on a sample without a sign of life (the claim's beginning,
    /// or a beat) before it counts as hung; no limit with `None`. 60 s by default.
    pub deadline: Option<Duration>,
    /// How long it may work on a sample in all, whatever its signs of life; no limit by default.
    pub limit: Option<Duration>,
    /// How long a process may take from its start to its hello; 30 s by default.
    pub start_deadline: Duration,
    /// Claims that a process has at once; by default one, or as many as it answers in half a
    /// millisecond, so that it need not wait for the next.
    pub claims: Option<usize>,
    /// Whether processes send a checksum of each payload, which is compared with what is in the
    /// slot: both sides read all of it once more. Off by default; frames always have one.
    pub checksum: bool,
    /// How often a producer may be replaced.
    pub restarts: Restarts,
    /// Producers that one sample may end before it counts as bad, at least 1; 3 by default.
    pub attempts: u32,
    /// How long stopping waits for producers to end by themselves before it goes on without
    /// them (threads) or kills them (processes); 300 ms by default.
    pub grace: Duration,
    /// What the slots' memory counts against; by default the budget of the process.
    pub budget: Budget,
    /// Where an earlier run stopped; `None` to begin with.
    pub start: Option<Position>,
}

impl Default for ProducersConfig {
    fn default() -> Self {
        ProducersConfig {
            samples: 0,
            batch_size: 10,
            epochs: 1,
            seed: 0,
            shuffle: false,
            delivery: Delivery::default(),
            last: LastBatch::default(),
            bad: BadSamples::default(),
            ahead: None,
            held: 1,
            window: None,
            deadline: Some(Duration::from_secs(60)),
            limit: None,
            start_deadline: Duration::from_secs(30),
            claims: None,
            checksum: false,
            restarts: Restarts::default(),
            attempts: 3,
            grace: Duration::from_millis(300),
            budget: Budget::of_process(),
            start: None,
        }
    }
}

/// Small samples get at most so many slots by default, and at most so many bytes.
const DEFAULT_SLOTS: usize = 1024;
const DEFAULT_BYTES: usize = 1 << 20;

/// Numbers that follow from a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Slots in all.
    pub(crate) slots: usize,
    /// Places in the window.
    pub(crate) window: usize,
}

impl ProducersConfig {
    /// Checks the settings for so many producers of samples of this layout.
    pub(crate) fn check(&self, producers: usize, layout: &Layout) -> Result<Sizes, ProducersError> {
        if producers == 0 {
            return Err(ProducersError::NoProducers);
        }
        let too_many = |what, asked| Err(ProducersError::TooMany { what, asked });
        let most = u32::MAX as usize / 2;
        if self.samples > most {
            return too_many("samples", self.samples);
        }
        if self.batch_size > most {
            return too_many("samples of a batch", self.batch_size);
        }
        if self.batch_size == 0 || self.held == 0 || self.attempts == 0 || self.claims == Some(0) {
            let what = match (self.batch_size, self.held) {
                (0, _) => "samples of a batch",
                (_, 0) => "batches that may be held",
                _ if self.attempts == 0 => "attempts at a sample",
                _ => "claims of a process",
            };
            return Err(ProducersError::Zero { what });
        }
        if self.last == LastBatch::Pad && self.bad.skips() {
            return Err(ProducersError::PadWithSkip);
        }
        // A batch is never larger than an epoch, so it does not need more slots; padded, it is.
        let batch = match self.last {
            LastBatch::Pad => self.batch_size,
            _ => self.batch_size.min(self.samples.max(1)),
        };
        let held = batch.checked_mul(self.held).filter(|&held| held <= most);
        let Some(held) = held else { return too_many("slots for held batches", self.held) };
        let small = DEFAULT_SLOTS.min(DEFAULT_BYTES / layout.slot_bytes());
        let ahead = self.ahead.unwrap_or((producers + 2 * batch).max(small));
        if ahead < batch {
            return Err(ProducersError::TooFewSlots { ahead, batch });
        }
        if ahead > most {
            return too_many("slots ahead", ahead);
        }
        let slots = ahead + held;
        let window = self.window.unwrap_or(4 * slots).max(ahead);
        if let Some(start) = &self.start {
            check_start(self, start)?;
        }
        Ok(Sizes { slots, window })
    }

    /// Where the run begins.
    pub(crate) fn first(&self) -> Position {
        let beginning = || Position { stream: stream_digest(self), ..Position::default() };
        self.start.clone().unwrap_or_else(beginning)
    }
}
