//! The generator of the C library, to begin where programs that use it begin.

/// The generator of the C library of GNU systems: what `srand(seed)` and `rand()` give there.
///
/// It is an additive feedback generator over the last 31 values, seeded by a multiplicative one.
/// Poor as random numbers go, but with it a network starts from the very values of programs that
/// use `rand()`, and its training can be compared with theirs number by number.
///
/// ```
/// use millrace_nn::init::GnuRand;
/// let mut rand = GnuRand::new(42);
/// assert_eq!(rand.next_int(), 71876166);
/// assert_eq!(rand.next_int(), 708592740);
/// ```
#[derive(Clone, Debug)]
pub struct GnuRand {
    state: [u32; LAG],
    at: usize,
}

/// The largest value of [`GnuRand::next_int`], C's `RAND_MAX`.
pub const RAND_MAX: u32 = i32::MAX as u32;

/// A new value is the sum of those 31 and 3 places back.
const LAG: usize = 31;
const SHORT_LAG: usize = 3;
/// Values thrown away after seeding.
const WARM_UP: usize = 10 * LAG;

impl GnuRand {
    /// The generator after `srand(seed)`; 0 gives the same numbers as 1.
    pub fn new(seed: u32) -> Self {
        let mut word = seed.max(1).cast_signed();
        let mut state = [0; LAG];
        for value in &mut state {
            *value = word.cast_unsigned();
            word = minimal_standard(word);
        }
        let mut rand = Self { state, at: SHORT_LAG };
        for _ in 0..WARM_UP {
            rand.next_int();
        }
        rand
    }

    /// The next number, 0 to [`RAND_MAX`], as `rand()` gives it.
    pub fn next_int(&mut self) -> u32 {
        let short = (self.at + LAG - SHORT_LAG) % LAG;
        let value = self.state[self.at].wrapping_add(self.state[short]);
        self.state[self.at] = value;
        self.at = (self.at + 1) % LAG;
        // The lowest bit is the least random one and is dropped.
        value >> 1
    }

    /// The next number scaled to `low..=high`, computed in double precision as `r / RAND_MAX *
    /// (high - low) + low`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        f64::from(self.next_int()) / f64::from(RAND_MAX) * (high - low) + low
    }
}

/// `len` values between -`bound` and `bound`, in order from one [`GnuRand`].
///
/// `gnu_uniform(42, 0.1, 6810)` are the values from which DAHL trains the reference network.
pub fn gnu_uniform(seed: u32, bound: f64, len: usize) -> Vec<f32> {
    let mut rand = GnuRand::new(seed);
    (0..len).map(|_| rand.uniform(-bound, bound) as f32).collect()
}

/// `16807 * word mod (2^31 - 1)` in the range 0 to 2^31 - 2, for any signed word, with C's division
/// that rounds towards zero.
fn minimal_standard(word: i32) -> i32 {
    let (high, low) = (word / 127_773, word % 127_773);
    let next = 16_807 * low - 2_836 * high;
    if next < 0 { next + i32::MAX } else { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by a C program on glibc 2.36: `srand(seed)`, the first eight numbers and the 6810th.
    const GOLDEN: [(u32, [u32; 8], u32); 6] = [
        (
            42,
            [
                71876166, 708592740, 1483128881, 907283241, 442951012, 537146758, 1366999021,
                1854614940,
            ],
            1981462140,
        ),
        (
            1,
            [
                1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335, 719885386,
                1649760492,
            ],
            1673561342,
        ),
        (
            0,
            [
                1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335, 719885386,
                1649760492,
            ],
            1673561342,
        ),
        (
            2147483648,
            [
                1336741213, 1210407648, 1447044896, 337392383, 82502902, 538660432, 1313908778,
                370221063,
            ],
            673672452,
        ),
        (
            4294967295,
            [
                254925627, 1205188300, 366127624, 1401405153, 76053476, 1604170158, 1302235366,
                362229243,
            ],
            2122718051,
        ),
        (
            123456789,
            [
                1965102536, 1639725855, 706684578, 1926601937, 71238646, 1147998030, 1038816544,
                940714160,
            ],
            719648929,
        ),
    ];

    #[test]
    fn gives_the_numbers_of_the_c_library() {
        for (seed, first, late) in GOLDEN {
            let mut rand = GnuRand::new(seed);
            let numbers: Vec<u32> = (0..6810).map(|_| rand.next_int()).collect();
            assert_eq!(numbers[..8], first, "seed {seed}");
            assert_eq!(numbers[6809], late, "seed {seed}");
        }
    }

    #[test]
    fn uniform_stays_in_its_range() {
        let mut rand = GnuRand::new(42);
        let first = rand.uniform(-0.1, 0.1);
        assert!((first - (71876166.0 / 2147483647.0 * 0.2 - 0.1)).abs() < 1e-15);
        assert!((0..10_000).all(|_| (-0.1..=0.1).contains(&rand.uniform(-0.1, 0.1))));
    }
}
