//! Loops over values, which the compiler turns into vector instructions, for two kinds of units.

use pulp::{Arch, NullaryFnOnce};

use crate::Element;

/// What the body of a kernel may know about the vector unit it is compiled for.
pub(crate) trait Unit {
    /// `a * b + c`, rounded once if the unit can do that fast, else twice.
    fn mul_add<E: Element>(a: E, b: E, c: E) -> E;
}

/// A unit with fused multiply-add and registers of at least 256 bits (or many of 128).
pub(crate) struct Fused;

impl Unit for Fused {
    #[inline(always)]
    fn mul_add<E: Element>(a: E, b: E, c: E) -> E {
        a.mul_add(b, c)
    }
}

/// The unit that every processor of the target has. A fused multiply-add may be a library call
/// there, hence two roundings.
pub(crate) struct Baseline;

impl Unit for Baseline {
    #[inline(always)]
    fn mul_add<E: Element>(a: E, b: E, c: E) -> E {
        a * b + c
    }
}

/// A computation that is compiled once per [`Unit`]. `run` and all it calls must be
/// `#[inline(always)]`, or it is compiled for the baseline.
pub(crate) trait Kernel {
    /// What the computation returns.
    type Output;

    /// The computation.
    fn run<U: Unit>(self) -> Self::Output;
}

struct OnFused<K>(K);

impl<K: Kernel> NullaryFnOnce for OnFused<K> {
    type Output = K::Output;

    #[inline(always)]
    fn call(self) -> K::Output {
        self.0.run::<Fused>()
    }
}

/// Runs `kernel` on the best unit of this processor. The choice is the same for the whole life of
/// the process, and so are the bits.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    match Arch::new() {
        Arch::Scalar => kernel.run::<Baseline>(),
        arch => arch.dispatch(OnFused(kernel)),
    }
}
