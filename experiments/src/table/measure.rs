//! What is shown of a run, in which unit, and where it comes from.

use millrace_runtime::trace::Cause;

use crate::counters::Event;
use crate::reading::Reading;
use crate::result::RunResult;

/// How a number is written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Samples per second.
    PerSecond,
    /// A share of a whole, shown in percent.
    Share,
    /// A plain number.
    Plain,
    /// Bytes, shown in MiB.
    Bytes,
    /// A count.
    Count,
    /// Joules.
    Joules,
}

impl Unit {
    /// `value` in words.
    pub fn format(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 10.0 => format!("{value:.3} s"),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Share => format!("{:.2}%", value * 100.0),
            Unit::Plain => format!("{value:.4}"),
            Unit::Bytes => format!("{:.2} MiB", value / f64::from(1 << 20)),
            Unit::Count => format!("{value:.0}"),
            Unit::Joules => format!("{value:.1} J"),
        }
    }
}

/// One measure of a run.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Name of the column in the CSV; the unit is in it.
    pub key: &'static str,
    /// Name in tables for people.
    pub label: &'static str,
    /// How its number is written.
    pub unit: Unit,
    /// Whether the table in the terminal has it.
    pub is_brief: bool,
    read: fn(&RunResult) -> Reading<f64>,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Measure").field(&self.key).finish()
    }
}

impl Measure {
    /// The measure's number of `result`, or why there is none.
    pub fn of(&self, result: &RunResult) -> Reading<f64> {
        (self.read)(result)
    }
}

const fn brief(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    read: fn(&RunResult) -> Reading<f64>,
) -> Measure {
    Measure { key, label, unit, is_brief: true, read }
}

const fn detail(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    read: fn(&RunResult) -> Reading<f64>,
) -> Measure {
    Measure { key, label, unit, is_brief: false, read }
}

fn count(value: u64) -> Reading<f64> {
    Reading::Measured { value: value as f64 }
}

fn counter(result: &RunResult, event: Event) -> Reading<f64> {
    result.counters.workers.reading(event).map(|value| value as f64)
}

fn waited(result: &RunResult, cause: Cause) -> Reading<f64> {
    Reading::finite(result.time.main_wait(cause))
}

fn idle(result: &RunResult, cause: Cause) -> Reading<f64> {
    result.time.idle_share(cause, result.seconds)
}

/// Every measure, in the order of the tables.
///
/// Waits of the main thread are in seconds and as a share of the run; idleness of the workers is
/// a share of the workers' time. A cause that cannot take a share of its own is a detail.
pub const MEASURES: &[Measure] = &[
    brief("run_seconds", "run time", Unit::Seconds, |r| Reading::finite(r.seconds)),
    brief("images_per_second", "images", Unit::PerSecond, RunResult::images_per_second),
    brief("test_accuracy", "test accuracy", Unit::Share, |r| Reading::finite(r.test_accuracy)),
    detail("last_loss", "loss, last epoch", Unit::Plain, |r| match r.last_epoch() {
        Some(epoch) => epoch.loss.clone(),
        None => Reading::unavailable("no epoch was finished"),
    }),
    detail("last_accuracy", "accuracy, last epoch", Unit::Share, |r| match r.last_epoch() {
        Some(epoch) => Reading::finite(epoch.accuracy),
        None => Reading::unavailable("no epoch was finished"),
    }),
    brief("wait_barrier_seconds", "main waits: barrier", Unit::Seconds, |r| {
        waited(r, Cause::Barrier)
    }),
    brief("wait_barrier_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Barrier)),
    brief("wait_loader_seconds", "main waits: loader late", Unit::Seconds, |r| {
        waited(r, Cause::Loader)
    }),
    brief("wait_loader_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Loader)),
    brief("wait_window_seconds", "main waits: window full", Unit::Seconds, |r| {
        waited(r, Cause::Window)
    }),
    brief("wait_window_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Window)),
    detail("wait_memory_seconds", "main waits: memory window full", Unit::Seconds, |r| {
        waited(r, Cause::Memory)
    }),
    detail("wait_memory_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Memory)),
    brief("wait_acquire_seconds", "main waits: acquire", Unit::Seconds, |r| {
        waited(r, Cause::Acquire)
    }),
    brief("wait_acquire_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Acquire)),
    brief("wait_drain_seconds", "main waits: drain", Unit::Seconds, |r| waited(r, Cause::Drain)),
    brief("wait_drain_share", "  share of run", Unit::Share, |r| r.wait_share(Cause::Drain)),
    brief("worker_busy_share", "workers: busy", Unit::Share, |r| r.time.busy_share(r.seconds)),
    brief("idle_barrier_share", "workers idle: barrier", Unit::Share, |r| idle(r, Cause::Barrier)),
    brief("idle_loader_share", "workers idle: loader late", Unit::Share, |r| {
        idle(r, Cause::Loader)
    }),
    detail("idle_window_share", "workers idle: window full", Unit::Share, |r| {
        idle(r, Cause::Window)
    }),
    detail("idle_memory_share", "workers idle: memory window full", Unit::Share, |r| {
        idle(r, Cause::Memory)
    }),
    detail("idle_acquire_share", "workers idle: acquire", Unit::Share, |r| idle(r, Cause::Acquire)),
    detail("idle_drain_share", "workers idle: drain", Unit::Share, |r| idle(r, Cause::Drain)),
    brief("idle_no_ready_task_share", "workers idle: no ready task", Unit::Share, |r| {
        idle(r, Cause::NoReadyTask)
    }),
    brief("idle_main_busy_share", "workers idle: main busy", Unit::Share, |r| {
        idle(r, Cause::MainBusy)
    }),
    brief("scheduling_share", "workers: scheduling", Unit::Share, |r| {
        r.time.scheduling_share(r.seconds)
    }),
    detail("tasks", "tasks", Unit::Count, |r| count(r.time.tasks)),
    brief("peak_arena_bytes", "arenas, peak in training", Unit::Bytes, |r| {
        count(r.peak_arena_bytes())
    }),
    detail("late_chunks", "chunks allocated late", Unit::Count, |r| count(r.late_chunks() as u64)),
    brief("peak_rss_bytes", "RSS, peak in training", Unit::Bytes, |r| {
        r.peak_resident.map(|b| b as f64)
    }),
    brief("llc_load_miss_ratio", "LLC load misses/loads", Unit::Share, |r| r.llc_load_miss_ratio()),
    brief("llc_store_miss_ratio", "LLC store misses/stores", Unit::Share, |r| {
        r.llc_store_miss_ratio()
    }),
    brief("instructions_per_cycle", "instructions per cycle", Unit::Plain, |r| {
        r.counters.workers.instructions_per_cycle()
    }),
    brief("energy_joules", "energy", Unit::Joules, |r| r.energy.packages.clone()),
    brief("task_clock_seconds", "workers: task clock", Unit::Seconds, |r| {
        counter(r, Event::TaskClock).map(|nanoseconds| nanoseconds / 1e9)
    }),
    brief("page_faults", "workers: page faults", Unit::Count, |r| counter(r, Event::PageFaults)),
    brief("context_switches", "workers: context switches", Unit::Count, |r| {
        counter(r, Event::ContextSwitches)
    }),
    detail("cycles", "cycles", Unit::Count, |r| counter(r, Event::Cycles)),
    detail("instructions", "instructions", Unit::Count, |r| counter(r, Event::Instructions)),
    detail("llc_loads", "LLC loads", Unit::Count, |r| counter(r, Event::LlcLoads)),
    detail("llc_load_misses", "LLC load misses", Unit::Count, |r| counter(r, Event::LlcLoadMisses)),
    detail("llc_stores", "LLC stores", Unit::Count, |r| counter(r, Event::LlcStores)),
    detail("llc_store_misses", "LLC store misses", Unit::Count, |r| {
        counter(r, Event::LlcStoreMisses)
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combination::Combination;
    use crate::result::example;

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<&str> = MEASURES.iter().map(|measure| measure.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), MEASURES.len());
    }

    #[test]
    fn every_cause_of_waiting_is_shown() {
        for cause in Cause::ALL {
            let word = serde_json::to_string(&cause).expect("a plain name");
            let word = word.trim_matches('"');
            let has = |key: String| MEASURES.iter().any(|measure| measure.key == key);
            assert!(has(format!("idle_{word}_share")), "{word}");
            // The main thread never waits for a task to become ready, nor for itself.
            if !matches!(cause, Cause::NoReadyTask | Cause::MainBusy) {
                assert!(has(format!("wait_{word}_seconds")), "{word}");
                assert!(has(format!("wait_{word}_share")), "{word}");
            }
        }
    }

    #[test]
    fn a_missing_count_is_a_reason_in_every_measure_of_it() {
        let result = example(Combination::ALL[0]);
        let of = |key: &str| {
            let measure = MEASURES.iter().find(|measure| measure.key == key);
            measure.expect("a measure").of(&result)
        };
        for key in ["llc_load_miss_ratio", "instructions_per_cycle", "cycles", "energy_joules"] {
            assert!(of(key).reason().expect(key).contains("No such file or directory"));
        }
        assert_eq!(of("task_clock_seconds").value(), Some(3.0));
    }

    #[test]
    fn units_are_written_for_people() {
        assert_eq!(Unit::Seconds.format(1.5), "1.500 s");
        assert_eq!(Unit::Share.format(0.8015), "80.15%");
        assert_eq!(Unit::Bytes.format(1_572_864.0), "1.50 MiB");
    }
}
