//! What a loader needs of a data set, wherever its samples come from.

use std::fmt;

use crate::Dataset;
use crate::error::DataError;

/// Which sample is wanted, and in which epoch.
///
/// What a data set makes of a sample depends on its own settings and on this, and on nothing
/// else: not on time, not on the worker, not on what was decoded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplePlace {
    /// The epoch, counted from 0.
    pub epoch: u32,
    /// Index of the sample in the data set.
    pub index: usize,
}

/// What is labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelKind {
    /// Each sample is of one class.
    Sample,
    /// Each pixel, or voxel, of a sample is of a class.
    Pixel {
        /// Labels of a sample.
        labels: usize,
    },
}

impl LabelKind {
    /// Labels of a sample.
    pub fn per_sample(self) -> usize {
        match self {
            LabelKind::Sample => 1,
            LabelKind::Pixel { labels } => labels,
        }
    }
}

/// Labelled samples of one shape that can be asked for one by one, from several threads at once.
///
/// A loader's tasks decode each sample straight into its place in the batch. A data set that
/// needs room to work in keeps it between calls, so that decoding allocates nothing once each
/// thread has been there.
///
/// ```
/// use millrace_loader::{DataError, LabelKind, SamplePlace, Samples};
///
/// /// Sample `i` of class `i % 2` has the value `i` everywhere.
/// #[derive(Debug)]
/// struct Counted;
///
/// impl Samples for Counted {
///     fn name(&self) -> &str {
///         "counted"
///     }
///     fn len(&self) -> usize {
///         100
///     }
///     fn shape(&self) -> [usize; 3] {
///         [1, 2, 2]
///     }
///     fn classes(&self) -> usize {
///         2
///     }
///     fn decode(
///         &self,
///         place: SamplePlace,
///         values: &mut [f32],
///         labels: &mut [u8],
///     ) -> Result<(), DataError> {
///         values.fill(place.index as f32);
///         labels.fill((place.index % 2) as u8);
///         Ok(())
///     }
/// }
///
/// assert_eq!((Counted.sample_len(), Counted.label_kind()), (4, LabelKind::Sample));
/// ```
pub trait Samples: fmt::Debug + Send + Sync {
    /// What the data set is called in messages and tables.
    fn name(&self) -> &str;

    /// Number of samples; fits 32 bits.
    fn len(&self) -> usize;

    /// Whether there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Channels, height and width of a sample; for a volume depth, height and width.
    fn shape(&self) -> [usize; 3];

    /// Number of values of a sample.
    fn sample_len(&self) -> usize {
        self.shape().iter().product()
    }

    /// What is labelled: each sample, unless said otherwise.
    fn label_kind(&self) -> LabelKind {
        LabelKind::Sample
    }

    /// Number of classes, at most 256; every label is below it.
    fn classes(&self) -> usize;

    /// The name of each class, or nothing where they have none.
    fn class_names(&self) -> &[String] {
        &[]
    }

    /// The class of sample `index`, where it is known without decoding the sample.
    ///
    /// # Panics
    /// When there is no such sample.
    fn label(&self, index: usize) -> Option<u8> {
        let _ = index;
        None
    }

    /// What sample `index` is called in messages.
    fn sample_name(&self, index: usize) -> String {
        format!("sample {index} of {}", self.name())
    }

    /// Decodes a sample into `values`, [`sample_len`](Samples::sample_len) of them, width
    /// fastest, and its labels into `labels`, as many as [`label_kind`](Samples::label_kind)
    /// says.
    ///
    /// What is in the slices when the call fails does not matter.
    ///
    /// # Errors
    /// When the sample cannot be had; the message names its file.
    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError>;
}

/// Bytes become values from 0 to 1.
impl Samples for Dataset {
    fn name(&self) -> &str {
        Dataset::name(self)
    }

    fn len(&self) -> usize {
        Dataset::len(self)
    }

    fn shape(&self) -> [usize; 3] {
        Dataset::shape(self)
    }

    fn classes(&self) -> usize {
        Dataset::classes(self)
    }

    fn class_names(&self) -> &[String] {
        Dataset::class_names(self)
    }

    fn label(&self, index: usize) -> Option<u8> {
        Some(self.labels()[index])
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        scale(self.image(place.index), values);
        labels[0] = self.labels()[place.index];
        Ok(())
    }
}

/// Scales 0..=255 to 0..=1: each value is the 32-bit number nearest to pixel / 255.
pub(crate) fn scale(pixels: &[u8], values: &mut [f32]) {
    for (value, &pixel) in values.iter_mut().zip(pixels) {
        *value = f32::from(pixel) / 255.0;
    }
}
