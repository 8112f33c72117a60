//! What else the machine does meanwhile.

use std::fs;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Linux tells processor time in hundredths of a second, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time in seconds, at one moment.
#[derive(Debug)]
pub(super) struct Load {
    start: Instant,
    /// Of this process.
    own: f64,
    /// Of all processes, and of other machines on the same host.
    all: Option<f64>,
}

impl Load {
    pub(super) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Load { start: Instant::now(), own: own_seconds(), all: busy_seconds(&text) }
    }

    /// Cores that other processes kept busy since then, on average.
    pub(super) fn others(&self) -> Option<f64> {
        let Load { start, own, all } = Load::now();
        let others = all? - self.all? - (own - self.own);
        let seconds = start.duration_since(self.start).as_secs_f64();
        // The two clocks differ by up to a tick or two.
        Some((others / seconds).max(0.0)).filter(|_| seconds > 10.0 / TICKS_PER_SECOND)
    }
}

/// Processor time of this process, all threads, in seconds.
pub(super) fn own_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn busy_seconds(text: &str) -> Option<f64> {
    let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    let busy = ticks.get(..3)?.iter().chain(ticks.get(5..8)?).sum::<f64>();
    Some(busy / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy_time() {
        let text = "cpu  100 20 30 9000 500 1 2 7 4 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_seconds(text), Some(1.6));
        assert_eq!(busy_seconds("intr 5"), None);
        assert_eq!(busy_seconds(""), None);
    }
}
