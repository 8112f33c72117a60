//! Reads a whole data set before any training: what is bad in it, and what is in it.

use rayon::prelude::*;
use serde::Serialize;

use crate::bad_samples::decode;
use crate::{SamplePlace, Samples};

/// Samples that are summed up one after the other. Blocks are then joined in order, so that the
/// sums do not depend on the number of threads.
const BLOCK: usize = 64;

/// What was found in a data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// The data set's name.
    pub name: String,
    /// Number of samples, good and bad.
    pub samples: usize,
    /// Channels, height and width of a sample.
    pub shape: [usize; 3],
    /// Every sample that cannot be had, in order.
    pub bad: Vec<BadFile>,
    /// The name of each class; its number where it has none.
    pub class_names: Vec<String>,
    /// Labels of each class over all good samples.
    pub class_counts: Vec<u64>,
    /// The weight of each class ([`class_weights`]).
    pub class_weights: Vec<f64>,
    /// Mean of each channel over all good samples; nothing where there is none.
    pub mean: Option<Vec<f64>>,
    /// Standard deviation of each channel over all good samples, around that mean.
    pub sd: Option<Vec<f64>>,
}

/// A sample that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadFile {
    /// Index of the sample.
    pub index: usize,
    /// What it is called, and what is wrong with it.
    pub message: String,
}

/// Weights that give each class the same share of a loss: labels / (classes x labels of the
/// class), and 0 for a class without a label. Classes without a label do not count.
///
/// ```
/// assert_eq!(millrace_loader::check::class_weights(&[10, 30, 0]), [2.0, 2.0 / 3.0, 0.0]);
/// ```
pub fn class_weights(counts: &[u64]) -> Vec<f64> {
    let labels: u64 = counts.iter().sum();
    let classes = counts.iter().filter(|&&count| count > 0).count();
    let weight = |&count: &u64| match count {
        0 => 0.0,
        _ => labels as f64 / (classes as f64 * count as f64),
    };
    counts.iter().map(weight).collect()
}

/// Decodes every sample, on all threads of rayon's pool. `goes_on` is told from time to time how
/// many samples are done, by any thread; when it says no, there is no report.
///
/// A value that is no number, or infinite, makes a bad sample, too.
///
/// ```
/// let (_, test) = millrace_loader::embedded();
/// let report = millrace_loader::check::check(&test, |_| true).expect("not stopped");
/// assert!(report.bad.is_empty());
/// assert_eq!(report.class_counts.iter().sum::<u64>(), 1000);
/// assert!((report.mean.expect("there are samples")[0] - 0.2868).abs() < 0.01);
/// ```
pub fn check(samples: &dyn Samples, goes_on: impl Fn(usize) -> bool + Sync) -> Option<CheckReport> {
    let blocks = samples.len().div_ceil(BLOCK);
    let done = std::sync::atomic::AtomicUsize::new(0);
    let labels = samples.label_kind().per_sample();
    let room = || (vec![0.0; samples.sample_len()], vec![0; labels]);
    let found: Option<Vec<Block>> = (0..blocks)
        .into_par_iter()
        .map_init(room, |(values, labels), block| {
            let places = block * BLOCK..samples.len().min((block + 1) * BLOCK);
            let count = places.len();
            let mut block = Block::new(samples);
            for index in places {
                block.add(samples, index, values, labels);
            }
            let done = done.fetch_add(count, std::sync::atomic::Ordering::Relaxed) + count;
            goes_on(done).then_some(block)
        })
        .collect();
    let mut all = Block::new(samples);
    for block in found? {
        all.join(block);
    }
    Some(all.report(samples))
}

/// What was found in some samples.
struct Block {
    bad: Vec<BadFile>,
    counts: Vec<u64>,
    moments: Vec<Moments>,
}

impl Block {
    fn new(samples: &dyn Samples) -> Self {
        Block {
            bad: Vec::new(),
            counts: vec![0; samples.classes()],
            moments: vec![Moments::default(); samples.shape()[0]],
        }
    }

    fn add(&mut self, samples: &dyn Samples, index: usize, values: &mut [f32], labels: &mut [u8]) {
        let place = SamplePlace { epoch: 0, index };
        if let Err(error) = decode(samples, place, values, labels) {
            self.bad.push(BadFile { index, message: error.to_string() });
            return;
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (name, value) = (samples.sample_name(index), values[at]);
            let message = format!("{name}: value {at} is {value}");
            self.bad.push(BadFile { index, message });
            return;
        }
        for &mut label in labels {
            self.counts[usize::from(label)] += 1;
        }
        let plane = values.len() / self.moments.len();
        for (moments, plane) in self.moments.iter_mut().zip(values.chunks_exact(plane)) {
            moments.join(Moments::of(plane));
        }
    }

    fn join(&mut self, other: Block) {
        self.bad.extend(other.bad);
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count += other;
        }
        for (moments, other) in self.moments.iter_mut().zip(other.moments) {
            moments.join(other);
        }
    }

    fn report(self, samples: &dyn Samples) -> CheckReport {
        let names = samples.class_names();
        let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
        let each = |of: fn(&Moments) -> f64| -> Option<Vec<f64>> {
            let some = self.moments.iter().all(|moments| moments.count > 0.0);
            some.then(|| self.moments.iter().map(of).collect())
        };
        CheckReport {
            name: samples.name().to_owned(),
            samples: samples.len(),
            shape: samples.shape(),
            class_names: (0..samples.classes()).map(name).collect(),
            class_weights: class_weights(&self.counts),
            mean: each(|moments| moments.mean),
            sd: each(|moments| (moments.squares / moments.count).sqrt()),
            bad: self.bad,
            class_counts: self.counts,
        }
    }
}

/// Number, mean, and sum of the squared distances from the mean; joined without cancellation
/// (T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(values: &[f32]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
        let squares = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum();
        Moments { count, mean, squares }
    }

    fn join(&mut self, other: Moments) {
        let count = self.count + other.count;
        if count == 0.0 {
            return;
        }
        let distance = other.mean - self.mean;
        self.mean += distance * other.count / count;
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.count = count;
    }
}
