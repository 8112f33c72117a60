//! Accuracy on samples that are not trained on.

use std::sync::Arc;

use millrace_arena::{Sharded, scratch};

use super::Trainer;
use super::plan::{IMAGES, Outside, Plan, Stage};
use super::stage::{Handed, Samples};
use crate::NnError;
use crate::layer::Mode;
use crate::loss::{Loss, Partial};

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

/// Samples that a task has in memory at once. A shard of more is done in pieces: samples do not
/// depend on one another, so that this changes nothing but the memory.
const PIECE: usize = 16;

impl Trainer {
    /// Runs the network forward on samples that are not trained on, with the parameters as they are
    /// after all submitted batches, and waits for the result.
    ///
    /// There is one task per shard. Activations live in its scratch memory, for at most 16 samples
    /// at once, so that the memory grows neither with the number of shards nor with their size.
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
        let partials = arena.alloc_sharded::<Partial>(shards, 1, shards)?;
        for shard in 0..shards {
            self.submit_evaluation(images, labels, partials, shard)?;
        }
        let mut sum = Partial::default();
        partials.whole().acquire()?.iter().for_each(|&partial| sum += partial);
        Ok(Evaluation { samples: images.rows() as u64, correct: sum.correct, loss: sum.mean() })
    }

    fn submit_evaluation(
        &self,
        images: Sharded<f32>,
        labels: Sharded<u8>,
        partials: Sharded<Partial>,
        shard: usize,
    ) -> Result<(), NnError> {
        let rows = images.shard_rows(shard);
        let stage = self.plan.evaluation();
        let buffer = |outside: &Outside| {
            self.parameters.buffer(*outside).unwrap_or_else(|| images.shard(shard))
        };
        let piece = PIECE.min(rows.len());
        // Of the two sizes of pieces either may need more, if only in principle.
        let last = (rows.len() - 1) % PIECE + 1;
        let space = self.plan.space_len(stage, piece).max(self.plan.space_len(stage, last));
        let access = (
            stage.reads.iter().map(|outside| buffer(outside).read()).collect::<Vec<_>>(),
            labels.shard(shard).read(),
            partials.shard(shard).overwrite(),
            scratch::<f32>(space),
        );
        let (plan, loss) = (Arc::clone(&self.plan), Arc::clone(&self.loss));
        self.at(None, stage.layer, shard).task("evaluate").spawn(
            access,
            move |(reads, labels, partial, space)| {
                let mut sums = Partial::default();
                for (piece, labels) in labels.chunks(PIECE).enumerate() {
                    let offset = piece * PIECE;
                    let (count, first) = (labels.len(), rows.start + offset);
                    // Without a gradient it does not matter what the batch weighs.
                    let samples = Samples { count, first, weight: 0.0, mode: Mode::Evaluate };
                    sums += plan.piece(&*loss, samples, offset, &reads, labels, space)?;
                }
                partial[0] = sums;
                Ok::<(), NnError>(())
            },
        )?;
        Ok(())
    }
}

impl Plan {
    fn evaluation(&self) -> &Stage {
        &self.evaluate.stages[0]
    }

    /// Evaluates some samples, of which the first is at `offset` in the images of `reads`.
    fn piece(
        &self,
        loss: &dyn Loss<f32>,
        samples: Samples,
        offset: usize,
        reads: &[&[f32]],
        labels: &[u8],
        space: &mut [f32],
    ) -> Result<Partial, NnError> {
        let stage = self.evaluation();
        let skip = |outside: &Outside| match outside {
            Outside::Buffer(IMAGES) => offset * self.image_len,
            _ => 0,
        };
        let reads = stage.reads.iter().zip(reads).map(|(outside, read)| &read[skip(outside)..]);
        let handed = Handed {
            reads: reads.collect(),
            changes: Vec::new(),
            defines: Vec::new(),
            space,
            labels,
            wide: Vec::new(),
            part: &mut [],
        };
        self.run(stage, loss, samples, handed)
    }
}
