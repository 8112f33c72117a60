//! What images are to become.

/// How images become samples.
///
/// ```
/// use millrace_loader::images::{Colours, ImageOptions};
///
/// let options = ImageOptions {
///     size: Some([64, 64]),
///     colours: Colours::Grey,
///     ..ImageOptions::default()
/// };
/// assert_eq!(options.background, [255, 255, 255]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOptions {
    /// Height and width that every image is resized to, in pixels; those of the first image of
    /// the data set by default.
    pub size: Option<[usize; 2]>,
    /// Channels of a sample; red, green and blue by default.
    pub colours: Colours,
    /// What becomes of an image of other proportions; it is stretched by default.
    pub fit: Fit,
    /// The colour behind transparent pixels: red, green and blue; white by default.
    pub background: [u8; 3],
    /// Whether an image is turned as its EXIF orientation says; so by default.
    pub orient: bool,
    /// The most pixels that an image may have before it is resized; 2^26 by default, which is
    /// 8192x8192. A header that claims more is an error before anything is allocated.
    pub max_pixels: u64,
}

impl Default for ImageOptions {
    fn default() -> Self {
        ImageOptions {
            size: None,
            colours: Colours::Rgb,
            fit: Fit::Stretch,
            background: [255; 3],
            orient: true,
            max_pixels: 1 << 26,
        }
    }
}

/// Channels of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// One channel. Of colours, the luma of ITU-R BT.601: 0.299 red, 0.587 green, 0.114 blue.
    Grey,
    /// Red, green and blue. Of grey images, three times the same.
    Rgb,
}

impl Colours {
    /// Number of channels.
    pub fn channels(self) -> usize {
        match self {
            Colours::Grey => 1,
            Colours::Rgb => 3,
        }
    }
}

/// What becomes of an image whose proportions are not those of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The whole image, stretched.
    Stretch,
    /// The largest part in the middle that has the proportions of a sample.
    Crop,
}
