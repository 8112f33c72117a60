//! A number together with how it came about.
//!
//! A report must never show a 0 where nothing was counted. [`Reading`] makes that a matter of
//! types: where there is no number, there is a reason instead, and every computation on
//! readings hands the reason on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A measured number, an estimate, or the reason why there is none.
///
/// ```
/// use millrace_experiments::reading::Reading;
///
/// let misses = Reading::Measured { value: 5_u64 };
/// let loads = Reading::unavailable("no such event");
/// assert_eq!(misses.value(), Some(5));
/// assert_eq!(Reading::<u64>::to_string(&loads), "unavailable: no such event");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reading<T> {
    /// Counted over the whole period.
    Measured {
        /// The number.
        value: T,
    },
    /// Counted during a part of the period and scaled up to all of it.
    Scaled {
        /// The estimate for the whole period.
        value: T,
        /// The part of the period that was counted, above 0 and below 1.
        share: f64,
    },
    /// Not counted.
    Unavailable {
        /// Why not, in the system's words where it gave any.
        reason: String,
    },
}

impl<T: Copy> Reading<T> {
    /// The number, where there is one.
    pub fn value(&self) -> Option<T> {
        match self {
            Reading::Measured { value } | Reading::Scaled { value, .. } => Some(*value),
            Reading::Unavailable { .. } => None,
        }
    }

    /// The same reading of another number.
    pub fn map<U>(&self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Measured { value } => Reading::Measured { value: change(*value) },
            Reading::Scaled { value, share } => {
                Reading::Scaled { value: change(*value), share: *share }
            }
            Reading::Unavailable { reason } => Reading::unavailable(reason),
        }
    }
}

impl<T> Reading<T> {
    /// There is no number, because of `reason`.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Reading::Unavailable { reason: reason.into() }
    }

    /// Why there is no number.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Reading::Unavailable { reason } => Some(reason),
            _ => None,
        }
    }

    /// The part of the period that was counted: 1 for a measured number, 0 for none.
    pub fn share(&self) -> f64 {
        match self {
            Reading::Measured { .. } => 1.0,
            Reading::Scaled { share, .. } => *share,
            Reading::Unavailable { .. } => 0.0,
        }
    }

    /// The status in words: `measured`, `scaled (37% of the time)` or `unavailable: reason`.
    pub fn status(&self) -> String {
        match self {
            Reading::Measured { .. } => "measured".to_owned(),
            Reading::Scaled { share, .. } => {
                format!("scaled (counted {:.0}% of the time)", share * 100.0)
            }
            Reading::Unavailable { reason } => format!("unavailable: {reason}"),
        }
    }
}

impl Reading<f64> {
    /// A measured floating-point number; what is not finite is no number.
    pub fn finite(value: f64) -> Self {
        if value.is_finite() {
            Reading::Measured { value }
        } else {
            Reading::unavailable(format!("the computation gave {value}"))
        }
    }
}

impl Reading<u64> {
    /// A count that ran for `running` of the `enabled` nanoseconds for which it was wanted.
    ///
    /// The kernel lets counters take turns when the processor has too few of them; the count is
    /// then scaled up, and says so. A thread's counter is enabled only while the thread runs: a
    /// worker that slept all the time has truly counted 0.
    pub fn from_count(count: u64, enabled: u64, running: u64) -> Self {
        if running == 0 && (enabled > 0 || count > 0) {
            return Reading::unavailable("the kernel never gave the group a hardware counter");
        }
        if running >= enabled {
            return Reading::Measured { value: count };
        }
        let (count, enabled, running) =
            (u128::from(count), u128::from(enabled), u128::from(running));
        let scaled = (count * enabled + running / 2) / running;
        Reading::Scaled {
            value: u64::try_from(scaled).unwrap_or(u64::MAX),
            share: running as f64 / enabled as f64,
        }
    }

    /// `self / whole`. Both must be counts of one group over one period, which only the caller
    /// can know: see [`Counts::ratio`](crate::counters::Counts::ratio).
    ///
    /// There is no quotient, only a reason, when either count is missing or `whole` is 0.
    pub(crate) fn over(&self, whole: &Reading<u64>, whole_name: &str) -> Reading<f64> {
        let (Some(part), Some(all)) = (self.value(), whole.value()) else {
            let reason = self.reason().or(whole.reason()).unwrap_or("a count is missing");
            return Reading::unavailable(reason);
        };
        if all == 0 {
            return Reading::unavailable(format!("the count of {whole_name} is 0"));
        }
        let value = part as f64 / all as f64;
        let share = self.share().min(whole.share());
        if share < 1.0 { Reading::Scaled { value, share } } else { Reading::Measured { value } }
    }
}

impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Measured { value } | Reading::Scaled { value, .. } => value.fmt(f),
            Reading::Unavailable { reason } => write!(f, "unavailable: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_states_the_status_of_each_number() {
        let text = |reading: &Reading<u64>| serde_json::to_string(reading).expect("plain data");
        assert_eq!(text(&Reading::Measured { value: 7 }), r#"{"status":"measured","value":7}"#);
        assert_eq!(
            text(&Reading::Scaled { value: 7, share: 0.5 }),
            r#"{"status":"scaled","value":7,"share":0.5}"#
        );
        let none = Reading::<u64>::unavailable("denied");
        assert_eq!(text(&none), r#"{"status":"unavailable","reason":"denied"}"#);
        assert_eq!(serde_json::from_str::<Reading<u64>>(&text(&none)).expect("own output"), none);
    }

    #[test]
    fn a_counter_that_never_ran_is_not_zero() {
        // But a thread that never ran has done nothing.
        assert_eq!(Reading::from_count(0, 0, 0), Reading::Measured { value: 0 });
        assert!(Reading::from_count(0, 10, 0).reason().is_some());
        assert_eq!(Reading::from_count(0, 10, 10), Reading::Measured { value: 0 });
    }

    #[test]
    fn a_number_that_is_not_finite_is_no_number() {
        assert!(Reading::finite(f64::NAN).reason().is_some());
        assert_eq!(Reading::finite(0.5).value(), Some(0.5));
    }

    fn any_reading() -> impl Strategy<Value = Reading<u64>> {
        prop_oneof![
            any::<u64>().prop_map(|value| Reading::Measured { value }),
            (any::<u64>(), 0.001..0.999_f64)
                .prop_map(|(value, share)| Reading::Scaled { value, share }),
            Just(Reading::unavailable("denied")),
            Just(Reading::Measured { value: 0 }),
        ]
    }

    proptest! {
        #[test]
        fn a_quotient_is_finite_or_has_a_reason(part in any_reading(), whole in any_reading()) {
            let ratio = part.over(&whole, "loads");
            match ratio.value() {
                Some(value) => {
                    prop_assert!(value.is_finite());
                    prop_assert!(part.value().is_some() && whole.value().unwrap_or(0) > 0);
                    prop_assert!(ratio.share() <= part.share().min(whole.share()));
                }
                None => prop_assert!(!ratio.reason().unwrap_or_default().is_empty()),
            }
        }

        #[test]
        fn scaling_never_shrinks_a_count(
            count in any::<u64>(), enabled in 1..u64::MAX, part in 0.0..1.0_f64
        ) {
            let running = ((enabled as f64 * part) as u64).min(enabled);
            let reading = Reading::from_count(count, enabled, running);
            if let Some(value) = reading.value() {
                prop_assert!(value >= count);
                prop_assert!(reading.share() > 0.0 && reading.share() <= 1.0);
            } else {
                prop_assert_eq!(running, 0);
            }
        }
    }
}
