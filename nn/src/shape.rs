//! The shape of one sample between two layers.

use std::fmt;

use crate::NnError;

/// The shape of one sample: an image or a row of features. A batch of `n` samples is `n` times
/// [`len`](Shape::len) values, sample after sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Planes of `height` rows of `width` values. Loaders store them plane by plane, layers place by
    /// place with the channels innermost; see [`layer`](crate::layer).
    Image {
        /// Number of planes.
        channels: usize,
        /// Rows of a plane.
        height: usize,
        /// Values of a row.
        width: usize,
    },
    /// A row of values without places.
    Features(usize),
}

impl Shape {
    /// The shape of an image.
    ///
    /// ```
    /// # use millrace_nn::Shape;
    /// assert_eq!(Shape::image(4, 13, 13).to_string(), "4x13x13");
    /// assert_eq!(Shape::image(4, 13, 13).len(), 676);
    /// ```
    pub const fn image(channels: usize, height: usize, width: usize) -> Self {
        Self::Image { channels, height, width }
    }

    /// Number of values of one sample; `usize::MAX` when it does not fit.
    pub const fn len(&self) -> usize {
        match *self {
            Self::Image { channels, height, width } => {
                channels.saturating_mul(height).saturating_mul(width)
            }
            Self::Features(features) => features,
        }
    }

    /// Whether a sample has no values at all. No layer accepts such a shape.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Channels, height and width, or the error that `layer` wants an image.
    pub(crate) fn as_image(&self, layer: &str) -> Result<[usize; 3], NnError> {
        match *self {
            Self::Image { channels, height, width } if !self.is_empty() => {
                self.check_size(layer)?;
                Ok([channels, height, width])
            }
            _ => Err(NnError::shape(layer, *self, "an image (channels x height x width)")),
        }
    }

    /// The number of features, or the error that `layer` wants features.
    pub(crate) fn as_features(&self, layer: &str) -> Result<usize, NnError> {
        match *self {
            Self::Features(features) if features > 0 => {
                self.check_size(layer)?;
                Ok(features)
            }
            Self::Image { .. } => {
                Err(NnError::shape(layer, *self, "a row of features (put a flatten layer before)"))
            }
            Self::Features(_) => Err(NnError::shape(layer, *self, "a row of features")),
        }
    }

    /// Refuses shapes of which no layer can work on a sample.
    pub(crate) fn check_values(&self, layer: &str) -> Result<(), NnError> {
        if self.is_empty() {
            return Err(NnError::shape(layer, *self, "at least one value"));
        }
        self.check_size(layer)
    }

    /// Refuses shapes whose buffers could not be addressed, so that later products cannot overflow.
    pub(crate) fn check_size(&self, layer: &str) -> Result<(), NnError> {
        if self.len() > MAX_LEN {
            return Err(NnError::shape(layer, *self, format!("at most {MAX_LEN} values")));
        }
        Ok(())
    }
}

/// Largest number of values of a sample or a parameter: with `f64` and a batch of 2^15 samples the
/// bytes still fit an `isize`.
pub(crate) const MAX_LEN: usize = 1 << (usize::BITS - 20);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { channels, height, width } => write!(f, "{channels}x{height}x{width}"),
            Self::Features(features) => write!(f, "{features}"),
        }
    }
}
