//! Transforms: what is done to each sample on its way into the batch.
//!
//! [`Transformed`] is a data set over another one. What is drawn for a sample depends on seed,
//! epoch, index and the transform's place in the list, and on nothing else: neither on the
//! worker nor on the loader. Transforms that move pixels move the labels of pixels with them.

mod geometry;
mod random;
mod values;

use std::fmt;
use std::sync::Arc;

use fast_image_resize::Resizer;
use geometry::Picture;
use random::Numbers;

use crate::error::DataError;
use crate::pool::Pool;
use crate::{LabelKind, SamplePlace, Samples};

/// One thing that is done to a sample. What comes in from beyond an edge is 0, which is the mean
/// of a channel once it is normalised.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// (value - mean) / sd, for each channel; a data set's own are measured by
    /// [`check`](crate::check::check).
    Normalise {
        /// The mean of each channel.
        mean: Vec<f32>,
        /// The standard deviation of each channel, above 0.
        sd: Vec<f32>,
    },
    /// As if `pad` zeros were put around, and a part of the old size cut out anywhere.
    PadCrop {
        /// Pixels on each side.
        pad: usize,
    },
    /// Left and right change places, with this probability.
    FlipHorizontal {
        /// From 0 to 1.
        probability: f32,
    },
    /// Top and bottom change places, with this probability.
    FlipVertical {
        /// From 0 to 1.
        probability: f32,
    },
    /// A turn about the middle by up to this angle, either way; bilinear, for labels the nearest.
    Rotate {
        /// In degrees, at least 0.
        degrees: f32,
    },
    /// Another size; bilinear with antialiasing, for labels the nearest.
    Resize {
        /// Height and width, above 0.
        size: [usize; 2],
    },
    /// Brightness, then contrast about the mean luma, then (of three channels) saturation, each
    /// times a factor between 1 minus and 1 plus this; values are kept within 0 to 1.
    ColourJitter {
        /// From 0 to 1.
        brightness: f32,
        /// From 0 to 1.
        contrast: f32,
        /// From 0 to 1.
        saturation: f32,
    },
    /// A square of zeros about any pixel (T. DeVries, G. W. Taylor, "Improved regularization of
    /// convolutional neural networks with Cutout", 2017).
    Cutout {
        /// Its side, in pixels.
        side: usize,
    },
    /// A weighted mean with another sample of the data set, as it is before the transforms; the
    /// weight is of the beta distribution with both parameters `alpha` (H. Zhang et al., "mixup:
    /// beyond empirical risk minimization", 2018). A label is one class, so it stays that of the
    /// sample with the larger weight, which is this one. It has to be the first transform.
    Mixup {
        /// Above 0, at most 1.
        alpha: f32,
    },
}

/// More pixels than this are no padding and no hole.
const MAX_SIDE: usize = 1 << 16;

/// Why a list of transforms does not fit a data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transform {number} ({transform}): {reason}")]
pub struct TransformError {
    /// Its place in the list, from 1.
    pub number: usize,
    /// The transform.
    pub transform: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Transform {
    /// The shape that a sample has after it.
    fn shape(&self, shape: [usize; 3]) -> [usize; 3] {
        match *self {
            Transform::Resize { size: [height, width] } => [shape[0], height, width],
            _ => shape,
        }
    }

    fn check(&self, number: usize, [channels, ..]: [usize; 3]) -> Result<(), TransformError> {
        let share = |value: f32| (0.0..=1.0).contains(&value);
        let reason = match self {
            Transform::Normalise { mean, sd } => {
                if mean.len() != channels || sd.len() != channels {
                    let (mean, sd) = (mean.len(), sd.len());
                    Some(format!("{mean} means and {sd} deviations for {channels} channels"))
                } else if !mean.iter().all(|mean| mean.is_finite()) {
                    Some("a mean is no number".to_owned())
                } else {
                    let sound = sd.iter().all(|sd| sd.is_finite() && *sd > 0.0);
                    (!sound).then(|| "a deviation is not above 0".to_owned())
                }
            }
            Transform::FlipHorizontal { probability } | Transform::FlipVertical { probability } => {
                (!share(*probability)).then(|| "a probability is from 0 to 1".to_owned())
            }
            Transform::Rotate { degrees } => (!(*degrees >= 0.0 && degrees.is_finite()))
                .then(|| "the angle is a number from 0 on".to_owned()),
            Transform::Resize { size } => {
                let sound = size.iter().all(|&side| side > 0 && u32::try_from(side).is_ok());
                (!sound).then(|| "both sides are above 0 and fit 32 bits".to_owned())
            }
            Transform::ColourJitter { brightness, contrast, saturation } => {
                let sound = [brightness, contrast, saturation].into_iter().all(|&part| share(part));
                (!sound).then(|| "each part is from 0 to 1".to_owned())
            }
            Transform::Mixup { alpha } => {
                let sound = *alpha > 0.0 && *alpha <= 1.0;
                match number {
                    1 => (!sound).then(|| "alpha is above 0 and at most 1".to_owned()),
                    _ => Some("it has to be the first transform".to_owned()),
                }
            }
            Transform::PadCrop { pad: pixels } | Transform::Cutout { side: pixels } => {
                (*pixels > MAX_SIDE).then(|| format!("at most {MAX_SIDE} pixels"))
            }
        };
        match reason {
            None => Ok(()),
            Some(reason) => Err(TransformError { number, transform: format!("{self:?}"), reason }),
        }
    }
}

/// A data set whose samples go through transforms, one after the other.
///
/// ```
/// use std::sync::Arc;
///
/// use millrace_loader::transform::{Transform, Transformed};
/// use millrace_loader::{SamplePlace, Samples, embedded};
///
/// let (train, _) = embedded();
/// let transforms = vec![
///     Transform::PadCrop { pad: 2 },
///     Transform::FlipHorizontal { probability: 0.5 },
///     Transform::Normalise { mean: vec![0.286], sd: vec![0.353] },
/// ];
/// let set = Transformed::new(Arc::new(train), transforms, 42)?;
///
/// let sample = |epoch| {
///     let (mut values, mut label) = (vec![0.0; set.sample_len()], [0]);
///     set.decode(SamplePlace { epoch, index: 7 }, &mut values, &mut label).map(|()| values)
/// };
/// assert_eq!(sample(0)?, sample(0)?);
/// assert_ne!(sample(0)?, sample(1)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transformed {
    samples: Arc<dyn Samples>,
    transforms: Vec<Transform>,
    seed: u64,
    shape: [usize; 3],
    label_kind: LabelKind,
    spaces: Pool<Space>,
}

/// Room to work in.
#[derive(Default)]
struct Space {
    values: Vec<f32>,
    labels: Vec<u8>,
    spare: Vec<f32>,
    spare_labels: Vec<u8>,
    resizer: Resizer,
}

impl Transformed {
    /// The samples of `samples` after `transforms`.
    ///
    /// # Errors
    /// For the first transform whose settings make no sense, or do not fit the samples.
    pub fn new(
        samples: Arc<dyn Samples>,
        transforms: Vec<Transform>,
        seed: u64,
    ) -> Result<Self, TransformError> {
        let before = samples.shape();
        let mut shape = before;
        for (number, transform) in (1..).zip(&transforms) {
            transform.check(number, shape)?;
            shape = transform.shape(shape);
        }
        let label_kind = match samples.label_kind() {
            LabelKind::Pixel { labels } if before[1] * before[2] > 0 => {
                LabelKind::Pixel { labels: labels / (before[1] * before[2]) * shape[1] * shape[2] }
            }
            kind => kind,
        };
        Ok(Transformed { samples, transforms, seed, shape, label_kind, spaces: Pool::default() })
    }

    fn apply(&self, space: &mut Space, place: SamplePlace) -> Result<(), DataError> {
        let [channels, height, width] = self.samples.shape();
        let label_kind = self.samples.label_kind();
        space.values.resize(channels * height * width, 0.0);
        space.labels.resize(label_kind.per_sample(), 0);
        self.samples.decode(place, &mut space.values, &mut space.labels)?;
        if let Some(Transform::Mixup { alpha }) = self.transforms.first() {
            self.mix(space, place, *alpha)?;
        }
        let mut picture = Picture {
            height,
            width,
            values: &mut space.values,
            labels: &mut space.labels,
            label_planes: label_kind != LabelKind::Sample,
            spare: &mut space.spare,
            spare_labels: &mut space.spare_labels,
            resizer: &mut space.resizer,
        };
        for (number, transform) in self.transforms.iter().enumerate() {
            let mut numbers = Numbers::new(self.seed, place, number);
            transform.run(&mut picture, channels, &mut numbers);
        }
        Ok(())
    }

    /// Mixes another sample into the values.
    fn mix(&self, space: &mut Space, place: SamplePlace, alpha: f32) -> Result<(), DataError> {
        let mut numbers = Numbers::new(self.seed, place, 0);
        let weight = numbers.beta(alpha);
        let weight = weight.max(1.0 - weight);
        let index = numbers.up_to(self.samples.len() - 1);
        space.spare.resize(space.values.len(), 0.0);
        space.spare_labels.resize(space.labels.len(), 0);
        let other = SamplePlace { index, ..place };
        self.samples.decode(other, &mut space.spare, &mut space.spare_labels)?;
        for (value, other) in space.values.iter_mut().zip(&space.spare) {
            *value = *value * weight + other * (1.0 - weight);
        }
        Ok(())
    }
}

impl Transform {
    fn run(&self, picture: &mut Picture<'_>, channels: usize, numbers: &mut Numbers) {
        match self {
            Transform::Normalise { mean, sd } => values::normalise(picture.values, mean, sd),
            Transform::PadCrop { pad } => {
                let mut shift = || numbers.up_to(2 * pad) as isize - *pad as isize;
                let (down, right) = (shift(), shift());
                picture.shift(down, right);
            }
            Transform::FlipHorizontal { probability } => {
                if numbers.happens(*probability) {
                    picture.flip_horizontally();
                }
            }
            Transform::FlipVertical { probability } => {
                if numbers.happens(*probability) {
                    picture.flip_vertically();
                }
            }
            Transform::Rotate { degrees } => picture.rotate(numbers.within(*degrees).to_radians()),
            Transform::Resize { size: [height, width] } => picture.resize(*height, *width),
            Transform::ColourJitter { brightness, contrast, saturation } => values::jitter(
                picture.values,
                channels,
                [*brightness, *contrast, *saturation],
                numbers,
            ),
            Transform::Cutout { side } => {
                values::cut_out(picture.values, [picture.height, picture.width], *side, numbers);
            }
            // Done before the others: it needs another sample.
            Transform::Mixup { .. } => {}
        }
    }
}

impl fmt::Debug for Transformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transformed")
            .field("samples", &self.samples)
            .field("transforms", &self.transforms)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Samples for Transformed {
    fn name(&self) -> &str {
        self.samples.name()
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn label_kind(&self) -> LabelKind {
        self.label_kind
    }

    fn classes(&self) -> usize {
        self.samples.classes()
    }

    fn class_names(&self) -> &[String] {
        self.samples.class_names()
    }

    fn label(&self, index: usize) -> Option<u8> {
        self.samples.label(index)
    }

    fn sample_name(&self, index: usize) -> String {
        self.samples.sample_name(index)
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        self.spaces.with(Space::default, |space| {
            self.apply(space, place)?;
            values.copy_from_slice(&space.values);
            labels.copy_from_slice(&space.labels);
            Ok(())
        })
    }
}
