//! Finding out who waits for whom.
//!
//! All under the submission lock: no slot gets a new task meanwhile, so its facts and the edges
//! that hang in it stay as they are, while tasks may start and end as they like. The graph knows
//! successors only, so the predecessors of a few tasks are found by following all edges.

use std::collections::BinaryHeap;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::report::{Listed, Place, StallReport, State, WaitingTask, Workers};
use super::watch::Watch;
use crate::graph::{GuardMark, Slot};
use crate::runtime::Inner;
use crate::submit::Submitter;
use crate::sync::Ordering;
use crate::task::Meta;
use crate::trace::Cause;

/// How many of each kind a report tells.
pub(super) const LISTED: usize = 16;
/// Of how many predecessors of each.
pub(super) const NEEDS: usize = 4;

/// The first submitted of many.
#[derive(Default)]
struct Oldest {
    /// In which slots, and what they are.
    found: BinaryHeap<Found>,
    count: u64,
}

struct Found {
    slot: u32,
    meta: Meta,
}

impl Found {
    fn order(&self) -> (u64, u32) {
        (self.meta.sequence, self.slot)
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl Oldest {
    fn add(&mut self, slot: u32, meta: Meta) {
        self.count += 1;
        self.found.push(Found { slot, meta });
        if self.found.len() > LISTED {
            self.found.pop();
        }
    }

    /// In submission order.
    fn listed<T>(self, each: impl FnMut(Found) -> T) -> Listed<T> {
        let more = self.count - self.found.len() as u64;
        Listed { list: self.found.into_sorted_vec().into_iter().map(each).collect(), more }
    }
}

/// What is known of the graph while the lock is held.
struct Survey<'a> {
    inner: &'a Inner,
    submitter: &'a Submitter,
    now: u64,
    /// What runs, by slot: the lane, and since when.
    running: FxHashMap<u32, (usize, u64)>,
    /// Tasks whose bodies have ended, and the joins that wait for their children.
    parents: FxHashMap<u32, u32>,
}

impl Survey<'_> {
    /// Calls `each` for every unfinished task, recorded ones included, and guard.
    fn each(&self, mut each: impl FnMut(u32, &Slot, Meta)) {
        self.submitter.survey(self.inner, |slot, its, meta| each(slot, its, meta));
        for instance in &self.submitter.instances {
            for (slot, meta) in instance.unfinished_tasks() {
                each(slot, self.inner.table.slot(slot), meta);
            }
        }
    }

    fn state(&self, slot: u32, its: &Slot) -> State {
        if let Some((lane, since)) = self.running.get(&slot) {
            let worker = Some(*lane).filter(|lane| *lane < self.inner.workers());
            let time = Duration::from_nanos(self.now.saturating_sub(*since));
            return State::Running { worker, time };
        }
        match (its.is_guard(), its.is_released()) {
            _ if its.is_node() => State::Recorded,
            (_, false) => State::Waiting,
            (true, true) => State::Held,
            (false, true) if self.parents.contains_key(&slot) => State::Waiting,
            (false, true) => State::Ready,
        }
    }

    /// What each of the `waiting` waits for.
    fn needs(&self, waiting: &[WaitingTask], slots: &[u32]) -> Vec<Listed<Place>> {
        let mut needs: Vec<_> = waiting.iter().map(|_| Listed::default()).collect();
        // The children of a task are what its join waits for.
        let waits = |slot: &u32| *self.parents.get(slot).unwrap_or(slot);
        let places: FxHashMap<u32, usize> = slots.iter().map(waits).zip(0..).collect();
        self.each(|slot, its, meta| {
            self.inner.table.successors(slot, |successor| {
                if let Some(place) = places.get(&successor) {
                    needs[*place].add(NEEDS, || Place::new(meta, self.state(slot, its)));
                }
            });
        });
        needs
    }

    fn report(&self, stalled: Duration) -> StallReport {
        let (mut running, mut waiting, mut held) =
            (Oldest::default(), Oldest::default(), Oldest::default());
        let (mut ready, mut entered) = (0, FxHashSet::default());
        self.submitter.survey(self.inner, |slot, _, _| {
            self.inner.table.successors(slot, |successor| {
                if self.inner.table.slot(successor).is_node() {
                    entered.insert(successor);
                }
            });
        });
        self.each(|slot, its, meta| match self.state(slot, its) {
            State::Running { .. } => running.add(slot, meta),
            State::Ready => ready += 1,
            State::Recorded if !entered.contains(&slot) => {}
            // Nobody waits for data that was given up.
            _ if its.is_guard() && its.guard_marks().has(GuardMark::Abandoned) => {}
            State::Held => held.add(slot, meta),
            State::Waiting | State::Recorded => waiting.add(slot, meta),
        });
        let place =
            |Found { slot, meta }| Place::new(meta, self.state(slot, self.inner.table.slot(slot)));
        let mut slots = Vec::new();
        let mut waiting = waiting.listed(|found| {
            slots.push(found.slot);
            WaitingTask { place: place(found), waits_for: Listed::default() }
        });
        let needs = self.needs(&waiting.list, &slots);
        waiting.list.iter_mut().zip(needs).for_each(|(task, needs)| task.waits_for = needs);
        let mut replays = Listed::default();
        for replay in self.submitter.instances.iter().filter(|replay| replay.is_busy()) {
            replays.add(LISTED, || (replay.batch(), replay.remaining()));
        }
        let submitted = self.inner.submitted.load(Ordering::Acquire);
        StallReport {
            stalled,
            unfinished: submitted.saturating_sub(self.inner.finished()),
            running: running.listed(place),
            waiting,
            ready,
            held: held.listed(place),
            replays,
            workers: Workers::default(),
            threads: Listed::default(),
        }
    }
}

impl Inner {
    /// Who waits for whom, now.
    pub(super) fn stall_report(&self, watch: &Watch, stalled: Duration) -> StallReport {
        let now = self.recorder.now();
        let submitter = self.submitter();
        let running = (0..watch.lanes()).filter_map(|lane| {
            let (slot, since) = watch.running(lane)?;
            Some((slot, (lane, since)))
        });
        let (running, mut parents) = (running.collect(), FxHashMap::default());
        submitter.joins(self, |parent, join| _ = parents.insert(parent, join));
        let survey = Survey { inner: self, submitter: &submitter, now, running, parents };
        let mut report = survey.report(stalled);
        drop(submitter);
        report.workers = self.workers_now(watch);
        watch.waits(now, |thread| report.threads.add(LISTED, || thread));
        report
    }

    fn workers_now(&self, watch: &Watch) -> Workers {
        let mut workers = Workers::default();
        for worker in 0..self.workers() {
            let idle = self.totals(worker).idle_since();
            *match (watch.running(worker), idle) {
                (Some(_), _) => &mut workers.running,
                (None, Some((_, Cause::MainBusy))) => &mut workers.away,
                (None, Some(_)) => &mut workers.idle,
                (None, None) => &mut workers.busy,
            } += 1;
        }
        workers
    }
}
