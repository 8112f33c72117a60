//! How long something took, over many times.

use std::sync::atomic::{AtomicU64, Ordering};

use histogram::{Config, Histogram, SparseHistogram};

/// There are 2^5 buckets for each doubling; below 64 ns each time has its own.
const GROUPING_POWER: u8 = 5;
/// Times up to 2^44 ns (4.9 hours) are told apart.
const LONGEST_POWER: u8 = 44;
const LONGEST: u64 = (1 << LONGEST_POWER) - 1;
const CONFIG: Config = match Config::new(GROUPING_POWER, LONGEST_POWER) {
    Ok(config) => config,
    Err(_) => panic!("valid parameters"),
};

/// The bucket of a time, as the crate `histogram` numbers them.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.min(LONGEST);
    let shift = (ns | 1 << GROUPING_POWER).ilog2() - u32::from(GROUPING_POWER);
    ((shift << GROUPING_POWER) as u64 + (ns >> shift)) as usize
}

/// How often something happened, how long it took in all, and how these times distribute.
///
/// Number, sum and mean are exact; a quantile is off by 1/64 of its value (1.6%) at most, and
/// exact below 64 ns. Times above 2^44 ns (4.9 hours) count as that in quantiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    total_ns: u64,
    histogram: SparseHistogram,
}

impl Default for Durations {
    fn default() -> Self {
        Durations { total_ns: 0, histogram: SparseHistogram::with_config(&CONFIG) }
    }
}

impl Durations {
    /// How often.
    pub fn count(&self) -> u64 {
        self.histogram.count().iter().sum()
    }

    /// How long in all, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The mean in nanoseconds, rounded down; 0 when nothing was counted.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// The time that a share `q` of all times does not exceed (the smallest such time), in
    /// nanoseconds; 0 when nothing was counted. `q` is taken into the range from 0, for the
    /// shortest time, to 1, for the longest; what is no number counts as 0.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let q = if q.is_nan() { 0.0 } else { q.clamp(0.0, 1.0) };
        let found = self.histogram.quantile(q).ok().flatten();
        let bucket = found.and_then(|result| result.into_entries().into_values().next());
        bucket.map_or(0, |bucket| bucket.start().midpoint(bucket.end()))
    }

    /// The median in nanoseconds; 0 when nothing was counted.
    pub fn median_ns(&self) -> u64 {
        self.quantile_ns(0.5)
    }

    /// The time that 99% do not exceed, in nanoseconds; 0 when nothing was counted.
    pub fn p99_ns(&self) -> u64 {
        self.quantile_ns(0.99)
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Durations {
            total_ns: self.total_ns - earlier.total_ns,
            histogram: self
                .histogram
                .checked_sub(&earlier.histogram)
                .expect("counts of one runtime never fall"),
        }
    }
}

/// The same while it is being counted: one writer at a time, read by anyone, no locks.
///
/// Of the ways to count a time, measured with `cargo bench -p millrace-runtime --bench tracing`,
/// `hdrhistogram` takes 7 ns, or 10 with the lock that readers need, and the atomic buckets of
/// `histogram` 2, but each addition waits for all stores before it; since there is one writer,
/// a load and a store do here, and only the reading side is the crate's.
#[derive(Debug)]
pub(super) struct DurationTotals {
    total: AtomicU64,
    buckets: Box<[AtomicU64]>,
}

impl DurationTotals {
    pub(super) fn new() -> Self {
        let buckets = (0..CONFIG.total_buckets()).map(|_| AtomicU64::new(0)).collect();
        DurationTotals { total: AtomicU64::new(0), buckets }
    }

    #[inline]
    pub(super) fn record(&self, ns: u64) {
        super::lane::add(&self.total, ns);
        super::lane::add(&self.buckets[bucket(ns)], 1);
    }
}

/// The sum over threads.
pub(super) struct DurationSum {
    total_ns: u64,
    histogram: Histogram,
}

impl DurationSum {
    pub(super) fn new() -> Self {
        DurationSum { total_ns: 0, histogram: Histogram::with_config(&CONFIG) }
    }

    pub(super) fn add(&mut self, totals: &DurationTotals) {
        self.total_ns += totals.total.load(Ordering::Relaxed);
        for (sum, bucket) in self.histogram.as_mut_slice().iter_mut().zip(&totals.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }

    pub(super) fn finish(self) -> Durations {
        let histogram = SparseHistogram::from(&self.histogram);
        Durations { total_ns: self.total_ns, histogram }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn durations(times: &[u64]) -> Durations {
        // Over two threads' worth of counters.
        let lanes = [DurationTotals::new(), DurationTotals::new()];
        times.iter().enumerate().for_each(|(i, time)| lanes[i % 2].record(*time));
        let mut sum = DurationSum::new();
        lanes.iter().for_each(|lane| sum.add(lane));
        sum.finish()
    }

    /// Times of every order of magnitude.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = (0u32..44, any::<u64>()).prop_map(|(bits, random)| random % (2 << bits));
        prop::collection::vec(time, 1..400)
    }

    proptest! {
        #[test]
        fn quantiles_are_close_to_those_of_the_sorted_list(
            times in times(), q in prop_oneof![Just(0.0), Just(0.5), Just(0.99), Just(1.0), 0.0f64..=1.0]
        ) {
            let found = durations(&times);
            let mut sorted = times;
            sorted.sort_unstable();
            let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
            let exact = sorted[rank - 1].min(LONGEST);
            let off = found.quantile_ns(q).abs_diff(exact);
            prop_assert!(off <= exact / 64, "{} for {exact}", found.quantile_ns(q));
            prop_assert_eq!(found.count(), sorted.len() as u64);
            prop_assert_eq!(found.total_ns(), sorted.iter().sum::<u64>());
        }

        #[test]
        fn buckets_are_those_of_the_crate(times in times()) {
            for time in times {
                let mut histogram = Histogram::with_config(&CONFIG);
                histogram.increment(time.min(LONGEST)).expect("in range");
                prop_assert_eq!(histogram.as_slice()[bucket(time)], 1);
            }
        }

        #[test]
        fn a_difference_is_what_was_counted_in_between(first in times(), second in times()) {
            let both: Vec<u64> = first.iter().chain(&second).copied().collect();
            prop_assert_eq!(durations(&both).since(&durations(&first)), durations(&second));
        }
    }

    #[test]
    fn nothing_has_no_quantiles_and_odd_shares_are_taken_into_range() {
        let none = Durations::default();
        assert_eq!((none.count(), none.mean_ns(), none.median_ns(), none.p99_ns()), (0, 0, 0, 0));
        let some = durations(&[7, 9]);
        assert_eq!(some.quantile_ns(-1.0), 7);
        assert_eq!(some.quantile_ns(f64::NAN), 7);
        assert_eq!(some.quantile_ns(2.0), 9);
        assert_eq!(some.mean_ns(), 8);
    }
}
