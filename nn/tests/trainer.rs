//! Training by tasks: the same bits for every number of workers and depth of the batch arena, the
//! same as by hand, and errors that say what is wrong.

use millrace_arena::{Arena, Sharded};
use millrace_nn::init::GnuRand;
use millrace_nn::layer::{Conv2dConfig, DenseConfig, MaxPool2dConfig, Padding, Relu};
use millrace_nn::{
    BatchPlace, EpochMetrics, Evaluation, LayerKind, Network, NnError, Sgd, Shape,
    SoftmaxCrossEntropy, Trainer, init,
};
use millrace_runtime::Runtime;

const CLASSES: usize = 5;
const SAMPLES: usize = 23;
const BATCH: usize = 6;
const SHARDS: usize = 4;
const EPOCHS: u32 = 3;
const STEP: f64 = 0.1;

/// A network with every kind of layer, a ReLU after each kind and more than one dense layer.
fn network() -> Network {
    Network::builder(Shape::image(2, 9, 7))
        .relu()
        .conv2d(Conv2dConfig::new(5, [3, 3]).padding(Padding::Same))
        .relu()
        .max_pool2d(MaxPool2dConfig::new([2, 2]))
        .conv2d(Conv2dConfig::new(3, [2, 2]))
        .flatten()
        .relu()
        .dense(DenseConfig::new(17))
        .relu()
        .dense(DenseConfig::new(CLASSES))
        .build()
        .unwrap()
}

/// Images whose class is where they are bright.
fn data() -> (Vec<f32>, Vec<u8>) {
    let len = network().input().len();
    let mut rand = GnuRand::new(7);
    let labels: Vec<u8> = (0..SAMPLES).map(|i| (i * 3 % CLASSES) as u8).collect();
    let images = (0..SAMPLES * len)
        .map(|i| {
            let bright = i % len * CLASSES / len == usize::from(labels[i / len]);
            rand.uniform(-1.0, 1.0) as f32 + if bright { 1.0 } else { 0.0 }
        })
        .collect();
    (images, labels)
}

fn initial_values() -> Vec<f32> {
    init::gnu_uniform(42, 0.3, network().parameters_len())
}

/// Samples `first..first + samples` in buffers of their own.
fn sharded(
    arena: &Arena,
    first: usize,
    samples: usize,
    shards: usize,
) -> (Sharded<f32>, Sharded<u8>) {
    let (all_images, all_labels) = data();
    let len = network().input().len();
    let images = arena.alloc_sharded::<f32>(samples, len, shards).unwrap();
    let labels = arena.alloc_sharded::<u8>(samples, 1, shards).unwrap();
    let range = first..first + samples;
    let wanted = &all_images[range.start * len..range.end * len];
    images.whole().acquire_mut().unwrap().copy_from_slice(wanted);
    labels.whole().acquire_mut().unwrap().copy_from_slice(&all_labels[range]);
    (images, labels)
}

struct Run {
    weights: Vec<f32>,
    metrics: Vec<EpochMetrics>,
    evaluation: Evaluation,
}

impl Run {
    fn bits(&self) -> Vec<u32> {
        self.weights.iter().map(|value| value.to_bits()).collect()
    }
}

/// Trains on the samples, the last batch smaller, and evaluates on all of them.
fn train(workers: usize, depth: usize, shards: usize) -> Run {
    let rt = Runtime::builder().workers(workers).build().unwrap();
    let dataset = Arena::new(&rt, "dataset");
    let batches: Vec<_> = (0..SAMPLES)
        .step_by(BATCH)
        .map(|first| {
            let samples = BATCH.min(SAMPLES - first);
            sharded(&dataset, first, samples, shards.min(samples))
        })
        .collect();
    let sgd = Sgd::new(STEP).unwrap();
    let mut trainer = Trainer::new(&rt, network(), &initial_values(), sgd).unwrap();
    let arena = Arena::builder(&rt, "batch").depth(depth).build();
    let (mut index, mut metrics) = (0, Vec::new());
    for epoch in 0..EPOCHS {
        for (i, &(images, labels)) in batches.iter().enumerate() {
            trainer.submit_batch(&arena, BatchPlace { epoch, index }, images, labels).unwrap();
            index += 1;
            if i == 0 && epoch > 0 {
                metrics.push(trainer.epoch_metrics(epoch - 1).unwrap());
            }
        }
    }
    metrics.push(trainer.epoch_metrics(EPOCHS - 1).unwrap());
    let (images, labels) = sharded(&dataset, 0, SAMPLES, 10);
    let evaluation = trainer.evaluate(images, labels).unwrap();
    let weights = trainer.weights().unwrap();
    rt.wait().unwrap();
    Run { weights, metrics, evaluation }
}

/// The same, one layer after the other on this thread, without tasks or shards.
fn train_by_hand() -> (Vec<f32>, Vec<EpochMetrics>) {
    let (images, labels) = data();
    let network = network();
    let (sgd, loss) = (Sgd::new(STEP).unwrap(), SoftmaxCrossEntropy { classes: CLASSES });
    let mut parameters = initial_values();
    let mut metrics = Vec::new();
    for _ in 0..EPOCHS {
        let (mut batches, mut loss_sum, mut accuracy) = (0, 0.0, 0.0);
        let shards = images.chunks(BATCH * network.input().len()).zip(labels.chunks(BATCH));
        for (images, labels) in shards {
            let (values, winners) = forward(&network, &parameters, images);
            let logits = &values[values.len() - 1];
            let mut dy = vec![f32::NAN; logits.len()];
            let batch = labels.len();
            let partial = loss.forward_backward(logits, labels, batch, 0, &mut dy).unwrap();
            batches += 1;
            loss_sum += partial.loss / batch as f64;
            accuracy += f64::from(partial.correct) / batch as f64;
            let gradient = backward(&network, &parameters, &values, &winners, dy);
            sgd.update(&mut parameters, &[&gradient]).unwrap();
        }
        let mean = |sum: f64| sum / batches as f64;
        metrics.push(EpochMetrics {
            batches,
            samples: SAMPLES as u64,
            loss: mean(loss_sum),
            accuracy: mean(accuracy),
        });
    }
    (parameters, metrics)
}

type Winners = Vec<Vec<u8>>;

fn forward(network: &Network, mut parameters: &[f32], images: &[f32]) -> (Vec<Vec<f32>>, Winners) {
    let mut values = vec![images.to_vec()];
    let mut all_winners = Vec::new();
    let samples = images.len() / network.input().len();
    for node in network.layers() {
        let x = values.last().unwrap().clone();
        let mut y = vec![f32::NAN; samples * node.output().len()];
        let mut winners = vec![0; y.len()];
        let [weights, bias] = node.parameters().unwrap_or_default();
        let (own, rest) = parameters.split_at(weights + bias);
        let (weights, bias) = own.split_at(weights);
        parameters = rest;
        match node.kind() {
            LayerKind::Relu => {
                y.clone_from(&x);
                Relu::new(node.output()).forward(&mut y);
            }
            LayerKind::Conv2d(layer) => {
                layer.forward(&x, weights, bias, &mut y, &mut vec![0.0; layer.scratch_len()]);
            }
            LayerKind::MaxPool2d(layer) => layer.forward(&x, &mut y, &mut winners),
            LayerKind::Dense(layer) => layer.forward(&x, weights, bias, &mut y),
            _ => y = x,
        }
        values.push(y);
        all_winners.push(winners);
    }
    (values, all_winners)
}

fn backward(
    network: &Network,
    parameters: &[f32],
    values: &[Vec<f32>],
    winners: &Winners,
    mut dy: Vec<f32>,
) -> Vec<f32> {
    let mut gradient = vec![0.0; parameters.len()];
    let mut end = parameters.len();
    for (i, node) in network.layers().iter().enumerate().rev() {
        let [weights, bias] = node.parameters().unwrap_or_default();
        let start = end - weights - bias;
        let (dweights, dbias) = gradient[start..end].split_at_mut(weights);
        let weights = &parameters[start..start + weights];
        end = start;
        let x = &values[i];
        let mut dx = vec![f32::NAN; x.len()];
        match node.kind() {
            LayerKind::Relu => {
                dx = dy;
                Relu::new(node.output()).backward(&values[i + 1], &mut dx);
            }
            LayerKind::Conv2d(layer) => {
                let mut scratch = vec![0.0; layer.scratch_len()];
                layer.backward_weights(x, &dy, dweights, dbias, &mut scratch);
                layer.backward_data(&dy, weights, &mut dx, &mut scratch);
            }
            LayerKind::MaxPool2d(layer) => layer.backward(&winners[i], &dy, &mut dx),
            LayerKind::Dense(layer) => {
                let mut scratch = vec![0.0; layer.scratch_len(dy.len())];
                layer.backward_weights(x, &dy, dweights, dbias, &mut scratch);
                layer.backward_data(&dy, weights, &mut dx, &mut scratch);
            }
            _ => dx = dy,
        }
        dy = dx;
    }
    gradient
}

#[test]
fn workers_and_depth_change_no_bit() {
    let wanted = train(0, 1, SHARDS);
    for workers in [0, 1, 2, 4] {
        for depth in [1, 2, 3] {
            let got = train(workers, depth, SHARDS);
            assert_eq!(got.bits(), wanted.bits(), "{workers} workers, depth {depth}");
            assert_eq!(got.metrics, wanted.metrics, "{workers} workers, depth {depth}");
            assert_eq!(got.evaluation, wanted.evaluation, "{workers} workers, depth {depth}");
        }
    }
}

#[test]
fn one_shard_gives_the_bits_of_plain_code() {
    let (weights, metrics) = train_by_hand();
    let run = train(2, 2, 1);
    assert_eq!(run.metrics, metrics);
    let bits: Vec<u32> = weights.iter().map(|value| value.to_bits()).collect();
    assert_eq!(run.bits(), bits);
}

#[test]
fn shards_change_roundings_only() {
    let (wanted, _) = train_by_hand();
    for shards in 2..=BATCH {
        for (got, wanted) in train(2, 2, shards).weights.iter().zip(&wanted) {
            assert!((got - wanted).abs() < 1e-4, "{shards} shards: {got} {wanted}");
        }
    }
}

#[test]
fn it_learns() {
    let run = train(2, 2, SHARDS);
    let [first, .., last] = &run.metrics[..] else { panic!("several epochs") };
    assert!(last.loss < first.loss, "{first:?} {last:?}");
    assert!(run.weights.iter().all(|value| value.is_finite()));
    assert_eq!((first.batches, first.samples), (4, SAMPLES as u64));
}

#[test]
fn evaluation_equals_plain_code_for_any_shards() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let sgd = Sgd::new(STEP).unwrap();
    let trainer = Trainer::new(&rt, network(), &initial_values(), sgd).unwrap();
    let (images, labels) = data();
    let (values, _) = forward(&network(), &initial_values(), &images);
    let loss = SoftmaxCrossEntropy { classes: CLASSES };
    let wanted = loss.forward(values.last().unwrap(), &labels, 0).unwrap();
    let dataset = Arena::new(&rt, "dataset");
    for shards in [1, 2, 9, SAMPLES] {
        let (images, labels) = sharded(&dataset, 0, SAMPLES, shards);
        let got = trainer.evaluate(images, labels).unwrap();
        assert_eq!((got.samples, got.correct), (SAMPLES as u64, u64::from(wanted.correct)));
        assert!((got.loss - wanted.loss / SAMPLES as f64).abs() < 1e-6);
        assert_eq!(got.accuracy(), f64::from(wanted.correct) / SAMPLES as f64);
    }
}

#[test]
fn steady_batches_need_no_new_memory() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let dataset = Arena::new(&rt, "dataset");
    let sgd = Sgd::new(STEP).unwrap();
    let mut trainer = Trainer::new(&rt, network(), &initial_values(), sgd).unwrap();
    let arena = Arena::builder(&rt, "batch").depth(2).build();
    let (images, labels) = sharded(&dataset, 0, BATCH, SHARDS);
    let mut chunks = Vec::new();
    for index in 0..9 {
        trainer.submit_batch(&arena, BatchPlace { epoch: 0, index }, images, labels).unwrap();
        chunks.push(arena.statistics().chunks);
    }
    assert!(chunks[2..].iter().all(|&count| count == chunks[2]), "{chunks:?}");
}

#[test]
fn what_does_not_fit_is_refused_at_submission() {
    let rt = Runtime::builder().workers(0).build().unwrap();
    let sgd = Sgd::new(STEP).unwrap();
    let error = Trainer::new(&rt, network(), &[0.0; 7], sgd).unwrap_err();
    let wanted = network().parameters_len();
    assert_eq!(error.to_string(), format!("initial values: got 7, wanted {wanted}"));

    let mut trainer = Trainer::new(&rt, network(), &initial_values(), sgd).unwrap();
    let arena = Arena::new(&rt, "batch");
    let place = BatchPlace { epoch: 3, index: 0 };
    let (images, labels) = sharded(&arena, 0, 4, 2);
    let small = arena.alloc_sharded::<f32>(4, 3, 2).unwrap();
    let few = arena.alloc_sharded::<u8>(3, 1, 2).unwrap();
    let other = arena.alloc_sharded::<u8>(4, 1, 4).unwrap();
    for (images, labels, wanted) in [
        (small, labels, "values of a sample: got 3, wanted 126"),
        (images, few, "labels: got 3, wanted 4"),
        (images, other, "shards of the labels: got 4, wanted 2"),
    ] {
        let error = trainer.submit_batch(&arena, place, images, labels).unwrap_err();
        assert_eq!(error.to_string(), wanted);
        let error = trainer.evaluate(images, labels).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    assert_eq!(
        trainer.epoch_metrics(3).unwrap_err().to_string(),
        "trainer: epoch is 3, wanted an epoch of which a batch was submitted"
    );
}

#[test]
fn a_wrong_label_fails_the_loss_and_names_the_sample() {
    for workers in [0, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let sgd = Sgd::new(STEP).unwrap();
        let mut trainer = Trainer::new(&rt, network(), &initial_values(), sgd).unwrap();
        let dataset = Arena::new(&rt, "dataset");
        let arena = Arena::new(&rt, "batch");
        let (images, labels) = sharded(&dataset, 0, 6, 2);
        labels.whole().acquire_mut().unwrap()[4] = 200;
        let place = BatchPlace { epoch: 0, index: 9 };
        trainer.submit_batch(&arena, place, images, labels).unwrap();
        let wanted = "sample 4 of the batch has label 200, but the network has 5 classes";
        let message = rt.wait().unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
        let error = trainer.weights().unwrap_err();
        assert!(matches!(error, NnError::Wait(_)), "{error}");
    }
}
