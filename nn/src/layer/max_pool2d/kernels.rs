//! Windows of places, each of which has the values of all channels side by side.

use super::MaxPool2d;
use crate::Element;
use crate::kernel::{Kernel, Unit};

/// Whether `new` takes the place of `best`: it is larger, or the first that is not a number. Without
/// a branch, for the loops over many channels.
#[inline(always)]
#[expect(clippy::eq_op, reason = "a number equals itself, and what is none does not")]
fn beats<E: Element>(new: E, best: E) -> bool {
    (new > best) | ((new != new) & (best == best))
}

/// Rows of windows, and the places of each window.
#[derive(Clone, Copy)]
struct Windows {
    channels: usize,
    /// Values of a row of the input.
    row: usize,
    size: [usize; 2],
    /// Output rows of a sample, and input rows.
    rows: [usize; 2],
}

impl Windows {
    fn of(layer: &MaxPool2d) -> Self {
        let ([channels, height, width], [_, rows, _]) = (layer.input, layer.output);
        Self { channels, row: width * channels, size: layer.window, rows: [rows, height] }
    }

    /// Where the rows under the `i`-th row of windows of a shard begin.
    #[inline(always)]
    fn begin(self, i: usize) -> usize {
        (i / self.rows[0] * self.rows[1] + i % self.rows[0] * self.size[0]) * self.row
    }

    /// Where the place of a window in row `r` and column `c` is from there.
    #[inline(always)]
    fn place(self, column: usize, [r, c]: [usize; 2]) -> usize {
        r * self.row + (column * self.size[1] + c) * self.channels
    }

    /// Row and column of each place of a window, in order.
    #[inline(always)]
    fn places(self) -> impl Iterator<Item = [usize; 2]> {
        let [down, right] = self.size;
        (0..down).flat_map(move |r| (0..right).map(move |c| [r, c]))
    }
}

pub(super) struct Best<'a, E> {
    pub(super) layer: &'a MaxPool2d,
    pub(super) x: &'a [E],
    pub(super) y: &'a mut [E],
    pub(super) winners: &'a mut [u8],
}

impl<E: Element> Kernel for Best<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, x, y, winners } = self;
        let windows = Windows::of(layer);
        let channels = windows.channels;
        let row = layer.output[2] * channels;
        let rows = y.chunks_exact_mut(row).zip(winners.chunks_exact_mut(row));
        for (i, (y, winners)) in rows.enumerate() {
            let x = &x[windows.begin(i)..][..windows.size[0] * windows.row];
            let out = y.chunks_exact_mut(channels).zip(winners.chunks_exact_mut(channels));
            for (column, (y, winners)) in out.enumerate() {
                let at = |place| &x[windows.place(column, place)..][..channels];
                if windows.size == [2, 2] {
                    let x = [at([0, 0]), at([0, 1]), at([1, 0]), at([1, 1])];
                    best_of_four(x, y, winners);
                } else {
                    best_of_many(windows.places().map(at), y, winners);
                }
            }
        }
    }
}

#[inline(always)]
fn best_of_many<'a, E: Element>(
    places: impl Iterator<Item = &'a [E]>,
    y: &mut [E],
    winners: &mut [u8],
) {
    for (place, x) in places.enumerate() {
        for ((y, winner), &x) in y.iter_mut().zip(&mut *winners).zip(x) {
            let wins = place == 0 || beats(x, *y);
            *y = if wins { x } else { *y };
            // A window has at most 256 places.
            *winner = if wins { place as u8 } else { *winner };
        }
    }
}

/// Channels in pieces of fixed lengths, which the compiler turns into vectors.
#[inline(always)]
fn best_of_four<E: Element>(x: [&[E]; 4], y: &mut [E], winners: &mut [u8]) {
    let mut done = four_in_pieces::<E, 16>(0, x, y, winners);
    done = four_in_pieces::<E, 8>(done, x, y, winners);
    done = four_in_pieces::<E, 4>(done, x, y, winners);
    four_in_pieces::<E, 1>(done, x, y, winners);
}

/// As many pieces of `L` from `first` on as there are; returns where they end.
#[inline(always)]
fn four_in_pieces<E: Element, const L: usize>(
    mut first: usize,
    [a, b, c, d]: [&[E]; 4],
    y: &mut [E],
    winners: &mut [u8],
) -> usize {
    while let (Some(a), Some(b), Some(c), Some(d), Some(y), Some(winners)) = (
        a[first..].first_chunk::<L>(),
        b[first..].first_chunk::<L>(),
        c[first..].first_chunk::<L>(),
        d[first..].first_chunk::<L>(),
        y[first..].first_chunk_mut::<L>(),
        winners[first..].first_chunk_mut::<L>(),
    ) {
        // All lanes are computed aside, and places as wide as values: only so are there vectors.
        let mut best = *a;
        let mut places = [0u32; L];
        for (place, x) in [(1, *b), (2, *c), (3, *d)] {
            for i in 0..L {
                let wins = beats(x[i], best[i]);
                best[i] = if wins { x[i] } else { best[i] };
                places[i] = if wins { place } else { places[i] };
            }
        }
        *y = best;
        for (winner, place) in winners.iter_mut().zip(places) {
            *winner = place as u8;
        }
        first += L;
    }
    first
}

pub(super) struct Spread<'a, E> {
    pub(super) layer: &'a MaxPool2d,
    pub(super) winners: &'a [u8],
    pub(super) dy: &'a [E],
    pub(super) dx: &'a mut [E],
}

impl<E: Element> Kernel for Spread<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { layer, winners, dy, dx } = self;
        let windows = Windows::of(layer);
        let channels = windows.channels;
        let row = layer.output[2] * channels;
        let ([_, height, width], [down, right]) = (layer.input, layer.window);
        if !height.is_multiple_of(down) || !width.is_multiple_of(right) {
            // Rows and columns that fill no window get nothing.
            dx.fill(E::zero());
        }
        let rows = dy.chunks_exact(row).zip(winners.chunks_exact(row));
        for (i, (dy, winners)) in rows.enumerate() {
            let dx = &mut dx[windows.begin(i)..][..windows.size[0] * windows.row];
            let out = dy.chunks_exact(channels).zip(winners.chunks_exact(channels));
            for (column, (dy, winners)) in out.enumerate() {
                for (place, at) in windows.places().enumerate() {
                    let dx = &mut dx[windows.place(column, at)..][..channels];
                    // A window has at most 256 places.
                    spread(place as u8, winners, dy, dx);
                }
            }
        }
    }
}

#[inline(always)]
fn spread<E: Element>(place: u8, winners: &[u8], dy: &[E], dx: &mut [E]) {
    let rest = spread_in_pieces::<E, 16>(place, winners, dy, dx);
    let (winners, dy, dx) = (&winners[rest..], &dy[rest..], &mut dx[rest..]);
    let rest = spread_in_pieces::<E, 8>(place, winners, dy, dx);
    let (winners, dy, dx) = (&winners[rest..], &dy[rest..], &mut dx[rest..]);
    let rest = spread_in_pieces::<E, 4>(place, winners, dy, dx);
    let (winners, dy, dx) = (&winners[rest..], &dy[rest..], &mut dx[rest..]);
    spread_in_pieces::<E, 1>(place, winners, dy, dx);
}

/// How many values of the front were done.
#[inline(always)]
fn spread_in_pieces<E: Element, const L: usize>(
    place: u8,
    winners: &[u8],
    dy: &[E],
    dx: &mut [E],
) -> usize {
    let (winners, dy) = (winners.as_chunks::<L>().0, dy.as_chunks::<L>().0);
    for ((dx, dy), winners) in dx.as_chunks_mut::<L>().0.iter_mut().zip(dy).zip(winners) {
        let (dy, winners) = (*dy, winners.map(u32::from));
        let mut spread = [E::zero(); L];
        for i in 0..L {
            spread[i] = if winners[i] == u32::from(place) { dy[i] } else { E::zero() };
        }
        *dx = spread;
    }
    dy.len() * L
}
