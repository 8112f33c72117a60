//! The pooling as a layer of a network: on images that are stored channels last.

use super::{MaxPool2d, beats};
use crate::kernel::{Kernel, Unit, dispatch};
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
        self.check(io.x[0].len(), io.y.len(), io.saved_bytes.len());
        dispatch(Best { layer: self, x: io.x[0], y: io.y, winners: io.saved_bytes });
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        if !io.dx[0].is_empty() {
            self.check(io.dx[0].len(), io.dy.len(), io.saved_bytes.len());
            dispatch(Spread { layer: self, winners: io.saved_bytes, dy: io.dy, dx: io.dx[0] });
        }
    }
}

impl MaxPool2d {
    /// Where the values of the window of each output place are: for the `i`-th output place of a
    /// shard, the start of each place of its window, in row order.
    fn windows(&self) -> impl Fn(usize, usize) -> usize + Copy {
        let [channels, height, width] = self.input;
        let [_, out_height, out_width] = self.output;
        let [down, right] = self.window;
        move |i, place| {
            let (row, column) = (i / out_width, i % out_width);
            let (sample, row) = (row / out_height, row % out_height);
            let row = sample * height + row * down + place / right;
            (row * width + column * right + place % right) * channels
        }
    }

    const fn window_len(&self) -> usize {
        self.window[0] * self.window[1]
    }
}

struct Best<'a, E> {
    layer: &'a MaxPool2d,
    x: &'a [E],
    y: &'a mut [E],
    winners: &'a mut [u8],
}

impl<E: Element> Kernel for Best<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, x, y, winners } = self;
        let channels = layer.input[0];
        let at = layer.windows();
        let places = y.chunks_exact_mut(channels).zip(winners.chunks_exact_mut(channels));
        for (i, (y, winners)) in places.enumerate() {
            y.copy_from_slice(&x[at(i, 0)..][..channels]);
            winners.fill(0);
            for place in 1..layer.window_len() {
                let x = &x[at(i, place)..][..channels];
                for ((y, winner), &x) in y.iter_mut().zip(&mut *winners).zip(x) {
                    let wins = beats(x, *y);
                    *y = if wins { x } else { *y };
                    // A window has at most 256 places.
                    *winner = if wins { place as u8 } else { *winner };
                }
            }
        }
    }
}

struct Spread<'a, E> {
    layer: &'a MaxPool2d,
    winners: &'a [u8],
    dy: &'a [E],
    dx: &'a mut [E],
}

impl<E: Element> Kernel for Spread<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, winners, dy, dx } = self;
        let channels = layer.input[0];
        let at = layer.windows();
        // Rows and columns that fill no window get nothing.
        dx.fill(E::zero());
        let places = dy.chunks_exact(channels).zip(winners.chunks_exact(channels));
        for (i, (dy, winners)) in places.enumerate() {
            for place in 0..layer.window_len() {
                let dx = &mut dx[at(i, place)..][..channels];
                for ((dx, &dy), &winner) in dx.iter_mut().zip(dy).zip(winners) {
                    *dx = if usize::from(winner) == place { dy } else { E::zero() };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_gradients, numbers};
    use crate::layer::planes::turn;
    use crate::layer::{Alone, MaxPool2dConfig, Mode};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn it_is_the_pooling_of_the_planes(
            (c, h, w) in (1usize..6, 1usize..9, 1usize..9),
            (down, right) in (1usize..4, 1usize..4),
            samples in 1usize..4,
        ) {
            let input = Shape::image(c, h, w);
            let Ok(layer) = MaxPool2dConfig::new([down, right]).build("pool", input) else {
                prop_assert!(down > h || right > w);
                return Ok(());
            };
            check_gradients(Arc::new(layer), &[input], samples);

            // Values with ties, and a few that are not a number.
            let mut x: Vec<f64> =
                numbers(samples * input.len(), 1).iter().map(|x| (x * 3.0).round()).collect();
            x.iter_mut().step_by(29).for_each(|x| *x = f64::NAN);
            let outputs = samples * layer.output().len();
            let (mut y, mut winners) = (vec![f64::NAN; outputs], vec![9; outputs]);
            layer.forward(&x, &mut y, &mut winners);
            let dy = numbers(outputs, 2);
            let mut dx = vec![f64::NAN; x.len()];
            layer.backward(&winners, &dy, &mut dx);

            let (places, out_places) = (h * w, layer.output().len() / c);
            let last = |planes: &[f64], places: usize| {
                let mut turned = vec![f64::NAN; planes.len()];
                turn(planes, c, places, &mut turned);
                turned
            };
            let mut alone = Alone::new(Arc::new(layer), &[input], Vec::new());
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let got = alone.forward(Mode::Evaluate, &[&last(&x, places)]);
            prop_assert_eq!(bits(&got), bits(&last(&y, out_places)));
            prop_assert_eq!(&alone.backward(&last(&dy, out_places)).x[0], &last(&dx, places));
        }
    }
}
