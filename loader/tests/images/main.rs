//! Images: what is read from real files, what of broken ones, and folders of them.

mod damage;
mod decoding;
mod folders;

use std::path::PathBuf;

use millrace_loader::images::{ImageFault, ImageOptions, ImageReader};

/// A file that `make.py` wrote.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/images/files").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// The image as a sample of `size` = [height, width].
fn decode(file: &[u8], size: [usize; 2], options: &ImageOptions) -> Result<Vec<f32>, ImageFault> {
    let mut values = vec![0.0; options.colours.channels() * size[0] * size[1]];
    ImageReader::new(size, options.clone()).decode(file, &mut values)?;
    Ok(values)
}

/// The picture of the colour files, 16 rows of 24 pixels.
fn picture(channel: usize, y: usize, x: usize) -> f32 {
    [x as f32 * 10.0, y as f32 * 15.0, 128.0][channel] / 255.0
}

/// A sample of planes whose pixels `of` gives: channel, row, column.
fn planes(
    channels: usize,
    [height, width]: [usize; 2],
    of: impl Fn(usize, usize, usize) -> f32,
) -> Vec<f32> {
    let mut values = Vec::new();
    for channel in 0..channels {
        for y in 0..height {
            values.extend((0..width).map(|x| of(channel, y, x)));
        }
    }
    values
}

/// Asserts that two samples differ by no more than `most` of 255 levels anywhere.
fn assert_close(found: &[f32], wanted: &[f32], most: f32, told: &str) {
    assert_eq!(found.len(), wanted.len(), "{told}");
    let worst = found.iter().zip(wanted).map(|(a, b)| (a - b).abs() * 255.0).fold(0.0, f32::max);
    assert!(worst <= most, "{told}: {worst} levels");
}
