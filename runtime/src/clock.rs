//! The clock of traces, statistics and idle threads.
//!
//! It is read twice per task, so it must be cheap: the processor's time-stamp counter, through
//! the crate `quanta`, takes 13 ns where [`Instant`] takes 33 (an EPYC 7003 in a virtual
//! machine). The counter is used where it can be trusted:
//!
//! * the processor says that it is invariant, which `quanta` checks: the same rate in every power
//!   state;
//! * and the kernel, which watches it, uses it itself (Linux, `current_clocksource`): the cores'
//!   counters agree, and no hypervisor asks for another source.
//!
//! Else the clock is [`Instant`].
//!
//! *Rate*: the first clock of a process measures the counter against the system's clock, which
//! takes 0.6 to 1.5 ms and never more than 200; later clocks share the result. It is good to some
//! ten parts in a million.
//!
//! *Order*: the readings of one thread never go back. The counter is read without a fence, so the
//! readings of two threads may differ by some tens of nanoseconds from the order of the events
//! between them; whoever subtracts such readings saturates at 0.

use std::sync::OnceLock;
use std::time::Instant;

/// Where Linux says which counter it keeps time with.
#[cfg(target_os = "linux")]
const KERNEL_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Nanoseconds since a moment, the clock's start.
#[derive(Debug)]
pub(crate) struct Clock(Source);

#[derive(Debug)]
enum Source {
    /// The processor's counter, and what it read at the start.
    Counter(quanta::Clock, u64),
    System(Instant),
}

/// Whether the kernel keeps time with the processor's counter; where nobody says, leave it to
/// the processor's own word.
fn kernel_trusts_counter() -> bool {
    #[cfg(target_os = "linux")]
    if let Ok(source) = std::fs::read_to_string(KERNEL_SOURCE) {
        return matches!(source.trim(), "tsc" | "arch_sys_counter");
    }
    true
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        static COUNTER: OnceLock<Option<quanta::Clock>> = OnceLock::new();
        let counter =
            COUNTER.get_or_init(|| kernel_trusts_counter().then(quanta::Clock::new)).clone();
        Clock(match counter {
            Some(counter) => {
                let start = counter.raw();
                Source::Counter(counter, start)
            }
            None => Source::System(Instant::now()),
        })
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Source::Counter(counter, start) => counter.delta_as_nanos(*start, counter.raw()),
            Source::System(start) => start.elapsed().as_nanos() as u64,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn both() -> [Clock; 2] {
        [Clock::start(), Clock(Source::System(Instant::now()))]
    }

    #[test]
    fn a_thread_never_sees_time_go_back() {
        for clock in both() {
            let mut last = 0;
            for _ in 0..100_000 {
                let now = clock.now();
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        }
    }

    #[test]
    fn a_nanosecond_is_as_long_as_the_system_s() {
        for clock in both() {
            // Each pair of readings is inside the next; how long anything takes does not matter.
            let outer = Instant::now();
            let start = clock.now();
            let inner = Instant::now();
            while inner.elapsed().as_millis() < 20 {
                std::hint::spin_loop();
            }
            let least = inner.elapsed().as_nanos() as f64;
            let measured = (clock.now() - start) as f64;
            let most = outer.elapsed().as_nanos() as f64;
            assert!(measured > 0.99 * least, "{measured} of at least {least} ns");
            assert!(measured < 1.01 * most, "{measured} of at most {most} ns");
        }
    }

    #[test]
    fn later_clocks_start_later() {
        let first = Clock::start();
        let before = first.now();
        let second = Clock::start();
        assert!(second.now() <= first.now() - before);
    }
}
