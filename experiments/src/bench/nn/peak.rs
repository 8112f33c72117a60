//! The machine's multiply-add peak: a loop that needs nothing but registers.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

/// Sums that are added to in turn: enough to hide how long each addition takes.
const SUMS: usize = 12;
/// Rounds between two looks at the clock.
const ROUNDS: u32 = 20_000;

/// Single-precision GFLOP/s of `workers` threads together, the best of some runs of `seconds`
/// together. With more threads than processors, the figure is that of the processors.
pub(super) fn gflops(workers: usize, seconds: f64) -> f64 {
    const RUNS: usize = 4;
    let workers = workers.max(1);
    let run = Duration::from_secs_f64(seconds / RUNS as f64);
    let start = Barrier::new(workers);
    let best = |_| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        Arch::new().dispatch(Loop { run })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>()
        })
    };
    (0..RUNS).map(best).fold(0.0, f64::max)
}

struct Loop {
    run: Duration,
}

impl WithSimd for Loop {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let splat = |value: f32| simd.splat_f32s(std::hint::black_box(value));
        // Each sum goes to 1: no value is ever slow to compute with.
        let (scale, term) = (splat(0.5), splat(0.5));
        let mut sums = [splat(0.25); SUMS];
        let begin = Instant::now();
        let mut rounds = 0u64;
        while begin.elapsed() < self.run {
            for _ in 0..ROUNDS {
                for sum in &mut sums {
                    *sum = simd.mul_add_e_f32s(*sum, scale, term);
                }
            }
            rounds += u64::from(ROUNDS);
        }
        let seconds = begin.elapsed().as_secs_f64();
        std::hint::black_box(sums.map(|sum| simd.reduce_sum_f32s(sum)));
        let flops = 2 * SUMS * S::F32_LANES;
        rounds as f64 * flops as f64 / seconds * 1e-9
    }
}
