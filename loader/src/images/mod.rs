//! Images: from a file to the values of a sample.
//!
//! PNG, JPEG, WebP, BMP, GIF and TIFF are read; the content of a file decides what it is, never
//! its name. What is done, in this order:
//!
//! 1. The header is read, and refused if it claims more pixels than
//!    [`ImageOptions::max_pixels`]; nothing is allocated for its claim before that.
//! 2. The first image of the file is decoded (of an animation the first frame). JPEG is decoded
//!    strictly: a file that ends early is an error.
//! 3. Palettes and CMYK become red, green and blue. Numbers of 16 bits keep their depth, and
//!    are scaled by 65535. Colour profiles are not applied.
//! 4. Transparent pixels are laid over [`ImageOptions::background`].
//! 5. The image is resized, if its size is another: a pixel is the mean of those that become
//!    it, weighted by a triangle (bilinear with antialiasing).
//! 6. It is turned by its EXIF orientation, and written as planes of values from 0 to 1.

mod convert;
mod fault;
mod options;
mod raster;

use std::fmt;
use std::io::Read;
use std::path::Path;

use convert::{Workspace, swaps};
pub use fault::ImageFault;
pub use options::{Colours, Fit, ImageOptions};

use crate::error::DataError;
use crate::input::open_file;

/// Decodes one image after the other, in memory that it keeps.
///
/// ```
/// use millrace_loader::images::{ImageOptions, ImageReader};
///
/// // A BMP file of one pixel, blue.
/// let mut file = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
/// file.extend([0; 24]);
/// file.extend([255, 0, 0, 0]);
///
/// let mut reader = ImageReader::new([2, 2], ImageOptions::default());
/// let mut values = [0.5; 3 * 2 * 2];
/// reader.decode(&file, &mut values)?;
/// assert_eq!(values, [0., 0., 0., 0., 0., 0., 0., 0., 1., 1., 1., 1.]);
/// # Ok::<(), millrace_loader::images::ImageFault>(())
/// ```
pub struct ImageReader {
    size: [usize; 2],
    options: ImageOptions,
    file: Vec<u8>,
    pixels: Vec<u8>,
    workspace: Workspace,
}

impl fmt::Debug for ImageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageReader").field("size", &self.size).finish_non_exhaustive()
    }
}

impl ImageReader {
    /// A reader that makes every image `size` = [height, width]; the size in `options` does not
    /// count.
    pub fn new(size: [usize; 2], options: ImageOptions) -> Self {
        ImageReader {
            size,
            options,
            file: Vec::new(),
            pixels: Vec::new(),
            workspace: Workspace::default(),
        }
    }

    /// Decodes an image in memory into `values`: channels x height x width, from 0 to 1.
    ///
    /// # Errors
    /// The [`ImageFault`] that the image has.
    ///
    /// # Panics
    /// When `values` is not as long as that.
    pub fn decode(&mut self, file: &[u8], values: &mut [f32]) -> Result<(), ImageFault> {
        let [height, width] = self.size;
        assert_eq!(values.len(), self.options.colours.channels() * height * width);
        let raster = raster::read(file, self.options.max_pixels, Some(&mut self.pixels))?;
        self.workspace.convert(raster, &self.pixels, self.size, &self.options, values)
    }

    /// Decodes the image in a file; as [`decode`](ImageReader::decode).
    ///
    /// # Errors
    /// [`DataError::Read`] when the system cannot read it, [`DataError::Image`] when it has a
    /// fault.
    ///
    /// # Panics
    /// As [`decode`](ImageReader::decode).
    pub fn decode_file(&mut self, path: &Path, values: &mut [f32]) -> Result<(), DataError> {
        let mut file = std::mem::take(&mut self.file);
        let result = read_file(path, self.options.max_pixels, &mut file)
            .and_then(|()| self.decode(&file, values).map_err(|fault| at(path, fault)));
        self.file = file;
        result
    }
}

/// Height and width of the image in a file, as it is turned.
pub(crate) fn size_of_file(path: &Path, options: &ImageOptions) -> Result<[usize; 2], DataError> {
    let mut file = Vec::new();
    read_file(path, options.max_pixels, &mut file)?;
    let raster = raster::read(&file, options.max_pixels, None).map_err(|fault| at(path, fault))?;
    let [height, width] = [raster.height as usize, raster.width as usize];
    let turned = options.orient && swaps(raster.orientation);
    Ok(if turned { [width, height] } else { [height, width] })
}

fn at(path: &Path, fault: ImageFault) -> DataError {
    DataError::Image { file: path.to_owned(), fault }
}

/// Reads a file that is not longer than the largest image would be.
fn read_file(path: &Path, max_pixels: u64, bytes: &mut Vec<u8>) -> Result<(), DataError> {
    let limit = max_pixels.saturating_mul(8).saturating_add(1 << 20);
    bytes.clear();
    let read = open_file(path)?
        .take(limit.saturating_add(1))
        .read_to_end(bytes)
        .map_err(|source| DataError::Read { file: path.to_owned(), source })?;
    if read as u64 > limit {
        return Err(at(path, ImageFault::TooLong { limit }));
    }
    Ok(())
}
