//! Samples that are expensive to make, from producers that run ahead of the trainer.
//!
//! A producer gets a [`Claim`] (epoch, index, seed) and writes the sample into a slot, memory of
//! a fixed size that is allocated once. [`Producers::next`] gives out batches of such slots
//! without copying them; when a batch is dropped its slots are filled anew. Who makes the
//! samples is a choice: the trainer itself ([`Producers::inline`]), threads
//! ([`Producers::threads`]) or processes ([`Producers::processes`]), of any program that speaks
//! the protocol of `PROTOCOL.md`; [`serve`] does so for a function.
//!
//! ```
//! use millrace_loader::producers::{DType, Field, Layout, Producers, ProducersConfig};
//!
//! let layout = Layout::new([Field::new("x", DType::F32, [4]), Field::new("y", DType::U8, [])])?;
//! let config = ProducersConfig { samples: 100, batch_size: 8, ..ProducersConfig::default() };
//! let mut producers = Producers::threads(3, layout, config, |claim, sample| {
//!     sample.field::<f32>(0).fill(claim.index as f32);
//!     sample.field::<u8>(1)[0] = (claim.index % 10) as u8;
//!     Ok(())
//! })?;
//! let mut sum = 0.0;
//! while let Some(batch) = producers.next()? {
//!     for sample in batch.samples() {
//!         sum += sample.field::<f32>(0)[0];
//!     }
//! }
//! assert_eq!(sum, 4950.0);
//! assert_eq!(producers.stop().counts.delivered, 100);
//! # Ok::<(), millrace_loader::producers::ProducersError>(())
//! ```
//!
//! # Promises
//! * **Exactly once.** A ledger knows each sample from its claim on; a producer that ends gives
//!   its claims back. `produced = delivered + queued + discarded` ([`Counts`]), and an account
//!   of its own counts duplicates and losses.
//! * **One stream.** Order and content depend on seed, epoch and index alone, for any number and
//!   kind of producers. [`Delivery::AsReady`] gives up the order, within an epoch.
//! * **Bounded memory.** A fixed number of slots, which count against a [`Budget`] that any
//!   number of loaders may share.
//! * **Bounded stop.** [`Producers::stop`] returns soon after [`ProducersConfig::grace`],
//!   whatever a producer does. No process outlives the trainer, however that ends.
//! * **A producer that dies, hangs or sends rubbish** is replaced, within limits ([`Restarts`]),
//!   and named ([`End`]); its claims go to others.
//! * **Nobody waits for a straggler** but the batch that it is in: others go on within a window.
//!   One that gives no sign of life in time is given up, and its sample made by another.
//! * **No epoch edge.** Producers live on, and make the next epoch's samples before the last
//!   batch of this one is given out.
//! * **An epoch is never silently shorter.** [`BadSamples`] and [`LastBatch`] say what is left
//!   out, and [`Status`] lists it.
//! * **Resume anywhere.** A [`Position`] is all that is to be kept.

mod batch;
mod bell;
mod budget;
mod claim;
mod config;
mod error;
mod frame;
mod lane;
mod layout;
mod ledger;
mod monitor;
mod processes;
mod produce;
mod serve;
mod shared;
mod slot;
mod state;
mod system;
mod threads;

use std::fmt;
use std::process::Command;
use std::sync::Arc;

pub use batch::SampleBatch;
pub use budget::Budget;
pub use claim::{Claim, Position, sample_seed};
pub use config::{BadSamples, Delivery, LastBatch, ProducersConfig, Restarts};
pub use error::{BadSample, End, EndKind, ProducersError, SystemError};
pub use lane::ProducerState;
pub use layout::{ALIGNMENT, DType, Element, Field, Layout, LayoutError, MAX_FIELDS, MAX_RANK};
pub use ledger::Counts;
pub use monitor::{EndCounts, ProducerStatus, Slots, Status, Times, Verdict, Waits};
pub use produce::Made;
pub use serve::{ServeError, serve};
pub use slot::{Sample, SampleMut};

use bell::Bell;
use processes::Processes;
use produce::{Make, produce};
use shared::Shared;
use slot::Slot;
use threads::Threads;

/// Gives out batches of samples that producers make; see the [module](self).
///
/// Dropping it stops the producers, as [`Producers::stop`] does.
pub struct Producers {
    shared: Arc<Shared>,
    makers: Makers,
}

/// Who makes the samples.
enum Makers {
    Inline(Box<Make>),
    Threads(Threads),
    Processes(Processes),
}

impl Producers {
    /// The thread that asks for batches makes the samples, when they are asked for. `make` writes
    /// every value of every field; the values must depend on the claim alone. A panic in it is
    /// taken as an error; what follows from that, [`BadSamples`] says.
    ///
    /// # Errors
    /// When the configuration makes no sense, and when memory for the slots cannot be had.
    pub fn inline(
        layout: Layout,
        config: ProducersConfig,
        make: impl Fn(&Claim, &mut SampleMut<'_>) -> Made + Send + Sync + 'static,
    ) -> Result<Self, ProducersError> {
        let shared = own_memory("inline", 1, layout, &config)?;
        Ok(Producers { shared, makers: Makers::Inline(Box::new(make)) })
    }

    /// So many threads make the samples, ahead of the thread that asks for batches.
    ///
    /// # Errors
    /// As [`inline`](Self::inline), and when threads cannot be started.
    pub fn threads(
        count: usize,
        layout: Layout,
        config: ProducersConfig,
        make: impl Fn(&Claim, &mut SampleMut<'_>) -> Made + Send + Sync + 'static,
    ) -> Result<Self, ProducersError> {
        let shared = own_memory("threads", count, layout, &config)?;
        let make: Arc<Make> = Arc::new(make);
        let threads = Threads::start(&shared, &make)?;
        Ok(Producers { shared, makers: Makers::Threads(threads) })
    }

    /// So many processes of `command` make the samples. Each has a link of its own, on its
    /// standard input, and speaks the protocol of `PROTOCOL.md`, for example by [`serve`]; it
    /// writes samples where the trainer reads them. One that dies, hangs or breaks a rule is
    /// replaced. They do not outlive this process, however it ends.
    ///
    /// # Errors
    /// As [`inline`](Self::inline), and when the command cannot be started. Whether it is a
    /// producer turns out later.
    pub fn processes(
        count: usize,
        command: Command,
        layout: Layout,
        config: ProducersConfig,
    ) -> Result<Self, ProducersError> {
        let sizes = config.check(count, &layout)?;
        let (memory, slots) = processes::allocate(&layout, &config, sizes)?;
        let bell = Bell::new().map_err(|error| ProducersError::system("make an eventfd", error))?;
        let bell = Some(bell);
        let shared = Shared::new("processes", layout, &config, count, sizes, slots, bell);
        let shared = Arc::new(shared);
        let processes = Processes::start(&shared, command, memory, sizes, &config)?;
        Ok(Producers { shared, makers: Makers::Processes(processes) })
    }

    /// The next batch, or `None` after the last one of the last epoch. Waits until all its
    /// samples are made, and not at all if they are.
    ///
    /// # Errors
    /// When a sample cannot be made and must not be left out, when no producer is left, when
    /// more batches are held than [`ProducersConfig::held`] allows, and after a stop. Batches
    /// that are ready when something fails are given out first.
    #[expect(clippy::should_implement_trait, reason = "the items are results of options")]
    pub fn next(&mut self) -> Result<Option<SampleBatch>, ProducersError> {
        let taken = match &self.makers {
            Makers::Inline(make) => next_inline(&self.shared, &**make),
            Makers::Threads(_) | Makers::Processes(_) => self.shared.next(),
        }?;
        Ok(taken.map(|taken| SampleBatch::new(Arc::clone(&self.shared), taken)))
    }

    /// Where a later run would go on: after the batches that were given out so far.
    pub fn position(&self) -> Position {
        self.shared.lock().ledger.position()
    }

    /// What the producers are doing, and have done.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Something to look at them with from another thread, or to stop them.
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.shared))
    }

    /// Ends the producers and closes the account. Returns within [`ProducersConfig::grace`] and
    /// what the system needs, whatever they do; a thread that makes a sample for longer is left
    /// behind ([`Status::left_behind`]).
    pub fn stop(mut self) -> Status {
        self.end();
        self.shared.status()
    }

    fn end(&mut self) {
        match &mut self.makers {
            Makers::Inline(_) => self.shared.stop(),
            Makers::Threads(threads) => threads.stop(&self.shared),
            Makers::Processes(processes) => processes.stop(&self.shared),
        }
        self.shared.close();
    }
}

impl Drop for Producers {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Producers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producers").field("status", &self.status()).finish()
    }
}

/// Looks at producers, and may stop them, from any thread: for a line in a terminal, or Ctrl-C.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Shared>);

impl Monitor {
    /// What the producers are doing, and have done.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Ends a wait in [`Producers::next`], now and from now on, with
    /// [`ProducersError::Stopped`]. The producers end when they are stopped or dropped.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// A run whose slots are memory of this process.
fn own_memory(
    kind: &'static str,
    count: usize,
    layout: Layout,
    config: &ProducersConfig,
) -> Result<Arc<Shared>, ProducersError> {
    let sizes = config.check(count, &layout)?;
    let slots = (0..sizes.slots)
        .map(|_| Slot::new(&layout, &config.budget))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Shared::new(kind, layout, config, count, sizes, slots, None)))
}

/// Makes samples on the calling thread until a batch is ready.
fn next_inline(
    shared: &Shared,
    make: &Make,
) -> Result<Option<ledger::TakenBatch<Slot>>, ProducersError> {
    let began = std::time::Instant::now();
    loop {
        let mut state = shared.lock();
        let result = shared.try_next(&mut state, Some(began));
        let job = if result.is_none() { state.claim(0) } else { None };
        drop(state);
        match (result, job) {
            (Some(result), _) => return result,
            (None, Some(mut job)) => {
                let made = produce(make, &shared.layout, &job.claim, job.slot.bytes_mut(), &|| ());
                shared.finish(0, 0, job, made);
            }
            // It failed or was stopped in this moment: what is not ready can be claimed, and
            // there is a slot for it, because no more batches are held than were announced.
            (None, None) => {}
        }
    }
}
