//! What was counted, per thread and summed, and the ratios that may be taken of it.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::reading::Reading;

/// One event's count over the period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// What was counted.
    pub event: Event,
    /// Number of the group it was counted in: events of one group are counted at the same
    /// times. `None` where there is no count, or where threads grouped it differently.
    pub group: Option<u32>,
    /// How often it happened.
    pub reading: Reading<u64>,
}

/// Counts of one thread, or the sum over several, over one period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// One entry per event.
    pub counts: Vec<Count>,
}

impl Counts {
    /// No event could be counted, because of `reason`.
    pub fn unavailable(reason: &str) -> Self {
        let events = Event::HARDWARE.into_iter().chain(Event::SOFTWARE);
        let counts = events
            .map(|event| Count { event, group: None, reading: Reading::unavailable(reason) })
            .collect();
        Counts { counts }
    }

    fn find(&self, event: Event) -> Option<&Count> {
        self.counts.iter().find(|count| count.event == event)
    }

    /// The count of `event`.
    pub fn reading(&self, event: Event) -> Reading<u64> {
        match self.find(event) {
            Some(count) => count.reading.clone(),
            None => Reading::unavailable(format!("{} were not asked for", event.label())),
        }
    }

    /// `part / whole`, for counts of one group over this period.
    ///
    /// Where one of them is missing, `whole` is 0, or they were counted in different groups and
    /// hence possibly at different times, there is a reason instead of a quotient.
    pub fn ratio(&self, part: Event, whole: Event) -> Reading<f64> {
        let (part_count, whole_count) = (self.reading(part), self.reading(whole));
        let quotient = part_count.over(&whole_count, whole.label());
        let group = |event| self.find(event).and_then(|count| count.group);
        if quotient.value().is_some() && (group(part).is_none() || group(part) != group(whole)) {
            return Reading::unavailable(format!(
                "{} and {} were not counted in one group",
                part.label(),
                whole.label()
            ));
        }
        quotient
    }

    /// Instructions per cycle.
    pub fn instructions_per_cycle(&self) -> Reading<f64> {
        self.ratio(Event::Instructions, Event::Cycles)
    }

    /// The sum over `threads`, which are named in the reasons. An event has a sum only if every
    /// thread has a count of it; the share of a sum is the lowest share of its terms.
    pub fn sum(threads: &[(String, Counts)]) -> Counts {
        let Some((_, first)) = threads.first() else {
            return Counts::unavailable("no thread was counted");
        };
        let counts = first
            .counts
            .iter()
            .map(|count| {
                let mut group = count.group;
                let mut terms = Vec::with_capacity(threads.len());
                for (name, counts) in threads {
                    if counts.find(count.event).and_then(|c| c.group) != group {
                        group = None;
                    }
                    terms.push((name.as_str(), counts.reading(count.event)));
                }
                Count { event: count.event, group, reading: sum_readings(&terms) }
            })
            .collect();
        Counts { counts }
    }
}

fn sum_readings(terms: &[(&str, Reading<u64>)]) -> Reading<u64> {
    let mut total = 0_u64;
    let mut share = 1.0_f64;
    for (name, term) in terms {
        let Some(value) = term.value() else {
            let reason = term.reason().unwrap_or_default();
            // The same reason for every thread is a reason of the machine, not of a thread.
            let common = terms.iter().all(|(_, other)| other.reason() == Some(reason));
            return Reading::unavailable(if common {
                reason.to_owned()
            } else {
                format!("{name}: {reason}")
            });
        };
        total = total.saturating_add(value);
        share = share.min(term.share());
    }
    if share < 1.0 {
        Reading::Scaled { value: total, share }
    } else {
        Reading::Measured { value: total }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(loads: Reading<u64>, misses: Reading<u64>, groups: (u32, u32)) -> Counts {
        let group = |reading: &Reading<u64>, group| reading.value().map(|_| group);
        Counts {
            counts: vec![
                Count { event: Event::LlcLoads, group: group(&loads, groups.0), reading: loads },
                Count {
                    event: Event::LlcLoadMisses,
                    group: group(&misses, groups.1),
                    reading: misses,
                },
            ],
        }
    }

    const fn measured(value: u64) -> Reading<u64> {
        Reading::Measured { value }
    }

    #[test]
    fn a_ratio_needs_one_group() {
        let ratio = |groups| {
            counts(measured(100), measured(25), groups).ratio(Event::LlcLoadMisses, Event::LlcLoads)
        };
        assert_eq!(ratio((0, 0)), Reading::Measured { value: 0.25 });
        let reason = ratio((0, 1)).reason().map(str::to_owned);
        assert!(reason.expect("refused").contains("not counted in one group"));
    }

    #[test]
    fn a_ratio_of_an_absent_or_zero_count_is_a_reason() {
        let zero = counts(measured(0), measured(0), (0, 0));
        let ratio = zero.ratio(Event::LlcLoadMisses, Event::LlcLoads);
        assert_eq!(ratio.reason(), Some("the count of LLC loads is 0"));
        let absent = counts(Reading::unavailable("denied"), measured(3), (0, 0));
        let ratio = absent.ratio(Event::LlcLoadMisses, Event::LlcLoads);
        assert_eq!(ratio.reason(), Some("denied"));
        assert!(zero.instructions_per_cycle().reason().is_some());
    }

    #[test]
    fn a_sum_needs_every_worker() {
        let whole = counts(measured(10), measured(1), (0, 0));
        let part = counts(Reading::unavailable("denied"), measured(2), (0, 0));
        let named = |a: &Counts, b: &Counts| {
            Counts::sum(&[("worker 0".into(), a.clone()), ("worker 1".into(), b.clone())])
        };
        assert_eq!(named(&whole, &whole).reading(Event::LlcLoads), measured(20));
        let mixed = named(&whole, &part);
        assert_eq!(mixed.reading(Event::LlcLoads).reason(), Some("worker 1: denied"));
        assert_eq!(mixed.reading(Event::LlcLoadMisses), measured(3));
        assert_eq!(named(&part, &part).reading(Event::LlcLoads).reason(), Some("denied"));
    }

    #[test]
    fn threads_that_grouped_differently_share_no_ratio() {
        let one = counts(measured(10), measured(1), (0, 0));
        let other = counts(measured(10), measured(1), (0, 1));
        let sum = Counts::sum(&[("worker 0".into(), one), ("worker 1".into(), other)]);
        assert_eq!(sum.reading(Event::LlcLoadMisses), measured(2));
        assert!(sum.ratio(Event::LlcLoadMisses, Event::LlcLoads).reason().is_some());
    }

    proptest! {
        #[test]
        fn a_sum_is_scaled_as_soon_as_one_term_is(
            values in prop::collection::vec((0..1_000_000_u64, 0.01..1.5_f64), 1..8)
        ) {
            let terms: Vec<(String, Counts)> = values
                .iter()
                .enumerate()
                .map(|(i, &(value, share))| {
                    let reading = if share < 1.0 {
                        Reading::Scaled { value, share }
                    } else {
                        Reading::Measured { value }
                    };
                    (format!("worker {i}"), counts(reading.clone(), reading, (0, 0)))
                })
                .collect();
            let sum = Counts::sum(&terms).reading(Event::LlcLoads);
            prop_assert_eq!(sum.value(), Some(values.iter().map(|v| v.0).sum()));
            let lowest = values.iter().map(|v| v.1.min(1.0)).fold(1.0, f64::min);
            prop_assert_eq!(sum.share(), lowest);
        }
    }
}
