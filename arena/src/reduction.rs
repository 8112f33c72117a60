//! Reductions whose result does not depend on who ran first.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use millrace_runtime::{Label, Mode, SubmitError, TaskBuilder, WaitError};

use crate::buffer::Buffer;
use crate::error::ArenaError;

/// Parts that one task combines, unless told otherwise: halves the work that goes through memory
/// against a task per pair, and leaves tasks for others to do.
const FAN_IN: usize = 4;

/// Adds the second to the first.
type Combine<T> = dyn Fn(&mut [T], &[T]) + Send + Sync;

/// Reduces buffers into one, by a fixed tree of tasks.
///
/// Sums of floats depend on the order in which they are added. Here the order is that of a binary
/// tree over the parts: the first half (of the largest power of two below their number) with the
/// rest, and so on within each. So the bits of the result depend on the parts alone: neither on the
/// number of workers, nor on which part was ready first, nor on how many parts one task combines.
///
/// ```
/// use millrace_arena::{Arena, Reduction};
/// use millrace_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let arena = Arena::new(&rt, "gradients");
/// let mut parts = Vec::new();
/// for shard in 0..10 {
///     let part = arena.alloc::<f32>(100)?;
///     rt.spawn("gradient", part.overwrite(), move |part| part.fill(0.1 * shard as f32))?;
///     parts.push(part);
/// }
/// let sum = Reduction::new("sum", |sum: &mut [f32], part: &[f32]| {
///     sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
/// });
/// let total = sum.spawn(&parts)?.expect("there are parts");
/// assert!((total.acquire()?[0] - 4.5).abs() < 1e-5); // waits for the last of its tasks
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Parts that are cut into shards are reduced shard by shard, by one call for each.
pub struct Reduction<T> {
    name: &'static str,
    combine: Arc<Combine<T>>,
    fan_in: usize,
    label: Label,
    priority: i16,
}

impl<T> Clone for Reduction<T> {
    fn clone(&self) -> Self {
        Reduction { combine: Arc::clone(&self.combine), ..*self }
    }
}

impl<T> fmt::Debug for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reduction")
            .field("name", &self.name)
            .field("fan_in", &self.fan_in)
            .field("label", &self.label)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

impl<T: Pod> Reduction<T> {
    /// A reduction by `combine`, which adds its second argument to its first, both as long as every
    /// part. Its tasks are called `name`.
    pub fn new(
        name: &'static str,
        combine: impl Fn(&mut [T], &[T]) + Send + Sync + 'static,
    ) -> Self {
        let (combine, label) = (Arc::new(combine), Label::default());
        Reduction { name, combine, fan_in: FAN_IN, label, priority: 0 }
    }

    /// How many parts one task combines: rounded down to a power of two, at least 2; 4 if not
    /// given. It decides how long the tasks are, and leaves the result as it is.
    pub fn fan_in(mut self, parts: usize) -> Self {
        self.fan_in = 1 << parts.max(2).ilog2();
        self
    }

    /// The label of its tasks.
    pub fn label(mut self, label: Label) -> Self {
        self.label = label;
        self
    }

    /// The priority of its tasks, 0 if not given.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Submits the tasks that reduce `parts`. The result is in the first part, which is returned:
    /// use it as any other buffer. The others hold partial results afterwards. A single part is its
    /// own result, and of none there is none.
    ///
    /// # Errors
    /// When parts differ in length, share memory, are stale or belong to different runtimes;
    /// nothing was submitted then. When the runtime refuses a task; those before it run.
    #[track_caller]
    pub fn spawn(&self, parts: &[Buffer<T>]) -> Result<Option<Buffer<T>>, ArenaError> {
        let Some(first) = parts.first() else { return Ok(None) };
        let runtime = first.slot().runtime(first.generation(), self.name).map_err(refused)?;
        for (index, part) in parts.iter().enumerate() {
            let (task, slot) = (self.name, part.slot());
            if slot.runtime(part.generation(), task).map_err(refused)?.id() != runtime.id() {
                let owner = slot.name().to_owned();
                return Err(refused(SubmitError::WrongRuntime { task, owner }));
            }
            if part.len() != first.len() {
                return Err(ArenaError::Parts {
                    reduction: task,
                    part: index,
                    len: part.len(),
                    wanted: first.len(),
                });
            }
        }
        self.check_disjoint(parts)?;
        let mut stride = 1;
        while stride < parts.len() {
            for group in parts.chunks(stride.saturating_mul(self.fan_in)) {
                let members: Vec<_> = group.iter().step_by(stride).copied().collect();
                if members.len() > 1 {
                    self.spawn_one(self.describe(runtime.task(self.name)), &members)?;
                }
            }
            stride = stride.saturating_mul(self.fan_in);
        }
        Ok(Some(*first))
    }

    fn check_disjoint(&self, parts: &[Buffer<T>]) -> Result<(), ArenaError> {
        let mut order: Vec<_> = parts.iter().map(Buffer::handle_range).zip(0..).collect();
        order.retain(|(handles, _)| !handles.is_empty());
        order.sort_unstable_by_key(|(handles, place)| (handles.start, *place));
        let clash = order.windows(2).find(|pair| pair[1].0.start < pair[0].0.end);
        let Some([(_, a), (_, b)]) = clash else { return Ok(()) };
        let mode = Mode::Write;
        Err(refused(SubmitError::Conflict {
            task: self.name,
            first: *a.min(b),
            first_mode: mode,
            second: *a.max(b),
            second_mode: mode,
        }))
    }

    fn describe<'a>(&self, task: TaskBuilder<'a>) -> TaskBuilder<'a> {
        let Label { batch, layer, shard } = self.label;
        let task = batch.into_iter().fold(task, TaskBuilder::batch);
        let task = layer.into_iter().fold(task, TaskBuilder::layer);
        shard.into_iter().fold(task, TaskBuilder::shard).priority(self.priority)
    }

    /// Submits the task that combines `members`, as a binary tree, into the first of them.
    fn spawn_one(&self, task: TaskBuilder<'_>, members: &[Buffer<T>]) -> Result<(), ArenaError> {
        let into: Vec<_> = members.iter().step_by(2).map(Buffer::write).collect();
        let from: Vec<_> = members.iter().skip(1).step_by(2).map(Buffer::read).collect();
        let combine = Arc::clone(&self.combine);
        let body = move |(mut into, from): (Vec<&mut [T]>, Vec<&[T]>)| {
            into.iter_mut().zip(from).for_each(|(into, from)| combine(into, from));
            let mut stride = 1;
            while stride < into.len() {
                for pair in into.chunks_mut(2 * stride) {
                    if let Some((left, right)) = pair.split_at_mut_checked(stride)
                        && let (Some(left), Some(right)) = (left.first_mut(), right.first())
                    {
                        combine(left, right);
                    }
                }
                stride *= 2;
            }
        };
        task.spawn((into, from), body).map(drop).map_err(refused)
    }
}

fn refused(error: SubmitError) -> ArenaError {
    ArenaError::Wait(WaitError::Refused(error))
}
