//! From the layers of a network to steps on buffers.
//!
//! A *value* is what the images or a layer give; a *buffer* is memory for one shard's samples of a
//! value, or of several that never live at once. Layers that work in place leave their value in the
//! buffer in which they found it, where nobody wants the old one any more.

use std::sync::Arc;

use crate::layer::{Layer, Way};

/// Index of a buffer.
pub(crate) type BufId = usize;

/// The buffer of the images, which belong to somebody else and are never written.
pub(crate) const IMAGES: BufId = 0;

/// A layer as a plan sees it.
#[derive(Clone, Debug)]
pub(crate) struct PlanNode {
    pub(crate) layer: Arc<dyn Layer<f32>>,
    /// Values that it takes: 0 is the images, `i + 1` the output of node `i`.
    pub(crate) inputs: Vec<usize>,
    /// Index of the layer in the network, for labels and random numbers.
    pub(crate) place: usize,
}

/// What is done with one shard, in order; `B` names the buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step<B = BufId> {
    Forward(ForwardStep<B>),
    /// What a shard contributes to what its layer makes of the whole batch.
    Part(PartStep<B>),
    /// The loss, and the gradient by the output where one is wanted.
    Loss {
        output: B,
        gradient: Option<B>,
    },
    Backward(BackwardStep<B>),
    /// Copies a value that is then worked on in place.
    Copy {
        from: B,
        to: B,
    },
    /// Adds a gradient to that which another user of the same value gave.
    Add {
        from: B,
        to: B,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardStep<B = BufId> {
    pub(crate) node: usize,
    /// Nothing for a layer that works in place.
    pub(crate) x: Vec<B>,
    pub(crate) y: B,
    pub(crate) saved: Option<B>,
    pub(crate) relu: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartStep<B = BufId> {
    pub(crate) node: usize,
    pub(crate) x: B,
    /// Only on the way back.
    pub(crate) dy: Option<B>,
}

impl<B> PartStep<B> {
    pub(crate) const fn way(&self) -> Way {
        match self.dy {
            None => Way::Forward,
            Some(_) => Way::Backward,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackwardStep<B = BufId> {
    pub(crate) node: usize,
    /// Nothing if the layer does not use them.
    pub(crate) x: Vec<B>,
    pub(crate) y: Option<B>,
    pub(crate) saved: Option<B>,
    /// Nothing for a layer that works in place.
    pub(crate) dy: Option<B>,
    /// Nothing where nobody wants the gradient.
    pub(crate) dx: Vec<Option<B>>,
}

/// How a step uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    /// Changes what is there.
    Change,
    /// Overwrites all of it.
    Define,
}

impl<A: Copy> Step<A> {
    /// The node whose layer the step calls.
    pub(crate) const fn node(&self) -> Option<usize> {
        match self {
            Self::Forward(ForwardStep { node, .. })
            | Self::Part(PartStep { node, .. })
            | Self::Backward(BackwardStep { node, .. }) => Some(*node),
            Self::Loss { .. } | Self::Copy { .. } | Self::Add { .. } => None,
        }
    }

    /// Calls `touch` for each buffer that the step uses.
    pub(crate) fn touches(&self, touch: impl FnMut(A, Touch)) {
        self.map(touch);
    }

    /// The step with other names for its buffers.
    pub(crate) fn map<B>(&self, mut name: impl FnMut(A, Touch) -> B) -> Step<B> {
        match self {
            Self::Forward(step) => Step::Forward(ForwardStep {
                node: step.node,
                x: step.x.iter().map(|&buf| name(buf, Touch::Read)).collect(),
                saved: step.saved.map(|buf| name(buf, Touch::Define)),
                y: name(step.y, if step.x.is_empty() { Touch::Change } else { Touch::Define }),
                relu: step.relu,
            }),
            Self::Part(step) => Step::Part(PartStep {
                node: step.node,
                x: name(step.x, Touch::Read),
                dy: step.dy.map(|buf| name(buf, Touch::Read)),
            }),
            Self::Loss { output, gradient } => Step::Loss {
                output: name(*output, Touch::Read),
                gradient: gradient.map(|buf| name(buf, Touch::Define)),
            },
            Self::Backward(step) => Step::Backward(step.map(name)),
            Self::Copy { from, to } => {
                Step::Copy { from: name(*from, Touch::Read), to: name(*to, Touch::Define) }
            }
            Self::Add { from, to } => {
                Step::Add { from: name(*from, Touch::Read), to: name(*to, Touch::Change) }
            }
        }
    }
}

impl<A: Copy> BackwardStep<A> {
    fn map<B>(&self, mut name: impl FnMut(A, Touch) -> B) -> BackwardStep<B> {
        let mut read = |buf| name(buf, Touch::Read);
        let x = self.x.iter().copied().map(&mut read).collect();
        let (y, saved, dy) = (self.y.map(&mut read), self.saved.map(&mut read), self.dy.map(read));
        let how = if dy.is_none() { Touch::Change } else { Touch::Define };
        let dx = self.dx.iter().map(|dx| dx.map(|buf| name(buf, how))).collect();
        BackwardStep { node: self.node, x, y, saved, dy, dx }
    }
}

/// The steps of a shard, and the values per sample of each buffer that they use.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) goal: Goal,
    pub(crate) steps: Vec<Step>,
    pub(crate) lens: Vec<usize>,
}

/// Which steps are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Forward, loss and backward.
    Train,
    /// Forward and loss.
    Evaluate,
}

impl Program {
    /// The steps for `nodes` on images of `image` values.
    pub(crate) fn new(nodes: &[PlanNode], image: usize, goal: Goal) -> Self {
        let mut users = vec![Vec::new(); nodes.len() + 1];
        for (index, node) in nodes.iter().enumerate() {
            node.inputs.iter().for_each(|&value| users[value].push(index));
        }
        let mut writer = Writer {
            nodes,
            users,
            training: goal == Goal::Train,
            bufs: vec![IMAGES],
            lens: vec![image],
            steps: Vec::new(),
            forward: Vec::new(),
        };
        for node in 0..nodes.len() {
            writer.forward(node);
        }
        writer.finish()
    }
}

struct Writer<'a> {
    nodes: &'a [PlanNode],
    /// By value: the nodes that take it.
    users: Vec<Vec<usize>>,
    training: bool,
    /// By value: its buffer.
    bufs: Vec<BufId>,
    lens: Vec<usize>,
    steps: Vec<Step>,
    /// By node: its forward step, if it has one of its own.
    forward: Vec<Option<usize>>,
}

impl Writer<'_> {
    fn buffer(&mut self, len: usize) -> BufId {
        self.lens.push(len);
        self.lens.len() - 1
    }

    fn layer(&self, node: usize) -> &dyn Layer<f32> {
        &*self.nodes[node].layer
    }

    /// Whether backward of `node` will look at its inputs, at its output.
    fn looks_back(&self, node: usize) -> [bool; 2] {
        let (layer, uses) = (self.layer(node), self.layer(node).uses());
        let looks = self.training && !layer.is_identity();
        [looks && uses.x, looks && uses.y]
    }

    /// Whether `node`, which works in place, may do so in the buffer of its input.
    fn may_overwrite_input(&self, node: usize) -> bool {
        let buf = self.bufs[self.nodes[node].inputs[0]];
        let others_are_done = |value: usize| {
            let made_it = value.checked_sub(1);
            let kept = made_it.is_some_and(|maker| self.looks_back(maker)[1]);
            let done = |&user: &usize| user == node || (user < node && !self.looks_back(user)[0]);
            !kept && self.users[value].iter().all(done)
        };
        buf != IMAGES
            && !self.looks_back(node)[0]
            && (0..=node).filter(|&value| self.bufs[value] == buf).all(others_are_done)
    }

    /// The step of the layer before `node` that can do the work of `node` as well.
    fn fuses_with(&self, node: usize) -> Option<usize> {
        let value = self.nodes[node].inputs[0];
        let before = value.checked_sub(1)?;
        let fits = self.layer(node).is_relu() && self.layer(before).fuses_relu();
        if fits && self.users[value] == [node] { self.forward[before] } else { None }
    }

    fn forward(&mut self, node: usize) {
        let PlanNode { layer, inputs, .. } = &self.nodes[node];
        let x: Vec<BufId> = inputs.iter().map(|&value| self.bufs[value]).collect();
        if layer.is_identity() {
            self.bufs.push(x[0]);
            self.forward.push(None);
            return;
        }
        let len = layer.output().len();
        let in_place = layer.in_place();
        let y = if in_place && self.may_overwrite_input(node) {
            if let Some(step) = self.fuses_with(node) {
                let Step::Forward(step) = &mut self.steps[step] else {
                    unreachable!("it is a forward step");
                };
                step.relu = true;
                self.bufs.push(x[0]);
                self.forward.push(None);
                return;
            }
            x[0]
        } else {
            let y = self.buffer(len);
            if in_place {
                self.steps.push(Step::Copy { from: x[0], to: y });
            }
            y
        };
        if self.training && layer.batch_wide().is_some() {
            self.steps.push(Step::Part(PartStep { node, x: x[0], dy: None }));
        }
        let saved = saved_words(&**layer);
        let saved = (saved > 0).then(|| self.buffer(saved));
        let x = if in_place { Vec::new() } else { x };
        self.forward.push(Some(self.steps.len()));
        self.steps.push(Step::Forward(ForwardStep { node, x, y, saved, relu: false }));
        self.bufs.push(y);
    }

    /// The loss, and the way back.
    fn finish(mut self) -> Program {
        let last = self.nodes.len();
        let output = self.bufs[last];
        if !self.training {
            self.steps.push(Step::Loss { output, gradient: None });
            return Program { goal: Goal::Evaluate, steps: self.steps, lens: self.lens };
        }
        let gradient = self.buffer(self.lens[output]);
        self.steps.push(Step::Loss { output, gradient: Some(gradient) });
        let wants = self.wanted();
        // By value: the buffer of the gradient by it, as far as its users have given it.
        let mut gradients: Vec<Option<BufId>> = vec![None; last + 1];
        gradients[last] = Some(gradient);
        for node in (0..self.nodes.len()).rev() {
            if wants[node + 1] {
                let gradient = gradients[node + 1].expect("its users came before");
                self.backward(node, gradient, &wants, &mut gradients);
            }
        }
        Program { goal: Goal::Train, steps: self.steps, lens: self.lens }
    }

    /// By value: whether the gradient by it is wanted.
    fn wanted(&self) -> Vec<bool> {
        let mut wants = vec![false];
        for node in self.nodes {
            let trained = !node.layer.parameters().is_empty();
            wants.push(trained || node.inputs.iter().any(|&value| wants[value]));
        }
        wants
    }

    fn backward(
        &mut self,
        node: usize,
        gradient: BufId,
        wants: &[bool],
        gradients: &mut [Option<BufId>],
    ) {
        let PlanNode { layer, inputs, .. } = &self.nodes[node];
        let (passes, in_place) = (layer.is_identity(), layer.in_place());
        if passes || in_place {
            if !passes {
                let step = self.backward_step(node, None, vec![Some(gradient)]);
                self.steps.push(step);
            }
            match gradients[inputs[0]] {
                _ if !wants[inputs[0]] => {}
                Some(sum) => self.steps.push(Step::Add { from: gradient, to: sum }),
                None => gradients[inputs[0]] = Some(gradient),
            }
            return;
        }
        let mut sums = Vec::new();
        let mut dx = Vec::with_capacity(inputs.len());
        for &value in inputs {
            dx.push(wants[value].then(|| {
                let part = self.buffer(self.lens[self.bufs[value]]);
                match gradients[value] {
                    Some(sum) => sums.push(Step::Add { from: part, to: sum }),
                    None => gradients[value] = Some(part),
                }
                part
            }));
        }
        if layer.batch_wide().is_some() {
            let x = self.bufs[inputs[0]];
            self.steps.push(Step::Part(PartStep { node, x, dy: Some(gradient) }));
        }
        let step = self.backward_step(node, Some(gradient), dx);
        self.steps.push(step);
        self.steps.append(&mut sums);
    }

    fn backward_step(&self, node: usize, dy: Option<BufId>, dx: Vec<Option<BufId>>) -> Step {
        let [looks_at_x, looks_at_y] = self.looks_back(node);
        let inputs = self.nodes[node].inputs.iter().map(|&value| self.bufs[value]);
        let saved = match self.forward[node].map(|step| &self.steps[step]) {
            Some(Step::Forward(step)) => step.saved,
            _ => None,
        };
        Step::Backward(BackwardStep {
            node,
            x: if looks_at_x { inputs.collect() } else { Vec::new() },
            y: looks_at_y.then(|| self.bufs[node + 1]),
            saved,
            dy,
            dx,
        })
    }
}

/// Values per sample that hold what a layer saves: its values, then its bytes.
pub(crate) fn saved_words(layer: &dyn Layer<f32>) -> usize {
    let saved = layer.saved();
    saved.values + saved.bytes.div_ceil(size_of::<f32>())
}
