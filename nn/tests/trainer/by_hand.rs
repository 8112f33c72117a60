//! Training without tasks, shards or plans: one layer after the other, each on memory of its own.

use std::sync::Arc;

use millrace_nn::layer::{Alone, Draw, Mode};
use millrace_nn::loss::{Compared, Loss, SoftmaxCrossEntropy, SoftmaxCrossEntropyConfig, Target};
use millrace_nn::{EpochMetrics, Network, Sgd, Shape, Source};

use super::{BATCH, CLASSES, EPOCHS, SAMPLES, STEP, data, initial_values};

/// Images as a network wants them: place by place, all channels of each.
fn channels_last(shape: Shape, images: &[f32]) -> Vec<f32> {
    let Shape::Image { channels, height, width } = shape else { return images.to_vec() };
    let places = height * width;
    let place = |image: &[f32], i: usize| image[i % channels * places + i / channels];
    let turn = |image: &[f32]| (0..image.len()).map(|i| place(image, i)).collect::<Vec<_>>();
    images.chunks(channels * places).flat_map(turn).collect()
}

/// A network that is run layer by layer.
pub(crate) struct ByHand {
    network: Network,
    layers: Vec<Alone<f32>>,
    values: Vec<Vec<f32>>,
}

impl ByHand {
    pub(crate) fn new(network: &Network, mut parameters: &[f32]) -> Self {
        let layers = network.layers().iter().map(|node| {
            let shapes: Vec<Shape> =
                node.inputs().iter().map(|&input| network.shape_of(input)).collect();
            let own = node.parameters().iter().map(|parameter| {
                let (own, rest) = parameters.split_at(parameter.len());
                parameters = rest;
                own.to_vec()
            });
            let own = own.collect();
            Alone::new(Arc::clone(node.layer()), &shapes, own)
        });
        Self { layers: layers.collect(), network: network.clone(), values: Vec::new() }
    }

    /// What the layers have learned from batches otherwise than by gradients.
    pub(crate) fn states(&self) -> Vec<f32> {
        self.layers.iter().flat_map(|layer| layer.state().concat()).collect()
    }

    /// Gives the layers other parameters; what they have learned from batches stays.
    pub(crate) fn set_parameters(&mut self, mut parameters: &[f32]) {
        for layer in &mut self.layers {
            layer.parameters_mut(|own| {
                let (values, rest) = parameters.split_at(own.len());
                own.copy_from_slice(values);
                parameters = rest;
            });
        }
    }

    /// The logits.
    pub(crate) fn forward(&mut self, mode: Mode, images: &[f32]) -> &[f32] {
        self.values = vec![channels_last(self.network.input(), images)];
        for (layer, (node, alone)) in self.network.layers().iter().zip(&mut self.layers).enumerate()
        {
            let x: Vec<&[f32]> =
                node.inputs().iter().map(|&input| &self.values[value(input)][..]).collect();
            let mode = match mode {
                Mode::Train(draw) => Mode::Train(Draw { layer: layer as u32, ..draw }),
                Mode::Evaluate => mode,
            };
            let y = alone.forward(mode, &x);
            self.values.push(y);
        }
        self.values.last().unwrap()
    }

    /// The gradient by all parameters, from that by the logits.
    pub(crate) fn backward(&mut self, dlogits: Vec<f32>) -> Vec<f32> {
        let mut gradients: Vec<Option<Vec<f32>>> = vec![None; self.values.len()];
        *gradients.last_mut().unwrap() = Some(dlogits);
        let mut by_layer = Vec::new();
        for (index, node) in self.network.layers().iter().enumerate().rev() {
            let dy = gradients[index + 1].take().unwrap();
            let found = self.layers[index].backward(&dy);
            for (&input, dx) in node.inputs().iter().zip(found.x) {
                match &mut gradients[value(input)] {
                    Some(sum) => sum.iter_mut().zip(dx).for_each(|(sum, dx)| *sum += dx),
                    none => *none = Some(dx),
                }
            }
            by_layer.push(found.parameters.concat());
        }
        by_layer.into_iter().rev().flatten().collect()
    }
}

fn value(source: Source) -> usize {
    match source {
        Source::Input => 0,
        Source::Node(index) => index + 1,
    }
}

/// The loss of the trainer.
pub(crate) fn loss() -> SoftmaxCrossEntropy {
    SoftmaxCrossEntropyConfig::new().build(Shape::Features(CLASSES)).unwrap()
}

/// A whole batch.
pub(crate) fn compared<'a>(output: &'a [f32], labels: &'a [u8]) -> Compared<'a, f32> {
    Compared { output, target: Target::Classes(labels), first: 0 }
}

/// What a training by hand comes to.
pub(crate) struct Trained {
    pub(crate) weights: Vec<f32>,
    pub(crate) states: Vec<f32>,
    pub(crate) metrics: Vec<EpochMetrics>,
    /// The logits of all samples afterwards, evaluated.
    pub(crate) logits: Vec<f32>,
}

/// Trains on the samples, the last batch smaller.
pub(crate) fn train_by_hand(network: &Network) -> Trained {
    let (images, labels) = data();
    let (sgd, loss) = (Sgd::new(STEP).unwrap(), loss());
    let mut parameters = initial_values(network);
    let (mut metrics, mut index) = (Vec::new(), 0);
    let mut by_hand = ByHand::new(network, &parameters);
    for epoch in 0..EPOCHS {
        let (mut batches, mut loss_sum, mut accuracy) = (0, 0.0, 0.0);
        let shards = images.chunks(BATCH * network.input().len()).zip(labels.chunks(BATCH));
        for (images, labels) in shards {
            let draw = Draw { epoch, batch: index, ..Draw::default() };
            let logits = by_hand.forward(Mode::Train(draw), images);
            let (weight, mut dlogits) = (labels.len() as f64, vec![f32::NAN; logits.len()]);
            let shard = compared(logits, labels);
            let partial = loss.forward_backward(shard, weight, &mut dlogits).unwrap();
            index += 1;
            batches += 1;
            loss_sum += partial.mean();
            accuracy += partial.accuracy();
            let gradient = by_hand.backward(dlogits);
            sgd.update(&mut parameters, &[&gradient]).unwrap();
            by_hand.set_parameters(&parameters);
        }
        let mean = |sum: f64| sum / batches as f64;
        metrics.push(EpochMetrics {
            batches,
            samples: SAMPLES as u64,
            loss: mean(loss_sum),
            accuracy: mean(accuracy),
        });
    }
    let logits = by_hand.forward(Mode::Evaluate, &images).to_vec();
    Trained { weights: parameters, states: by_hand.states(), metrics, logits }
}
