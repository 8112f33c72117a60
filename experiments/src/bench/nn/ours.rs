//! A case, trained by Millrace.

use std::time::{Duration, Instant};

use millrace_arena::Arena;
use millrace_nn::{BatchPlace, Sgd, Trainer, init};
use millrace_runtime::Runtime;

use super::Case;
use crate::failure::{Failure, chain};
use crate::machine;

/// Batches in memory, which are trained in turn.
const BATCHES: usize = 16;
/// Batches before the clock runs.
const WARM_UP: u32 = 3;
const LEARNING_RATE: f64 = 0.01;
/// Initial parameters lie between minus and plus this.
const INITIAL: f64 = 0.05;

/// What one run of a case gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) images_per_s: f64,
    /// The most memory that was resident, in bytes, where the system says it.
    pub(super) rss: Option<u64>,
}

/// Trains for `seconds` at least.
pub(super) fn measure(case: &Case, shards: Option<u16>, seconds: f64) -> Result<Measured, Failure> {
    machine::reset_peak_resident();
    let images_per_s = train(case, shards, seconds).map_err(|error| {
        Failure::failed(format_args!("{}: training: {}", case.net.name(), chain(error.as_ref())))
    })?;
    Ok(Measured { images_per_s, rss: machine::peak_resident().value() })
}

fn train(
    case: &Case,
    shards: Option<u16>,
    seconds: f64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let Case { net, batch, workers } = *case;
    let rt = Runtime::builder().workers(workers).main_helps(true).timing(false).build()?;
    let network = net.network();
    let shards = match shards {
        Some(shards) => usize::from(shards).min(batch),
        None => network.default_shards(batch),
    };
    let (len, classes) = (network.input().len(), network.output().len());
    let values = init::gnu_uniform(1, INITIAL, network.parameters_len());
    let mut trainer = Trainer::new(&rt, network, &values, Sgd::new(LEARNING_RATE)?)?;
    let data = Arena::new(&rt, "dataset");
    let mut batches = Vec::with_capacity(BATCHES);
    for first in 0..BATCHES {
        let images = data.alloc_sharded::<f32>(batch, len, shards)?;
        let labels = data.alloc_sharded::<u8>(batch, 1, shards)?;
        for (i, value) in images.whole().acquire_mut()?.iter_mut().enumerate() {
            *value = ((first + i) * 7919 % 1009) as f32 / 1009.0;
        }
        for (i, label) in labels.whole().acquire_mut()?.iter_mut().enumerate() {
            // At most 10 classes.
            *label = ((first + i * 7) % classes) as u8;
        }
        batches.push((images, labels));
    }
    let arena = Arena::builder(&rt, "batch").depth(2).build();
    let mut index = 0u32;
    let mut step = |trainer: &mut Trainer| -> Result<(), Box<dyn std::error::Error>> {
        let (images, labels) = batches[index as usize % BATCHES];
        trainer.submit_batch(&arena, BatchPlace { epoch: 0, index }, images, labels)?;
        index += 1;
        Ok(())
    };
    for _ in 0..WARM_UP {
        step(&mut trainer)?;
    }
    rt.wait()?;
    let (begin, mut steps) = (Instant::now(), 0);
    while steps == 0 || begin.elapsed() < Duration::from_secs_f64(seconds) {
        step(&mut trainer)?;
        steps += 1;
    }
    rt.wait()?;
    Ok((steps * batch) as f64 / begin.elapsed().as_secs_f64())
}
