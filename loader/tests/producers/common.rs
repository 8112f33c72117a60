//! A layout, samples whose content is known, and gates that hold them back.

use std::sync::{Arc, Condvar, Mutex};

use millrace_loader::producers::{DType, Field, Layout, Producers, ProducersConfig, SampleBatch};

/// An image of three numbers and a label.
pub(crate) fn layout() -> Layout {
    Layout::new([Field::new("x", DType::F32, [3]), Field::new("y", DType::U8, [])]).unwrap()
}

#[path = "../programs/known.rs"]
mod known;
pub(crate) use known::fill;

/// 23 samples, 4 in a batch.
pub(crate) fn config() -> ProducersConfig {
    ProducersConfig {
        samples: 23,
        batch_size: 4,
        epochs: 3,
        seed: 5,
        shuffle: true,
        ahead: Some(9),
        ..ProducersConfig::default()
    }
}

/// What a batch holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) epoch: u32,
    pub(crate) index_in_epoch: u32,
    pub(crate) counted: usize,
    pub(crate) samples: Vec<(u32, Vec<f32>, u8)>,
}

pub(crate) fn content(batch: &SampleBatch) -> Content {
    let sample = |sample: millrace_loader::producers::Sample<'_>| {
        (sample.index(), sample.field::<f32>(0).to_vec(), sample.field::<u8>(1)[0])
    };
    Content {
        epoch: batch.epoch(),
        index_in_epoch: batch.index_in_epoch(),
        counted: batch.counted(),
        samples: batch.samples().map(sample).collect(),
    }
}

/// Everything up to the end.
pub(crate) fn rest(producers: &mut Producers) -> Vec<Content> {
    std::iter::from_fn(|| producers.next().unwrap().map(|batch| content(&batch))).collect()
}

/// The stream that producers of [`fill`] must make, by the trainer itself.
pub(crate) fn expected(config: &ProducersConfig) -> Vec<Content> {
    rest(&mut Producers::inline(layout(), config.clone(), fill).unwrap())
}

/// Holds back whoever passes until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}
