//! The tasks of a batch.

use std::sync::Arc;

use millrace_arena::{Arena, Buffer, Sharded, scratch};

use super::parameters::blocks;
use super::plan::{BufId, IMAGES, Outside};
use super::stage::{Handed, Samples};
use super::wide::WideBuffers;
use super::{BatchPlace, Trainer};
use crate::NnError;
use crate::layer::{Draw, Mode};
use crate::loss::Partial;

/// The buffers of a batch.
pub(super) struct BatchBuffers {
    images: Sharded<f32>,
    labels: Sharded<u8>,
    /// By buffer: those that several stages use.
    kept: Vec<Option<Sharded<f32>>>,
    /// By group, and by shard.
    gradients: Vec<Vec<Sharded<f32>>>,
    partials: Sharded<Partial>,
    wide: WideBuffers,
}

impl BatchBuffers {
    fn allocate(
        trainer: &Trainer,
        arena: &Arena,
        images: Sharded<f32>,
        labels: Sharded<u8>,
    ) -> Result<Self, NnError> {
        let (rows, shards) = (images.rows(), images.shards());
        let plan = &trainer.plan;
        let most = plan.train.kept.iter().map(|&(buf, _)| buf + 1).max();
        let mut kept = vec![None; most.unwrap_or(0).max(IMAGES + 1)];
        kept[IMAGES] = Some(images);
        for &(buf, len) in &plan.train.kept {
            kept[buf] = Some(arena.alloc_sharded(rows, len, shards)?);
        }
        let of_group = |len| (0..shards).map(|_| blocks(arena, len)).collect::<Result<_, _>>();
        let gradients = plan.groups.iter().map(|group| of_group(group.len));
        Ok(Self {
            images,
            labels,
            kept,
            gradients: gradients.collect::<Result<_, _>>()?,
            partials: arena.alloc_sharded(shards, 1, shards)?,
            wide: WideBuffers::allocate(plan, arena, shards)?,
        })
    }
}

impl Trainer {
    /// Submits the training of one batch; waits only where `arena` does, for memory of an older
    /// batch, or where the submission window is full.
    ///
    /// The call begins with [`Arena::next`]: activations and gradients of this batch live in the
    /// arena's next generation. It is the same for every depth.
    ///
    /// # Shapes
    /// `images`: samples x values of a sample, each plane by plane (channel, row, column);
    /// `labels`: samples x 1, cut into as many shards. Neither may be a buffer of `arena`.
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
        self.check_least(images.rows())?;
        arena.next()?;
        let buffers = BatchBuffers::allocate(self, arena, images, labels)?;
        for stage in 0..self.plan.train.stages.len() {
            for shard in 0..images.shards() {
                self.submit_stage(place, stage, shard, &buffers)?;
            }
            if let Some((node, way)) = self.plan.train.stages[stage].part {
                let at = self.at(Some(place.index), self.plan.nodes[node].place, 0);
                self.submit_total(at, &buffers.wide, node, way)?;
            }
            for (group, last) in self.plan.train.last_stage.iter().enumerate() {
                if *last == Some(stage) {
                    let layer = self.plan.nodes[self.plan.groups.nodes(group)[0]].place;
                    let at = self.at(Some(place.index), layer, 0);
                    let gradients = &buffers.gradients[group];
                    self.parameters.update(&self.plan, at, group, self.sgd, gradients)?;
                }
            }
        }
        self.submit_metrics(place, buffers.partials, images.rows())
    }

    /// Refuses a batch that is too small for a layer that works on all of it.
    fn check_least(&self, samples: usize) -> Result<(), NnError> {
        let layers = self.plan.nodes.iter().filter_map(|node| node.layer.batch_wide());
        let wanted = layers.map(|layer| layer.least_samples()).max().unwrap_or(0);
        if samples < wanted {
            let what = "samples of a batch that is normalised";
            return Err(NnError::Batch { what, got: samples, wanted });
        }
        Ok(())
    }

    fn submit_stage(
        &self,
        place: BatchPlace,
        index: usize,
        shard: usize,
        buffers: &BatchBuffers,
    ) -> Result<(), NnError> {
        let stage = &self.plan.train.stages[index];
        let rows = buffers.images.shard_rows(shard);
        let draw = Draw {
            seed: self.config.seed,
            epoch: place.epoch,
            batch: place.index,
            ..Draw::default()
        };
        let samples = Samples {
            count: rows.len(),
            first: rows.start,
            weight: self.sample_weight * buffers.images.rows() as f64,
            mode: Mode::Train(draw),
        };
        let buffer = |outside: &Outside| self.buffer(*outside, shard, buffers);
        let access = (
            stage.reads.iter().map(|outside| buffer(outside).read()).collect::<Vec<_>>(),
            stage.changes.iter().map(|outside| buffer(outside).write()).collect::<Vec<_>>(),
            stage.defines.iter().map(|outside| buffer(outside).overwrite()).collect::<Vec<_>>(),
            scratch::<f32>(self.plan.space_len(stage, samples.count)),
            stage.has_loss.then(|| {
                let partial = buffers.partials.shard(shard);
                (buffers.labels.shard(shard).read(), partial.overwrite())
            }),
            stage
                .wide
                .iter()
                .map(|&read| buffers.wide.read(read, shard).read())
                .collect::<Vec<_>>(),
            buffers.wide.part(stage, shard).map(|part| part.overwrite()),
        );
        let (plan, loss) = (Arc::clone(&self.plan), Arc::clone(&self.loss));
        self.at(Some(place.index), stage.layer, shard).task(stage.name).spawn(
            access,
            move |(reads, changes, defines, space, of_loss, wide, part)| {
                let (labels, partial) = of_loss.unzip();
                let (labels, part) = (labels.unwrap_or_default(), part.unwrap_or_default());
                let handed = Handed { reads, changes, defines, space, labels, wide, part };
                let sums = plan.run(&plan.train.stages[index], &*loss, samples, handed)?;
                if let Some(partial) = partial {
                    partial[0] = sums;
                }
                Ok::<(), NnError>(())
            },
        )?;
        Ok(())
    }

    /// What a stage is handed for one shard.
    fn buffer(&self, outside: Outside, shard: usize, buffers: &BatchBuffers) -> Buffer<f32> {
        match outside {
            Outside::Buffer(buf) => kept(&buffers.kept, buf).shard(shard),
            Outside::Gradient(group) => buffers.gradients[group][shard].whole(),
            _ => self.parameters.buffer(outside).expect("all else outlives a batch"),
        }
    }
}

fn kept(kept: &[Option<Sharded<f32>>], buf: BufId) -> Sharded<f32> {
    kept[buf].expect("it was defined by an earlier stage, or is")
}
