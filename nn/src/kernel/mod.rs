//! The inner loops that the layers share.
//!
//! Three loops carry nearly all arithmetic of a network:
//! * [`conv`]: places times output channels, and terms times output channels (convolution in all
//!   directions);
//! * [`Dots`]: a table of dot products between two sets of rows (dense forward);
//! * [`Outer`]: sums of scaled rows (dense by data and by weights).
//!
//! Each holds a table of sums in registers, as large as the [unit](VectorUnit) has registers for,
//! and reads each operand where it is. They are written once, for any unit, with the vectors of
//! [`Lanes`]; loops over values alone are left to the compiler, by [`dispatch`].
//!
//! The order of additions is a function of the sizes and the unit alone, so that the same input
//! gives the same bits on whatever thread it runs.

pub(crate) mod conv;
mod dispatch;
mod dots;
mod lanes;
mod outer;
mod unit;

pub(crate) use dispatch::{Kernel, Unit, dispatch};
pub(crate) use dots::Dots;
pub(crate) use lanes::Lanes;
pub(crate) use outer::Outer;
pub(crate) use unit::Unit as VectorUnit;

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
