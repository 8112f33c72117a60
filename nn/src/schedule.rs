//! How the step size changes from update to update.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::NnError;

/// What the step size of the optimiser is multiplied by in each update: a linear warm-up, if any,
/// and a course after it.
///
/// It counts updates (batches), not epochs: with `n` batches in an epoch, "every 30 epochs" is
/// every `30 * n` updates.
///
/// ```
/// use millrace_nn::{Course, Schedule};
///
/// let schedule = Schedule {
///     warm_up: 4,
///     course: Course::Step { every: 10, factor: 0.5 },
///     ..Schedule::default()
/// };
/// schedule.check()?;
/// let factors = [0, 1, 2, 3, 4, 13, 14].map(|update| schedule.factor(update));
/// assert_eq!(factors, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 0.5]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// Updates over which the factor rises in a line to 1; 0 for none.
    pub warm_up: u64,
    /// The factor of the first update of the warm-up, 0 to 1.
    pub warm_up_from: f64,
    /// What comes after the warm-up.
    pub course: Course,
}

/// How the step size goes down. Updates count from the end of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Course {
    /// Not at all.
    #[default]
    Constant,
    /// By `factor` every `every` updates.
    Step {
        /// Updates between two changes, at least 1.
        every: u64,
        /// What each change multiplies by, finite and not negative.
        factor: f64,
    },
    /// Along half a cosine from 1 to `floor`, where it stays.
    Cosine {
        /// Updates until the floor is reached, at least 1.
        updates: u64,
        /// The last factor, 0 to 1.
        #[serde(default)]
        floor: f64,
    },
}

impl Schedule {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`NnError::Setting`] for the first that has no meaning.
    pub fn check(&self) -> Result<(), NnError> {
        let wrong = |setting, got: &dyn ToString, wanted| {
            Err(NnError::setting("schedule", setting, got.to_string(), wanted))
        };
        let share = |value: f64| (0.0..=1.0).contains(&value);
        if !share(self.warm_up_from) {
            return wrong("warm_up_from", &self.warm_up_from, "a number from 0 to 1");
        }
        match self.course {
            Course::Step { every: 0, .. } => wrong("every", &0, "at least 1 update"),
            Course::Step { factor, .. } if !(factor.is_finite() && factor >= 0.0) => {
                wrong("factor", &factor, "a finite number of at least 0")
            }
            Course::Cosine { updates: 0, .. } => wrong("updates", &0, "at least 1 update"),
            Course::Cosine { floor, .. } if !share(floor) => {
                wrong("floor", &floor, "a number from 0 to 1")
            }
            _ => Ok(()),
        }
    }

    /// The factor of an update, 0 for the first.
    pub fn factor(&self, update: u64) -> f64 {
        if update < self.warm_up {
            let share = update as f64 / self.warm_up as f64;
            self.warm_up_from + (1.0 - self.warm_up_from) * share
        } else {
            self.course.factor(update - self.warm_up)
        }
    }
}

impl Course {
    fn factor(&self, update: u64) -> f64 {
        match *self {
            Self::Constant => 1.0,
            Self::Step { every, factor } => factor.powf((update / every) as f64),
            Self::Cosine { updates, floor } => {
                let share = update.min(updates) as f64 / updates as f64;
                floor + (1.0 - floor) * (1.0 + (PI * share).cos()) / 2.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(course: Course) -> Schedule {
        Schedule { course, ..Schedule::default() }
    }

    #[test]
    fn a_course_begins_at_one_and_ends_at_its_floor() {
        let cosine = with(Course::Cosine { updates: 8, floor: 0.25 });
        assert_eq!(cosine.factor(0), 1.0);
        assert!((cosine.factor(4) - 0.625).abs() < 1e-15);
        for update in [8, 9, 1000, u64::MAX] {
            assert_eq!(cosine.factor(update), 0.25, "{update}");
        }
        let falls = (0..8).all(|update| cosine.factor(update + 1) < cosine.factor(update));
        assert!(falls);
        assert_eq!(with(Course::Constant).factor(u64::MAX), 1.0);
        let step = with(Course::Step { every: 3, factor: 0.5 });
        assert_eq!([0, 2, 3, 5, 6].map(|update| step.factor(update)), [1.0, 1.0, 0.5, 0.5, 0.25]);
    }

    #[test]
    fn settings_without_meaning_are_refused() {
        for schedule in [
            Schedule { warm_up_from: 1.5, ..Schedule::default() },
            Schedule { warm_up_from: f64::NAN, ..Schedule::default() },
            with(Course::Step { every: 0, factor: 0.5 }),
            with(Course::Step { every: 1, factor: -0.5 }),
            with(Course::Step { every: 1, factor: f64::INFINITY }),
            with(Course::Cosine { updates: 0, floor: 0.0 }),
            with(Course::Cosine { updates: 1, floor: 2.0 }),
        ] {
            assert!(schedule.check().is_err(), "{schedule:?}");
        }
        assert!(Schedule::default().check().is_ok());
    }
}
