//! The order of the samples of an epoch.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Sets the sample order's stream of numbers apart from others drawn under the same seed.
const PURPOSE: &[u8; 24] = b"millrace sample order\0\0\0";

/// The order in which a shuffled epoch takes `samples` samples.
///
/// It depends on the arguments alone, on every machine and in every version: the numbers are
/// those of ChaCha with 8 rounds, whose key is `seed` (little-endian) and a fixed text, and
/// whose stream is `epoch`; the permutation is Fisher and Yates's, from the last place down.
///
/// ```
/// use millrace_loader::sample_order;
///
/// assert_eq!(sample_order(42, 0, 10), [0, 3, 4, 5, 7, 8, 2, 1, 9, 6]);
/// ```
///
/// # Panics
/// When `samples` does not fit 32 bits; that of a [`Dataset`](crate::Dataset) does.
pub fn sample_order(seed: u64, epoch: u32, samples: usize) -> Vec<u32> {
    let samples = u32::try_from(samples).expect("a sample index has 32 bits");
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..].copy_from_slice(PURPOSE);
    let mut numbers = ChaCha8Rng::from_seed(key);
    numbers.set_stream(epoch.into());

    let mut order: Vec<u32> = (0..samples).collect();
    permute(&mut numbers, &mut order);
    order
}

/// Brings indices of samples, of which there are no more than 32 bits count, into any order.
pub(crate) fn permute(numbers: &mut ChaCha8Rng, indices: &mut [u32]) {
    for last in (1..indices.len() as u32).rev() {
        let other = below(numbers, last + 1);
        indices.swap(last as usize, other as usize);
    }
}

/// A number below `bound`, each equally likely.
///
/// Scales a 32-bit number by a multiplication, and draws again for the few whose low half
/// shows that they would favour some results (D. Lemire, "Fast random integer generation in
/// an interval", 2019).
fn below(numbers: &mut ChaCha8Rng, bound: u32) -> u32 {
    let rejected = bound.wrapping_neg() % bound;
    loop {
        let scaled = u64::from(numbers.next_u32()) * u64::from(bound);
        if scaled as u32 >= rejected {
            return (scaled >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by a separate program from the description above.
    #[test]
    fn golden() {
        assert_eq!(sample_order(0, 0, 10), [7, 2, 1, 8, 3, 9, 4, 6, 0, 5]);
        assert_eq!(sample_order(0, 1, 10), [9, 7, 5, 2, 6, 1, 0, 8, 3, 4]);
        assert_eq!(sample_order(42, 0, 10), [0, 3, 4, 5, 7, 8, 2, 1, 9, 6]);
        assert_eq!(sample_order(u64::MAX, 7, 10), [1, 6, 0, 5, 4, 2, 3, 7, 8, 9]);

        let long = sample_order(42, 3, 60000);
        assert_eq!(long[..4], [57991, 24858, 51619, 49756]);
        assert_eq!(long[59996..], [31440, 35590, 40465, 26151]);
        let bytes: Vec<u8> = long.iter().flat_map(|index| index.to_le_bytes()).collect();
        assert_eq!(crate::testing::fnv(&bytes), 0x27c1_3ad5_b6df_31fd);
    }

    #[test]
    fn small() {
        assert!(sample_order(1, 0, 0).is_empty());
        assert_eq!(sample_order(1, 0, 1), [0]);
    }

    #[test]
    fn every_sample_once() {
        let mut order = sample_order(3, 5, 1001);
        order.sort();
        assert!(order.into_iter().eq(0..1001));
    }

    /// Each of the 6 orders of 3 samples, over 6000 epochs: 1000 times each, give or take.
    #[test]
    fn unbiased() {
        let mut counts = std::collections::BTreeMap::new();
        for epoch in 0..6000 {
            *counts.entry(sample_order(9, epoch, 3)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Four standard deviations of a binomial count.
        assert!(counts.values().all(|&n| (885..1115).contains(&n)), "{counts:?}");
    }
}
