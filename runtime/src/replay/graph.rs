//! A recorded graph: what is bound to it, and submitting it as a whole.

use std::any::Any;
use std::sync::Arc;

use super::access::ParameterPlace;
use super::instance::{BoundData, Instance, LeaseStore};
use super::plan::{Plan, PlannedCrossing};
use super::recording::Parameters;
use super::{Binding, Bound, Parameter, Replay, ReplayError, ReplayName};
use crate::access::{Handle, Mode};
use crate::claims::{Claim, Claims};
use crate::error::SubmitError;
use crate::graph::{Crossing, SUBMITTING};
use crate::runtime::{Inner, Runtime};
use crate::submit::Submitter;
use crate::sync::MutexGuard;
use crate::task::Label;

/// What stands for the name of a task where a replay as a whole is refused.
const NAME: &str = "replay";

/// What is bound to a parameter, without its type.
pub(super) trait AnyBinding: Send + 'static {
    fn claim(
        &self,
        claims: &mut Claims,
        mode: Mode,
        lease: &mut dyn LeaseStore,
    ) -> Result<*mut u8, SubmitError>;
    fn lease_store(&self) -> Box<dyn LeaseStore>;
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What is bound to a parameter.
pub(super) struct Given<B: Binding> {
    value: B,
    shape: B::Shape,
}

impl<B: Binding> Given<B> {
    pub(super) fn new(value: B) -> Self {
        Given { value, shape: value.shape() }
    }
}

struct Store<L>(Option<L>);

impl<L: Send + 'static> LeaseStore for Store<L> {
    fn clear(&mut self) {
        self.0 = None;
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl<B: Binding> AnyBinding for Given<B> {
    fn claim(
        &self,
        claims: &mut Claims,
        mode: Mode,
        lease: &mut dyn LeaseStore,
    ) -> Result<*mut u8, SubmitError> {
        let (taken, memory) = self.value.claim(claims, mode)?;
        let store = lease.as_any().downcast_mut::<Store<B::Lease>>();
        store.expect("`lease_store` made it").0 = Some(taken);
        Ok(memory)
    }

    fn lease_store(&self) -> Box<dyn LeaseStore> {
        Box::new(Store::<B::Lease>(None))
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A recorded graph, to be [replayed](RecordedGraph::replay); see the [module](super).
///
/// Dropping it does not touch replays that are under way.
pub struct RecordedGraph {
    runtime: Runtime,
    id: u64,
    plan: Arc<Plan>,
    parameters: Parameters,
    batch: Option<u32>,
    /// What the next replay declares.
    claims: Claims,
    /// What the next replay is bound to; empty between replays.
    data: BoundData,
    entered: Entered,
}

/// Tasks that wait for others outside of the replay.
pub(crate) struct Entered {
    /// By task: 0, or one more than the number of its edges from outside.
    edges: Vec<u32>,
    tasks: Vec<u32>,
}

impl Entered {
    /// The number of edges from outside that `task`, which may get another, has so far.
    pub(crate) fn edges(&mut self, task: u32) -> u32 {
        let edges = &mut self.edges[task as usize];
        if *edges == 0 {
            *edges = 1;
            self.tasks.push(task);
        }
        *edges - 1
    }

    pub(crate) fn set_edges(&mut self, task: u32, edges: u32) {
        self.edges[task as usize] = edges + 1;
    }
}

impl std::fmt::Debug for RecordedGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedGraph").field("tasks", &self.len()).finish_non_exhaustive()
    }
}

impl RecordedGraph {
    pub(super) fn new(runtime: Runtime, id: u64, plan: Arc<Plan>, parameters: Parameters) -> Self {
        let claims = Claims::new(NAME, runtime.id());
        let entered = Entered { edges: vec![0; plan.tasks.len()], tasks: Vec::new() };
        let data = parameters.no_data();
        RecordedGraph { runtime, id, plan, parameters, batch: None, claims, data, entered }
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.plan.tasks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plan.tasks.is_empty()
    }

    /// Number of dependencies between its tasks.
    pub fn edges(&self) -> usize {
        self.plan.edges.len()
    }

    /// Binds `data` to a parameter, for the replays from here on.
    ///
    /// # Errors
    /// When its shape is not that of what was recorded, or the parameter is another
    /// recording's.
    pub fn bind<B: Binding>(
        &mut self,
        parameter: &Parameter<B>,
        data: B,
    ) -> Result<(), ReplayError> {
        let ParameterPlace { recording, index, .. } = parameter.place;
        if recording != self.id {
            return Err(ReplayError::WrongRecording);
        }
        let given = self.parameters.bindings[index as usize].as_any().downcast_mut::<Given<B>>();
        let given = given.expect("the type of a parameter is that of its binding");
        let shape = data.shape();
        if shape != given.shape {
            let (recorded, bound) = (given.shape.to_string(), shape.to_string());
            return Err(ReplayError::Shape { parameter: index as usize, recorded, bound });
        }
        given.value = data;
        Ok(())
    }

    /// The batch that the tasks of the replays from here on work for.
    pub fn set_batch(&mut self, batch: Option<u32>) {
        self.batch = batch;
    }

    /// Submits all tasks at once, on what is bound now. The effect is that of submitting each of
    /// them here: they wait for older tasks that use the same data, handle by handle, and younger
    /// tasks wait for them.
    ///
    /// Replays of one graph may overlap. A place that a replay has left is used by the next; only
    /// when all are in use, memory is allocated.
    ///
    /// Like [`Runtime::spawn`] it waits while the submission window is full, which it may exceed
    /// by the tasks of one replay.
    ///
    /// # Errors
    /// When something that is bound is stale or another runtime's, or two parameters are bound to
    /// the same data and one of them is written. Nothing was submitted then.
    pub fn replay(&mut self) -> Result<Replay, ReplayError> {
        let runtime = self.runtime.clone();
        let inner = runtime.inner();
        inner.wait_for_room();
        if let Err(error) = self.claim() {
            self.data.clear();
            return Err(error.into());
        }
        if self.is_empty() {
            // It has ended before it has begun.
            self.data.clear();
            let place = inner.submitter().instance(inner, self);
            let instance = place.ok_or(SubmitError::TooManyTasks { task: NAME })?;
            return Ok(Replay { runtime, name: ReplayName { instance, round: 0 } });
        }
        let bytes = self.claims.bytes();
        inner.wait_for_memory(bytes);
        let mut submitter = inner.submitter();
        let Some(instance) = submitter.instance(inner, self) else {
            drop(submitter);
            self.data.clear();
            inner.memory.iter().for_each(|memory| memory.withdraw(bytes));
            return Err(SubmitError::TooManyTasks { task: NAME }.into());
        };
        let follows = submitter.follows(&instance, self.claims.list());
        if !follows {
            submitter.uncover(inner);
        }
        let sequence = submitter.count_submitted(inner, self.plan.tasks.len() as u64);
        let round = instance.begin(inner, sequence, self.batch, bytes, &mut self.data);
        if inner.takes_times() {
            for kind in &self.plan.kinds {
                submitter.kinds.note(&inner.recorder, kind.name, kind.bytes);
            }
        }
        if !follows {
            self.enter(inner, &mut submitter, &instance);
            submitter.covered_by(&instance, self.claims.list());
        }
        let ready = self.release(inner, &mut submitter, &instance);
        drop(submitter);
        inner.submitted_some(ready);
        Ok(Replay { runtime, name: ReplayName { instance, round } })
    }

    /// Declares all that is bound, and secures it.
    fn claim(&mut self) -> Result<(), SubmitError> {
        let RecordedGraph { parameters, claims, data, .. } = self;
        claims.clear();
        for (index, binding) in parameters.bindings.iter().enumerate() {
            let (mode, lease) = (parameters.modes[index], &mut *data.leases[index]);
            data.bound.memory[index] = binding.claim(claims, mode, lease)?;
            let declared = claims.handles() == parameters.places[index].handles;
            assert!(
                declared && claims.list().len() == index + 1,
                "a binding declares one run of as many handles as its shape tells"
            );
        }
        claims.check_conflicts()
    }

    /// Draws the edges from tasks outside, and makes the replay's tasks those that used the data
    /// last.
    fn enter(&mut self, inner: &Inner, submitter: &mut Submitter, instance: &Instance) {
        let RecordedGraph { plan, claims, entered, .. } = self;
        for (handle, crossing) in crossed(plan, claims.list()) {
            let name = |task| instance.name(inner, task);
            submitter.cross(inner, handle, crossing, name, entered);
        }
    }

    /// Lets the tasks go that wait for no other of this replay; returns how many were queued.
    fn release(
        &mut self,
        inner: &Inner,
        submitter: &mut MutexGuard<'_, Submitter>,
        instance: &Instance,
    ) -> usize {
        let mut queued = 0;
        let time = inner.time_if_taken();
        // Then their slots need not be looked at, which are with whoever ran the tasks last.
        let plain = time == 0 && self.plan.plain && inner.ready.scheduler.is_none();
        let mut queue = |index: u32| {
            let slot = instance.slots[index as usize];
            queued += 1;
            if plain {
                return submitter.push_plain(slot);
            }
            inner.note_ready(inner.table.slot(slot), time);
            submitter.push(inner, slot);
        };
        // First those whose slots nobody has touched: what entered may end, and let others go.
        let none_entered = self.entered.tasks.is_empty();
        for root in &self.plan.roots {
            if none_entered || self.entered.edges[*root as usize] == 0 {
                queue(*root);
            }
        }
        for task in self.entered.tasks.drain(..) {
            let edges = std::mem::take(&mut self.entered.edges[task as usize]) - 1;
            let predecessors = self.plan.tasks[task as usize].predecessors;
            let slot = inner.table.slot(instance.slots[task as usize]);
            if slot.settle(SUBMITTING - edges - predecessors) {
                queue(task);
            }
        }
        queued
    }
}

/// The handles of what a plan is bound to that its tasks use, and how.
pub(super) fn crossed<'a>(
    plan: &'a Plan,
    claims: &'a [Claim],
) -> impl Iterator<Item = (Handle, &'a Crossing)> {
    plan.crossings.iter().map(|PlannedCrossing { parameter, handle, crossing }| {
        let Handle { index, epoch } = claims[*parameter as usize].first();
        (Handle { index: index + handle, epoch }, crossing)
    })
}

impl Drop for RecordedGraph {
    fn drop(&mut self) {
        let inner = self.runtime.inner();
        let mut submitter = inner.submitter();
        submitter.uncover(inner);
        let left = submitter.leave_instances(self.id);
        drop(submitter);
        left.iter().for_each(|instance| inner.give_back(instance));
    }
}

impl Parameters {
    /// Empty places for what a replay is bound to.
    fn no_data(&self) -> BoundData {
        let memory = self.places.iter().map(|_| std::ptr::null_mut()).collect();
        let leases = self.bindings.iter().map(|binding| binding.lease_store()).collect();
        BoundData { bound: Bound { memory }, leases }
    }
}

impl Submitter {
    /// A place for a replay: one that is idle, or else a new one.
    fn instance(&mut self, inner: &Inner, graph: &RecordedGraph) -> Option<Arc<Instance>> {
        let idle = |it: &&Arc<Instance>| it.recording == graph.id && !it.is_busy();
        if let Some(instance) = self.instances.iter().find(idle) {
            return Some(instance.clone());
        }
        let data = graph.parameters.no_data();
        let instance = Instance::new(inner, self, graph.id, &graph.plan, data)?;
        self.instances.push(instance.clone());
        Some(instance)
    }

    /// Replays under way that have a task which `label` covers.
    pub(crate) fn replays(&self, label: Label) -> impl Iterator<Item = ReplayName> {
        let covered = self.instances.iter().filter(move |it| it.is_busy() && it.has_label(label));
        covered.map(|it| ReplayName { instance: it.clone(), round: it.round() })
    }

    /// The graph is being dropped: takes its idle instances out.
    fn leave_instances(&mut self, recording: u64) -> Vec<Arc<Instance>> {
        let mine = |it: &mut Arc<Instance>| it.recording == recording && it.leave();
        self.instances.extract_if(.., mine).collect()
    }
}

impl Inner {
    /// Gives the slots of an instance back that is no longer in the list.
    fn give_back(&self, instance: &Instance) {
        instance.slots.iter().for_each(|slot| self.table.retire_node(*slot));
        self.table.free(&instance.slots);
    }

    /// Takes an instance out of the list whose graph has been dropped.
    pub(super) fn forget_instance(&self, instance: *const Instance) {
        let mut submitter = self.submitter();
        submitter.uncover(self);
        let place = submitter.instances.iter().position(|it| Arc::as_ptr(it) == instance);
        let instance = place.map(|place| submitter.instances.swap_remove(place));
        drop(submitter);
        let Some(instance) = instance else { return };
        self.give_back(&instance);
        // Bodies go with it, and with them what they have captured, outside of the lock.
        let dropped = crate::pool::guarded(|| drop(instance));
        debug_assert!(dropped.is_ok(), "the drop of a recorded body panicked");
    }
}
