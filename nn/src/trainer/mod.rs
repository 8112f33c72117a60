//! Training as tasks: a batch is submitted stage by stage and shard by shard.
//!
//! # The graph of a batch
//! The network is compiled once, to a [plan]: the steps that each shard goes through, forward
//! through the layers, through the loss, and backward again, leaving a gradient of all parameters.
//! Steps that follow one another are one task, a *stage*, as long as the [`Granularity`] lets them;
//! values that live within one stage are in scratch memory, others in the batch arena. One task per
//! group of parameters (per block of it, if it is large) adds up the shards' gradients as a fixed
//! tree and updates the group; one task adds up loss and hits. A stage of the next batch depends on
//! the parameters of its layers and on nothing else of this batch, so batches overlap as far as
//! memory allows: that is, as far as the batch arena is deep.
//!
//! # Invariants
//! * Which thread runs a task changes no bit: a body computes from its shard alone, and what
//!   several shards contribute is added up in an order that depends on the number of shards only.
//!   Nor do the cuts between stages: the steps and their order are the same.
//! * Bodies take their temporary memory from the worker's scratch. Per task there are but short
//!   lists of slices.
//! * A parameter is read by the tasks of a batch after its update by the batch before, always.

mod batch;
mod evaluate;
mod metrics;
mod parameters;
mod plan;
mod stage;
mod wide;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded};
use millrace_runtime::{Runtime, TaskBuilder};

use crate::loss::{Loss, SoftmaxCrossEntropyConfig};
use crate::metrics::EpochSums;
use crate::{Network, NnError, Sgd};

pub use evaluate::Evaluation;
pub use metrics::EpochMetrics;
pub use plan::Granularity;

use parameters::Parameters;
use plan::Plan;

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
    config: TrainerConfig,
    plan: Arc<Plan>,
    loss: Arc<dyn Loss<f32>>,
    /// What a sample weighs in it.
    sample_weight: f64,
    sgd: Sgd,
    weights: Arena,
    temporaries: Arena,
    parameters: Parameters,
    epochs: BTreeMap<u32, Buffer<EpochSums>>,
}

/// Which batch of a run is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// The epoch whose metrics the batch counts for.
    pub epoch: u32,
    /// Index of the batch over the whole run, for traces and errors.
    pub index: u32,
}

/// Settings of a [`Trainer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainerConfig {
    /// How much of a shard one task does.
    pub granularity: Granularity,
    /// What the random numbers of layers are drawn from. Default: 0.
    pub seed: u64,
}

impl Trainer {
    /// A trainer whose parameters start at `values`, in the order of [`Network::parameters`], with
    /// the default settings.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(rt: &Runtime, network: Network, values: &[f32], sgd: Sgd) -> Result<Self, NnError> {
        Self::with(rt, network, values, sgd, TrainerConfig::default())
    }

    /// A trainer whose parameters start at `values`, in the order of [`Network::parameters`]. It
    /// makes two arenas, `weights` and `temporaries`.
    ///
    /// # Errors
    /// [`NnError::Batch`] when `values` has not one value per parameter; [`NnError::Shape`] when
    /// the network gives an image or more classes than a label can name; an error of the arena
    /// when there is no memory.
    pub fn with(
        rt: &Runtime,
        network: Network,
        values: &[f32],
        sgd: Sgd,
        config: TrainerConfig,
    ) -> Result<Self, NnError> {
        let (got, wanted) = (values.len(), network.parameters_len());
        if got != wanted {
            return Err(NnError::Batch { what: "initial values", got, wanted });
        }
        let output = network.output();
        output.as_features("after the last")?;
        let loss: Arc<dyn Loss<f32>> = Arc::new(SoftmaxCrossEntropyConfig::new().build(output)?);
        let weights = Arena::new(rt, "weights");
        let plan = Arc::new(Plan::new(&network, config.granularity));
        let parameters = Parameters::new(&weights, &plan, values)?;
        Ok(Self {
            rt: rt.clone(),
            sample_weight: loss.sample_weight().expect("all samples weigh the same"),
            loss,
            network,
            config,
            plan,
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

    /// The parameters, in the order of [`Network::parameters`]. Waits for the updates that
    /// were submitted.
    ///
    /// # Errors
    /// An error of the runtime, when a task failed.
    pub fn weights(&self) -> Result<Vec<f32>, NnError> {
        let mut values = Vec::with_capacity(self.network.parameters_len());
        for group in &self.parameters.groups {
            values.extend_from_slice(&group.whole().acquire()?);
        }
        Ok(values)
    }

    /// What layers have learned from the batches otherwise than by gradients, in the order of
    /// [`Network::states`]. Waits for the batches that were submitted.
    ///
    /// # Errors
    /// An error of the runtime, when a task failed.
    pub fn states(&self) -> Result<Vec<f32>, NnError> {
        let mut values = Vec::new();
        for state in self.parameters.states.iter().flatten() {
            values.extend_from_slice(&state.acquire()?);
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
