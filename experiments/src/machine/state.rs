//! What a machine is doing at a moment: recorded before and after each run, so that a report can
//! tell a disturbed run from a slow one.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// Steps of the calibration loop: some milliseconds in a release build.
const STEPS: u64 = 1_000_000;
/// How often it is run, of which the median counts.
const TIMES: usize = 5;
/// A loop that takes this much longer than usual tells of a disturbed machine.
pub const DISTURBED: f64 = 1.1;

/// The machine between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// Seconds that a fixed loop of dependent multiplications took, on one processor.
    pub calibration: f64,
    /// Processes that ran or wanted to, mean over the last minute.
    pub load: Reading<f64>,
    /// Frequency of the processors in MHz, mean over them.
    pub megahertz: Reading<f64>,
    /// Times that processors were slowed down because they were hot, since the machine started.
    pub throttled: Reading<u64>,
}

impl MachineState {
    /// Looks at the machine, which takes some milliseconds.
    pub fn now() -> Self {
        MachineState {
            calibration: calibrate(),
            load: load(Path::new("/proc/loadavg")),
            megahertz: megahertz(Path::new("/proc/cpuinfo")),
            throttled: throttled(Path::new("/sys/devices/system/cpu")),
        }
    }

    /// Whether the calibration loop was disturbed, measured against that of `before`.
    pub fn is_slower_than(&self, before: &MachineState) -> bool {
        self.calibration > DISTURBED * before.calibration
    }

    /// Whether processors were slowed down because of heat since `before`.
    pub fn has_throttled_since(&self, before: &MachineState) -> bool {
        self.throttled.value().zip(before.throttled.value()).is_some_and(|(now, then)| now > then)
    }
}

/// For each of these seconds of the calibration loop, in the order of the runs, whether the
/// machine was disturbed then: slower by [`DISTURBED`] than the median of all.
///
/// ```
/// use millrace_experiments::machine::state::disturbed;
///
/// assert_eq!(disturbed(&[1.0, 1.05, 1.3, 0.98]), [false, false, true, false]);
/// ```
pub fn disturbed(calibrations: &[f64]) -> Vec<bool> {
    let mut sorted = calibrations.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN);
    calibrations.iter().map(|seconds| *seconds > DISTURBED * median).collect()
}

/// Seconds of the loop: the median of a few.
fn calibrate() -> f64 {
    let mut times = [0.0; TIMES];
    for time in &mut times {
        let start = Instant::now();
        let steps = (0..STEPS).fold(1_u64, |x, i| x.wrapping_mul(6_364_136_223_846_793_005) ^ i);
        black_box(steps);
        *time = start.elapsed().as_secs_f64();
    }
    times.sort_by(f64::total_cmp);
    times[TIMES / 2]
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn load(path: &Path) -> Reading<f64> {
    match read(path) {
        Ok(text) => match text.split_whitespace().next().and_then(|word| word.parse().ok()) {
            Some(load) => Reading::finite(load),
            None => Reading::unavailable(format!("{}: no number", path.display())),
        },
        Err(reason) => Reading::unavailable(reason),
    }
}

fn megahertz(path: &Path) -> Reading<f64> {
    let text = match read(path) {
        Ok(text) => text,
        Err(reason) => return Reading::unavailable(reason),
    };
    let values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "cpu MHz").then(|| value.trim().parse::<f64>().ok()).flatten()
    });
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    match count {
        0 => Reading::unavailable(format!("{}: no line `cpu MHz`", path.display())),
        count => Reading::finite(sum / f64::from(count)),
    }
}

/// The sum of the counters that processors keep under `root`.
fn throttled(root: &Path) -> Reading<u64> {
    const COUNTER: &str = "thermal_throttle/core_throttle_count";
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => return Reading::unavailable(format!("{}: {error}", root.display())),
    };
    let counts = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path().join(COUNTER)).ok()?;
        text.trim().parse::<u64>().ok()
    });
    match counts.reduce(u64::saturating_add) {
        Some(value) => Reading::Measured { value },
        None => Reading::unavailable(format!("no {COUNTER} under {}", root.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("in a folder")).expect("writable");
        fs::write(&path, text).expect("writable");
        (folder, path)
    }

    #[test]
    fn the_state_has_a_reading_or_a_reason_of_everything() {
        let state = MachineState::now();
        assert!(state.calibration > 0.0 && state.calibration.is_finite());
        assert_eq!(state.load.value().is_some(), state.load.reason().is_none());
        assert!(!state.has_throttled_since(&state));
    }

    #[test]
    fn numbers_are_read_and_their_absence_told() {
        let (_folder, path) = written("loadavg", "0.52 0.58 0.59 1/467 12345\n");
        assert_eq!(load(&path).value(), Some(0.52));
        assert!(load(Path::new("/nonexistent")).reason().expect("none").contains("/nonexistent"));
        let (_folder, path) = written("cpuinfo", "cpu MHz\t\t: 1000.5\nx : y\ncpu MHz : 2000.5\n");
        assert_eq!(megahertz(&path).value(), Some(1500.5));
        let (_folder, path) = written("cpuinfo", "model name : x\n");
        assert!(megahertz(&path).reason().expect("none").contains("cpu MHz"));
    }

    #[test]
    fn throttling_is_a_count_that_grows() {
        let (folder, path) = written("cpu0/thermal_throttle/core_throttle_count", "3\n");
        assert_eq!(throttled(folder.path()), Reading::Measured { value: 3 });
        let before = MachineState { throttled: throttled(folder.path()), ..MachineState::now() };
        fs::write(path, "4\n").expect("writable");
        let after = MachineState { throttled: throttled(folder.path()), ..before.clone() };
        assert!(after.has_throttled_since(&before) && !before.has_throttled_since(&after));
        let empty = tempfile::tempdir().expect("temporary directory");
        assert!(throttled(empty.path()).reason().is_some());
    }

    #[test]
    fn only_what_is_far_from_the_median_is_disturbed() {
        assert_eq!(disturbed(&[]), [false; 0]);
        assert_eq!(disturbed(&[2.0]), [false]);
        assert_eq!(disturbed(&[1.0, 1.11, 1.0]), [false, true, false]);
    }
}
