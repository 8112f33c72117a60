//! Parts of a data set: a share for validation, a share for each rank, the good samples.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::error::DataError;
use crate::order::permute;
use crate::{LabelKind, SamplePlace, Samples};

/// Some samples of a data set, in a given order.
///
/// ```
/// use std::sync::Arc;
///
/// use millrace_loader::{Samples, Subset, embedded};
///
/// let (_, test) = embedded();
/// let test: Arc<dyn Samples> = Arc::new(test);
/// // Every third sample, beginning with the second: what rank 1 of 3 works on.
/// let shard = Subset::shard(test.clone(), 1, 3)?;
/// assert_eq!((shard.len(), &shard.indices()[..3]), (333, &[1, 4, 7][..]));
/// # Ok::<(), millrace_loader::SplitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset {
    samples: Arc<dyn Samples>,
    indices: Arc<[u32]>,
}

/// Why a data set cannot be divided like that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// An index that is no sample's.
    #[error("sample {index} of {name:?}, which has {samples}")]
    Index {
        /// Name of the data set.
        name: String,
        /// The index.
        index: u32,
        /// Samples of the data set.
        samples: usize,
    },
    /// A share that is none.
    #[error("a share of {fraction}: it is above 0 and below 1")]
    Fraction {
        /// What was asked for.
        fraction: f64,
    },
    /// A rank that is none.
    #[error("rank {rank} of {ranks}: ranks are counted from 0")]
    Rank {
        /// What was asked for.
        rank: usize,
        /// How many there are.
        ranks: usize,
    },
    /// The classes are not known before the samples are decoded.
    #[error("{name:?}: the class of a sample is not known before it is decoded")]
    Labels {
        /// Name of the data set.
        name: String,
    },
}

impl Subset {
    /// The samples with these indices; one may come more than once.
    ///
    /// # Errors
    /// For the first index that is no sample's.
    pub fn new(samples: Arc<dyn Samples>, indices: Vec<u32>) -> Result<Self, SplitError> {
        let len = samples.len();
        match indices.iter().find(|&&index| index as usize >= len) {
            None => Ok(Subset { samples, indices: indices.into() }),
            Some(&index) => {
                Err(SplitError::Index { name: samples.name().to_owned(), index, samples: len })
            }
        }
    }

    /// All samples but these: the good ones, where `bad` are those that a
    /// [`check`](crate::check::check) found.
    pub fn without(samples: Arc<dyn Samples>, bad: &[usize]) -> Self {
        let bad: std::collections::BTreeSet<usize> = bad.iter().copied().collect();
        let indices = (0..samples.len()).filter(|index| !bad.contains(index));
        let indices = indices.map(|index| index as u32).collect();
        Subset { samples, indices }
    }

    /// What rank `rank` of `ranks` works on: the samples `rank`, `rank + ranks`, and so on. No
    /// sample is in two shards, each is in one, and their lengths differ by at most one.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn shard(samples: Arc<dyn Samples>, rank: usize, ranks: usize) -> Result<Self, SplitError> {
        if rank >= ranks {
            return Err(SplitError::Rank { rank, ranks });
        }
        let indices = (rank..samples.len()).step_by(ranks).map(|index| index as u32).collect();
        Ok(Subset { samples, indices })
    }

    /// Divides a data set at random, the second part having `fraction` of the samples, rounded;
    /// both keep the order of the data set. The division depends on the number of samples, the
    /// fraction and the seed alone.
    ///
    /// # Errors
    /// When `fraction` is not above 0 and below 1.
    pub fn split(
        samples: &Arc<dyn Samples>,
        fraction: f64,
        seed: u64,
    ) -> Result<(Self, Self), SplitError> {
        let all = (0..samples.len()).map(|index| index as u32).collect();
        divide(samples, vec![all], fraction, seed)
    }

    /// As [`split`](Subset::split), but class by class, so that both parts have the classes in
    /// the same shares, as far as that can be.
    ///
    /// # Errors
    /// As [`split`](Subset::split), and when the data set does not know its classes without
    /// decoding ([`Samples::label`]).
    pub fn split_stratified(
        samples: &Arc<dyn Samples>,
        fraction: f64,
        seed: u64,
    ) -> Result<(Self, Self), SplitError> {
        let mut classes = vec![Vec::new(); samples.classes()];
        for index in 0..samples.len() {
            let class = samples.label(index).and_then(|label| classes.get_mut(usize::from(label)));
            let Some(class) = class else {
                return Err(SplitError::Labels { name: samples.name().to_owned() });
            };
            class.push(index as u32);
        }
        divide(samples, classes, fraction, seed)
    }

    /// Index of each sample in the data set that this is a part of.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// Divides each group; a part of the second takes the rounding of those before it along, so that
/// the whole is rounded once.
fn divide(
    samples: &Arc<dyn Samples>,
    groups: Vec<Vec<u32>>,
    fraction: f64,
    seed: u64,
) -> Result<(Subset, Subset), SplitError> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(SplitError::Fraction { fraction });
    }
    let mut numbers = ChaCha8Rng::seed_from_u64(seed);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for mut group in groups {
        permute(&mut numbers, &mut group);
        seen += group.len();
        let wanted = (seen as f64 * fraction).round() as usize;
        let taken = wanted.saturating_sub(second.len()).min(group.len());
        first.extend(&group[taken..]);
        second.extend(&group[..taken]);
    }
    first.sort();
    second.sort();
    let part = |indices: Vec<u32>| Subset { samples: samples.clone(), indices: indices.into() };
    Ok((part(first), part(second)))
}

impl Samples for Subset {
    fn name(&self) -> &str {
        self.samples.name()
    }

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.samples.shape()
    }

    fn label_kind(&self) -> LabelKind {
        self.samples.label_kind()
    }

    fn classes(&self) -> usize {
        self.samples.classes()
    }

    fn class_names(&self) -> &[String] {
        self.samples.class_names()
    }

    fn label(&self, index: usize) -> Option<u8> {
        self.samples.label(self.indices[index] as usize)
    }

    fn sample_name(&self, index: usize) -> String {
        self.samples.sample_name(self.indices[index] as usize)
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        let index = self.indices[place.index] as usize;
        self.samples.decode(SamplePlace { index, ..place }, values, labels)
    }
}
