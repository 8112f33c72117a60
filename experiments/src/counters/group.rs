//! Opening an event list on the calling thread, in as few groups as the processor allows.
//!
//! A group is counted as a whole or not at all, which is what makes ratios within it valid. A
//! processor may be unable to hold all events at once, or may not know some of them. The steps
//! are therefore: all events in one group; else, of the events that can be opened at all,
//! each pair that a ratio needs in a group of its own; else each event alone.

use std::io;

use perf_event::{Builder, Counter, Group};

use super::Event;
use super::counts::{Count, Counts};
use crate::reading::Reading;

/// A way to open events on the calling thread; tests put a recorded processor in its place.
pub(super) trait Source {
    /// An opened group.
    type Opened: Opened;
    /// Opens `events` as one group, not yet counting.
    fn open(&mut self, events: &[Event]) -> io::Result<Self::Opened>;
}

/// A group that can be switched and read from any thread.
pub(super) trait Opened {
    /// Starts or stops counting.
    fn enable(&mut self, on: bool) -> io::Result<()>;
    /// One reading per event, in the order in which they were opened.
    fn read(&mut self) -> io::Result<Vec<Reading<u64>>>;
}

/// The events of one list on one thread.
#[derive(Debug)]
pub(super) struct EventSet<O> {
    /// Groups, each with its events.
    groups: Vec<(Vec<Event>, O)>,
    /// Events that could not be opened, and why.
    absent: Vec<(Event, String)>,
}

impl<O: Opened> EventSet<O> {
    /// Opens `events` on the calling thread.
    pub(super) fn open(source: &mut impl Source<Opened = O>, events: &[Event]) -> Self {
        let mut set = EventSet { groups: Vec::new(), absent: Vec::new() };
        if let Ok(group) = source.open(events) {
            set.groups.push((events.to_vec(), group));
            return set;
        }
        let mut present = Vec::new();
        for &event in events {
            match source.open(&[event]) {
                Ok(_) => present.push(event),
                Err(error) => set.absent.push((event, reason(&error))),
            }
        }
        // Something is left to gain from one group only if some event was the obstacle.
        if present.len() < events.len()
            && present.len() > 1
            && let Ok(group) = source.open(&present)
        {
            set.groups.push((present, group));
            return set;
        }
        for pair in events.chunks(2) {
            let pair: Vec<Event> = pair.iter().copied().filter(|e| present.contains(e)).collect();
            set.open_pair(source, &pair);
        }
        set
    }

    fn open_pair(&mut self, source: &mut impl Source<Opened = O>, pair: &[Event]) {
        if pair.len() > 1
            && let Ok(group) = source.open(pair)
        {
            self.groups.push((pair.to_vec(), group));
            return;
        }
        for &event in pair {
            match source.open(&[event]) {
                Ok(group) => self.groups.push((vec![event], group)),
                Err(error) => self.absent.push((event, reason(&error))),
            }
        }
    }

    /// Starts or stops every group.
    pub(super) fn enable(&mut self, on: bool) -> io::Result<()> {
        self.groups.iter_mut().try_for_each(|(_, group)| group.enable(on))
    }

    /// Appends the counts to `counts`; groups are numbered from `first_group`.
    pub(super) fn read(&mut self, first_group: u32, counts: &mut Counts) {
        for (number, (events, group)) in (first_group..).zip(&mut self.groups) {
            let readings = group.read().unwrap_or_else(|error| {
                vec![Reading::unavailable(format!("read: {error}")); events.len()]
            });
            counts.counts.extend(events.iter().zip(readings).map(|(&event, reading)| Count {
                event,
                group: reading.value().map(|_| number),
                reading,
            }));
        }
        counts.counts.extend(self.absent.iter().map(|(event, reason)| Count {
            event: *event,
            group: None,
            reading: Reading::unavailable(reason),
        }));
    }
}

/// The system's words, and the setting that forbids counting where that is the cause.
fn reason(error: &io::Error) -> String {
    let mut text = format!("perf_event_open: {error}");
    if error.kind() == io::ErrorKind::PermissionDenied
        && let Ok(level) = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
    {
        text += &format!(" (kernel.perf_event_paranoid is {})", level.trim());
    }
    text
}

/// The running system.
#[derive(Debug, Default)]
pub(super) struct System;

impl Source for System {
    type Opened = PerfGroup;

    fn open(&mut self, events: &[Event]) -> io::Result<PerfGroup> {
        let mut group = Group::new()?;
        let counters = events
            .iter()
            .map(|&event| {
                let mut builder = Builder::new().kind(event.perf());
                // Only user mode, which needs no privilege; but a switch happens in the kernel,
                // so that its count in user mode would always be 0.
                builder.exclude_kernel(event != Event::ContextSwitches);
                builder.group(&mut group).build()
            })
            .collect::<io::Result<_>>()?;
        Ok(PerfGroup { group, counters })
    }
}

/// A group of the kernel's.
#[derive(Debug)]
pub(super) struct PerfGroup {
    group: Group,
    counters: Vec<Counter>,
}

impl Opened for PerfGroup {
    fn enable(&mut self, on: bool) -> io::Result<()> {
        if on { self.group.enable() } else { self.group.disable() }
    }

    fn read(&mut self) -> io::Result<Vec<Reading<u64>>> {
        let counts = self.group.read()?;
        let (enabled, running) = (counts.time_enabled(), counts.time_running());
        let readings = self.counters.iter().map(|counter| match counts.get(counter) {
            Some(&count) => Reading::from_count(count, enabled, running),
            None => Reading::unavailable("the kernel left the counter out of its group"),
        });
        Ok(readings.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor that holds `room` events at once and does not know some others.
    struct Recorded {
        room: usize,
        unknown: Vec<Event>,
        times: (u64, u64),
    }

    struct RecordedGroup(usize, (u64, u64));

    impl Opened for RecordedGroup {
        fn enable(&mut self, _: bool) -> io::Result<()> {
            Ok(())
        }
        fn read(&mut self) -> io::Result<Vec<Reading<u64>>> {
            let (enabled, running) = self.1;
            Ok((1..=self.0 as u64)
                .map(|i| Reading::from_count(i * 100, enabled, running))
                .collect())
        }
    }

    impl Source for Recorded {
        type Opened = RecordedGroup;
        fn open(&mut self, events: &[Event]) -> io::Result<RecordedGroup> {
            if events.iter().any(|event| self.unknown.contains(event)) {
                return Err(io::Error::from_raw_os_error(2));
            }
            if events.len() > self.room {
                return Err(io::Error::from_raw_os_error(22));
            }
            Ok(RecordedGroup(events.len(), self.times))
        }
    }

    fn read(room: usize, unknown: &[Event], times: (u64, u64)) -> Counts {
        let mut source = Recorded { room, unknown: unknown.to_vec(), times };
        let mut set = EventSet::open(&mut source, &Event::HARDWARE);
        set.enable(true).expect("a recorded group always starts");
        let mut counts = Counts::default();
        set.read(0, &mut counts);
        assert_eq!(counts.counts.len(), Event::HARDWARE.len(), "every event has an entry");
        counts
    }

    #[test]
    fn one_group_where_the_processor_holds_all() {
        let counts = read(6, &[], (10, 10));
        assert!(counts.counts.iter().all(|count| count.group == Some(0)));
        assert_eq!(counts.instructions_per_cycle(), Reading::Measured { value: 2.0 });
    }

    #[test]
    fn pairs_where_it_holds_two() {
        let counts = read(2, &[], (10, 5));
        let ratio = counts.ratio(Event::LlcLoadMisses, Event::LlcLoads);
        assert_eq!(ratio, Reading::Scaled { value: 2.0, share: 0.5 });
        assert!(counts.ratio(Event::LlcLoads, Event::Cycles).reason().is_some());
    }

    #[test]
    fn single_events_have_counts_but_no_ratio() {
        let counts = read(1, &[], (10, 10));
        assert_eq!(counts.reading(Event::Cycles), Reading::Measured { value: 100 });
        assert!(counts.instructions_per_cycle().reason().expect("no ratio").contains("one group"));
    }

    #[test]
    fn an_unknown_event_does_not_take_the_others_with_it() {
        let counts = read(6, &[Event::LlcStores], (10, 10));
        assert_eq!(counts.instructions_per_cycle(), Reading::Measured { value: 2.0 });
        let reason = counts.ratio(Event::LlcStoreMisses, Event::LlcStores);
        let reason = reason.reason().expect("unknown event");
        assert!(reason.contains("No such file or directory (os error 2)"), "{reason}");
    }

    #[test]
    fn a_machine_without_counters_gives_reasons_and_no_zero() {
        let counts = read(0, &[], (10, 10));
        assert!(counts.counts.iter().all(|count| count.reading.value().is_none()));
        let counts = read(6, &[], (10, 0));
        assert!(counts.counts.iter().all(|count| count.reading.value().is_none()));
    }

    #[test]
    fn a_denial_names_the_setting() {
        let text = reason(&io::Error::from_raw_os_error(13));
        assert!(text.contains("Permission denied"), "{text}");
        assert!(text.contains("perf_event_paranoid is"), "{text}");
    }
}
