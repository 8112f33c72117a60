//! Statistics per kind of task: all tasks of one name.
//!
//! Each executing thread counts its own tasks, without locks or waiting: it owns one
//! [`KindTotals`] per kind that it has met, which others may read at any time. A lock is taken
//! when a thread meets a kind for the first time, and by readers.
//!
//! Bytes are counted where they are declared, by the holder of the submission lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::durations::{DurationSum, DurationTotals, Durations};
use crate::trace::{NameCache, Recorder};

/// Totals of the tasks of one name. Collected while timing is on
/// ([`Builder::timing`](crate::Builder::timing)) or a trace is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindStatistics {
    /// Time in bodies; its count is the number of bodies run.
    pub body: Durations,
    /// From when a task became ready until its body began: how long it waited for a worker.
    /// A task is ready when the body of the last task that it depends on has ended, or when it
    /// was submitted if it waits for none.
    pub delay: Durations,
    /// Bytes of the memory that the submitted tasks declared, each access by itself: what their
    /// bodies are handed.
    pub bytes: u64,
}

impl KindStatistics {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        KindStatistics {
            body: self.body.since(&earlier.body),
            delay: self.delay.since(&earlier.delay),
            bytes: self.bytes - earlier.bytes,
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes == 0 && self.body.count() == 0
    }
}

/// The difference of two readings, without kinds of which nothing happened in between.
pub(super) fn since(
    now: &BTreeMap<String, KindStatistics>,
    earlier: &BTreeMap<String, KindStatistics>,
) -> BTreeMap<String, KindStatistics> {
    let difference = |name: &String, now: &KindStatistics| match earlier.get(name) {
        Some(earlier) => now.since(earlier),
        None => now.clone(),
    };
    now.iter()
        .map(|(name, now)| (name.clone(), difference(name, now)))
        .filter(|(_, kind)| !kind.is_empty())
        .collect()
}

/// What one thread counted of one kind.
struct KindTotals {
    body: DurationTotals,
    delay: DurationTotals,
}

/// What one lane counted, as others read it.
#[derive(Default)]
pub(crate) struct LaneKinds(Mutex<Vec<(u32, Arc<KindTotals>)>>);

impl LaneKinds {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, Arc<KindTotals>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing side of a lane: the totals by the number of the name.
#[derive(Default)]
pub(crate) struct KindWriter(Vec<Option<Arc<KindTotals>>>);

impl KindWriter {
    /// Counts a task of `kind`, run on the lane of `shared`.
    #[inline]
    pub(crate) fn record(
        &mut self,
        shared: &LaneKinds,
        kind: u32,
        body_ns: u64,
        delay_ns: Option<u64>,
    ) {
        let totals = match self.0.get(kind as usize) {
            Some(Some(totals)) => totals,
            _ => self.meet(shared, kind),
        };
        totals.body.record(body_ns);
        if let Some(delay) = delay_ns {
            totals.delay.record(delay);
        }
    }

    #[cold]
    fn meet(&mut self, shared: &LaneKinds, kind: u32) -> &KindTotals {
        let place = kind as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place].get_or_insert_with(|| {
            let totals = KindTotals { body: DurationTotals::new(), delay: DurationTotals::new() };
            let totals = Arc::new(totals);
            shared.lock().push((kind, totals.clone()));
            totals
        })
    }
}

/// The kinds of submitted tasks and what they declared; belongs to the submission lock.
#[derive(Debug, Default)]
pub(crate) struct SubmittedKinds {
    names: NameCache,
    bytes: Vec<u64>,
}

impl SubmittedKinds {
    /// Counts a task that declares `bytes`; returns the number of its name.
    #[cold] // Keeps it out of the way of tasks whose times are not taken.
    pub(crate) fn note(&mut self, recorder: &Recorder, name: &'static str, bytes: u64) -> u32 {
        let kind = self.names.number(recorder, name);
        match self.bytes.get_mut(kind as usize) {
            Some(total) => *total += bytes,
            None => {
                self.bytes.resize(kind as usize, 0);
                self.bytes.push(bytes);
            }
        }
        kind
    }

    /// Bytes declared so far, by the number of the name.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        self.bytes.clone()
    }
}

/// Adds up what the lanes counted; `bytes` is what [`SubmittedKinds`] counted.
pub(super) fn read<'a>(
    names: &[String],
    lanes: impl Iterator<Item = &'a LaneKinds>,
    bytes: &[u64],
) -> BTreeMap<String, KindStatistics> {
    let mut sums: BTreeMap<u32, (DurationSum, DurationSum)> = BTreeMap::new();
    for lane in lanes {
        // Outside of the lock, a thread that meets a new kind does not wait.
        let kinds = lane.lock().clone();
        for (kind, totals) in kinds {
            let (body, delay) =
                sums.entry(kind).or_insert_with(|| (DurationSum::new(), DurationSum::new()));
            body.add(&totals.body);
            delay.add(&totals.delay);
        }
    }
    let mut kinds: BTreeMap<String, KindStatistics> = BTreeMap::new();
    let named = |kind: usize| names.get(kind).cloned();
    for (kind, (body, delay)) in sums {
        if let Some(name) = named(kind as usize) {
            let (body, delay) = (body.finish(), delay.finish());
            kinds.insert(name, KindStatistics { body, delay, bytes: 0 });
        }
    }
    for (kind, bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
        if let Some(name) = named(kind) {
            kinds.entry(name).or_default().bytes = *bytes;
        }
    }
    kinds
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_sum_over_the_lanes_and_of_the_declared_bytes() {
        let lanes = [LaneKinds::default(), LaneKinds::default()];
        let mut writers = [KindWriter::default(), KindWriter::default()];
        for time in 1..=4 {
            writers[time % 2].record(&lanes[time % 2], 2, time as u64, Some(10));
        }
        writers[0].record(&lanes[0], 0, 50, None);
        let names = ["a", "b", "c"].map(str::to_owned);
        let kinds = read(&names, lanes.iter(), &[0, 7, 9]);
        assert_eq!(kinds.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let c = &kinds["c"];
        assert_eq!((c.body.count(), c.body.total_ns(), c.body.quantile_ns(1.0)), (4, 10, 4));
        assert_eq!((c.delay.count(), c.delay.total_ns(), c.bytes), (4, 40, 9));
        let a = &kinds["a"];
        assert_eq!((a.body.count(), a.delay.count(), a.bytes), (1, 0, 0));
        assert_eq!((kinds["b"].body.count(), kinds["b"].bytes), (0, 7));

        writers[1].record(&lanes[1], 2, 5, None);
        let later = read(&names, lanes.iter(), &[0, 7, 9]);
        let between = since(&later, &kinds);
        assert_eq!(between.len(), 1, "nothing happened of the others");
        assert_eq!((between["c"].body.count(), between["c"].body.total_ns()), (1, 5));
    }
}
