//! When to report, on any clock.

/// Tasks started and ended so far.
pub(super) type Counts = (u64, u64);

/// Watches the counts. All times are in nanoseconds.
#[derive(Debug)]
pub(super) struct Patrol {
    after: u64,
    still: Option<Still>,
}

/// Nothing has moved for a while.
#[derive(Debug)]
struct Still {
    counts: Counts,
    since: u64,
    /// For how long nothing may have moved before the next report.
    until: u64,
}

impl Patrol {
    pub(super) fn new(after: u64) -> Self {
        Patrol { after, still: None }
    }

    /// Looks at the counts, `None` if there is nothing that could move. If it is time for a
    /// report: for how long nothing has moved, as far as looks can tell.
    pub(super) fn look(&mut self, now: u64, counts: Option<Counts>) -> Option<u64> {
        let Some(counts) = counts else {
            self.still = None;
            return None;
        };
        let still = self.still.get_or_insert(Still { counts, since: now, until: self.after });
        if still.counts != counts {
            *still = Still { counts, since: now, until: self.after };
        }
        let stalled = now.saturating_sub(still.since);
        if stalled < still.until {
            return None;
        }
        // From now on, so that a watchdog that was late itself does not report twice at once.
        still.until = stalled.saturating_mul(2);
        Some(stalled)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn reports(looks: &[(u64, Option<Counts>)]) -> Vec<(u64, u64)> {
        let mut patrol = Patrol::new(100);
        let look =
            |(now, counts): &(u64, Option<Counts>)| Some((*now, patrol.look(*now, *counts)?));
        looks.iter().filter_map(look).collect()
    }

    #[test]
    fn reports_come_at_doubled_intervals_while_nothing_moves() {
        let looks: Vec<_> = (0..=100).map(|look| (25 * look, Some((7, 3)))).collect();
        assert_eq!(reports(&looks), [100, 200, 400, 800, 1600].map(|time| (time, time)));
    }

    #[test]
    fn whatever_moves_begins_anew() {
        let looks: Vec<_> = (0..=100)
            .map(|look| {
                let counts = match 25 * look {
                    0..=150 => (7, 3),
                    175..=500 => (7, 4),
                    // One that starts at every look.
                    time @ 525..=1500 => (time, 4),
                    _ => (9000, 4),
                };
                (25 * look, Some(counts))
            })
            .collect();
        let expected = [(100, 100), (275, 100), (375, 200), (1625, 100), (1725, 200), (1925, 400)];
        assert_eq!(reports(&looks)[..6], expected);
    }

    #[test]
    fn an_idle_runtime_is_no_stall() {
        let idle: Vec<_> = (0..=100).map(|look| (25 * look, None)).collect();
        assert_eq!(reports(&idle), []);
        // Nor is the time before something could move: the counts are those of long ago.
        let mut looks: Vec<_> = (0..=100).map(|look| (25 * look, None)).collect();
        looks[0].1 = Some((7, 7));
        looks[50..].iter_mut().for_each(|look| look.1 = Some((7, 7)));
        assert_eq!(reports(&looks)[0], (1350, 100));
    }

    #[test]
    fn a_late_look_reports_once() {
        let looks = [0, 990, 1000, 1500, 1979, 1980].map(|time| (time, Some((1, 0))));
        assert_eq!(reports(&looks), [(990, 990), (1980, 1980)]);
    }
}
