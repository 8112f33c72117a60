//! Why samples do not come.

use std::fmt;

use super::layout::LayoutError;

/// Why producers could not be started, or a batch not be given out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProducersError {
    /// Nobody to make samples.
    #[error("0 producers: at least 1 is needed")]
    NoProducers,
    /// A setting of 0 that must be more.
    #[error("0 {what}: at least 1 is needed")]
    Zero {
        /// Which setting.
        what: &'static str,
    },
    /// A setting that is more than can be counted.
    #[error("{asked} {what}: at most {} are possible", u32::MAX / 2)]
    TooMany {
        /// Which setting.
        what: &'static str,
        /// What was asked for.
        asked: usize,
    },
    /// Fewer slots than a batch needs.
    #[error("{ahead} slots ahead: a batch of {batch} samples needs at least {batch}")]
    TooFewSlots {
        /// What was asked for.
        ahead: usize,
        /// Samples of a batch.
        batch: usize,
    },
    /// Two rules that contradict each other.
    #[error(
        "the last batch cannot be padded where bad samples are skipped: substitute them, or keep \
         or drop the last batch"
    )]
    PadWithSkip,
    /// The fields make no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// More memory than the budget leaves.
    #[error("{asked} bytes for slots are not to be had: {used} of {limit} bytes are in use")]
    Budget {
        /// What was asked for.
        asked: usize,
        /// What is in use.
        used: usize,
        /// The bound.
        limit: usize,
    },
    /// The position is that of another stream.
    #[error(
        "the position is of another stream ({found:016x}, this one is {wanted:016x}): samples, \
         seed and shuffle must be those of the run that it comes from"
    )]
    OtherStream {
        /// Digest of this stream.
        wanted: u64,
        /// Digest in the position.
        found: u64,
    },
    /// The position is outside the epoch.
    #[error("no position of this stream: place {next} of an epoch of {samples} samples")]
    NoSuchPosition {
        /// The place.
        next: u32,
        /// Samples of an epoch.
        samples: usize,
    },
    /// The system refused something; `doing` says what.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was to be done.
        doing: String,
        /// What the system said.
        source: SystemError,
    },
    /// A sample could not be made, and nothing says that the run may go on without it.
    #[error("{0}")]
    BadSample(BadSample),
    /// More bad samples than the limit allows.
    #[error("more than {limit} bad samples; the last: {last}")]
    TooManyBad {
        /// The limit.
        limit: u32,
        /// The last of them.
        last: BadSample,
    },
    /// No producer is left.
    #[error("no producer is left: {}", Ends(ends))]
    NoneLeft {
        /// How the last of each ended.
        ends: Vec<End>,
    },
    /// More batches are held than was said there would be.
    #[error(
        "{held} batches are held already, the most that were announced: drop one first, or \
         announce more (`held`)"
    )]
    Held {
        /// Batches that are held.
        held: usize,
    },
    /// The producers were stopped.
    #[error("the producers were stopped")]
    Stopped,
}

/// What the operating system said.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct SystemError(std::sync::Arc<std::io::Error>);

impl ProducersError {
    /// The system refused to do something.
    pub(crate) fn system(doing: impl Into<String>, error: impl Into<std::io::Error>) -> Self {
        let source = SystemError(std::sync::Arc::new(error.into()));
        ProducersError::System { doing: doing.into(), source }
    }
}

/// A sample that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadSample {
    /// The epoch.
    pub epoch: u32,
    /// The sample.
    pub index: u32,
    /// What its producer said, or how it ended its producers.
    pub cause: String,
    /// The sample that took its place, if one did.
    pub substitute: Option<u32>,
}

impl fmt::Display for BadSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {} of epoch {} cannot be made: {}", self.index, self.epoch, self.cause)
    }
}

/// What kind of end a producer had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// It ended by itself or by a signal, or could not be started.
    Died,
    /// It missed a deadline.
    Hung,
    /// It broke a rule of the protocol.
    Rubbish,
}

/// How a producer ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct End {
    /// Which producer, counted from 0.
    pub producer: usize,
    /// Its process, if it was one.
    pub pid: Option<u32>,
    /// What kind of end it was.
    pub kind: EndKind,
    /// How it ended: a signal, an exit code, a missed deadline, a broken rule.
    pub how: String,
    /// Samples that it was to make, as (epoch, index).
    pub samples: Vec<(u32, u32)>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "producer {}", self.producer)?;
        if let Some(pid) = self.pid {
            write!(f, " (process {pid})")?;
        }
        write!(f, " {}", self.how)?;
        for (i, (epoch, index)) in self.samples.iter().enumerate() {
            write!(f, "{} {index} of epoch {epoch}", if i == 0 { " at sample" } else { "," })?;
        }
        Ok(())
    }
}

struct Ends<'a>(&'a [End]);

impl fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, end) in self.0.iter().enumerate() {
            write!(f, "{}{end}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
