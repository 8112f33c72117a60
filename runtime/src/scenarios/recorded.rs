//! Scenarios as recorded graphs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{Body, Scenario, ScenarioError, Stamps, Task, Timing, spin};
use crate::access::HandleBlock;
use crate::replay::{Parameter, RecordedGraph, Recording};
use crate::{Handles, Runtime, SubmitError};

/// How often [`Scenario::check_replay`] replays: places of ended replays are used again.
const REPLAYS: u32 = 3;

/// A scenario that was recorded, to be run as often as one likes.
#[derive(Debug)]
pub struct RecordedScenario {
    graph: RecordedGraph,
    /// They are the graph's as long as it lives.
    _handles: Handles,
}

impl Scenario {
    /// Records the scenario's tasks.
    ///
    /// # Errors
    /// When the runtime gives no further handles.
    pub fn record(&self, rt: &Runtime, body: Body) -> Result<RecordedScenario, ScenarioError> {
        match body {
            Body::Empty => self.recorded(rt, |_| || ()),
            Body::Spin(steps) => self.recorded(rt, |_| move || spin(steps)),
        }
    }

    /// Records it, replays it several times, and checks each time that every task ran, after all
    /// that it depends on.
    ///
    /// # Errors
    /// When that is not so, and as for [`run`](Self::run).
    pub fn check_replay(&self, rt: &Runtime) -> Result<(), ScenarioError> {
        let clock = Arc::new(AtomicU32::new(1));
        let stamps = Stamps::new(self);
        let mut recorded = self.recorded(rt, |task| {
            let (clock, stamps) = (clock.clone(), stamps.clone());
            move || stamps.set(task, clock.fetch_add(1, Ordering::SeqCst))
        })?;
        for _ in 0..REPLAYS {
            stamps.clear();
            recorded.run(rt)?;
            stamps.check(self)?;
        }
        Ok(())
    }

    fn recorded<F, B>(&self, rt: &Runtime, mut body: F) -> Result<RecordedScenario, ScenarioError>
    where
        F: FnMut(usize) -> B,
        B: Fn() + Send + Sync + 'static,
    {
        let handles = rt.handles(self.handles).ok_or(ScenarioError::Handles)?;
        let mut recording = rt.record();
        let data = recording.parameter(handles.block())?;
        for (index, task) in self.tasks.iter().enumerate() {
            record(&mut recording, &data, *task, body(index))?;
        }
        Ok(RecordedScenario { graph: recording.finish(), _handles: handles })
    }
}

impl RecordedScenario {
    /// Replays it and waits for its tasks.
    ///
    /// # Errors
    /// When the runtime refuses it or a task fails.
    pub fn run(&mut self, rt: &Runtime) -> Result<Timing, ScenarioError> {
        let start = Instant::now();
        self.graph.replay()?;
        let submit = start.elapsed();
        rt.wait()?;
        Ok(Timing { submit, total: start.elapsed() })
    }
}

fn record(
    recording: &mut Recording,
    data: &Parameter<HandleBlock>,
    task: Task,
    body: impl Fn() + Send + Sync + 'static,
) -> Result<(), SubmitError> {
    let write = |handle: u32| data.write(handle as usize);
    let read = |handle: u32| data.read(handle as usize);
    let spawn = recording.task("task").priority(task.priority);
    match (task.write, task.reads) {
        (None, [None, _]) => spawn.spawn((), move |()| body()),
        (None, [Some(a), _]) => spawn.spawn(read(a), move |()| body()),
        (Some(w), [None, None]) => spawn.spawn(write(w), move |()| body()),
        (Some(w), [Some(a), None] | [None, Some(a)]) => {
            spawn.spawn((write(w), read(a)), move |_| body())
        }
        (Some(w), [Some(a), Some(b)]) => spawn.spawn((write(w), read(a), read(b)), move |_| body()),
    }?;
    Ok(())
}
