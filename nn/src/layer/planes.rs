//! From planes to channels last, and back.

use super::{Backward, Forward, Layer};
use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, Shape};

/// Turns images that are stored plane by plane (channel, row, column), as files and loaders have
/// them, into the order of the layers (row, column, channel). Networks whose images have more than
/// one channel begin with it.
#[derive(Clone, Copy, Debug)]
pub struct ToChannelsLast {
    image: [usize; 3],
}

impl ToChannelsLast {
    /// The layer for images of these channels, height and width.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { image: [channels, height, width] }
    }

    const fn places(&self) -> usize {
        self.image[1] * self.image[2]
    }
}

impl<E: Element> Layer<E> for ToChannelsLast {
    fn kind(&self) -> &'static str {
        "to_channels_last"
    }

    fn output(&self) -> Shape {
        let [channels, height, width] = self.image;
        Shape::image(channels, height, width)
    }

    fn forward(&self, io: Forward<'_, E>) {
        turn(io.x[0], self.image[0], self.places(), io.y);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        if !io.dx[0].is_empty() {
            turn(io.dy, self.places(), self.image[0], io.dx[0]);
        }
    }
}

/// Turns each sample of `from`, `rows` x `columns` values, into `columns` x `rows` values.
///
/// # Panics
/// When a length does not fit.
pub(crate) fn turn<E: Element>(from: &[E], rows: usize, columns: usize, to: &mut [E]) {
    assert_eq!(from.len(), to.len(), "turn: length of the result");
    assert_eq!(from.len() % (rows * columns), 0, "turn: length of the values");
    if rows == 1 || columns == 1 {
        to.copy_from_slice(from);
    } else {
        dispatch(Turn { from, rows, columns, to });
    }
}

/// Rows and columns that are turned together, so that each line of the cache is used whole.
const TILE: usize = 8;

struct Turn<'a, E> {
    from: &'a [E],
    rows: usize,
    columns: usize,
    to: &'a mut [E],
}

impl<E: Element> Kernel for Turn<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { from, rows, columns, to } = self;
        let len = rows * columns;
        for (from, to) in from.chunks_exact(len).zip(to.chunks_exact_mut(len)) {
            for row in (0..rows).step_by(TILE) {
                let row_end = rows.min(row + TILE);
                for column in (0..columns).step_by(TILE) {
                    for column in column..columns.min(column + TILE) {
                        let to = &mut to[column * rows + row..column * rows + row_end];
                        for (to, from) in to
                            .iter_mut()
                            .zip(from[row * columns + column..].iter().step_by(columns))
                        {
                            *to = *from;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn turning_moves_each_value_to_its_place(
            (samples, rows, columns) in (1usize..4, 1usize..20, 1usize..20),
        ) {
            let from: Vec<f32> = (0..samples * rows * columns).map(|i| i as f32).collect();
            let mut to = vec![f32::NAN; from.len()];
            turn(&from, rows, columns, &mut to);
            for (i, &value) in to.iter().enumerate() {
                let (sample, place) = (i / (rows * columns), i % (rows * columns));
                let (column, row) = (place / rows, place % rows);
                prop_assert_eq!(value, from[(sample * rows + row) * columns + column]);
            }
            let mut back = vec![f32::NAN; from.len()];
            turn(&to, columns, rows, &mut back);
            prop_assert_eq!(back, from);
        }
    }
}
