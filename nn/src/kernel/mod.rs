//! The inner loops that the layers share.
//!
//! Two loops carry nearly all arithmetic of a network:
//! * [`combine`]: several output rows, each a weighted sum of shifted input rows (convolution
//!   forward and by data, dense by data and by weights);
//! * [`dots`]: a table of dot products between two sets of rows (convolution by weights, dense
//!   forward).
//!
//! Both work on the operands where they are, without packing them first, which is what pays at the
//! size of a shard. They are written as loops over short arrays and rely on the compiler to turn
//! these into vector instructions; [`dispatch`] compiles each kernel twice and picks the copy for
//! the widest unit that the processor has.
//!
//! The order of additions is a function of the sizes alone, so that the same input gives the same
//! bits on whatever thread it runs.

mod combine;
mod dispatch;
mod dots;

pub(crate) use combine::{BLOCK, Blocked, block_len, combine, combine_rows};
pub(crate) use dispatch::{Kernel, Unit, dispatch};
pub(crate) use dots::{dots, sum};

/// Splits `len` values off the front of a scratch slice.
///
/// # Panics
/// When the scratch is too short, which means that a caller did not ask `scratch_len`.
#[inline]
pub(crate) fn take<'a, T>(scratch: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (front, rest) = std::mem::take(scratch).split_at_mut(len);
    *scratch = rest;
    front
}
