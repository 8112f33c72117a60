//! Totals of one lane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::causes::{CauseClock, CauseTimes};
use super::{LaneKinds, WorkerStatistics};
use crate::trace::Cause;

/// Totals of one lane; written by its thread alone, read by anyone.
#[derive(Default)]
pub(crate) struct LaneTotals {
    tasks: AtomicU64,
    cancelled: AtomicU64,
    busy: AtomicU64,
    idle: Mutex<IdleTotals>,
    pub(crate) kinds: LaneKinds,
}

#[derive(Default)]
struct IdleTotals {
    times: CauseTimes,
    since: Option<Interval>,
    /// How long the thread slept, within idle intervals.
    sleeping: u64,
    asleep_since: Option<u64>,
    sleeps: u64,
    wakeups: u64,
}

/// An idle interval in progress.
#[derive(Clone, Copy)]
struct Interval {
    start: u64,
    /// What the main thread had waited for by then.
    before: CauseTimes,
    /// The cause, where it is known already.
    cause: Option<Cause>,
}

impl IdleTotals {
    /// Counts an idle interval of `ns`, of which `waits` per cause overlap the main thread's.
    fn count(times: &mut CauseTimes, ns: u64, waits: CauseTimes) {
        let mut rest = ns;
        for ((total, cause), wait) in times.iter_mut().zip(Cause::ALL).zip(waits) {
            let share = if cause == Cause::NoReadyTask { rest } else { wait.min(rest) };
            *total += share;
            rest -= share;
        }
    }

    /// The totals, including the interval in progress up to `now`.
    fn until(&self, now: u64, clock: &CauseClock) -> CauseTimes {
        let mut times = self.times;
        if let Some(Interval { start, before, cause }) = self.since {
            let ns = now.saturating_sub(start);
            if let Some(index) = cause.and_then(Cause::index) {
                times[index] += ns;
            } else {
                let after = clock.read(now);
                let waits = std::array::from_fn(|i| after[i].saturating_sub(before[i]));
                Self::count(&mut times, ns, waits);
            }
        }
        times
    }

    /// The time asleep, including the sleep in progress up to `now`.
    fn sleeping_until(&self, now: u64) -> u64 {
        self.sleeping + self.asleep_since.map_or(0, |since| now.saturating_sub(since))
    }
}

pub(super) fn add(total: &AtomicU64, value: u64) {
    // One writer, so no read-modify-write is needed.
    total.store(total.load(Ordering::Relaxed) + value, Ordering::Relaxed);
}

impl LaneTotals {
    #[inline]
    pub(crate) fn task(&self, ns: u64) {
        add(&self.tasks, 1);
        add(&self.busy, ns);
    }

    pub(crate) fn cancelled(&self) {
        add(&self.cancelled, 1);
    }

    fn idle_totals(&self) -> MutexGuard<'_, IdleTotals> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle interval begins.
    pub(crate) fn idle_begin(&self, now: u64, clock: &CauseClock) {
        let before = clock.read(now);
        self.idle_totals().since = Some(Interval { start: now, before, cause: None });
    }

    /// An idle interval begins whose cause is known.
    pub(crate) fn away_begin(&self, now: u64, cause: Cause) {
        let before = CauseTimes::default();
        self.idle_totals().since = Some(Interval { start: now, before, cause: Some(cause) });
    }

    /// The idle interval ends; returns when it began.
    pub(crate) fn idle_end(&self, now: u64, clock: &CauseClock) -> Option<u64> {
        let mut idle = self.idle_totals();
        idle.times = idle.until(now, clock);
        idle.since.take().map(|interval| interval.start)
    }

    /// The thread falls asleep, at the time `now` if it is known.
    pub(crate) fn falls_asleep(&self, now: Option<u64>) {
        let mut idle = self.idle_totals();
        idle.sleeps += 1;
        idle.asleep_since = now;
    }

    /// The thread has woken up, at the time `now` if it is known.
    pub(crate) fn woke_up(&self, now: Option<u64>) {
        let mut idle = self.idle_totals();
        idle.wakeups += 1;
        if let Some(now) = now {
            idle.sleeping = idle.sleeping_until(now);
        }
        idle.asleep_since = None;
    }

    /// When the idle interval in progress began, and its cause, if that is known already.
    pub(crate) fn idle_since(&self) -> Option<(u64, Cause)> {
        let since = self.idle_totals().since?;
        Some((since.start, since.cause.unwrap_or_default()))
    }

    pub(crate) fn read(&self, now: u64, clock: &CauseClock) -> WorkerStatistics {
        let idle = self.idle_totals();
        let load = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let read = WorkerStatistics {
            tasks: load(&self.tasks),
            cancelled: load(&self.cancelled),
            busy_ns: load(&self.busy),
            scheduling_ns: 0,
            idle_ns: Cause::ALL.into_iter().zip(idle.until(now, clock)).collect(),
            looking_ns: 0,
            sleeping_ns: idle.sleeping_until(now),
            sleeps: idle.sleeps,
            wakeups: idle.wakeups,
        };
        read.with_looking()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::statistics::Starved;

    #[test]
    fn a_full_window_starves_from_its_beginning() {
        let clock = CauseClock::default();
        for cause in [Cause::Window, Cause::Memory] {
            clock.begin(cause, 3, 100);
            assert_eq!(clock.end(150), Some(Starved { cause, name: 3, start: 100, end: 150 }));
        }
        clock.begin(Cause::Drain, 3, 100);
        assert_eq!(clock.end(150), None);
    }

    #[test]
    fn an_idle_interval_divides_among_the_causes() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        clock.begin(Cause::Barrier, 4, 100);
        totals.idle_begin(120, &clock);
        // Until here there were tasks that had not been started.
        clock.starve(150);
        clock.starve(155);
        clock.begin(Cause::Acquire, 5, 160);
        assert_eq!(clock.end(170), None);
        let starved = Starved { cause: Cause::Barrier, name: 4, start: 150, end: 180 };
        assert_eq!(clock.feed(180), Some(starved), "a body has submitted a task");
        assert_eq!(clock.end(200), None);
        clock.starve(205);
        clock.begin(Cause::Window, 6, 220);
        // The interval in progress counts up to the reading, and once.
        let half = totals.read(210, &clock).idle_ns;
        assert_eq!((half[&Cause::Barrier], half[&Cause::NoReadyTask]), (30, 60));
        assert_eq!(totals.idle_end(250, &clock), Some(120));
        let idle = totals.read(300, &clock).idle_ns;
        assert_eq!(idle[&Cause::Barrier], 30);
        assert_eq!(idle[&Cause::Window], 30);
        assert_eq!(idle[&Cause::NoReadyTask], 70);
        assert_eq!(idle.values().sum::<u64>(), 130);
    }

    #[test]
    fn news_of_starvation_from_before_the_wait_count_from_its_beginning() {
        let clock = CauseClock::default();
        clock.begin(Cause::Drain, 1, 100);
        clock.starve(40);
        assert_eq!(clock.read(130).iter().sum::<u64>(), 30);
        assert_eq!(clock.feed(140).map(|starved| (starved.start, starved.end)), Some((100, 140)));
        clock.starve(120);
        assert_eq!(clock.end(150).map(|starved| (starved.start, starved.end)), Some((140, 150)));
        assert_eq!(clock.read(200).iter().sum::<u64>(), 50);
    }

    #[test]
    fn idle_time_is_looking_sleeping_or_being_away() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        let parts = |now| {
            let read = totals.read(now, &clock);
            let away = read.idle_ns[&Cause::MainBusy];
            assert_eq!(read.looking_ns + read.sleeping_ns + away, read.idle_total_ns());
            (read.looking_ns, read.sleeping_ns, away, read.sleeps, read.wakeups)
        };
        totals.idle_begin(100, &clock);
        assert_eq!(parts(130), (30, 0, 0, 0, 0));
        totals.falls_asleep(Some(140));
        assert_eq!(parts(150), (40, 10, 0, 1, 0));
        totals.woke_up(Some(190));
        assert_eq!(parts(200), (50, 50, 0, 1, 1));
        totals.falls_asleep(Some(205));
        totals.woke_up(Some(210));
        totals.idle_end(220, &clock);
        assert_eq!(parts(300), (65, 55, 0, 2, 2));
        totals.away_begin(300, Cause::MainBusy);
        assert_eq!(parts(330), (65, 55, 30, 2, 2));

        let earlier = totals.read(330, &clock);
        totals.idle_end(340, &clock);
        totals.idle_begin(350, &clock);
        totals.falls_asleep(Some(351));
        let since = totals.read(360, &clock).since(&earlier);
        assert_eq!((since.looking_ns, since.sleeping_ns), (1, 9));
        assert_eq!((since.idle_ns[&Cause::MainBusy], since.sleeps, since.wakeups), (10, 1, 0));
    }

    #[test]
    fn sleeps_are_counted_without_the_time() {
        let (clock, totals) = (CauseClock::default(), LaneTotals::default());
        totals.falls_asleep(None);
        totals.woke_up(None);
        totals.falls_asleep(None);
        let read = totals.read(1000, &clock);
        assert_eq!((read.sleeps, read.wakeups), (2, 1));
        assert_eq!((read.looking_ns, read.sleeping_ns, read.idle_total_ns()), (0, 0, 0));
    }
}
