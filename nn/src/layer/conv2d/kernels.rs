//! The three computations of a convolution, as loops over rows of padded planes.

use super::Conv2d;
use crate::Element;
use crate::kernel::{BLOCK, Blocked, Kernel, Unit, block_len, combine, dots, sum, take};

impl Conv2d {
    /// One sample with its padding: `x` itself if there is none, else a copy in `space`, whose
    /// border is zero already.
    #[inline(always)]
    fn pad<'a, E: Element>(&self, x: &'a [E], space: &'a mut [E]) -> &'a [E] {
        if space.is_empty() {
            return x;
        }
        let [_, height, width] = self.input;
        let to = Grid {
            plane: self.padded[0] * self.padded[1],
            row: self.padded[1],
            step: 1,
            corner: self.before[0] * self.padded[1] + self.before[1],
        };
        to.place(x, height, width, space);
        space
    }
}

/// Where the values of dense planes lie in larger ones.
#[derive(Clone, Copy)]
struct Grid {
    plane: usize,
    row: usize,
    step: usize,
    corner: usize,
}

impl Grid {
    /// Copies the dense planes in `from`, of `height` rows of `width` values, to their places.
    #[inline(always)]
    fn place<E: Element>(self, from: &[E], height: usize, width: usize, to: &mut [E]) {
        for (i, from) in from.chunks_exact(width).enumerate() {
            let at = i / height * self.plane + i % height * self.row + self.corner;
            if self.step == 1 {
                to[at..at + width].copy_from_slice(from);
            } else {
                for (to, &from) in to[at..].iter_mut().step_by(self.step).zip(from) {
                    *to = from;
                }
            }
        }
    }

    /// Copies the values at their places in `from` to the dense planes in `to`.
    #[inline(always)]
    fn collect<E: Element>(self, from: &[E], height: usize, width: usize, to: &mut [E]) {
        for (i, to) in to.chunks_exact_mut(width).enumerate() {
            let at = i / height * self.plane + i % height * self.row + self.corner;
            if self.step == 1 {
                to.copy_from_slice(&from[at..at + width]);
            } else {
                for (to, &from) in to.iter_mut().zip(from[at..].iter().step_by(self.step)) {
                    *to = from;
                }
            }
        }
    }
}

pub(super) struct Forward<'a, E> {
    pub(super) layer: &'a Conv2d,
    pub(super) x: &'a [E],
    pub(super) weights: &'a [E],
    pub(super) bias: &'a [E],
    pub(super) y: &'a mut [E],
    pub(super) scratch: &'a mut [E],
}

impl<E: Element> Kernel for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, x, weights, bias, y, mut scratch } = self;
        let [filters, height, width] = layer.output;
        let [down, right] = layer.config.stride;
        let terms = layer.terms();
        let row = layer.forward_row();
        let from = Grid { plane: row, row: down * layer.padded[1], step: right, corner: 0 };
        let padded = take(&mut scratch, layer.padded_input_len());
        padded.fill(E::zero());
        let space = take(&mut scratch, block_len(filters, terms));
        let weights = Blocked::pack(space, filters, terms, |f, t| weights[f * terms + t]);
        let block = take(&mut scratch, BLOCK * row);
        let plane = height * width;
        for (x, y) in x.chunks_exact(layer.input_len()).zip(y.chunks_exact_mut(layer.output_len()))
        {
            let x = layer.pad(x, padded);
            let done = |first: usize, rows: usize, values: &[E]| {
                let y = &mut y[first * plane..(first + rows) * plane];
                from.collect(values, height, width, y);
            };
            let at = layer.forward_at.iter().copied();
            combine::<U, E>(x, at, weights, row, |f| bias[f], block, done);
        }
    }
}

pub(super) struct BackwardData<'a, E> {
    pub(super) layer: &'a Conv2d,
    pub(super) dy: &'a [E],
    pub(super) weights: &'a [E],
    pub(super) dx: &'a mut [E],
    pub(super) scratch: &'a mut [E],
}

impl<E: Element> Kernel for BackwardData<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, dy, weights, dx, mut scratch } = self;
        let [channels, height, width] = layer.input;
        let [filters, out_height, out_width] = layer.output;
        let [kh, kw] = layer.config.kernel;
        let kernel = kh * kw;
        let [turned_height, turned_width] = layer.turned;
        let corner = [kh - 1 - layer.before[0], kw - 1 - layer.before[1]];
        let [down, right] = layer.config.stride;
        let to = Grid {
            plane: turned_height * turned_width,
            row: down * turned_width,
            step: right,
            corner: corner[0] * turned_width + corner[1],
        };
        let row = layer.turned_row();
        let from = Grid { plane: row, row: turned_width, step: 1, corner: 0 };
        let turned = take(&mut scratch, filters * to.plane);
        turned.fill(E::zero());
        let space = take(&mut scratch, block_len(channels, filters * kernel));
        let weights = Blocked::pack(space, channels, filters * kernel, |c, t| {
            let (f, place) = (t / kernel, t % kernel);
            weights[(f * channels + c) * kernel + kernel - 1 - place]
        });
        let block = take(&mut scratch, BLOCK * row);
        let plane = height * width;
        for (dy, dx) in
            dy.chunks_exact(layer.output_len()).zip(dx.chunks_exact_mut(layer.input_len()))
        {
            to.place(dy, out_height, out_width, turned);
            let done = |first: usize, rows: usize, values: &[E]| {
                let dx = &mut dx[first * plane..(first + rows) * plane];
                from.collect(values, height, width, dx);
            };
            let at = layer.turned_at.iter().copied();
            combine::<U, E>(turned, at, weights, row, |_| E::zero(), block, done);
        }
    }
}

pub(super) struct BackwardWeights<'a, E> {
    pub(super) layer: &'a Conv2d,
    pub(super) x: &'a [E],
    pub(super) dy: &'a [E],
    pub(super) dweights: &'a mut [E],
    pub(super) dbias: &'a mut [E],
    pub(super) scratch: &'a mut [E],
}

impl<E: Element> Kernel for BackwardWeights<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, x, dy, dweights, dbias, mut scratch } = self;
        let [filters, height, width] = layer.output;
        let [down, right] = layer.config.stride;
        let terms = layer.terms();
        let row = layer.forward_row();
        let to = Grid { plane: row, row: down * layer.padded[1], step: right, corner: 0 };
        let padded = take(&mut scratch, layer.padded_input_len());
        padded.fill(E::zero());
        let wide = take(&mut scratch, filters * row);
        wide.fill(E::zero());
        dweights.fill(E::zero());
        dbias.fill(E::zero());
        for (x, dy) in x.chunks_exact(layer.input_len()).zip(dy.chunks_exact(layer.output_len())) {
            let x = layer.pad(x, padded);
            to.place(dy, height, width, wide);
            let at = |t: usize| layer.forward_at[t];
            dots::<U, E>(wide, x, terms, at, row, |f, t, product| {
                dweights[f * terms + t] += product;
            });
            for (dbias, dy) in dbias.iter_mut().zip(dy.chunks_exact(height * width)) {
                *dbias += sum(dy);
            }
        }
    }
}
