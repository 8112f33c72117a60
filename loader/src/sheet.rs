//! Contact sheets: many samples and their labels in one picture.

use std::io::Cursor;

use font8x8::UnicodeFonts;
use image::{ImageFormat, Rgb, RgbImage};

use crate::bad_samples::decode;
use crate::{LabelKind, SamplePlace, Samples};

/// Pixels between samples, and of a letter.
const GAP: u32 = 4;
const LETTER: u32 = 8;
/// Samples are magnified until their longer side has about this many pixels.
const SIDE: u32 = 64;
/// Larger sheets are mistakes.
const MAX_PIXELS: u64 = 1 << 28;

/// What a contact sheet shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetOptions {
    /// Number of samples, taken at equal distances from the whole data set; 64 by default.
    pub count: usize,
    /// Samples in a row; 8 by default.
    pub columns: usize,
}

impl Default for SheetOptions {
    fn default() -> Self {
        SheetOptions { count: 64, columns: 8 }
    }
}

/// Why there is no contact sheet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// No sample, or no column.
    #[error("nothing to show: {samples} samples in {columns} columns")]
    Nothing {
        /// Samples to show.
        samples: usize,
        /// Columns to show them in.
        columns: usize,
    },
    /// The sheet would be too large.
    #[error("a sheet of {width}x{height} pixels is too large: show fewer samples")]
    TooLarge {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
    },
    /// It could not be encoded.
    #[error("{0}")]
    Encode(String),
}

/// Draws samples with the names of their classes, as a PNG file.
///
/// Three channels are shown as colours, of any other number the one in the middle as grey. Values
/// beyond 0 to 1 are shown from the smallest of the sample, black, to the largest, white. A sample
/// that cannot be had is a red cross. Letters other than those of ASCII and Latin-1 are shown as
/// question marks.
///
/// ```
/// use millrace_loader::sheet::{SheetOptions, contact_sheet};
///
/// let (_, test) = millrace_loader::embedded();
/// let png = contact_sheet(&test, &SheetOptions { count: 6, columns: 3 })?;
/// assert_eq!(png[1..4], *b"PNG");
/// # Ok::<(), millrace_loader::sheet::SheetError>(())
/// ```
///
/// # Errors
/// When there is nothing to show, or the sheet would be too large.
pub fn contact_sheet(samples: &dyn Samples, options: &SheetOptions) -> Result<Vec<u8>, SheetError> {
    let count = options.count.min(samples.len());
    if count == 0 || options.columns == 0 {
        return Err(SheetError::Nothing { samples: count, columns: options.columns });
    }
    let columns = options.columns.min(count);
    let cell = Cell::of(samples.shape());
    let width = columns as u64 * u64::from(cell.width + GAP) + u64::from(GAP);
    let rows = count.div_ceil(columns) as u64;
    let height = rows * u64::from(cell.height + LETTER + 2 * GAP) + u64::from(GAP);
    if width.saturating_mul(height) > MAX_PIXELS {
        return Err(SheetError::TooLarge { width, height });
    }
    let mut sheet = RgbImage::from_pixel(width as u32, height as u32, Rgb([255; 3]));
    let mut values = vec![0.0; samples.sample_len()];
    let mut labels = vec![0; samples.label_kind().per_sample()];
    for shown in 0..count {
        let index = shown * samples.len() / count;
        let left = GAP + (shown % columns) as u32 * (cell.width + GAP);
        let top = GAP + (shown / columns) as u32 * (cell.height + LETTER + 2 * GAP);
        let place = SamplePlace { epoch: 0, index };
        let good = decode(samples, place, &mut values, &mut labels).is_ok();
        let text = if good {
            cell.draw(&mut sheet, left, top, &values);
            label(samples, index, &labels)
        } else {
            cell.cross_out(&mut sheet, left, top);
            format!("{index} bad")
        };
        cell.write(&mut sheet, left, top + cell.height + 2, &text);
    }
    let mut file = Cursor::new(Vec::new());
    sheet
        .write_to(&mut file, ImageFormat::Png)
        .map_err(|error| SheetError::Encode(error.to_string()))?;
    Ok(file.into_inner())
}

/// The class of a sample; of one with labels for its pixels its index.
fn label(samples: &dyn Samples, index: usize, labels: &[u8]) -> String {
    match samples.label_kind() {
        LabelKind::Sample => {
            let class = usize::from(labels[0]);
            samples.class_names().get(class).cloned().unwrap_or_else(|| class.to_string())
        }
        LabelKind::Pixel { .. } => format!("#{index}"),
    }
}

/// The place of a sample on the sheet.
struct Cell {
    shape: [usize; 3],
    /// How many times a pixel is repeated in each direction.
    times: u32,
    width: u32,
    height: u32,
}

impl Cell {
    fn of(shape: [usize; 3]) -> Self {
        let [_, height, width] = shape.map(|size| u32::try_from(size).unwrap_or(u32::MAX / 4));
        let times = (SIDE / width.max(height).max(1)).max(1);
        let (width, height) = (width.saturating_mul(times), height.saturating_mul(times));
        Cell { shape, times, width: width.min(u32::MAX / 4), height: height.min(u32::MAX / 4) }
    }

    fn draw(&self, sheet: &mut RgbImage, left: u32, top: u32, values: &[f32]) {
        let [channels, height, width] = self.shape;
        let least = values.iter().copied().fold(0.0, f32::min);
        let most = values.iter().copied().fold(1.0, f32::max);
        let level = |value: f32| ((value - least) / (most - least) * 255.0).round() as u8;
        for y in 0..self.height {
            for x in 0..self.width {
                let place = (y / self.times) as usize * width + (x / self.times) as usize;
                let at = |channel: usize| level(values[channel * height * width + place]);
                let pixel = match channels {
                    3 => [at(0), at(1), at(2)],
                    _ => [at(channels / 2); 3],
                };
                sheet.put_pixel(left + x, top + y, Rgb(pixel));
            }
        }
    }

    fn cross_out(&self, sheet: &mut RgbImage, left: u32, top: u32) {
        for x in 0..self.width {
            let y = x * self.height / self.width;
            for y in [y, self.height - 1 - y] {
                sheet.put_pixel(left + x, top + y, Rgb([220, 0, 0]));
            }
        }
    }

    fn write(&self, sheet: &mut RgbImage, left: u32, top: u32, text: &str) {
        for (i, letter) in (0..self.width / LETTER).zip(text.chars()) {
            let basic = font8x8::BASIC_FONTS.get(letter);
            let rows = basic.or_else(|| font8x8::LATIN_FONTS.get(letter));
            let question = || font8x8::BASIC_FONTS.get('?');
            let rows = rows.or_else(question).unwrap_or_default();
            for (y, row) in (0..).zip(rows) {
                for x in (0..LETTER).filter(|x| row >> x & 1 == 1) {
                    sheet.put_pixel(left + i * LETTER + x, top + y, Rgb([0; 3]));
                }
            }
        }
    }
}
