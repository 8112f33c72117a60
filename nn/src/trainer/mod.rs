//! Training as tasks: a batch is submitted layer by layer and shard by shard.
//!
//! # The graph of a batch
//! For each shard a chain of tasks goes forward through the layers, through the loss, and backward
//! again, leaving a gradient per parameter and shard. One task per parameter (per block of it, if
//! it is large) adds these up as a fixed tree and updates it; one task adds up loss and hits. The
//! next batch's first layer depends on the parameters of that layer and on nothing else of this
//! batch, so batches overlap as far as memory allows: that is, as far as the batch arena is deep.
//!
//! # Invariants
//! * Which thread runs a task changes no bit: a body computes from its shard alone, and what
//!   several shards contribute is added up in an order that depends on the number of shards only.
//! * Nothing is allocated per task but the list of a parameter's gradients; bodies take their
//!   temporary memory from the worker's scratch.
//! * A parameter is read by the tasks of a batch after its update by the batch before, always.

mod backward;
mod evaluate;
mod forward;
mod metrics;
mod parameters;

use std::collections::BTreeMap;

use millrace_arena::{Arena, Buffer, Sharded};
use millrace_runtime::{Runtime, TaskBuilder};

use crate::{Network, NnError, Sgd, SoftmaxCrossEntropy};

pub use evaluate::Evaluation;
pub use metrics::EpochMetrics;

use forward::Activations;
use metrics::{Sums, Weighted};
use parameters::Parameters;

/// Trains a [`Network`].
///
/// ```
/// use millrace_arena::Arena;
/// use millrace_nn::{BatchPlace, Network, Sgd, Trainer, init};
/// use millrace_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let network = Network::reference();
/// let values = init::gnu_uniform(42, 0.1, network.parameters_len());
/// let mut trainer = Trainer::new(&rt, network, &values, Sgd::new(0.001)?)?;
///
/// let data = Arena::new(&rt, "dataset");
/// let images = data.alloc_sharded::<f32>(10, 28 * 28, 4)?;
/// let labels = data.alloc_sharded::<u8>(10, 1, 4)?;
/// images.whole().acquire_mut()?.fill(0.5);
/// labels.whole().acquire_mut()?.fill(7);
///
/// let batch = Arena::builder(&rt, "batch").depth(2).build();
/// for index in 0..3 {
///     trainer.submit_batch(&batch, BatchPlace { epoch: 0, index }, images, labels)?;
/// }
/// let metrics = trainer.epoch_metrics(0)?;
/// assert_eq!((metrics.batches, metrics.samples), (3, 30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trainer {
    rt: Runtime,
    network: Network,
    loss: SoftmaxCrossEntropy,
    sgd: Sgd,
    weights: Arena,
    temporaries: Arena,
    parameters: Vec<Option<Parameters>>,
    epochs: BTreeMap<u32, Buffer<Sums>>,
}

/// Which batch of a run is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// The epoch whose metrics the batch counts for.
    pub epoch: u32,
    /// Index of the batch over the whole run, for traces and errors.
    pub index: u32,
}

impl Trainer {
    /// A trainer whose parameters start at `values`: layer by layer, the weights, then the biases.
    /// It makes two arenas, `weights` and `temporaries`.
    ///
    /// # Errors
    /// [`NnError::Batch`] when `values` has not one value per parameter; an error of the arena
    /// when there is no memory.
    pub fn new(rt: &Runtime, network: Network, values: &[f32], sgd: Sgd) -> Result<Self, NnError> {
        let (got, wanted) = (values.len(), network.parameters_len());
        if got != wanted {
            return Err(NnError::Batch { what: "initial values", got, wanted });
        }
        let weights = Arena::new(rt, "weights");
        let parameters = parameters::allocate(&weights, &network, values)?;
        Ok(Self {
            rt: rt.clone(),
            loss: SoftmaxCrossEntropy { classes: network.classes() },
            network,
            sgd,
            weights,
            temporaries: Arena::new(rt, "temporaries"),
            parameters,
            epochs: BTreeMap::new(),
        })
    }

    /// The network.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The arenas that this trainer made, for their statistics.
    pub fn arenas(&self) -> [&Arena; 2] {
        [&self.weights, &self.temporaries]
    }

    /// Submits the training of one batch; waits only where `arena` does, for memory of an older
    /// batch, or where the submission window is full.
    ///
    /// The call begins with [`Arena::next`]: activations and gradients of this batch live in the
    /// arena's next generation. It is the same for every depth.
    ///
    /// # Shapes
    /// `images`: samples x values of a sample; `labels`: samples x 1, cut into as many shards.
    /// Neither may be a buffer of `arena`.
    ///
    /// # Errors
    /// [`NnError::Batch`] when images and labels do not fit the network or each other; an error of
    /// the arena or the runtime. A label that names no class is found by the task of the loss and
    /// comes back as an error of the next wait.
    pub fn submit_batch(
        &mut self,
        arena: &Arena,
        place: BatchPlace,
        images: Sharded<f32>,
        labels: Sharded<u8>,
    ) -> Result<(), NnError> {
        self.check(images, labels)?;
        arena.next()?;
        let size = [images.rows(), images.shards()];
        let activations = Activations::allocate(arena, &self.network, images, size)?;
        for shard in 0..images.shards() {
            let samples = images.shard_rows(shard).len();
            for layer in 0..self.network.layers().len() {
                let at = self.at(Some(place.index), layer, shard);
                self.forward(at, samples, &activations.of(layer, shard, shard))?;
            }
        }
        let dlogits = self.submit_loss(arena, place, &activations, labels)?;
        self.backward(arena, place, &activations, dlogits)
    }

    /// Loss, hits and the gradient of the loss by the logits, and the sums of the epoch.
    fn submit_loss(
        &mut self,
        arena: &Arena,
        place: BatchPlace,
        activations: &Activations,
        labels: Sharded<u8>,
    ) -> Result<Sharded<f32>, NnError> {
        let (loss, samples, shards) = (self.loss, labels.rows(), labels.shards());
        let dlogits = arena.alloc_sharded::<f32>(samples, loss.classes, shards)?;
        let partials = arena.alloc_sharded::<Weighted>(shards, 1, shards)?;
        for shard in 0..shards {
            let first = labels.shard_rows(shard).start;
            let access = (
                activations.logits(shard, shard).read(),
                labels.shard(shard).read(),
                dlogits.shard(shard).overwrite(),
                partials.shard(shard).overwrite(),
            );
            self.at(Some(place.index), self.network.layers().len(), shard)
                .task("softmax_cross_entropy")
                .spawn(access, move |(logits, labels, dlogits, partial)| {
                    let sums = loss.forward_backward(logits, labels, samples, first, dlogits)?;
                    partial[0] = sums.into();
                    Ok::<(), NnError>(())
                })?;
        }
        self.submit_metrics(place, partials, samples)?;
        Ok(dlogits)
    }

    /// The parameters: layer by layer, the weights, then the biases. Waits for the updates that
    /// were submitted.
    ///
    /// # Errors
    /// An error of the runtime, when a task failed.
    pub fn weights(&self) -> Result<Vec<f32>, NnError> {
        let mut values = Vec::with_capacity(self.network.parameters_len());
        for parameters in self.parameters.iter().flatten() {
            values.extend_from_slice(&parameters.weights.whole().acquire()?);
            values.extend_from_slice(&parameters.bias.whole().acquire()?);
        }
        Ok(values)
    }

    fn check(&self, images: Sharded<f32>, labels: Sharded<u8>) -> Result<(), NnError> {
        let smallest = images.rows() / images.shards().max(1);
        let checks = [
            ("values of a sample", images.row_len(), self.network.input().len()),
            ("values of a label", labels.row_len(), 1),
            ("labels", labels.rows(), images.rows()),
            ("shards of the labels", labels.shards(), images.shards()),
            ("samples in the smallest shard", smallest.min(1), 1),
        ];
        for (what, got, wanted) in checks {
            if got != wanted {
                return Err(NnError::Batch { what, got, wanted });
            }
        }
        Ok(())
    }

    fn at(&self, batch: Option<u32>, layer: usize, shard: usize) -> Place<'_> {
        Place { rt: &self.rt, batch, layer, shard }
    }
}

/// Where in the graph a task belongs.
#[derive(Clone, Copy)]
struct Place<'a> {
    rt: &'a Runtime,
    batch: Option<u32>,
    layer: usize,
    shard: usize,
}

impl<'a> Place<'a> {
    /// A task with the labels of this place. Labels that do not fit are cut off: they only mark.
    #[track_caller]
    fn task(&self, name: &'static str) -> TaskBuilder<'a> {
        let task = self.rt.task(name).layer(self.layer as u16).shard(self.shard as u16);
        match self.batch {
            Some(batch) => task.batch(batch),
            None => task,
        }
    }
}
