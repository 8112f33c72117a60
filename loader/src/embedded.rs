//! The data set that needs no file.

use crate::{CLASSES, Dataset, idx};

/// The first 6000 training and the first 1000 test images of Fashion-MNIST, which are part of
/// the program: 28x28 grey values, 10 classes.
///
/// Fashion-MNIST is by Zalando SE, under the MIT licence; its text and the command that cut the
/// files from the full set are in the folder `data/fashion-mnist-6000` of this crate.
///
/// ```
/// let (train, test) = millrace_loader::embedded();
/// assert_eq!((train.len(), test.len()), (6000, 1000));
/// assert_eq!(train.shape(), [1, 28, 28]);
/// ```
pub fn embedded() -> (Dataset, Dataset) {
    (
        unpack(
            "fashion-mnist-6000/train",
            include_bytes!("../data/fashion-mnist-6000/train-images-idx3-ubyte.gz"),
            include_bytes!("../data/fashion-mnist-6000/train-labels-idx1-ubyte.gz"),
        ),
        unpack(
            "fashion-mnist-6000/test",
            include_bytes!("../data/fashion-mnist-6000/t10k-images-idx3-ubyte.gz"),
            include_bytes!("../data/fashion-mnist-6000/t10k-labels-idx1-ubyte.gz"),
        ),
    )
}

fn unpack(name: &str, images: &[u8], labels: &[u8]) -> Dataset {
    let read = || {
        let images = idx::parse_images(name, images)?;
        let labels = idx::parse_labels(name, labels, CLASSES)?;
        Dataset::new(name, [1, images.rows, images.cols], images.pixels, labels, CLASSES)
    };
    read().expect("the embedded files do not change after the build, and a test reads them")
}
