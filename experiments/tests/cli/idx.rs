//! Small data sets in IDX form, sound and broken.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Writes the four files of a data set of 28x28 images.
pub(crate) fn write_set(folder: &Path, train: usize, test: usize) {
    for (prefix, samples) in [("train", train), ("t10k", test)] {
        fs::write(folder.join(format!("{prefix}-images-idx3-ubyte")), images(samples))
            .expect("writable");
        fs::write(folder.join(format!("{prefix}-labels-idx1-ubyte")), labels(samples))
            .expect("writable");
    }
}

pub(crate) fn images(samples: usize) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3];
    for size in [samples, 28, 28] {
        bytes.extend(u32::try_from(size).expect("small").to_be_bytes());
    }
    bytes.extend((0..samples * 28 * 28).map(|i| (i * 31 % 251) as u8));
    bytes
}

pub(crate) fn labels(samples: usize) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 1];
    bytes.extend(u32::try_from(samples).expect("small").to_be_bytes());
    bytes.extend((0..samples).map(|i| (i % 10) as u8));
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("in-memory write");
    encoder.finish().expect("in-memory write")
}
