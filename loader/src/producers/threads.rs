//! Producers that are threads, and the thread that supervises them.
//!
//! A thread that hangs cannot be ended. It keeps its slot, for which another is allocated, its
//! claim is open again, and another thread takes its place; if it ever comes back, it finds that
//! its generation is over, its sample is discarded, and it ends.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::error::{EndKind, ProducersError};
use super::produce::{Make, produce};
use super::shared::Shared;
use super::state::State;

/// The threads of a run; they end when the run is stopped.
#[derive(Debug)]
pub(crate) struct Threads {
    supervisor: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts a thread for each lane, and their supervisor.
    pub(crate) fn start(shared: &Arc<Shared>, make: &Arc<Make>) -> Result<Self, ProducersError> {
        let mut threads = Threads { supervisor: None };
        let lanes = shared.lock().lanes.len();
        let start = || {
            for producer in 0..lanes {
                start(shared, make, producer)?;
            }
            let (shared, make) = (Arc::clone(shared), Arc::clone(make));
            thread::Builder::new()
                .name("producers".to_owned())
                .spawn(move || supervise(&shared, &make))
                .map_err(cannot_start)
        };
        match start() {
            Ok(supervisor) => threads.supervisor = Some(supervisor),
            Err(error) => {
                threads.stop(shared);
                return Err(error);
            }
        }
        Ok(threads)
    }

    /// Ends them; what does not end within the grace is left behind.
    pub(crate) fn stop(&mut self, shared: &Shared) {
        shared.stop();
        shared.wait_for_threads();
        if let Some(supervisor) = self.supervisor.take() {
            // It does not panic, and nothing depends on it any more if it did.
            let _ = supervisor.join();
        }
    }
}

fn cannot_start(error: io::Error) -> ProducersError {
    ProducersError::system("start a producer's thread", error)
}

/// Starts a thread in the lane of a producer.
fn start(shared: &Arc<Shared>, make: &Arc<Make>, producer: usize) -> Result<(), ProducersError> {
    let generation = shared.update(|state| {
        state.alive += 1;
        state.lanes[producer].generation
    });
    let (for_thread, make) = (Arc::clone(shared), Arc::clone(make));
    let started = thread::Builder::new()
        .name(format!("producer {producer}"))
        .spawn(move || work(&for_thread, &*make, producer, generation));
    if let Err(error) = started {
        shared.update(|state| state.alive -= 1);
        return Err(cannot_start(error));
    }
    Ok(())
}

fn work(shared: &Shared, make: &Make, producer: usize, generation: u32) {
    let beat = || shared.lock().beat(producer, generation);
    while let Some(mut job) = shared.claim(producer, generation) {
        let made = produce(make, &shared.layout, &job.claim, job.slot.bytes_mut(), &beat);
        if !shared.finish(producer, generation, job, made) {
            break;
        }
    }
    shared.update(|state| state.alive -= 1);
}

/// Gives up threads that hang, and starts others in their places, until the run is stopped.
fn supervise(shared: &Arc<Shared>, make: &Arc<Make>) {
    while shared.supervise(|state, now| {
        give_up_hung(shared, state, now);
        next_due(shared, state, now)
    }) {
        start_due(shared, make);
    }
}

fn give_up_hung(shared: &Shared, state: &mut State, now: Instant) {
    for producer in 0..state.lanes.len() {
        let lane = &state.lanes[producer];
        let Some(how) = lane.work.as_ref().and_then(|work| shared.deadlines.missed(work, now))
        else {
            continue;
        };
        state.end(producer, EndKind::Hung, &how, Vec::new(), now);
        if let Err(failure) = shared.replace_slot(state) {
            state.failure.get_or_insert(failure);
        }
    }
}

/// When the supervisor has to look again: the next restart, or the first time at which a thread
/// can have taken too long. A claim that goes out while it sleeps ends later than that.
fn next_due(shared: &Shared, state: &State, now: Instant) -> Option<Instant> {
    let works = state.lanes.iter().filter_map(|lane| lane.work.as_ref());
    let ends = works.filter_map(|work| shared.deadlines.end(work));
    let restarts = state.lanes.iter().filter_map(|lane| lane.restart_at);
    let lengths = [shared.deadlines.deadline, shared.deadlines.limit].into_iter().flatten();
    let of_new = lengths.filter_map(|length| now.checked_add(length));
    ends.chain(restarts).chain(of_new).min()
}

fn start_due(shared: &Arc<Shared>, make: &Arc<Make>) {
    let now = Instant::now();
    let due: Vec<usize> = shared.update(|state| {
        let lanes = state.lanes.iter_mut().enumerate();
        lanes.filter_map(|(producer, lane)| lane.take_restart(now).then_some(producer)).collect()
    });
    for producer in due {
        if let Err(failure) = start(shared, make, producer) {
            shared.update(|state| state.failure.get_or_insert(failure).clone());
        }
    }
}
