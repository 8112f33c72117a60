//! A sweep over granularities, and where efficiency falls below one half.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::bench::rows::median;

/// The efficiency that METG asks for.
pub(super) const HALF: f64 = 0.5;

/// Two granularities in a row below this efficiency end a sweep.
const CLEARLY_BELOW: f64 = 0.3;

/// What one granularity gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Iterations of the kernel in each body.
    pub(super) iterations: u32,
    /// Time of the workers per task, in microseconds.
    pub(super) granularity_us: f64,
    /// Floating-point operations or bytes that all workers do in the time of one task each.
    pub(super) work: f64,
}

impl Point {
    /// Floating-point operations or bytes per second, of all workers.
    pub(super) fn rate(&self) -> f64 {
        self.work / (self.granularity_us * 1e-6)
    }
}

/// A point of a finished sweep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// Iterations of the kernel in each body.
    pub iterations: u32,
    /// Wall time times workers, divided by the number of tasks, in microseconds.
    pub granularity_us: f64,
    /// The rate over the best rate of the sitting.
    pub efficiency: f64,
}

/// The points of one runtime and setting, from the largest granularity down.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    pub(super) points: Vec<Point>,
}

impl Sweep {
    /// Each granularity with the median time of the sweeps that came to it.
    pub(super) fn median(sweeps: &[Sweep]) -> Sweep {
        let mut all: BTreeMap<Reverse<u32>, Vec<Point>> = BTreeMap::new();
        for point in sweeps.iter().flat_map(|sweep| &sweep.points) {
            all.entry(Reverse(point.iterations)).or_default().push(*point);
        }
        let middle = |points: &Vec<Point>| {
            let times: Vec<f64> = points.iter().map(|point| point.granularity_us).collect();
            Point { granularity_us: median(&times).0, ..points[0] }
        };
        Sweep { points: all.values().map(middle).collect() }
    }

    /// Whether the last points are clearly below one half of `peak`.
    pub(super) fn is_done(&self, peak: f64) -> bool {
        let last = self.points.len().saturating_sub(2);
        let below = |point: &Point| point.rate() < CLEARLY_BELOW * peak;
        self.points.len() >= 2 && self.points[last..].iter().all(below)
    }

    /// The best rate; 0 if there is no point.
    pub(super) fn peak(&self) -> f64 {
        self.points.iter().map(Point::rate).fold(0.0, f64::max)
    }

    /// The points as shares of `peak`.
    pub(super) fn efficiencies(&self, peak: f64) -> Vec<Efficiency> {
        let share = |point: &Point| Efficiency {
            iterations: point.iterations,
            granularity_us: point.granularity_us,
            efficiency: point.rate() / peak,
        };
        self.points.iter().map(share).collect()
    }
}

/// The smallest granularity, in microseconds, at which `points` (from the largest number of
/// iterations down) reach one half: as Task Bench has it, the smallest granularity of a point that
/// does, on the line to the point after it where that one is smaller still. `None` when no point
/// reaches one half, or the last one still does.
pub(super) fn metg(points: &[Efficiency]) -> Option<f64> {
    let reaches = |(_, point): &(usize, &Efficiency)| point.efficiency >= HALF;
    let (smallest, above) = points
        .iter()
        .enumerate()
        .filter(reaches)
        .min_by(|(_, a), (_, b)| a.granularity_us.total_cmp(&b.granularity_us))?;
    let below = points.get(smallest + 1)?;
    if below.granularity_us >= above.granularity_us {
        return Some(above.granularity_us);
    }
    let share = (above.efficiency - HALF) / (above.efficiency - below.efficiency);
    Some(above.granularity_us + share * (below.granularity_us - above.granularity_us))
}

/// The iterations of a sweep that begins with `largest`, each half of the one before.
pub(super) fn halves(largest: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(largest.max(1)), |iterations| Some(iterations / 2))
        .take_while(|iterations| *iterations > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Efficiency> {
        let point = |&(granularity_us, efficiency)| Efficiency {
            iterations: 1,
            granularity_us,
            efficiency,
        };
        pairs.iter().map(point).collect()
    }

    fn assert_near(found: Option<f64>, expected: f64) {
        let found = found.expect("a crossing");
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn the_crossing_is_on_the_line_between_two_points() {
        assert_near(metg(&points(&[(16.0, 0.9), (4.0, 0.75), (1.0, 0.25), (0.5, 0.1)])), 2.5);
        assert_near(metg(&points(&[(8.0, 0.8), (2.0, 0.4)])), 3.5);
        assert_near(metg(&points(&[(3.0, 0.5), (1.0, 0.2)])), 3.0);
    }

    #[test]
    fn a_disturbed_point_above_the_crossing_does_not_matter() {
        assert_near(metg(&points(&[(16.0, 0.9), (8.0, 0.3), (4.0, 0.6), (1.0, 0.3)])), 3.0);
    }

    #[test]
    fn a_point_after_the_crossing_that_took_longer_is_no_end_of_the_line() {
        assert_near(metg(&points(&[(16.0, 0.9), (4.0, 0.6), (5.0, 0.2), (1.0, 0.1)])), 4.0);
    }

    #[test]
    fn without_a_crossing_there_is_no_figure() {
        assert_eq!(metg(&[]), None);
        assert_eq!(metg(&points(&[(8.0, 0.4), (4.0, 0.2)])), None);
        assert_eq!(metg(&points(&[(8.0, 0.9), (4.0, 0.6)])), None);
    }

    #[test]
    fn a_constant_cost_per_task_is_found() {
        // Bodies of k µs, each with a cost of 3 µs: efficiency is one half at 6 µs.
        let sweep = [64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0f64].map(|k| (k + 3.0, k / (k + 3.0)));
        let found = metg(&points(&sweep)).expect("a crossing");
        assert!((5.8..6.2).contains(&found), "{found}");
    }

    #[test]
    fn two_points_clearly_below_end_a_sweep() {
        let point = |rate| Point { iterations: 1, granularity_us: 1e6, work: rate };
        let done = |rates: &[f64]| {
            Sweep { points: rates.iter().map(|rate| point(*rate)).collect() }.is_done(10.0)
        };
        assert!(!done(&[]) && !done(&[1.0]) && !done(&[9.0, 1.0]) && !done(&[1.0, 4.0]));
        assert!(done(&[9.0, 2.0, 1.0]));
    }

    #[test]
    fn medians_are_of_the_sweeps_that_came_so_far() {
        let sweep = |times: &[f64]| {
            let point = |(iterations, granularity_us): (u32, &f64)| Point {
                iterations,
                granularity_us: *granularity_us,
                work: f64::from(iterations) * 2.0,
            };
            Sweep { points: halves(4).zip(times).map(point).collect() }
        };
        let median = Sweep::median(&[sweep(&[8.0, 4.0]), sweep(&[6.0, 5.0, 3.0]), sweep(&[7.0])]);
        let times: Vec<_> =
            median.points.iter().map(|point| (point.iterations, point.granularity_us)).collect();
        assert_eq!(times, [(4, 7.0), (2, 4.5), (1, 3.0)]);
        // 8 in 7 µs is the best of these.
        assert!((median.peak() / (8e6 / 7.0) - 1.0).abs() < 1e-9);
        assert_eq!(Sweep::median(&[]).peak(), 0.0);
    }

    #[test]
    fn sweeps_go_down_to_one_iteration() {
        assert_eq!(halves(11).collect::<Vec<_>>(), [11, 5, 2, 1]);
        assert_eq!(halves(0).collect::<Vec<_>>(), [1]);
    }
}
