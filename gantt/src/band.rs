//! A lane's segments to shapes, so that no time is lost and no pixel is drawn many times.
//!
//! The plot is cut into columns of a few pixels. Where few segments meet they are drawn as
//! they are. Where many do, a column is *dense*: it shows each key by its share
//! of the column's time, tasks stacked from the bottom, idle time hanging from the top, between
//! them the lane's background for the rest. A run of dense columns is one outline per key.

use std::ops::RangeInclusive;

use crate::canvas::UNIT;
use crate::palette::{KEYS, Key};

/// A column is dense where the columns around it have more segments than this on average.
const SPARSE: u64 = 12;
/// How many columns on either side are around a column.
const NEAR: usize = 4;
/// With more segments than this a column is dense whatever is around it.
const CROWD: u64 = 4 * SPARSE;
/// Task spans at least this many pixels wide are set apart from an equal neighbour.
const WIDE: i64 = 3;

/// A segment with its key, clipped to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) key: Key,
}

/// Something to fill; coordinates in units from the left and top of the band. Shapes are
/// painted in order, and later ones may cover parts of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The full height of the band.
    Block { key: Key, x0: i32, x1: i32 },
    /// A polygon.
    Outline { key: Key, points: Vec<(i32, i32)> },
}

impl Shape {
    /// Whether the shape shows shares of time rather than spans.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(self, Shape::Outline { .. })
    }

    /// About how many bytes the shape takes in a document.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Shape::Block { .. } => 105,
            Shape::Outline { points, .. } => 60 + 12 * points.len(),
        }
    }
}

/// A mapping of a window of time to a row of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// First and last moment of the row, in nanoseconds.
    pub(crate) window: (u64, u64),
    /// Width of the row in units.
    pub(crate) width: i32,
    /// Height of the band in units.
    pub(crate) height: i32,
    /// Width of a column in pixels.
    pub(crate) column: u32,
}

/// Consecutive columns of one sort.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: usize,
    last: usize,
    dense: bool,
}

impl Grid {
    fn span(&self) -> u128 {
        u128::from((self.window.1 - self.window.0).max(1))
    }

    /// Position of a time in units, rounded.
    fn unit(&self, time: u64) -> i32 {
        let offset = u128::from(time - self.window.0);
        ((2 * offset * self.width as u128 + self.span()) / (2 * self.span())) as i32
    }

    fn step(&self) -> i32 {
        (self.column as i32).saturating_mul(UNIT).min(self.width.max(1))
    }

    fn columns(&self) -> usize {
        self.width.max(1).div_euclid(self.step()) as usize
            + usize::from(self.width.rem_euclid(self.step()) > 0)
    }

    /// The column that holds the nanosecond after `time`.
    fn column_of(&self, time: u64) -> usize {
        let offset = u128::from(time - self.window.0) * self.width as u128;
        let column = (offset / (self.span() * self.step() as u128)) as usize;
        column.min(self.columns() - 1)
    }

    /// Left edge of a column in units.
    fn edge(&self, column: usize) -> i32 {
        (column as i64 * i64::from(self.step())).min(i64::from(self.width)) as i32
    }

    /// First nanosecond that belongs to a column.
    fn edge_time(&self, column: usize) -> u64 {
        if column >= self.columns() {
            return self.window.1;
        }
        let offset = self.edge(column) as u128 * self.span();
        self.window.0 + offset.div_ceil(self.width.max(1) as u128) as u64
    }

    /// The shapes of a band whose pieces are in time order and do not overlap.
    pub(crate) fn shapes(&self, pieces: &[Piece]) -> Vec<Shape> {
        let runs = self.runs(pieces);
        let mut shapes = Vec::new();
        let mut shares = vec![[0u64; KEYS]; self.columns()];
        let mut at = 0;
        for (index, piece) in pieces.iter().enumerate() {
            let (first, last) = (self.column_of(piece.start), self.column_of(piece.end - 1));
            while runs[at].last < first {
                at += 1;
            }
            let touched = runs[at..].iter().take_while(|run| run.first <= last);
            for run in touched {
                if run.dense {
                    self.share(piece, first.max(run.first)..=last.min(run.last), &mut shares);
                } else {
                    shapes.extend(self.block(piece, pieces.get(index + 1), run));
                }
            }
        }
        for run in runs.iter().filter(|run| run.dense) {
            self.outlines(run, &shares[run.first..=run.last], &mut shapes);
        }
        shapes
    }

    /// Gives the time of a piece to the columns that it touches.
    fn share(&self, piece: &Piece, columns: RangeInclusive<usize>, shares: &mut [[u64; KEYS]]) {
        for (column, share) in columns.clone().zip(&mut shares[columns]) {
            let start = piece.start.max(self.edge_time(column));
            let end = piece.end.min(self.edge_time(column + 1));
            share[usize::from(piece.key.0)] += end.saturating_sub(start);
        }
    }

    fn runs(&self, pieces: &[Piece]) -> Vec<Run> {
        let mut touching = vec![0u32; self.columns()];
        for piece in pieces {
            let (first, last) = (self.column_of(piece.start), self.column_of(piece.end - 1));
            touching[first] += 1;
            touching[last] += u32::from(last != first);
        }
        // Sums over neighbours, so that crowded and empty moments of each batch do not flicker.
        let mut before = vec![0u64];
        for count in &touching {
            before.push(before[before.len() - 1] + u64::from(*count));
        }
        let mut runs: Vec<Run> = Vec::new();
        for (column, count) in touching.into_iter().enumerate() {
            let near = column.saturating_sub(NEAR)..(column + NEAR + 1).min(before.len() - 1);
            let crowd = before[near.end] - before[near.start];
            let dense = crowd > SPARSE * near.len() as u64 || u64::from(count) > CROWD;
            match runs.last_mut() {
                Some(run) if run.dense == dense => run.last = column,
                _ => runs.push(Run { first: column, last: column, dense }),
            }
        }
        runs
    }

    fn block(&self, piece: &Piece, next: Option<&Piece>, run: &Run) -> Option<Shape> {
        let (left, right) = (self.edge(run.first), self.edge(run.last + 1));
        let x0 = self.unit(piece.start).max(left);
        let x1 = self.unit(piece.end).min(right);
        if x0 >= x1 {
            return None;
        }
        let next = next.filter(|next| next.start == piece.end);
        let equal = next.is_some_and(|next| next.key == piece.key);
        let wide = i64::from(x1 - x0) >= WIDE * i64::from(UNIT);
        let x1 = match next {
            // A hairline of the background tells two equal tasks apart.
            Some(_) if equal && wide && piece.key.is_task() => x1 - UNIT * 2 / 5,
            // A renderer mixes a partly covered pixel with what is below it. That must be this
            // piece, not the background; the next piece is painted over the excess.
            Some(next) => {
                let pixel = x1.div_euclid(UNIT) * UNIT + UNIT * i32::from(x1 % UNIT > 0);
                pixel.min(self.unit(next.end)).min(right).max(x1)
            }
            None => x1,
        };
        Some(Shape::Block { key: piece.key, x0, x1 })
    }

    /// One outline per key that occurs in the run: the height of the stack up to this key, the
    /// highest first, so that each is painted over by those below it.
    fn outlines(&self, run: &Run, shares: &[[u64; KEYS]], out: &mut Vec<Shape>) {
        let used = |key: &usize| shares.iter().any(|share| share[*key] > 0);
        let keys: Vec<usize> = (0..KEYS).filter(used).collect();
        let (tasks, waits): (Vec<usize>, Vec<usize>) =
            keys.iter().partition(|&&key| Key(key as u8).is_task());
        let heights = self.heights(run, shares, &keys);
        for (stack, hangs) in [(tasks, false), (waits, true)] {
            for top in (0..stack.len()).rev() {
                let level = |column: &[i32; KEYS]| -> i32 {
                    let sum: i32 = stack[..=top].iter().map(|&key| column[key]).sum();
                    let sum = sum.min(self.height);
                    if hangs { sum } else { self.height - sum }
                };
                let base = if hangs { 0 } else { self.height };
                let points = self.staircase(run, base, heights.iter().map(level));
                out.push(Shape::Outline { key: Key(stack[top] as u8), points });
            }
        }
    }

    /// Heights in units. What rounding takes from a column is given to the next, so that small
    /// shares are not lost however many columns they spread over.
    fn heights(&self, run: &Run, shares: &[[u64; KEYS]], keys: &[usize]) -> Vec<[i32; KEYS]> {
        let mut carry = [0.0; KEYS];
        let column = |(index, share): (usize, &[u64; KEYS])| {
            let column = run.first + index;
            let time = self.edge_time(column + 1).saturating_sub(self.edge_time(column));
            let mut heights = [0; KEYS];
            for &key in keys {
                let exact = self.height as f64 * share[key] as f64 / time.max(1) as f64;
                heights[key] = (exact + carry[key]).round().max(0.0) as i32;
                carry[key] += exact - f64::from(heights[key]);
            }
            heights
        };
        shares.iter().enumerate().map(column).collect()
    }

    fn staircase(
        &self,
        run: &Run,
        base: i32,
        levels: impl Iterator<Item = i32>,
    ) -> Vec<(i32, i32)> {
        let mut points = vec![(self.edge(run.first), base)];
        let mut level = base;
        for (column, next) in (run.first..).zip(levels) {
            if next != level {
                let x = self.edge(column);
                if points.last() != Some(&(x, level)) {
                    points.push((x, level));
                }
                points.push((x, next));
                level = next;
            }
        }
        let end = self.edge(run.last + 1);
        points.extend([(end, level), (end, base)]);
        points
    }
}
