//! What the bodies do: calculate, or read memory, for as long as they are told.
//!
//! Task Bench's memory-bound kernel copies within a working set; this one only reads, so that
//! columns can share a working set without waiting for each other.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

use clap::ValueEnum;
use pulp::{Arch, Simd, WithSimd};
use serde::Serialize;

/// Registers of the compute-bound kernel. As many independent chains keep two units of
/// multiply-add busy that take up to six cycles, and fit with two constants into 16 registers.
const CHAINS: usize = 12;

/// Values that the memory-bound kernel reads in one iteration: 256 bytes.
pub(super) const PIECE: usize = 32;

/// Values in the working set of a worker: 64 MiB, more than its share of any cache.
pub(super) const WORKING_SET: usize = 1 << 23;

/// What the bodies do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Multiply-adds in registers
    Compute,
    /// Reading a working set of 64 MiB per worker
    Memory,
}

impl Kernel {
    /// All kernels, in the order of the table.
    pub const ALL: [Kernel; 2] = [Kernel::Compute, Kernel::Memory];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Compute => "compute",
            Kernel::Memory => "memory",
        }
    }

    /// What its rate is counted in, in units of 10^9.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Kernel::Compute => "GFLOP/s",
            Kernel::Memory => "GB/s",
        }
    }

    /// Floating-point operations or bytes of one iteration, on this processor.
    pub(super) fn work(self) -> f64 {
        match self {
            Kernel::Compute => (2 * CHAINS * Arch::new().dispatch(Lanes)) as f64,
            Kernel::Memory => (PIECE * size_of::<f64>()) as f64,
        }
    }

    /// How long one iteration takes on a quiet core, in seconds: the best of 15 measurements.
    pub(super) fn seconds(self) -> f64 {
        let measure: Box<dyn Fn(u32) -> f64> = match self {
            Kernel::Compute => Box::new(compute),
            Kernel::Memory => {
                let set = vec![1.0; WORKING_SET];
                let first = Cell::new(0);
                let pieces = (WORKING_SET / PIECE) as u32;
                Box::new(move |iterations| {
                    // On from where the measurement before ended, and so not from a cache.
                    read(&set, first.replace((first.get() + iterations) % pieces), iterations)
                })
            }
        };
        let iterations = 1 << 16;
        let best = (0..15)
            .map(|_| {
                let start = Instant::now();
                black_box(measure(black_box(iterations)));
                start.elapsed()
            })
            .min();
        best.unwrap_or_default().as_secs_f64().max(1e-9) / f64::from(iterations)
    }
}

/// How many values a register has.
struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F64_LANES
    }
}

/// Multiplies and adds in registers.
pub(super) fn compute(iterations: u32) -> f64 {
    Arch::new().dispatch(Compute { iterations })
}

struct Compute {
    iterations: u32,
}

impl WithSimd for Compute {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        // Each chain stays near its fixed point, 2.
        let (factor, term) = (simd.splat_f64s(0.5), simd.splat_f64s(1.0));
        let mut chains: [S::f64s; CHAINS] =
            std::array::from_fn(|chain| simd.splat_f64s(1.0 + chain as f64 / CHAINS as f64));
        for _ in 0..self.iterations {
            for chain in &mut chains {
                *chain = simd.mul_add_e_f64s(*chain, factor, term);
            }
        }
        let zero = simd.splat_f64s(0.0);
        simd.reduce_sum_f64s(chains.into_iter().fold(zero, |sum, chain| simd.add_f64s(sum, chain)))
    }
}

/// Adds up `pieces` pieces of `set` from piece `first` on, which begins anew where it ends.
///
/// # Panics
/// When `set` has no whole piece, or `first` is none of its pieces.
pub(super) fn read(set: &[f64], first: u32, pieces: u32) -> f64 {
    let all = set.len() / PIECE;
    let (mut at, mut left) = (first as usize, pieces as usize);
    let mut sum = 0.0;
    while left > 0 {
        let stretch = left.min(all - at);
        let values = &set[at * PIECE..(at + stretch) * PIECE];
        sum += Arch::new().dispatch(Sum { values });
        (at, left) = (0, left - stretch);
    }
    sum
}

struct Sum<'a> {
    values: &'a [f64],
}

impl WithSimd for Sum<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        const CHAINS: usize = 4;
        let (registers, rest) = S::as_simd_f64s(self.values);
        let mut sums = [simd.splat_f64s(0.0); CHAINS];
        let (fours, tail) = registers.as_chunks::<CHAINS>();
        for four in fours {
            for (sum, values) in sums.iter_mut().zip(four) {
                *sum = simd.add_f64s(*sum, *values);
            }
        }
        for values in tail {
            sums[0] = simd.add_f64s(sums[0], *values);
        }
        let [a, b, c, d] = sums;
        let sum = simd.add_f64s(simd.add_f64s(a, b), simd.add_f64s(c, d));
        simd.reduce_sum_f64s(sum) + rest.iter().sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chains_run_to_their_fixed_point() {
        let lanes = Kernel::Compute.work() / (2 * CHAINS) as f64;
        let start: f64 = (0..CHAINS).map(|chain| 1.0 + chain as f64 / CHAINS as f64).sum();
        assert!((compute(0) - lanes * start).abs() < 1e-9);
        assert!((compute(1) - lanes * (0.5 * start + CHAINS as f64)).abs() < 1e-9);
        assert!((compute(100) - lanes * 2.0 * CHAINS as f64).abs() < 1e-9);
    }

    #[test]
    fn pieces_are_read_in_turn_and_from_the_start_again() {
        let set: Vec<f64> = (0..4 * PIECE).map(|value| (value / PIECE) as f64).collect();
        let piece = PIECE as f64;
        assert_eq!(read(&set, 0, 0), 0.0);
        assert_eq!(read(&set, 2, 1), 2.0 * piece);
        assert_eq!(read(&set, 2, 3), 5.0 * piece); // 2, 3, 0
        assert_eq!(read(&set, 3, 9), (3.0 + 6.0 + 6.0) * piece);
    }

    #[test]
    fn iterations_take_time() {
        for kernel in Kernel::ALL {
            assert!(kernel.seconds() > 0.0 && kernel.work() > 0.0);
        }
    }
}
