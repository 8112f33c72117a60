//! The number types that layers compute in.

use std::fmt::{Debug, Display};
use std::ops::{AddAssign, MulAssign, SubAssign};

use bytemuck::Pod;
use faer::traits::ComplexField;
use num_traits::Float;

use crate::kernel::Lanes;

/// A floating point type that every layer can compute in: `f32` to train, `f64` to check gradients
/// by finite differences.
pub trait Element:
    Float
    + Pod
    + Lanes
    + ComplexField
    + AddAssign
    + SubAssign
    + MulAssign
    + Debug
    + Default
    + Display
    + Send
    + Sync
    + 'static
{
    /// The value nearest to `value`.
    fn narrow(value: f64) -> Self;

    /// This value in double precision, which loses nothing.
    fn widen(self) -> f64;
}

impl Element for f32 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}
