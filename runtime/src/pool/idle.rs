//! What a thread does that found no ready task: looks again for a while, then sleeps.

use std::iter;

use crossbeam_deque::{Steal, Stealer, Worker};

use super::Context;
use crate::runtime::Inner;
use crate::statistics::LaneTotals;
use crate::sync::Deadline;
use crate::trace::Recorder;

/// Looks before an idle thread sleeps, least and most. A look with its pause takes 0.1 to 0.5
/// microseconds, waking a sleeping thread 10 to 50: the least costs about as much as one
/// wake-up, and the most is 10 times that.
const LOOKS: (u32, u32) = (64, 1024);
/// A sleep shorter than this was not worth it: the thread looks longer the next time.
const SHORT_SLEEP_NS: u64 = 200_000;
/// Pauses of the processor between two looks, but for the first few: 2 to 4 microseconds. Each look
/// takes a cache line from the thread that submits, which has to fetch it back; the longer the
/// pause, the more tasks a look finds.
const PAUSES: u32 = 150;
/// Pauses after which a thread that lets a submitter go on looks whether it does.
const STEP: u32 = 8;
/// A thread that comes back for tasks sooner than this got tiny ones: it pauses first.
const TINY_NS: u64 = 800;
/// After so many looks the thread offers its core to others before each further one.
const YIELD_AFTER: u32 = 32;

/// Looks of a thread that waits for a condition, before it sleeps: 6 microseconds or so. Where a
/// core is free for the other thread, that is long enough for it to take a task and to end it;
/// where none is, looking longer would keep it from doing so.
const GLANCES: u32 = 6;
/// Pauses before the first look, which are doubled each time: what is waited for may take less
/// than a microsecond.
const FIRST_GLANCE: u32 = 4;

/// How long a thread looks before it sleeps; adapts to how long it slept.
#[derive(Debug)]
pub(crate) struct Spin {
    looks: u32,
    /// When tasks were last taken from another thread, on the recorder's clock.
    taken: Option<u64>,
    /// Whether the last ones were few and tiny.
    tiny: bool,
}

impl Spin {
    pub(crate) fn new() -> Self {
        Spin { looks: LOOKS.0, taken: None, tiny: false }
    }

    /// The thread has done something else: nothing is known about the tasks that come.
    pub(crate) fn has_been_away(&mut self) {
        (self.taken, self.tiny) = (None, false);
    }

    /// Lets the others prepare more tasks if the last ones were few and tiny.
    fn before_taking(&mut self, inner: &Inner) {
        let Some(taken) = self.taken.take() else { return };
        self.tiny = inner.recorder.now().saturating_sub(taken) < TINY_NS;
        if self.tiny {
            pause_for_submission(inner, PAUSES);
        }
    }

    fn has_taken(&mut self, clock: &Recorder) {
        self.taken = Some(clock.now());
    }

    fn slept(&mut self, ns: u64) {
        self.looks = if ns < SHORT_SLEEP_NS {
            LOOKS.1.min(2 * self.looks)
        } else {
            LOOKS.0.max(self.looks / 2)
        };
    }
}

fn pause(pauses: u32) {
    (0..pauses).for_each(|_| std::hint::spin_loop());
}

/// The same, but no longer than until a thread begins to wait: then it has submitted what it wanted.
fn pause_for_submission(inner: &Inner, pauses: u32) {
    let clock = &inner.totals.clock;
    let before = clock.turns();
    let begins = || clock.turns() != before && clock.is_waiting();
    for _ in 0..pauses / STEP {
        pause(STEP);
        if begins() {
            return;
        }
    }
    pause(pauses % STEP);
}

/// Looks for a short time whether `condition` holds, less and less often; returns whether it does.
pub(crate) fn holds_soon(condition: impl Fn() -> bool) -> bool {
    (0..GLANCES).any(|turn| {
        pause(glance(turn));
        condition()
    })
}

/// Pauses before a look of a thread that has just begun to look.
fn glance(turn: u32) -> u32 {
    PAUSES.min(FIRST_GLANCE << turn.min(16))
}

/// Takes a ready task: from the thread's own queue, from those that were submitted outside the
/// pool, or from another worker.
pub(crate) fn find(inner: &Inner, context: &mut Context) -> Option<u32> {
    let Context { lane: worker, queue, spin, .. } = context;
    if inner.ready.scheduler.is_some() {
        return take(inner, queue, *worker);
    }
    inner.ready.urgent.pop().or_else(|| queue.pop()).or_else(|| {
        spin.before_taking(inner);
        let found = take(inner, queue, *worker);
        if found.is_some() {
            spin.has_taken(&inner.recorder);
        }
        found
    })
}

fn take(inner: &Inner, queue: &Worker<u32>, worker: usize) -> Option<u32> {
    if let Some(scheduler) = &inner.ready.scheduler {
        return scheduler.pop(worker).map(|task| task.slot);
    }
    let others = inner.stealers[worker + 1..].iter().chain(&inner.stealers[..worker]);
    let mut queues = iter::once(&inner.submitted_ready).chain(others);
    let urgent = inner.ready.urgent.pop();
    let stolen = || queues.find_map(|from| steal(inner, from, queue));
    urgent.or_else(stolen).or_else(|| inner.ready.deferred.pop())
}

fn steal(inner: &Inner, from: &Stealer<u32>, into: &Worker<u32>) -> Option<u32> {
    loop {
        match from.steal_batch_and_pop(into) {
            Steal::Success(slot) => {
                fetch(inner, into);
                return Some(slot);
            }
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// Fetches the tasks in `queue`, which is the calling thread's own: they were on another core,
/// and one after the other each would be waited for.
fn fetch(inner: &Inner, queue: &Worker<u32>) {
    for _ in 0..queue.len() {
        if let Some(slot) = queue.pop() {
            inner.table.prefetch_slot(slot);
            queue.push(slot);
        }
    }
}

/// Nothing was found: looks again, then sleeps. `None` once `stop` holds; whoever makes it hold
/// unparks this thread afterwards, unless it is the deadline that does.
pub(crate) fn idle(
    inner: &Inner,
    context: &mut Context,
    deadline: Deadline,
    stop: impl Fn() -> bool,
) -> Option<u32> {
    let timed = inner.takes_times();
    let worker = context.lane;
    if inner.totals.clock.is_waiting() {
        inner.note_starvation();
    }
    if timed {
        inner.totals(worker).idle_begin(inner.recorder.now(), &inner.totals.clock);
    }
    context.flush(inner);
    inner.notify_ended();
    if inner.ready.keeps_back() {
        // It may be that nothing goes on before a thread that waits sees to it.
        inner.guards.notify();
        inner.external.notify();
    }
    let found = look_or_sleep(inner, context, timed, deadline, stop);
    if timed {
        let end = inner.recorder.now();
        let start = inner.totals(worker).idle_end(end, &inner.totals.clock);
        if let Some(start) = start
            && inner.recorder.covers(start)
        {
            context.record_idle(start, end);
        }
    }
    found
}

fn look_or_sleep(
    inner: &Inner,
    context: &mut Context,
    timed: bool,
    deadline: Deadline,
    stop: impl Fn() -> bool,
) -> Option<u32> {
    let Context { lane: worker, spin, queue, .. } = context;
    // What was found, or that it is time to stop.
    let look = || take(inner, queue, *worker).map(Some).or_else(|| stop().then_some(None));
    loop {
        for turn in 0..spin.looks {
            if turn < YIELD_AFTER {
                // Many tiny ones are best taken together.
                pause_for_submission(inner, if spin.tiny { PAUSES } else { glance(turn) });
            } else {
                std::thread::yield_now();
            }
            if let Some(found) = look() {
                spin.has_taken(&inner.recorder);
                return found;
            }
        }
        let start = inner.recorder.now();
        let found = sleep(inner, inner.totals(*worker), timed, deadline, look);
        spin.slept(inner.recorder.now().saturating_sub(start));
        if let Some(found) = found {
            return found;
        }
    }
}

/// Sleeps as [`Sleep::sleep`](super::Sleep::sleep) does, and counts that. The thread falls asleep
/// whenever a look was in vain, and is awake again at the next look or at the end.
fn sleep<T>(
    inner: &Inner,
    totals: &LaneTotals,
    timed: bool,
    deadline: Deadline,
    look: impl Fn() -> Option<T>,
) -> Option<T> {
    let time = || timed.then(|| inner.recorder.now());
    let mut asleep = false;
    let found = inner.sleep.sleep(deadline, || {
        if asleep {
            totals.woke_up(time());
        }
        let found = look();
        asleep = found.is_none();
        if asleep {
            totals.falls_asleep(time());
        }
        found
    });
    if asleep {
        totals.woke_up(time());
    }
    found
}
