//! Writing IDX files: for fixtures, and for data sets cut from larger ones.

use crate::Dataset;

/// The IDX image file of a data set's images, uncompressed.
///
/// It has three dimensions when there is one channel, which is the form that
/// [`read_images`](super::read_images) reads, and else four: count, channels, rows, columns.
///
/// # Panics
/// When the data set has more channels, rows or columns than 32 bits count; none read from an
/// IDX file has.
pub fn encode_images(dataset: &Dataset) -> Vec<u8> {
    let [channels, height, width] = dataset.shape();
    match channels {
        1 => encode(&[dataset.len(), height, width], dataset.images()),
        _ => encode(&[dataset.len(), channels, height, width], dataset.images()),
    }
}

/// The IDX label file of a data set's labels, uncompressed.
pub fn encode_labels(dataset: &Dataset) -> Vec<u8> {
    encode(&[dataset.len()], dataset.labels())
}

fn encode(sizes: &[usize], elements: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, super::UNSIGNED_BYTE, sizes.len() as u8];
    for &size in sizes {
        let size = u32::try_from(size).expect("a data set's sizes fit an IDX header");
        file.extend(size.to_be_bytes());
    }
    file.extend(elements);
    file
}
