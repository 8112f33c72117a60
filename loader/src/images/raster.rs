//! From the bytes of a file to pixels as they are stored in it.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ColorType, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::fault::ImageFault;

/// What decoded pixels are like; channels are interleaved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raster {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) channels: Channels,
    pub(super) depth: Depth,
    pub(super) orientation: Orientation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Grey,
    GreyAlpha,
    Rgb,
    RgbAlpha,
}

impl Channels {
    pub(super) fn count(self) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::GreyAlpha => 2,
            Channels::Rgb => 3,
            Channels::RgbAlpha => 4,
        }
    }

    pub(super) fn has_alpha(self) -> bool {
        matches!(self, Channels::GreyAlpha | Channels::RgbAlpha)
    }
}

/// What a channel is stored as, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// 0 to 255.
    Byte,
    /// 0 to 65535.
    Word,
    /// 0 to 1.
    Float,
}

/// Tells the format from the content.
fn format(bytes: &[u8]) -> Result<ImageFormat, ImageFault> {
    if bytes.is_empty() {
        return Err(ImageFault::Empty);
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(ImageFault::Gzip);
    }
    image::guess_format(bytes)
        .map_err(|_| ImageFault::Unknown { start: bytes[..bytes.len().min(16)].to_owned() })
}

fn check_size(width: u32, height: u32, limit: u64) -> Result<(), ImageFault> {
    if width == 0 || height == 0 {
        return Err(ImageFault::NoPixels { width, height });
    }
    if u64::from(width) * u64::from(height) > limit {
        return Err(ImageFault::TooLarge { width, height, limit });
    }
    Ok(())
}

/// Makes `pixels` exactly `bytes` long.
fn resize(pixels: &mut Vec<u8>, bytes: u64) -> Result<(), ImageFault> {
    let memory = ImageFault::Memory { bytes };
    let Ok(len) = usize::try_from(bytes) else { return Err(memory) };
    pixels.clear();
    pixels.try_reserve(len).map_err(|_| memory)?;
    pixels.resize(len, 0);
    Ok(())
}

/// Reads the first image of a file: its header, and where `pixels` is given its pixels, too, which
/// fill it exactly.
pub(super) fn read(
    bytes: &[u8],
    max_pixels: u64,
    pixels: Option<&mut Vec<u8>>,
) -> Result<Raster, ImageFault> {
    let format = format(bytes)?;
    match format {
        ImageFormat::Jpeg => read_jpeg(bytes, max_pixels, pixels),
        ImageFormat::Png => read_other(bytes, format, "PNG", max_pixels, pixels),
        ImageFormat::WebP => read_other(bytes, format, "WebP", max_pixels, pixels),
        ImageFormat::Bmp => read_other(bytes, format, "BMP", max_pixels, pixels),
        ImageFormat::Gif => read_other(bytes, format, "GIF", max_pixels, pixels),
        ImageFormat::Tiff => read_other(bytes, format, "TIFF", max_pixels, pixels),
        other => Err(ImageFault::Format { format: format!("{other:?}") }),
    }
}

/// Strictly: where `image` fills up what a cut file lacks, this is an error.
fn read_jpeg(
    bytes: &[u8],
    max_pixels: u64,
    pixels: Option<&mut Vec<u8>>,
) -> Result<Raster, ImageFault> {
    let damaged = |error: zune_jpeg::errors::DecodeErrors| ImageFault::Damaged {
        format: "JPEG",
        detail: error.to_string(),
    };
    // The limit on pixels is checked below.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    // Both are 16-bit numbers in the file.
    let (width, height) = (width as u32, height as u32);
    check_size(width, height, max_pixels)?;
    let (channels, space) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (Channels::Grey, ColorSpace::Luma),
        _ => (Channels::Rgb, ColorSpace::RGB),
    };
    let exif = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
    let orientation = exif.unwrap_or(Orientation::NoTransforms);
    if let Some(pixels) = pixels {
        decoder.set_options(options.jpeg_set_out_colorspace(space));
        resize(pixels, u64::from(width) * u64::from(height) * channels.count() as u64)?;
        decoder.decode_into(pixels).map_err(damaged)?;
        if !is_whole_jpeg(bytes) {
            let detail = "the file ends before its end marker".to_owned();
            return Err(ImageFault::Damaged { format: "JPEG", detail });
        }
    }
    Ok(Raster { width, height, channels, depth: Depth::Byte, orientation })
}

/// Whether an end marker follows the last start of a scan; the decoder forgives a file that lacks
/// the last few bytes. Neither marker occurs in the data of a scan.
fn is_whole_jpeg(bytes: &[u8]) -> bool {
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|window| window == marker);
    match last([0xff, 0xd9]) {
        Some(end) => !bytes[end..].windows(2).any(|window| window == [0xff, 0xda]),
        None => false,
    }
}

fn read_other(
    bytes: &[u8],
    format: ImageFormat,
    name: &'static str,
    max_pixels: u64,
    pixels: Option<&mut Vec<u8>>,
) -> Result<Raster, ImageFault> {
    let damaged =
        |error: image::ImageError| ImageFault::Damaged { format: name, detail: error.to_string() };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(max_pixels.saturating_mul(WIDEST).saturating_add(SPACE));
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height, max_pixels)?;
    let (channels, depth) = match decoder.color_type() {
        ColorType::L8 => (Channels::Grey, Depth::Byte),
        ColorType::La8 => (Channels::GreyAlpha, Depth::Byte),
        ColorType::Rgb8 => (Channels::Rgb, Depth::Byte),
        ColorType::Rgba8 => (Channels::RgbAlpha, Depth::Byte),
        ColorType::L16 => (Channels::Grey, Depth::Word),
        ColorType::La16 => (Channels::GreyAlpha, Depth::Word),
        ColorType::Rgb16 => (Channels::Rgb, Depth::Word),
        ColorType::Rgba16 => (Channels::RgbAlpha, Depth::Word),
        ColorType::Rgb32F => (Channels::Rgb, Depth::Float),
        ColorType::Rgba32F => (Channels::RgbAlpha, Depth::Float),
        other => {
            let detail = format!("colours of the type {other:?}");
            return Err(ImageFault::Damaged { format: name, detail });
        }
    };
    let orientation = decoder.orientation().map_err(damaged)?;
    if let Some(pixels) = pixels {
        resize(pixels, decoder.total_bytes())?;
        decoder.read_image(pixels).map_err(damaged)?;
    }
    Ok(Raster { width, height, channels, depth, orientation })
}

/// Bytes of the largest pixel: four floats.
const WIDEST: u64 = 16;
/// What decoders may take besides the pixels, in bytes.
const SPACE: u64 = 16 << 20;
