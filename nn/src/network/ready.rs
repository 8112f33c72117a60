//! Networks that are ready to be trained.

use super::Network;
use crate::Shape;
use crate::layer::{Conv2dConfig, DenseConfig, MaxPool2dConfig, Padding};

impl Network {
    /// The reference network, for images of 1x28x28 in 10 classes: convolution with 4 filters of
    /// 3x3, ReLU, maximum of 2x2, dense. DAHL, the C program that Millrace is measured against,
    /// trains the same.
    pub fn reference() -> Self {
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(Conv2dConfig::new(4, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A small network of two convolutions for images of 1x28x28 in 10 classes (1.06 MFLOP per
    /// image, forward and backward).
    pub fn n1() -> Self {
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(Conv2dConfig::new(8, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(Conv2dConfig::new(16, [3, 3]))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A network of two wide convolutions of 5x5 for images of 1x28x28 in 10 classes (72 MFLOP per
    /// image, forward and backward).
    pub fn n2() -> Self {
        let conv2d = |filters| Conv2dConfig::new(filters, [5, 5]).padding(Padding::Same);
        Self::builder(Shape::image(1, 28, 28))
            .conv2d(conv2d(32))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(conv2d(64))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(512))
            .relu()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }

    /// A network of four convolutions of 3x3 for images of 3x32x32 in 10 classes (151 MFLOP per
    /// image, forward and backward).
    pub fn n3() -> Self {
        let conv2d = |filters| Conv2dConfig::new(filters, [3, 3]).padding(Padding::Same);
        Self::builder(Shape::image(3, 32, 32))
            .conv2d(conv2d(32))
            .relu()
            .conv2d(conv2d(32))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .conv2d(conv2d(64))
            .relu()
            .conv2d(conv2d(64))
            .relu()
            .max_pool2d(MaxPool2dConfig::new([2, 2]))
            .flatten()
            .dense(DenseConfig::new(256))
            .relu()
            .dense(DenseConfig::new(10))
            .build()
            .expect("its shapes fit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_networks_have_the_published_work() {
        let mega = |network: Network| network.flops() as f64 / 1e6;
        assert_eq!(Network::reference().parameters_len(), 6810);
        assert!((mega(Network::n1()) - 1.06).abs() < 0.01, "{}", mega(Network::n1()));
        assert!((mega(Network::n2()) - 72.38).abs() < 0.01, "{}", mega(Network::n2()));
        assert!((mega(Network::n3()) - 151.40).abs() < 0.01, "{}", mega(Network::n3()));
    }

    #[test]
    fn shapes_are_inferred() {
        let outputs: Vec<String> =
            Network::n1().layers().iter().map(|node| node.output().to_string()).collect();
        assert_eq!(
            outputs,
            ["8x26x26", "8x26x26", "8x13x13", "16x11x11", "16x11x11", "16x5x5", "400", "10"]
        );
    }
}
