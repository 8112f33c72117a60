//! The network of a run: how it is made for a data set, trained batch by batch, and tested.

use millrace_arena::{Arena, ArenaError};
use millrace_loader::{Batch, Dataset};
use millrace_nn::layer::{Conv2dConfig, DenseConfig, MaxPool2dConfig};
use millrace_nn::{BatchPlace, Network, NnError, Sgd, Shape, Trainer, init};
use millrace_runtime::{Runtime, WaitError};

use crate::combination::ArenaMode;
use crate::failure::{Failure, chain};
use crate::options::Settings;
use crate::reading::Reading;
use crate::result::EpochResult;

/// Initial parameters lie between minus and plus this.
const INITIAL: f64 = 0.1;
/// Test samples that are in memory as numbers at once.
const TESTED_AT_ONCE: usize = 1000;
/// Parts that these are cut into.
const TEST_SHARDS: usize = 8;

/// The reference network (convolution with 4 filters of 3x3, ReLU, maximum of 2x2, dense) for the
/// images and classes of `dataset`.
///
/// # Errors
/// When the images are too small for it.
pub(crate) fn network(dataset: &Dataset) -> Result<Network, Failure> {
    let [channels, height, width] = dataset.shape();
    Network::builder(Shape::image(channels, height, width))
        .conv2d(Conv2dConfig::new(4, [3, 3]))
        .relu()
        .max_pool2d(MaxPool2dConfig::new([2, 2]))
        .flatten()
        .dense(DenseConfig::new(dataset.classes()))
        .build()
        .map_err(|error| {
            Failure::failed(format_args!(
                "data set {}: no network for images of {channels}x{height}x{width}: {}",
                dataset.name(),
                chain(&error)
            ))
        })
}

/// A network in training.
#[derive(Debug)]
pub(crate) struct Learner {
    rt: Runtime,
    trainer: Trainer,
    /// Activations and gradients, one generation per batch.
    batches: Arena,
    depth: u32,
    epochs: u32,
    /// Mean loss of the last finished epoch that was asked for, where it is a number.
    last_loss: Option<f64>,
}

impl Learner {
    pub(crate) fn new(
        rt: &Runtime,
        arena: ArenaMode,
        settings: &Settings,
        dataset: &Dataset,
    ) -> Result<Self, Failure> {
        let network = network(dataset)?;
        let values = init::gnu_uniform(settings.seed, INITIAL, network.parameters_len());
        let sgd = Sgd::new(settings.lr).map_err(failed)?;
        Ok(Learner {
            rt: rt.clone(),
            trainer: Trainer::new(rt, network, &values, sgd).map_err(failed)?,
            batches: Arena::builder(rt, "batch").depth(arena.depth()).build(),
            // At most `MAX_RING`.
            depth: arena.depth() as u32,
            epochs: settings.epochs,
            last_loss: None,
        })
    }

    /// Submits the training of one batch.
    pub(crate) fn learn(&mut self, batch: &Batch) -> Result<(), Failure> {
        let place = BatchPlace { epoch: batch.epoch, index: batch.index };
        self.trainer
            .submit_batch(&self.batches, place, batch.images, batch.labels)
            .map_err(failed)?;
        // Once this many batches of the next epoch are submitted, the arena has waited for the
        // last batch of the epoch before, so that reading its loss is no wait of its own.
        if batch.epoch > 0 && batch.index_in_epoch == self.depth {
            let metrics = self.trainer.epoch_metrics(batch.epoch - 1).map_err(failed)?;
            self.last_loss = Some(metrics.loss).filter(|loss| loss.is_finite());
        }
        Ok(())
    }

    /// Mean loss of an epoch that is over; of the last one soon after the next has begun.
    pub(crate) fn last_loss(&self) -> Option<f64> {
        self.last_loss
    }

    /// Arenas of the trainer and of the batches.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.trainer.arenas().into_iter().chain([&self.batches])
    }

    /// Loss and accuracy of every epoch.
    pub(crate) fn epochs(&self) -> Result<Vec<EpochResult>, Failure> {
        let result = |epoch| {
            let metrics = self.trainer.epoch_metrics(epoch).map_err(failed)?;
            Ok(EpochResult { loss: Reading::finite(metrics.loss), accuracy: metrics.accuracy })
        };
        (0..self.epochs).map(result).collect()
    }

    /// Share of the samples of `dataset` that the network gets right.
    pub(crate) fn accuracy(&self, dataset: &Dataset) -> Result<f64, Failure> {
        let arena = Arena::new(&self.rt, "test");
        let len = dataset.sample_len();
        let mut correct = 0;
        let images = dataset.images().chunks(TESTED_AT_ONCE * len);
        for (pixels, classes) in images.zip(dataset.labels().chunks(TESTED_AT_ONCE)) {
            let (samples, shards) = (classes.len(), TEST_SHARDS.min(classes.len()));
            let images = arena.alloc_sharded::<f32>(samples, len, shards).map_err(memory)?;
            let labels = arena.alloc_sharded::<u8>(samples, 1, shards).map_err(memory)?;
            for (value, &pixel) in
                images.whole().acquire_mut().map_err(wait)?.iter_mut().zip(pixels)
            {
                *value = f32::from(pixel) / 255.0;
            }
            labels.whole().acquire_mut().map_err(wait)?.copy_from_slice(classes);
            correct += self.trainer.evaluate(images, labels).map_err(failed)?.correct;
            arena.reset().map_err(memory)?;
        }
        Ok(correct as f64 / dataset.len() as f64)
    }
}

fn failed(error: NnError) -> Failure {
    Failure::failed(format_args!("training: {}", chain(&error)))
}

fn memory(error: ArenaError) -> Failure {
    Failure::failed(format_args!("test: {}", chain(&error)))
}

fn wait(error: WaitError) -> Failure {
    Failure::failed(format_args!("test: {}", chain(&error)))
}
