//! The pooling as a layer of a network.

use super::MaxPool2d;
use crate::layer::{Backward, Forward, Layer, Saved};
use crate::{Element, Shape};

impl<E: Element> Layer<E> for MaxPool2d {
    fn kind(&self) -> &'static str {
        "max_pool2d"
    }

    fn output(&self) -> Shape {
        self.output()
    }

    fn saved(&self) -> Saved {
        Saved { values: 0, bytes: self.output().len() }
    }

    fn forward(&self, io: Forward<'_, E>) {
        self.forward(io.x[0], io.y, io.saved_bytes);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        if !io.dx[0].is_empty() {
            self.backward(io.saved_bytes, io.dy, io.dx[0]);
        }
    }
}
