//! The loop that every kind of loader shares, and what tells the kinds apart.

use std::sync::Arc;

use millrace_arena::{Arena, Sharded};
use millrace_runtime::Runtime;

use crate::error::LoaderError;
use crate::plan::Plan;
use crate::source::Source;
use crate::{BadSample, Dataset, LoaderConfig, LoaderKind, Samples};

/// One batch: buffers that `load` tasks fill, ready to be declared by other tasks.
///
/// Whether the data has arrived does not matter to the one who submits a task on it: the task
/// waits. The buffers are valid until the next call of [`Loader::next`]; tasks submitted before
/// that keep them as long as they need, tasks submitted later are refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// The epoch, counted from 0.
    pub epoch: u32,
    /// The batch, counted from 0 over the whole run.
    pub index: u32,
    /// The batch, counted from 0 in its epoch.
    pub index_in_epoch: u32,
    /// Number of samples; at most the batch size, less in the last batch of an epoch.
    pub samples: usize,
    /// The values of the samples, pixels from 0 to 1 unless the data set says otherwise: rows
    /// are samples, a row is channels x height x width, width fastest. Cut into the configured number of shards, or one for each sample if there are fewer.
    pub images: Sharded<f32>,
    /// The labels of each sample, cut in the same way; a row is one label, or one for each pixel
    /// ([`LabelKind`](crate::LabelKind)).
    pub labels: Sharded<u8>,
}

/// Gives out the batches of a data set, one after the other, across epochs.
///
/// A loader belongs to the thread that submits the tasks. Dropping it in the middle waits for
/// nothing: tasks on its buffers end as they would have.
///
/// The example of the crate's documentation shows one in use.
#[derive(Debug)]
pub struct Loader {
    rt: Runtime,
    kind: LoaderKind,
    source: Source,
    /// Batch `i` goes into slot `i` modulo their number. Each is an arena of depth 1, so that
    /// several batches can be open at once while older ones are recycled.
    slots: Vec<Arena>,
    shards: usize,
    batches: u32,
    plan: Plan,
    /// The batch that was loaded ahead.
    ahead: Option<Batch>,
    /// Index of the batch that was given out last and is still open.
    open: Option<u32>,
}

impl Loader {
    /// A loader of batches of `dataset`, which is copied into an arena of the runtime.
    ///
    /// Nothing is loaded before the first call of [`Loader::next`].
    ///
    /// # Errors
    /// When the configuration makes no sense ([`LoaderError`] has a variant for each), and when
    /// memory for the copy cannot be had.
    pub fn new(
        rt: &Runtime,
        kind: LoaderKind,
        dataset: &Dataset,
        config: LoaderConfig,
    ) -> Result<Self, LoaderError> {
        config.check(dataset.len())?;
        Loader::with(rt, kind, dataset.len(), Source::copied(rt, dataset)?, config)
    }

    /// A loader of batches of any data set, whose samples its tasks decode.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use millrace_loader::{Loader, LoaderConfig, LoaderKind, embedded};
    /// use millrace_runtime::Runtime;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let (_, test) = embedded();
    /// let config = LoaderConfig { batch_size: 100, ..LoaderConfig::default() };
    /// let mut loader = Loader::over(&rt, LoaderKind::Advanced, Arc::new(test), config)?;
    /// let batch = loader.next()?.expect("the first of ten");
    /// assert_eq!(batch.labels.whole().acquire()?.len(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the configuration makes no sense, or a sample of the data set would have no value.
    pub fn over(
        rt: &Runtime,
        kind: LoaderKind,
        samples: Arc<dyn Samples>,
        config: LoaderConfig,
    ) -> Result<Self, LoaderError> {
        let len = samples.len();
        config.check(len)?;
        if samples.sample_len() == 0 || samples.label_kind().per_sample() == 0 {
            return Err(LoaderError::EmptySamples { name: samples.name().to_owned() });
        }
        Loader::with(rt, kind, len, Source::decoded(samples, config.bad_samples), config)
    }

    fn with(
        rt: &Runtime,
        kind: LoaderKind,
        samples: usize,
        source: Source,
        config: LoaderConfig,
    ) -> Result<Self, LoaderError> {
        let batches = config.check(samples)?;
        let slots = match kind {
            LoaderKind::Naive => 1,
            LoaderKind::Prefetch | LoaderKind::Double => 2,
            LoaderKind::Advanced => config.ring,
        };
        let batch_bytes = source.batch_bytes(config.batch_size.min(samples));
        let slot = |i: usize| {
            let name = if slots == 1 { "images".to_owned() } else { format!("images {i}") };
            let arena = Arena::builder(rt, &name).chunk_size(batch_bytes);
            match config.limit {
                Some(limit) => arena.limit(limit / slots).build(),
                None => arena.build(),
            }
        };
        Ok(Loader {
            rt: rt.clone(),
            kind,
            slots: (0..slots).map(slot).collect(),
            shards: config.shards,
            batches,
            plan: Plan::new(samples, &config),
            source,
            ahead: None,
            open: None,
        })
    }

    /// The next batch, or `None` after the last one of the last epoch.
    ///
    /// The buffers of the batch before are no longer valid after this call. It may wait for
    /// tasks that use memory of older batches, as the kind says; each such wait is a barrier in
    /// the trace under the name of the arena.
    ///
    /// # Errors
    /// When memory cannot be had, and when waiting could never end: inside a task's body, or
    /// while this thread holds acquired data of a batch. No batch is lost by an error: the call
    /// can be repeated.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator's items could not be `Result<Option<_>>`, and would outlive the \
                  call that ends their validity"
    )]
    pub fn next(&mut self) -> Result<Option<Batch>, LoaderError> {
        let batch = match self.kind {
            LoaderKind::Naive => self.next_naive(),
            LoaderKind::Prefetch => self.next_prefetch(),
            LoaderKind::Double => self.next_double(),
            LoaderKind::Advanced => self.next_advanced(),
        }?;
        self.open = batch.map(|batch| batch.index);
        Ok(batch)
    }

    /// How it loads.
    pub fn kind(&self) -> LoaderKind {
        self.kind
    }

    /// Number of batches over all epochs.
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// The samples that could not be decoded so far, in order, and what stood in for each; there
    /// are some only where [`LoaderConfig::bad_samples`] says so. Loads that are still under way
    /// may add to them.
    pub fn bad_samples(&self) -> Vec<BadSample> {
        self.source.bad_samples()
    }

    /// Every arena that the loader owns, for statistics: that of the copied data set, named
    /// `dataset`, if there is one, then the slots, named `images`, or `images 0`, `images 1`, ... if there are several.
    pub fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.source.arena().into_iter().chain(&self.slots)
    }

    fn next_naive(&mut self) -> Result<Option<Batch>, LoaderError> {
        self.close_and_wait()?;
        self.load()
    }

    fn next_prefetch(&mut self) -> Result<Option<Batch>, LoaderError> {
        self.load_first_ahead()?;
        // Of two slots, the batch after the next goes where the last one was.
        self.close_and_wait()?;
        self.give_and_load_ahead()
    }

    fn next_double(&mut self) -> Result<Option<Batch>, LoaderError> {
        self.close();
        self.enter_slot()?;
        self.load()
    }

    fn next_advanced(&mut self) -> Result<Option<Batch>, LoaderError> {
        self.load_first_ahead()?;
        self.close();
        self.enter_slot()?;
        self.give_and_load_ahead()
    }

    fn slot(&self, batch: u32) -> &Arena {
        &self.slots[batch as usize % self.slots.len()]
    }

    /// Ends the last batch, and waits until its slot is free if another batch needs it now.
    fn close_and_wait(&mut self) -> Result<(), LoaderError> {
        if self.plan.peek().is_none() {
            self.close();
        } else if let Some(last) = self.open {
            self.slot(last).reset()?;
            self.open = None;
        }
        Ok(())
    }

    /// Ends the last batch: its slot becomes free when its last task ends.
    fn close(&mut self) {
        if let Some(last) = self.open.take() {
            self.slot(last).recycle();
        }
    }

    /// Makes the slot of the batch that is loaded next ready, waiting while an older batch uses
    /// it.
    fn enter_slot(&mut self) -> Result<(), LoaderError> {
        if let Some(step) = self.plan.peek() {
            self.slot(step.index).next()?;
        }
        Ok(())
    }

    /// Loads the next batch into its slot, which is ready.
    fn load(&mut self) -> Result<Option<Batch>, LoaderError> {
        let Some(step) = self.plan.peek() else { return Ok(None) };
        let batch = self.source.load(&self.rt, self.slot(step.index), step, self.shards)?;
        self.plan.advance();
        Ok(Some(batch))
    }

    /// In the first call, loads the batch that later calls find loaded.
    fn load_first_ahead(&mut self) -> Result<(), LoaderError> {
        if self.ahead.is_none() {
            self.ahead = self.load()?;
        }
        Ok(())
    }

    /// Gives out the batch that was loaded ahead, and loads the one after it.
    fn give_and_load_ahead(&mut self) -> Result<Option<Batch>, LoaderError> {
        let following = self.load()?;
        Ok(std::mem::replace(&mut self.ahead, following))
    }
}
