//! Recording: tasks are described once, and their dependencies inferred.
#![allow(unsafe_code, reason = "bodies borrow what the replay was granted")]

use std::iter::repeat;
use std::panic::Location;
use std::sync::Arc;

use super::access::ParameterPlace;
use super::graph::{AnyBinding, Given};
use super::plan::{KindTotal, Plan, Planned, PlannedCrossing};
use super::{Binding, Bound, Parameter, RecordedAccess, RecordedGraph};
use crate::access::Mode;
use crate::claims::{Claim, Claims};
use crate::error::SubmitError;
use crate::graph::{Crossing, HandleTable, TaskRef};
use crate::runtime::{Runtime, next_id};
use crate::task::{Label, Outcome};

/// A parameter, and what it is bound to.
pub(super) struct Parameters {
    pub(super) places: Vec<ParameterPlace>,
    /// How the tasks use each; read if none of them writes it.
    pub(super) modes: Vec<Mode>,
    pub(super) bindings: Vec<Box<dyn AnyBinding>>,
}

/// A graph that is being recorded; see the [module](super).
pub struct Recording {
    runtime: Runtime,
    id: u64,
    parameters: Parameters,
    /// Handles in the recording's own numbering: the parameters' one after the other.
    handles: HandleTable,
    crossings: Vec<PlannedCrossing>,
    tasks: Vec<Planned>,
    needs: Vec<Vec<(u32, bool)>>,
    kinds: Vec<KindTotal>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

/// Names a recorded task, within its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTask {
    recording: u64,
    index: u32,
}

impl Runtime {
    /// Begins to record a graph; see [`replay`](crate::replay).
    pub fn record(&self) -> Recording {
        Recording {
            runtime: self.clone(),
            id: next_id(),
            parameters: Parameters { places: Vec::new(), modes: Vec::new(), bindings: Vec::new() },
            handles: HandleTable::new(),
            crossings: Vec::new(),
            tasks: Vec::new(),
            needs: Vec::new(),
            kinds: Vec::new(),
        }
    }
}

impl Recording {
    /// A parameter, bound to `like` until something else of the same shape is bound to it.
    ///
    /// # Errors
    /// [`SubmitError::TooManyTasks`] when the parameters have 2^32 handles.
    pub fn parameter<B: Binding>(&mut self, like: B) -> Result<Parameter<B>, SubmitError> {
        let mut claims = Claims::new("parameter", self.runtime.id());
        // What it takes is given back at once: only the number of its handles is of interest.
        let _lease = like.claim(&mut claims, Mode::Read)?;
        let handles = claims.handles();
        let range = self.handles.register(handles);
        let range = range.ok_or(SubmitError::TooManyTasks { task: "parameter" })?;
        let index = self.parameters.places.len() as u32;
        let first = range.start;
        let place = ParameterPlace { recording: self.id, index, first, handles };
        let crossing =
            |handle| PlannedCrossing { parameter: index, handle, crossing: Crossing::default() };
        self.crossings.extend((0..handles).map(crossing));
        self.parameters.places.push(place);
        self.parameters.modes.push(Mode::Read);
        self.parameters.bindings.push(Box::new(Given::new(like)));
        Ok(Parameter::new(place, like))
    }

    /// Records a task. Unlike one that is [spawned](Runtime::spawn), its body may run many times.
    ///
    /// # Errors
    /// When the same data is declared twice with a write among the two, or a parameter is
    /// another recording's.
    #[track_caller]
    pub fn spawn<A, F, R>(
        &mut self,
        name: &'static str,
        access: A,
        body: F,
    ) -> Result<RecordedTask, SubmitError>
    where
        A: RecordedAccess,
        F: for<'d> Fn(A::Data<'d>) -> R + Send + Sync + 'static,
        R: Outcome,
    {
        self.task(name).spawn(access, body)
    }

    /// Describes a task with labels, a priority or explicit dependencies.
    #[track_caller]
    pub fn task(&mut self, name: &'static str) -> RecordedTaskBuilder<'_> {
        let (location, label) = (Location::caller(), Label::default());
        RecordedTaskBuilder {
            recording: self,
            name,
            location,
            label,
            priority: 0,
            after: Vec::new(),
        }
    }

    /// Ends the recording.
    pub fn finish(self) -> RecordedGraph {
        let Recording { runtime, id, parameters, crossings, tasks, needs, kinds, .. } = self;
        let used = crossings.into_iter().filter(|crossing| crossing.crossing.is_used()).collect();
        let plan = Plan::new(tasks, &needs, used, kinds);
        RecordedGraph::new(runtime, id, Arc::new(plan), parameters)
    }

    /// Infers what `task` needs from its claims, and notes how it uses the handles.
    fn infer(&mut self, task: u32, claims: &Claims) -> Vec<(u32, bool)> {
        let mut needs = Vec::new();
        let modes = |claim: &Claim| claim.handles().zip(repeat(claim.mode()));
        for (handle, mode) in claims.list().iter().flat_map(modes) {
            let mut need =
                |need: crate::graph::Need| needs.push((need.task.slot(), need.order_only));
            self.handles.claim(handle, mode, TaskRef::numbered(task), |_| false, &mut need);
            let place = &mut self.crossings[handle.index as usize];
            place.crossing.note(task, mode);
            if mode.writes() {
                self.parameters.modes[place.parameter as usize] = Mode::Write;
            }
        }
        needs
    }
}

/// A recorded task that is being described; [`spawn`](RecordedTaskBuilder::spawn) records it.
#[derive(Debug)]
#[must_use = "a task is recorded by `spawn`"]
pub struct RecordedTaskBuilder<'a> {
    recording: &'a mut Recording,
    name: &'static str,
    location: &'static Location<'static>,
    label: Label,
    priority: i16,
    after: Vec<RecordedTask>,
}

impl RecordedTaskBuilder<'_> {
    /// The layer that the task works for.
    pub fn layer(mut self, layer: u16) -> Self {
        self.label.layer = Some(layer);
        self
    }

    /// The shard of the batch that the task works on.
    pub fn shard(mut self, shard: u16) -> Self {
        self.label.shard = Some(shard);
        self
    }

    /// The task's priority, as [`TaskBuilder::priority`](crate::TaskBuilder::priority).
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// The task depends on `task`, as [`TaskBuilder::after`](crate::TaskBuilder::after).
    pub fn after(mut self, task: RecordedTask) -> Self {
        self.after.push(task);
        self
    }

    /// Records the task.
    ///
    /// # Errors
    /// See [`Recording::spawn`].
    pub fn spawn<A, F, R>(self, access: A, body: F) -> Result<RecordedTask, SubmitError>
    where
        A: RecordedAccess,
        F: for<'d> Fn(A::Data<'d>) -> R + Send + Sync + 'static,
        R: Outcome,
    {
        let RecordedTaskBuilder { recording, name, location, label, priority, after } = self;
        if after.iter().any(|task| task.recording != recording.id) {
            return Err(SubmitError::WrongRecording { task: name });
        }
        let mut claims = Claims::new(name, recording.id);
        access.declare(&mut claims)?;
        claims.order_all();
        claims.check_conflicts()?;
        let index = recording.tasks.len() as u32;
        let mut needs = recording.infer(index, &claims);
        needs.extend(after.iter().map(|task| (task.index, false)));
        // One edge per predecessor; the one for data comes first.
        needs.sort_unstable();
        needs.dedup_by_key(|(from, _)| *from);
        recording.needs.push(needs);
        recording.count(name, claims.bytes());
        let body = move |bound: &Bound| {
            let mut state = A::State::default();
            // SAFETY: a replay runs this once all that it declares is granted, bound to `bound`.
            let data = unsafe { access.data(bound, &mut state) };
            body(data).into_result()
        };
        let (body, predecessors, named) = (Box::new(body), 0, false);
        let task = Planned { name, location, label, priority, body, predecessors, named };
        recording.tasks.push(task);
        Ok(RecordedTask { recording: recording.id, index })
    }
}

impl Recording {
    fn count(&mut self, name: &'static str, bytes: u64) {
        match self.kinds.iter_mut().find(|kind| kind.name == name) {
            Some(kind) => kind.bytes += bytes,
            None => self.kinds.push(KindTotal { name, bytes }),
        }
    }
}
