//! Accuracy on samples that are not trained on.

use millrace_arena::Sharded;

use super::Trainer;
use super::forward::Activations;
use super::metrics::Weighted;
use crate::NnError;

/// What [`Trainer::evaluate`] finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Number of samples.
    pub samples: u64,
    /// How many of them the network gets right.
    pub correct: u64,
    /// The mean loss of the samples.
    pub loss: f64,
}

impl Evaluation {
    /// Share of the samples that the network gets right.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.samples as f64
    }
}

/// Shards whose activations are held at once. Later shards use the same memory again, after the
/// tasks of the earlier ones.
const HELD: usize = 8;

impl Trainer {
    /// Runs the network forward on samples that are not trained on, with the parameters as they are
    /// after all submitted batches, and waits for the result.
    ///
    /// Activations live in the arena `temporaries`, for at most eight shards at once, so that the
    /// memory does not grow with the number of shards.
    ///
    /// # Shapes
    /// `images`: samples x values of a sample; `labels`: samples x 1, cut into as many shards.
    ///
    /// # Errors
    /// [`NnError::Batch`] when images and labels do not fit the network or each other; an error of
    /// the arena or the runtime, among them that of a label that names no class.
    pub fn evaluate(
        &self,
        images: Sharded<f32>,
        labels: Sharded<u8>,
    ) -> Result<Evaluation, NnError> {
        self.check(images, labels)?;
        let arena = &self.temporaries;
        arena.reset()?;
        let shards = images.shards();
        let (held, rows) = (shards.min(HELD), images.rows().div_ceil(shards));
        let size = [held * rows, held];
        let activations = Activations::allocate(arena, &self.network, images, size)?;
        let partials = arena.alloc_sharded::<Weighted>(shards, 1, shards)?;
        for shard in 0..shards {
            let samples = images.shard_rows(shard).len();
            for layer in 0..self.network.layers().len() {
                let values = activations.of(layer, shard, shard % held);
                self.forward(self.at(None, layer, shard), samples, &values)?;
            }
            let (loss, first) = (self.loss, labels.shard_rows(shard).start);
            let access = (
                activations.logits(shard, shard % held).read(),
                labels.shard(shard).read(),
                partials.shard(shard).overwrite(),
            );
            self.at(None, self.network.layers().len(), shard).task("evaluate").spawn(
                access,
                move |(logits, labels, partial)| {
                    let logits = &logits[..samples * loss.classes];
                    partial[0] = loss.forward(logits, labels, first)?.into();
                    Ok::<(), NnError>(())
                },
            )?;
        }
        let partials = partials.whole().acquire()?;
        Ok(Evaluation {
            samples: images.rows() as u64,
            correct: partials.iter().map(|partial| partial.correct).sum(),
            loss: partials.iter().map(|partial| partial.loss).sum::<f64>() / images.rows() as f64,
        })
    }
}
