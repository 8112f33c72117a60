//! From pixels as they are stored to the values of a sample: transparency, size, orientation,
//! colours.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::metadata::Orientation;

use super::fault::ImageFault;
use super::options::{Colours, Fit, ImageOptions};
use super::raster::{Channels, Depth, Raster};

/// Room to work in, kept from image to image.
#[derive(Default)]
pub(super) struct Workspace {
    /// Opaque pixels, where they are not used as they are stored.
    opaque: Vec<f32>,
    bytes: Vec<u8>,
    floats: Vec<f32>,
    resizer: Resizer,
}

impl Workspace {
    /// Fills `values`, a sample of `size` = [height, width].
    pub(super) fn convert(
        &mut self,
        raster: Raster,
        pixels: &[u8],
        size: [usize; 2],
        options: &ImageOptions,
        values: &mut [f32],
    ) -> Result<(), ImageFault> {
        let orientation =
            if options.orient { raster.orientation } else { Orientation::NoTransforms };
        // The size before the image is turned.
        let [height, width] = if swaps(orientation) { [size[1], size[0]] } else { size };
        let out = Planes { height, width, orientation, colours: options.colours };
        let opaque = !raster.channels.has_alpha();
        if opaque && raster.depth == Depth::Byte {
            let kind =
                [PixelType::U8, PixelType::U8x3][usize::from(raster.channels == Channels::Rgb)];
            let target = Size { height, width, fit: options.fit };
            let count = raster.channels.count();
            let sized = if target.is_size_of(raster) {
                pixels
            } else {
                grow(&mut self.bytes, height * width * count);
                target.resize(&mut self.resizer, raster, kind, pixels, &mut self.bytes)?;
                &self.bytes
            };
            out.write(sized, count, |byte| f32::from(byte) / 255.0, values);
            return Ok(());
        }
        self.make_opaque(raster, pixels, options.background);
        let count = if raster.channels.count() > 2 { 3 } else { 1 };
        let kind = if count == 3 { PixelType::F32x3 } else { PixelType::F32 };
        let target = Size { height, width, fit: options.fit };
        let sized: &[f32] = if target.is_size_of(raster) {
            &self.opaque
        } else {
            grow(&mut self.floats, height * width * count);
            let (from, to) =
                (bytemuck::cast_slice(&self.opaque), bytemuck::cast_slice_mut(&mut self.floats));
            target.resize(&mut self.resizer, raster, kind, from, to)?;
            &self.floats
        };
        out.write(sized, count, |value| value, values);
        Ok(())
    }

    /// Values from 0 to 1, laid over the background.
    fn make_opaque(&mut self, raster: Raster, pixels: &[u8], background: [u8; 3]) {
        let background = background.map(|byte| f32::from(byte) / 255.0);
        let grey = luma(background);
        let channels = raster.channels;
        let out = &mut self.opaque;
        out.clear();
        match raster.depth {
            Depth::Byte => {
                let values = pixels.iter().map(|&byte| f32::from(byte) / 255.0);
                lay_over(values, channels, background, grey, out);
            }
            Depth::Word => {
                let words = pixels.chunks_exact(2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
                let values = words.map(|word| f32::from(word) / 65535.0);
                lay_over(values, channels, background, grey, out);
            }
            Depth::Float => {
                let floats =
                    pixels.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                lay_over(floats, channels, background, grey, out);
            }
        }
    }
}

fn lay_over(
    mut values: impl Iterator<Item = f32>,
    channels: Channels,
    background: [f32; 3],
    grey: f32,
    out: &mut Vec<f32>,
) {
    let over = |value: f32, alpha: f32, behind: f32| value * alpha + behind * (1.0 - alpha);
    match channels {
        Channels::Grey | Channels::Rgb => out.extend(values),
        Channels::GreyAlpha => {
            while let (Some(value), Some(alpha)) = (values.next(), values.next()) {
                out.push(over(value, alpha, grey));
            }
        }
        Channels::RgbAlpha => {
            while let (Some(r), Some(g), Some(b), Some(alpha)) =
                (values.next(), values.next(), values.next(), values.next())
            {
                let pixel = [r, g, b];
                out.extend((0..3).map(|i| over(pixel[i], alpha, background[i])));
            }
        }
    }
}

/// The size that an image is to have before it is turned.
#[derive(Clone, Copy)]
struct Size {
    height: usize,
    width: usize,
    fit: Fit,
}

impl Size {
    fn is_size_of(self, raster: Raster) -> bool {
        (raster.height as usize, raster.width as usize) == (self.height, self.width)
    }

    /// Averages over as many pixels as become one, with the weights of a triangle.
    fn resize(
        self,
        resizer: &mut Resizer,
        raster: Raster,
        kind: PixelType,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<(), ImageFault> {
        let damaged = |detail: String| ImageFault::Damaged { format: "image", detail };
        let from = ImageRef::new(raster.width, raster.height, from, kind)
            .map_err(|error| damaged(error.to_string()))?;
        // A sample's sides fit 32 bits, or it would not be in memory.
        let mut to = Image::from_slice_u8(self.width as u32, self.height as u32, to, kind)
            .map_err(|error| damaged(error.to_string()))?;
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
            .use_alpha(false);
        let options = match self.fit {
            Fit::Stretch => options,
            Fit::Crop => options.fit_into_destination(None),
        };
        resizer.resize(&from, &mut to, &options).map_err(|error| damaged(error.to_string()))
    }
}

fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    buffer.clear();
    buffer.resize(len, T::default());
}

fn luma([r, g, b]: [f32; 3]) -> f32 {
    0.299 * r + 0.587 * g + 0.114 * b
}

/// Whether height and width change places.
pub(super) fn swaps(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// How interleaved pixels become the planes of a sample.
struct Planes {
    /// Of the image as it is stored.
    height: usize,
    width: usize,
    orientation: Orientation,
    colours: Colours,
}

impl Planes {
    fn write<T: Copy>(
        &self,
        pixels: &[T],
        channels: usize,
        value: impl Fn(T) -> f32,
        values: &mut [f32],
    ) {
        let plane = self.height * self.width;
        if self.colours == Colours::Grey && channels == 3 {
            self.fill(values, |at| {
                let pixel = &pixels[3 * at..][..3];
                luma([value(pixel[0]), value(pixel[1]), value(pixel[2])])
            });
            return;
        }
        for (channel, values) in values.chunks_exact_mut(plane).enumerate() {
            let channel = channel % channels;
            self.fill(values, |at| value(pixels[channels * at + channel]));
        }
    }

    /// Fills a plane, turned; `of` gives the value of a stored pixel by its place.
    fn fill(&self, plane: &mut [f32], of: impl Fn(usize) -> f32) {
        let (bottom, right) = (self.height - 1, self.width - 1);
        let row = self.width;
        let turned_width = if swaps(self.orientation) { self.height } else { self.width };
        let at = |y: usize, x: usize| match self.orientation {
            Orientation::NoTransforms => y * row + x,
            Orientation::FlipHorizontal => y * row + right - x,
            Orientation::FlipVertical => (bottom - y) * row + x,
            Orientation::Rotate180 => (bottom - y) * row + right - x,
            Orientation::Rotate90 => (bottom - x) * row + y,
            Orientation::Rotate270 => x * row + right - y,
            Orientation::Rotate90FlipH => x * row + y,
            Orientation::Rotate270FlipH => (bottom - x) * row + right - y,
        };
        for (y, values) in plane.chunks_exact_mut(turned_width).enumerate() {
            for (x, value) in values.iter_mut().enumerate() {
                *value = of(at(y, x));
            }
        }
    }
}
