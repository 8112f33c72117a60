//! The gradient of a parameter, added up from those of the shards.
//!
//! The sum is a fixed binary tree: the first half (of the largest power of two below the number of
//! gradients) plus the rest, and so on within each. So its bits do not depend on which shard was
//! done first: they are those of a [`Reduction`](millrace_arena::Reduction). It is made for a short
//! piece of the parameter at a time, which stays in the first-level cache for what follows.

use crate::Element;
use crate::guard::{self, BadGradient, NotFinite};

/// Values of a piece.
pub(super) const PIECE: usize = 128;

/// Nodes of the tree that wait for their right half: one per level, and there are less than 2^31
/// gradients.
const LEVELS: usize = 32;

/// Memory to add up pieces in.
pub(super) enum Sum<E> {
    /// One, two or four gradients.
    Few([E; PIECE]),
    /// Any number.
    Many([[E; PIECE]; LEVELS]),
}

impl<E: Element> Sum<E> {
    /// Memory for the sum of `count` gradients.
    #[inline(always)]
    pub(super) fn new(count: usize) -> Self {
        match count {
            1 | 2 | 4 => Self::Few([E::zero(); PIECE]),
            _ => Self::Many([[E::zero(); PIECE]; LEVELS]),
        }
    }

    /// The sum of `count` pieces of `len` values, which begin at place `at` of their gradients.
    ///
    /// # Errors
    /// When a value of the sum is not finite.
    #[inline(always)]
    pub(super) fn piece<'a>(
        &mut self,
        count: usize,
        len: usize,
        at: usize,
        piece: impl Fn(usize) -> &'a [E],
    ) -> Result<&[E], BadGradient> {
        let sum = match self {
            Self::Few(sum) => {
                let sum = &mut sum[..len];
                few(count, sum, &piece);
                sum
            }
            Self::Many(nodes) => {
                many(count, len, nodes, &piece);
                &mut nodes[0][..len]
            }
        };
        if guard::all_finite(sum) { Ok(sum) } else { Err(bad(count, sum, at, piece)) }
    }
}

/// One, two or four gradients, which are added up in registers.
#[inline(always)]
fn few<'a, E: Element>(count: usize, sum: &mut [E], piece: impl Fn(usize) -> &'a [E]) {
    match count {
        1 => sum.copy_from_slice(piece(0)),
        2 => {
            for ((sum, &a), &b) in sum.iter_mut().zip(piece(0)).zip(piece(1)) {
                *sum = a + b;
            }
        }
        _ => {
            let pairs = piece(0).iter().zip(piece(1)).zip(piece(2).iter().zip(piece(3)));
            for (sum, ((&a, &b), (&c, &d))) in sum.iter_mut().zip(pairs) {
                *sum = (a + b) + (c + d);
            }
        }
    }
}

/// Any number of gradients, as a binary counter: after `n` of them there is one node for each bit
/// of `n`, the largest first.
#[inline(always)]
fn many<'a, E: Element>(
    count: usize,
    len: usize,
    nodes: &mut [[E; PIECE]; LEVELS],
    piece: impl Fn(usize) -> &'a [E],
) {
    let mut depth = 0;
    for index in 0..count {
        nodes[depth][..len].copy_from_slice(piece(index));
        for _ in 0..(index + 1).trailing_zeros() {
            add_last(nodes, depth, len);
            depth -= 1;
        }
        depth += 1;
    }
    for last in (1..depth).rev() {
        add_last(nodes, last, len);
    }
}

/// Adds node `last` to the one before it.
#[inline(always)]
fn add_last<E: Element>(nodes: &mut [[E; PIECE]; LEVELS], last: usize, len: usize) {
    let (left, right) = nodes.split_at_mut(last);
    for (left, &right) in left[last - 1][..len].iter_mut().zip(&right[0][..len]) {
        *left += right;
    }
}

#[cold]
fn bad<'a, E: Element>(
    count: usize,
    sum: &[E],
    start: usize,
    piece: impl Fn(usize) -> &'a [E],
) -> BadGradient {
    let NotFinite { at, value } = guard::first(sum, 0);
    let shard = (0..count).find(|&gradient| !piece(gradient)[at].is_finite());
    BadGradient { at: start + at, value, shard }
}
