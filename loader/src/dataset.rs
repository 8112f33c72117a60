//! Samples in memory: images as bytes, with a label each.

use std::fmt;

use crate::error::DataError;

/// Labelled images of one size, in memory.
///
/// Invariants: there are as many images as labels, each label is below the number of classes,
/// and a sample index fits 32 bits. An empty data set is one; a loader over it ends at once.
///
/// ```
/// use millrace_loader::Dataset;
///
/// // Two images of one channel, one row and three columns.
/// let set = Dataset::new("tiny", [1, 1, 3], vec![0, 1, 2, 3, 4, 5], vec![1, 0], 2)?;
/// assert_eq!(set.len(), 2);
/// assert_eq!(set.image(1), [3, 4, 5]);
/// # Ok::<(), millrace_loader::DataError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Dataset {
    name: String,
    shape: [usize; 3],
    images: Vec<u8>,
    labels: Vec<u8>,
    classes: usize,
    class_names: Vec<String>,
}

impl Dataset {
    /// A data set of samples with `shape` = [channels, height, width].
    ///
    /// `images` holds samples x channels x height x width values, width fastest.
    ///
    /// # Errors
    /// When an image would have no pixel ([`DataError::Shape`]), images and labels do not match
    /// in number ([`DataError::Lengths`]), a label is not below `classes`
    /// ([`DataError::Label`]), or there are too many ([`DataError::TooMany`]).
    pub fn new(
        name: impl Into<String>,
        shape: [usize; 3],
        images: Vec<u8>,
        labels: Vec<u8>,
        classes: usize,
    ) -> Result<Self, DataError> {
        let name = name.into();
        let samples = labels.len();
        let sample_len = shape.iter().fold(1usize, |product, &n| product.saturating_mul(n));
        if sample_len == 0 {
            return Err(DataError::Shape { name, shape });
        }
        if sample_len.checked_mul(samples) != Some(images.len()) {
            return Err(DataError::Lengths {
                name,
                labels: samples,
                pixels: images.len(),
                sample_len,
            });
        }
        if u32::try_from(samples).is_err() {
            return Err(DataError::TooMany { name, samples });
        }
        if let Some(index) = labels.iter().position(|&label| usize::from(label) >= classes) {
            return Err(DataError::Label { name, index, label: labels[index], classes });
        }
        Ok(Dataset { name, shape, images, labels, classes, class_names: Vec::new() })
    }

    /// What the data set is called in messages and tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Channels, height and width of an image.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Number of values of an image: channels x height x width.
    pub fn sample_len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of classes; every label is below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The name of each class, or nothing where they have none.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// The same data set, whose classes have these names.
    ///
    /// # Panics
    /// When there are not as many names as classes.
    #[must_use]
    pub fn with_class_names(mut self, names: Vec<String>) -> Self {
        assert_eq!(names.len(), self.classes, "names of classes");
        self.class_names = names;
        self
    }

    /// All images: samples x channels x height x width, width fastest.
    pub fn images(&self) -> &[u8] {
        &self.images
    }

    /// All labels, one for each sample.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// One image: channels x height x width.
    ///
    /// # Panics
    /// When `index` is not below [`Dataset::len`].
    pub fn image(&self, index: usize) -> &[u8] {
        assert!(index < self.len(), "sample {index} of {}", self.len());
        let len = self.sample_len();
        &self.images[index * len..][..len]
    }

    /// Keeps the first `samples` samples and frees the memory of the others; keeps all when
    /// there are no more than that.
    pub fn truncate(&mut self, samples: usize) {
        if samples < self.len() {
            self.images.truncate(samples * self.sample_len());
            self.images.shrink_to_fit();
            self.labels.truncate(samples);
            self.labels.shrink_to_fit();
        }
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("name", &self.name)
            .field("samples", &self.len())
            .field("shape", &self.shape)
            .field("classes", &self.classes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(shape: [usize; 3], images: usize, labels: &[u8]) -> String {
        let images = vec![0; images];
        Dataset::new("s", shape, images, labels.to_vec(), 3).unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_go_together() {
        assert_eq!(
            error([1, 2, 3], 11, &[0, 1]),
            r#"data set "s": 2 labels and 11 pixels do not go together: a sample has 6 pixels"#
        );
        assert_eq!(
            error([1, 2, 3], 12, &[0, 3]),
            r#"data set "s": sample 1 has label 3, but there are 3 classes"#
        );
        assert_eq!(error([1, 0, 3], 0, &[0]), r#"data set "s": images of 1 x 0 x 3 have no pixel"#);
        let huge = error([usize::MAX, usize::MAX, 2], 1, &[0, 1]);
        assert!(huge.contains("do not go together"), "{huge}");
    }

    #[test]
    fn empty_is_a_data_set() {
        let set = Dataset::new("s", [1, 2, 2], vec![], vec![], 3).unwrap();
        assert!(set.is_empty());
        assert_eq!(
            format!("{set:?}"),
            r#"Dataset { name: "s", samples: 0, shape: [1, 2, 2], classes: 3, .. }"#
        );
    }
}
