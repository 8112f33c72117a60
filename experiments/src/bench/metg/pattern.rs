//! Dependence patterns: which tasks of one timestep a task of the next one waits for.

use clap::ValueEnum;
use serde::Serialize;

/// Neighbours on each side that [`Pattern::Nearest`] and [`Pattern::RandomNearest`] reach: five
/// columns in all.
const REACH: usize = 2;

/// Dependence sets of [`Pattern::RandomNearest`] before they come again.
const RANDOM_SETS: usize = 3;

/// Decides what [`Pattern::RandomNearest`] draws.
const SEED: u64 = 2020;

/// What task `(t, i)`, of timestep `t` and column `i`, depends on among the tasks of timestep
/// `t - 1`, as Task Bench names it.
///
/// ```
/// use millrace_experiments::bench::Pattern;
///
/// assert_eq!(Pattern::Stencil1d.predecessors(0, 3, 8), [2, 3, 4]);
/// assert_eq!(Pattern::Stencil1d.predecessors(0, 0, 8), [0, 1]); // the columns have an end
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Pattern {
    /// Nothing.
    #[value(name = "trivial")]
    #[serde(rename = "trivial")]
    Trivial,
    /// Columns `i - 1`, `i` and `i + 1`.
    #[value(name = "stencil_1d")]
    #[serde(rename = "stencil_1d")]
    Stencil1d,
    /// Columns `i - 2` to `i + 2`.
    #[value(name = "nearest")]
    #[serde(rename = "nearest")]
    Nearest,
    /// Columns `i` and `i ± 2^((t - 1) mod log2 width)`: a butterfly.
    #[value(name = "fft")]
    #[serde(rename = "fft")]
    Fft,
    /// Column `i`, and each of the four others of `i - 2` to `i + 2` with probability 1/4.
    #[value(name = "random_nearest")]
    #[serde(rename = "random_nearest")]
    RandomNearest,
    /// All columns.
    #[value(name = "all_to_all")]
    #[serde(rename = "all_to_all")]
    AllToAll,
}

impl Pattern {
    /// All patterns, in the order of the table.
    pub const ALL: [Pattern; 6] = [
        Pattern::Trivial,
        Pattern::Stencil1d,
        Pattern::Nearest,
        Pattern::Fft,
        Pattern::RandomNearest,
        Pattern::AllToAll,
    ];

    /// Its name in Task Bench.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Trivial => "trivial",
            Pattern::Stencil1d => "stencil_1d",
            Pattern::Nearest => "nearest",
            Pattern::Fft => "fft",
            Pattern::RandomNearest => "random_nearest",
            Pattern::AllToAll => "all_to_all",
        }
    }

    /// Number of dependence sets, which come in turn. At least 1.
    pub fn sets(self, width: usize) -> usize {
        match self {
            // The logarithm of the width, rounded up.
            Pattern::Fft => width.next_power_of_two().trailing_zeros().max(1) as usize,
            Pattern::RandomNearest => RANDOM_SETS,
            _ => 1,
        }
    }

    /// The dependence set of a timestep, which is at least 1: the first one depends on nothing.
    pub fn set_at(self, timestep: u64, width: usize) -> usize {
        let timestep = match self {
            Pattern::Fft => timestep - 1, // the butterfly begins with its smallest distance
            _ => timestep,
        };
        (timestep % self.sets(width) as u64) as usize
    }

    /// The columns that column `column` of a graph of `width` columns depends on in dependence
    /// set `set`, in ascending order.
    pub fn predecessors(self, set: usize, column: usize, width: usize) -> Vec<usize> {
        let around = |reach: usize| column.saturating_sub(reach)..=(column + reach).min(width - 1);
        match self {
            Pattern::Trivial => Vec::new(),
            Pattern::Stencil1d => around(1).collect(),
            Pattern::Nearest => around(REACH).collect(),
            Pattern::Fft => {
                let distance = 1 << set;
                let below = column.checked_sub(distance);
                let above = Some(column + distance).filter(|above| *above < width);
                below.into_iter().chain([column]).chain(above).collect()
            }
            Pattern::RandomNearest => {
                around(REACH).filter(|from| *from == column || draw(set, column, *from)).collect()
            }
            Pattern::AllToAll => (0..width).collect(),
        }
    }
}

/// Whether a task depends on its neighbour `from`: in one case of four, the same at each call.
fn draw(set: usize, column: usize, from: usize) -> bool {
    let words = [set as u64, column as u64, from as u64];
    words.into_iter().fold(SEED, |hash, word| mix(hash ^ word)) >> 62 == 0
}

/// One step of the generator SplitMix64, whose bits all depend on all bits of `state`.
fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [usize; 7] = [1, 2, 3, 4, 7, 8, 33];

    fn counts(pattern: Pattern, width: usize) -> Vec<usize> {
        (0..width).map(|column| pattern.predecessors(0, column, width).len()).collect()
    }

    #[test]
    fn predecessors_are_columns_of_the_graph_in_order() {
        for (pattern, width) in Pattern::ALL.into_iter().flat_map(|p| WIDTHS.map(|w| (p, w))) {
            for (set, column) in
                (0..pattern.sets(width)).flat_map(|set| (0..width).map(move |c| (set, c)))
            {
                let from = pattern.predecessors(set, column, width);
                assert!(from.is_sorted_by(|a, b| a < b), "{pattern:?} {width} {set} {from:?}");
                assert!(from.iter().all(|from| *from < width), "{pattern:?} {width} {from:?}");
                let itself = from.contains(&column);
                assert_eq!(itself, pattern != Pattern::Trivial, "{pattern:?} {width} {from:?}");
            }
        }
    }

    #[test]
    fn dependence_is_mutual() {
        let mutual = [Pattern::Stencil1d, Pattern::Nearest, Pattern::Fft, Pattern::AllToAll];
        for (pattern, width) in mutual.into_iter().flat_map(|p| WIDTHS.map(|w| (p, w))) {
            for set in 0..pattern.sets(width) {
                let has = |of: usize, from| pattern.predecessors(set, of, width).contains(&from);
                for (a, b) in (0..width).flat_map(|a| (0..width).map(move |b| (a, b))) {
                    assert_eq!(has(a, b), has(b, a), "{pattern:?}, width {width}, set {set}");
                }
            }
        }
    }

    #[test]
    fn edges_have_fewer_predecessors() {
        assert_eq!(counts(Pattern::Trivial, 5), [0; 5]);
        assert_eq!(counts(Pattern::Stencil1d, 5), [2, 3, 3, 3, 2]);
        assert_eq!(counts(Pattern::Nearest, 6), [3, 4, 5, 5, 4, 3]);
        assert_eq!(counts(Pattern::AllToAll, 3), [3; 3]);
        for pattern in [Pattern::Stencil1d, Pattern::Nearest, Pattern::Fft] {
            assert_eq!(pattern.predecessors(0, 0, 1), [0], "{pattern:?} has one column");
        }
    }

    #[test]
    fn the_butterfly_doubles_its_distance() {
        assert_eq!([1, 2, 3, 4, 8, 33].map(|width| Pattern::Fft.sets(width)), [1, 1, 2, 2, 3, 6]);
        let of = |set, column| Pattern::Fft.predecessors(set, column, 8);
        assert_eq!([of(0, 3), of(1, 3)], [[2, 3, 4], [1, 3, 5]]);
        assert_eq!([of(2, 3), of(2, 4)], [[3, 7], [0, 4]]);
    }

    #[test]
    fn sets_come_in_turn() {
        let sets = |pattern: Pattern| [1, 2, 3, 4, 5].map(|timestep| pattern.set_at(timestep, 8));
        assert_eq!(sets(Pattern::Fft), [0, 1, 2, 0, 1]);
        assert_eq!(sets(Pattern::RandomNearest), [1, 2, 0, 1, 2]);
        assert_eq!(sets(Pattern::Stencil1d), [0; 5]);
        assert_eq!(Pattern::Fft.set_at(7, 1), 0);
    }

    #[test]
    fn a_turn_of_the_butterfly_reaches_every_column() {
        for bits in 1..6 {
            let width = 1 << bits;
            let mut reached = vec![0];
            for set in 0..Pattern::Fft.sets(width) {
                let reads = |column: &usize| {
                    let from = Pattern::Fft.predecessors(set, *column, width);
                    from.iter().any(|from| reached.contains(from))
                };
                reached = (0..width).filter(reads).collect();
            }
            assert_eq!(reached.len(), width);
        }
    }

    #[test]
    fn random_neighbours_are_a_quarter_and_always_the_same() {
        let pattern = Pattern::RandomNearest;
        let all = |width| -> Vec<Vec<usize>> {
            let sets = 0..pattern.sets(width);
            sets.flat_map(|set| (0..width).map(move |c| pattern.predecessors(set, c, width)))
                .collect()
        };
        let width = 200;
        assert_eq!(all(width), all(width));
        assert_ne!(all(width)[..width], all(width)[width..2 * width], "sets differ");
        // Written down once: StarPU's program draws the same graph.
        let drawn: Vec<_> = (0..8).map(|column| pattern.predecessors(2, column, 8)).collect();
        let expected: [&[usize]; 8] =
            [&[0, 2], &[1, 3], &[0, 1, 2], &[2, 3], &[4, 5, 6], &[5, 6], &[6], &[5, 6, 7]];
        assert_eq!(drawn, expected);
        let neighbours: usize = all(width).iter().map(|from| from.len() - 1).sum();
        let most = 4 * width * pattern.sets(width);
        assert!((most / 5..most * 3 / 10).contains(&neighbours), "{neighbours} of {most}");
    }
}
