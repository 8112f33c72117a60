//! What the body of a stage's task does.

use std::mem;
use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use super::plan::{BackwardStep, ForwardStep, NodeOperands, Operand, PartStep};
use super::plan::{Plan, Stage, Step};
use crate::NnError;
use crate::kernel::take;
use crate::layer::{Backward, Draw, Forward, Mode, Wide};
use crate::loss::{Compared, Loss, Partial, Target};

/// Slices of a layer's inputs or parameters; few layers have more.
type Few<T> = SmallVec<[T; 4]>;

/// What a task is handed, in the order of the stage's lists.
pub(super) struct Handed<'a> {
    pub(super) reads: Vec<&'a [f32]>,
    pub(super) changes: Vec<&'a mut [f32]>,
    pub(super) defines: Vec<&'a mut [f32]>,
    /// Scratch of [`Plan::space_len`] values.
    pub(super) space: &'a mut [f32],
    /// The labels of the samples, where the stage has the loss.
    pub(super) labels: &'a [u8],
    /// What the stage reads in double precision.
    pub(super) wide: Vec<&'a [f64]>,
    /// The part of the shard, where the stage ends with it.
    pub(super) part: &'a mut [f64],
}

/// Which samples a task works on, and what for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Samples {
    /// Their number.
    pub(super) count: usize,
    /// Place of the first of them in the batch.
    pub(super) first: usize,
    /// What the whole batch weighs in the loss.
    pub(super) weight: f64,
    /// What the network is run for.
    pub(super) mode: Mode,
}

impl Plan {
    /// Scratch that `stage` needs for `samples` samples.
    pub(super) fn space_len(&self, stage: &Stage, samples: usize) -> usize {
        let regions: usize = stage.regions.iter().map(|len| padded(len * samples)).sum();
        let nodes = stage.steps.iter().filter_map(Step::node);
        let of_steps = nodes.map(|node| self.nodes[node].layer.scratch_len(samples));
        regions + of_steps.max().unwrap_or(0)
    }

    /// Does the steps of `stage`. Gives what the samples contribute to the loss, where the stage
    /// has it.
    ///
    /// # Errors
    /// Those of the loss.
    pub(super) fn run(
        &self,
        stage: &Stage,
        loss: &dyn Loss<f32>,
        samples: Samples,
        mut handed: Handed<'_>,
    ) -> Result<Partial, NnError> {
        let Samples { count, first, weight, .. } = samples;
        let target = Target::Classes(handed.labels);
        let (wide, part) = (mem::take(&mut handed.wide), mem::take(&mut handed.part));
        let (table, space) = Table::new(stage, count, handed);
        let mut running = Running { plan: self, samples, table, wide, space };
        let mut partial = Partial::default();
        for (step, own) in stage.steps.iter().zip(&stage.parameters) {
            match step {
                Step::Forward(step) => running.forward(step, own),
                Step::Backward(step) => running.backward(step, own),
                Step::Part(step) => running.part(step, own, part),
                Step::Loss { output, gradient: None } => {
                    let output = running.table.get(output, count);
                    partial = loss.forward(Compared { output, target, first })?;
                }
                Step::Loss { output, gradient: Some(gradient) } => {
                    partial = running.table.write(gradient, count, |gradient, table| {
                        let output = table.get(output, count);
                        let shard = Compared { output, target, first };
                        loss.forward_backward(shard, weight, gradient)
                    })?;
                }
                Step::Copy { from, to } => running.table.write(to, count, |to, table| {
                    to.copy_from_slice(table.get(from, count));
                }),
                Step::Add { from, to } => running.table.write(to, count, |to, table| {
                    let from = table.get(from, count);
                    to.iter_mut().zip(from).for_each(|(sum, &value)| *sum += value);
                }),
            }
        }
        Ok(partial)
    }
}

/// A stage that is being run.
struct Running<'a, 'p> {
    plan: &'p Plan,
    samples: Samples,
    table: Table<'a>,
    wide: Vec<&'a [f64]>,
    /// Scratch of the step.
    space: &'a mut [f32],
}

impl Running<'_, '_> {
    fn mode(&self, node: usize) -> Mode {
        match self.samples.mode {
            Mode::Train(draw) => {
                // What does not fit is cut off; no network has so many layers.
                let layer = self.plan.nodes[node].place as u32;
                Mode::Train(Draw { layer, first: self.samples.first as u32, ..draw })
            }
            Mode::Evaluate => Mode::Evaluate,
        }
    }

    fn part(&self, step: &PartStep<Operand>, own: &NodeOperands, part: &mut [f64]) {
        let layer = self.plan.nodes[step.node].layer.batch_wide();
        let layer = layer.expect("only such layers have parts");
        let x = self.table.get(&step.x, self.samples.count);
        match &step.dy {
            None => layer.forward_part(x, part),
            Some(dy) => {
                let dy = self.table.get(dy, self.samples.count);
                layer.backward_part(x, dy, wide(&self.wide, own).forward, part);
            }
        }
    }

    fn forward(&mut self, step: &ForwardStep<Operand>, own: &NodeOperands) {
        let y = self.table.take(step.y.at);
        let saved = step.saved.map(|saved| (saved.at, self.table.take(saved.at)));
        match saved {
            Some((at, saved)) => {
                self.call_forward(step, own, y, saved);
                self.table.put(at, saved);
            }
            None => self.call_forward(step, own, y, &mut []),
        }
        self.table.put(step.y.at, y);
    }

    fn call_forward(
        &mut self,
        step: &ForwardStep<Operand>,
        own: &NodeOperands,
        y: &mut [f32],
        saved: &mut [f32],
    ) {
        let mode = self.mode(step.node);
        let Self { plan, samples: Samples { count, .. }, table, wide: reads, space } = self;
        let (layer, count) = (&plan.nodes[step.node].layer, *count);
        let lens = layer.saved();
        let (saved, rest) = saved.split_at_mut(lens.values * count);
        let x: Few<&[f32]> = step.x.iter().map(|x| table.get(x, count)).collect();
        layer.forward(Forward {
            samples: count,
            mode,
            x: &x,
            y: &mut y[..count * step.y.len],
            parameters: &table.parameters(own, plan.groups.ranges(step.node)),
            packed: own.packed.map_or(&[], |packed| table.all(packed)),
            state: &table.state(own, &plan.states[step.node]),
            wide: wide(reads, own),
            saved,
            saved_bytes: &mut cast_slice_mut(rest)[..lens.bytes * count],
            scratch: &mut space[..layer.scratch_len(count)],
            relu: step.relu,
        });
    }

    fn backward(&mut self, step: &BackwardStep<Operand>, own: &NodeOperands) {
        let mut take = |at| self.table.take(at);
        let mut dx: Few<&mut [f32]> =
            step.dx.iter().map(|dx| dx.map_or(&mut [][..], |dx| take(dx.at))).collect();
        let gradient = own.gradient.map(|at| (at, take(at)));
        match gradient {
            Some((at, gradient)) => {
                self.call_backward(step, own, &mut dx, gradient);
                self.table.put(at, gradient);
            }
            None => self.call_backward(step, own, &mut dx, &mut []),
        }
        for (wanted, dx) in step.dx.iter().zip(dx) {
            if let Some(wanted) = wanted {
                self.table.put(wanted.at, dx);
            }
        }
    }

    fn call_backward(
        &mut self,
        step: &BackwardStep<Operand>,
        own: &NodeOperands,
        dx: &mut [&mut [f32]],
        gradient: &mut [f32],
    ) {
        let mode = self.mode(step.node);
        let Self { plan, samples: Samples { count, .. }, table, wide: reads, space } = self;
        let (layer, count) = (&plan.nodes[step.node].layer, *count);
        let lens = layer.saved();
        let saved = step.saved.map_or(&[][..], |saved| table.get(&saved, count));
        let (saved, rest) = saved.split_at(lens.values * count);
        let x: Few<&[f32]> = match step.x.is_empty() {
            true => step.dx.iter().map(|_| &[][..]).collect(),
            false => step.x.iter().map(|x| table.get(x, count)).collect(),
        };
        let len = |dx: &Option<Operand>| dx.map_or(0, |dx| dx.len * count);
        let mut dx: Few<&mut [f32]> =
            dx.iter_mut().zip(&step.dx).map(|(dx, wanted)| &mut dx[..len(wanted)]).collect();
        let ranges = plan.groups.ranges(step.node);
        layer.backward(Backward {
            samples: count,
            mode,
            x: &x,
            y: step.y.map_or(&[], |y| table.get(&y, count)),
            parameters: &table.parameters(own, ranges),
            packed: own.packed.map_or(&[], |packed| table.all(packed)),
            wide: wide(reads, own),
            saved,
            saved_bytes: &cast_slice(rest)[..lens.bytes * count],
            dy: step.dy.map_or(&[], |dy| table.get(&dy, count)),
            dx: &mut dx,
            dparameters: &mut split(gradient, ranges),
            scratch: &mut space[..layer.scratch_len(count)],
        });
    }
}

/// What the batch came to, for the layer of a step.
fn wide<'a>(reads: &[&'a [f64]], own: &NodeOperands) -> Wide<'a> {
    let [forward, backward, part] =
        own.wide.map(|place| place.map_or(&[][..], |place| reads[place]));
    Wide { forward, backward, part }
}

/// The memory of a stage by operand. Whoever writes an operand takes it out meanwhile.
struct Table<'a> {
    places: SmallVec<[Place<'a>; 16]>,
}

enum Place<'a> {
    Taken,
    Shared(&'a [f32]),
    Own(&'a mut [f32]),
}

impl<'a> Table<'a> {
    /// The operands of `stage`, and what is left of the scratch for its steps.
    fn new(stage: &Stage, count: usize, handed: Handed<'a>) -> (Self, &'a mut [f32]) {
        let Handed { reads, changes, defines, mut space, .. } = handed;
        let mut places = SmallVec::new();
        for len in &stage.regions {
            places.push(Place::Own(take(&mut space, padded(len * count))));
        }
        places.extend(reads.into_iter().map(Place::Shared));
        places.extend(changes.into_iter().chain(defines).map(Place::Own));
        (Self { places }, space)
    }

    /// All of an operand, for reading.
    fn all(&self, at: usize) -> &[f32] {
        match &self.places[at] {
            Place::Shared(values) => values,
            Place::Own(values) => values,
            Place::Taken => unreachable!("a step does not read what it writes"),
        }
    }

    /// The values of `count` samples, for reading.
    fn get(&self, operand: &Operand, count: usize) -> &[f32] {
        &self.all(operand.at)[..count * operand.len]
    }

    fn parameters(&self, own: &NodeOperands, ranges: &[Range<usize>]) -> Few<&[f32]> {
        let group = own.group.map_or(&[][..], |group| self.all(group));
        ranges.iter().map(|range| &group[range.clone()]).collect()
    }

    /// What a layer has learned from batches: so many values of each kind.
    fn state(&self, own: &NodeOperands, lens: &[usize]) -> Few<&[f32]> {
        let Some(state) = own.state else { return Few::new() };
        let mut values = self.all(state);
        let split = |&len: &usize| {
            let (own, rest) = values.split_at(len);
            values = rest;
            own
        };
        lens.iter().map(split).collect()
    }

    fn take(&mut self, at: usize) -> &'a mut [f32] {
        match mem::replace(&mut self.places[at], Place::Taken) {
            Place::Own(values) => values,
            Place::Shared(_) | Place::Taken => unreachable!("a step writes what is its own, once"),
        }
    }

    fn put(&mut self, at: usize, values: &'a mut [f32]) {
        self.places[at] = Place::Own(values);
    }

    /// Calls `body` with the values of `count` samples, for writing, and with the other operands.
    fn write<R>(
        &mut self,
        operand: &Operand,
        count: usize,
        body: impl FnOnce(&mut [f32], &Self) -> R,
    ) -> R {
        let values = self.take(operand.at);
        let result = body(&mut values[..count * operand.len], self);
        self.put(operand.at, values);
        result
    }
}

/// The pieces of `values` at `ranges`, which follow one another.
fn split<'a>(values: &'a mut [f32], ranges: &[Range<usize>]) -> Few<&'a mut [f32]> {
    let skip = ranges.first().map_or(0, |range| range.start);
    let mut rest = &mut values[skip..];
    ranges.iter().map(|range| take(&mut rest, range.len())).collect()
}

/// Where a region begins, the next vector may: lengths are multiples of a line of the cache.
const fn padded(len: usize) -> usize {
    const LINE: usize = 64 / size_of::<f32>();
    len.div_ceil(LINE) * LINE
}
