//! Training by tasks: the same bits for every number of workers, depth of the batch arena and cut
//! into tasks, the same as by hand, and errors that say what is wrong.

mod by_hand;
mod layers;

use by_hand::{ByHand, Trained, compared, loss, train_by_hand};
use layers::{Noise, Scale, Square, Sum};
use millrace_arena::{Arena, Sharded};
use millrace_nn::init::GnuRand;
use millrace_nn::layer::{
    Activation, AveragePool2dConfig, Conv2dConfig, DenseConfig, MaxPool2dConfig, Mode, Padding,
};
use millrace_nn::loss::Loss;
use millrace_nn::{
    BatchPlace, EpochMetrics, Evaluation, Granularity, Network, NetworkBuilder, NnError, Sgd,
    Shape, Trainer, TrainerConfig, init,
};
use millrace_runtime::Runtime;

const CLASSES: usize = 5;
const SAMPLES: usize = 23;
const BATCH: usize = 6;
const SHARDS: usize = 4;
const EPOCHS: u32 = 3;
const STEP: f64 = 0.1;

const INPUT: Shape = Shape::image(2, 9, 7);

/// A network with every kind of layer, a ReLU after each kind and more than one dense layer.
fn network() -> Network {
    Network::builder(INPUT)
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

/// A network with branches: values that are used several times, by layers that work in place, that
/// look back at their input or output, that fuse, save, pack and draw.
fn branches() -> Network {
    let conv2d = |filters| Conv2dConfig::new(filters, [3, 3]).padding(Padding::Same);
    Network::builder(INPUT)
        .layer(Noise)
        .conv2d(conv2d(4))
        .named("stem")
        .relu()
        .named("a")
        .conv2d(conv2d(4))
        .named("b")
        .layer(Square { by_output: false })
        .join(Sum, &["a", "b", "stem"])
        .relu()
        .layer(Scale)
        .relu()
        .layer(Noise)
        .layer(Square { by_output: true })
        .max_pool2d(MaxPool2dConfig::new([2, 2]))
        .flatten()
        .named("features")
        .dense(DenseConfig::new(6))
        .named("left")
        .after("features")
        .dense(DenseConfig::new(6))
        .join(Sum, &["left"])
        .named("both")
        .join(Sum, &["both"])
        .layer(Scale)
        .flatten()
        .relu()
        .layer(Scale)
        .named("scaled")
        .layer(Noise)
        .named("noise")
        .after("scaled")
        .relu()
        .layer(Noise)
        .join(Sum, &["noise"])
        .dense(DenseConfig::new(CLASSES))
        .layer(Square { by_output: false })
        .build()
        .unwrap()
}

/// A network that begins with what works in place, on samples without places.
fn flat() -> Network {
    Network::builder(Shape::Features(INPUT.len()))
        .flatten()
        .layer(Noise)
        .dense(DenseConfig::new(CLASSES))
        .build()
        .unwrap()
}

/// Batch normalisation of images and features, with a ReLU that it does or does not do itself, of
/// the input and in branches.
fn normalised() -> Network {
    let conv2d = |filters| Conv2dConfig::new(filters, [3, 3]).padding(Padding::Same);
    Network::builder(INPUT)
        .batch_norm()
        .conv2d(conv2d(4))
        .named("stem")
        .batch_norm()
        .relu()
        .conv2d(conv2d(4))
        .batch_norm()
        .named("left")
        .after("stem")
        .batch_norm()
        .plus("left")
        .relu()
        .named("sum")
        .conv2d(conv2d(2))
        .concat(&["sum", "stem"])
        .max_pool2d(MaxPool2dConfig::new([2, 2]))
        .flatten()
        .dense(DenseConfig::new(6))
        .batch_norm()
        .layer(Square { by_output: false })
        .dense(DenseConfig::new(CLASSES))
        .build()
        .unwrap()
}

/// Smooth activations, average pooling by window and of whole planes, and dropout.
fn smooth() -> Network {
    Network::builder(INPUT)
        .conv2d(Conv2dConfig::new(4, [3, 3]).padding(Padding::Same))
        .activation(Activation::Gelu)
        .average_pool2d(AveragePool2dConfig::new([2, 2]))
        .dropout(0.25)
        .conv2d(Conv2dConfig::new(6, [3, 3]).padding(Padding::Same))
        .activation(Activation::LeakyRelu { slope: 0.1 })
        .average_pool2d(AveragePool2dConfig::global())
        .flatten()
        .dense(DenseConfig::new(8))
        .activation(Activation::Tanh)
        .dropout(0.5)
        .dense(DenseConfig::new(CLASSES))
        .build()
        .unwrap()
}

/// Images whose class is where they are bright.
fn data() -> (Vec<f32>, Vec<u8>) {
    let len = INPUT.len();
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

fn initial_values(network: &Network) -> Vec<f32> {
    init::gnu_uniform(42, 0.3, network.parameters_len())
}

/// Samples `first..first + samples` in buffers of their own.
fn sharded(
    arena: &Arena,
    first: usize,
    samples: usize,
    shards: usize,
) -> (Sharded<f32>, Sharded<u8>) {
    let (all_images, all_labels) = data();
    let len = INPUT.len();
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
    states: Vec<f32>,
    metrics: Vec<EpochMetrics>,
    evaluation: Evaluation,
}

impl Run {
    fn bits(&self) -> Vec<u32> {
        self.weights.iter().chain(&self.states).map(|value| value.to_bits()).collect()
    }
}

/// One way of doing the same training.
#[derive(Clone, Copy, Debug)]
struct Way {
    workers: usize,
    depth: usize,
    shards: usize,
    granularity: Granularity,
}

impl Way {
    const PLAIN: Self =
        Self { workers: 0, depth: 1, shards: SHARDS, granularity: Granularity::Automatic };
}

/// Trains on the samples, the last batch smaller, and evaluates on all of them.
fn train(network: &Network, way: Way) -> Run {
    let Way { workers, depth, shards, granularity } = way;
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
    let config = TrainerConfig { granularity, ..TrainerConfig::default() };
    let values = initial_values(network);
    let mut trainer = Trainer::with(&rt, network.clone(), &values, sgd, config).unwrap();
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
    let (weights, states) = (trainer.weights().unwrap(), trainer.states().unwrap());
    rt.wait().unwrap();
    Run { weights, states, metrics, evaluation }
}

#[test]
fn workers_depth_and_cuts_change_no_bit() {
    for network in [network(), branches(), flat(), normalised(), smooth()] {
        let wanted = train(&network, Way::PLAIN);
        assert!(wanted.weights.iter().all(|value| value.is_finite()));
        let ways = [
            (1, Granularity::Automatic),
            (2, Granularity::Automatic),
            (3, Granularity::Shard),
            (1, Granularity::Flops(0)),
            (2, Granularity::Flops(100)),
            (3, Granularity::Flops(1000)),
            (2, Granularity::Flops(9000)),
        ];
        for workers in [0, 1, 2, 3, 8] {
            for (depth, granularity) in ways {
                let way = Way { workers, depth, granularity, ..Way::PLAIN };
                let got = train(&network, way);
                assert_eq!(got.bits(), wanted.bits(), "{way:?}");
                assert_eq!(got.metrics, wanted.metrics, "{way:?}");
                assert_eq!(got.evaluation, wanted.evaluation, "{way:?}");
            }
        }
    }
}

#[test]
fn one_shard_gives_the_bits_of_plain_code() {
    for network in [network(), branches(), flat(), normalised(), smooth()] {
        let Trained { weights, states, metrics, .. } = train_by_hand(&network);
        let bits: Vec<u32> = weights.iter().chain(&states).map(|value| value.to_bits()).collect();
        for granularity in [Granularity::Automatic, Granularity::Flops(0)] {
            let run = train(&network, Way { workers: 2, depth: 2, shards: 1, granularity });
            assert_eq!(run.metrics, metrics);
            assert_eq!(run.bits(), bits);
        }
    }
}

#[test]
fn shards_change_roundings_only() {
    for network in [network(), branches(), flat(), normalised(), smooth()] {
        let Trained { weights: wanted, logits, .. } = train_by_hand(&network);
        for shards in 2..=BATCH {
            let run = train(&network, Way { workers: 2, depth: 2, shards, ..Way::PLAIN });
            for (got, wanted) in run.weights.iter().zip(&wanted) {
                assert!((got - wanted).abs() < 1e-4, "{shards} shards: {got} {wanted}");
            }
            // What was learned from batches is what the evaluation uses.
            let loss = loss();
            let wanted = loss.forward(compared(&logits, &data().1)).unwrap().mean();
            assert!((run.evaluation.loss - wanted).abs() < 1e-4, "{shards}: {wanted}");
        }
    }
}

#[test]
fn it_learns() {
    let run = train(&network(), Way { workers: 2, ..Way::PLAIN });
    let [first, .., last] = &run.metrics[..] else { panic!("several epochs") };
    assert!(last.loss < first.loss, "{first:?} {last:?}");
    assert!(run.weights.iter().all(|value| value.is_finite()));
    assert_eq!((first.batches, first.samples), (4, SAMPLES as u64));
}

#[test]
fn evaluation_equals_plain_code_for_any_shards() {
    for network in [network(), branches(), flat(), normalised(), smooth()] {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let (sgd, values) = (Sgd::new(STEP).unwrap(), initial_values(&network));
        let trainer = Trainer::new(&rt, network.clone(), &values, sgd).unwrap();
        let (images, labels) = data();
        let mut by_hand = ByHand::new(&network, &values);
        let loss = loss();
        let logits = by_hand.forward(Mode::Evaluate, &images);
        let wanted = loss.forward(compared(logits, &labels)).unwrap();
        let dataset = Arena::new(&rt, "dataset");
        // One shard of all samples is done in pieces.
        for shards in [1, 2, 9, SAMPLES] {
            let (images, labels) = sharded(&dataset, 0, SAMPLES, shards);
            let got = trainer.evaluate(images, labels).unwrap();
            assert_eq!((got.samples, got.correct), (SAMPLES as u64, wanted.correct));
            assert!((got.loss - wanted.mean()).abs() < 1e-6);
            assert_eq!(got.accuracy(), wanted.accuracy());
        }
    }
}

#[test]
fn a_batch_too_small_to_be_normalised_is_refused() {
    let rt = Runtime::builder().workers(0).build().unwrap();
    let network = Network::builder(INPUT).flatten().batch_norm().dense(DenseConfig::new(CLASSES));
    let network = network.build().unwrap();
    let values = initial_values(&network);
    let mut trainer = Trainer::new(&rt, network, &values, Sgd::new(STEP).unwrap()).unwrap();
    let (dataset, arena) = (Arena::new(&rt, "dataset"), Arena::new(&rt, "batch"));
    let place = BatchPlace { epoch: 0, index: 0 };
    let (images, labels) = sharded(&dataset, 0, 1, 1);
    let error = trainer.submit_batch(&arena, place, images, labels).unwrap_err();
    assert_eq!(error.to_string(), "samples of a batch that is normalised: got 1, wanted 2");
    let (images, labels) = sharded(&dataset, 0, 2, 2);
    trainer.submit_batch(&arena, place, images, labels).unwrap();
    assert!(trainer.states().unwrap().iter().all(|value| value.is_finite()));
}

#[test]
fn the_network_must_end_in_classes() {
    let rt = Runtime::builder().workers(0).build().unwrap();
    let message = |builder: NetworkBuilder| {
        let network = builder.build().unwrap();
        let values = vec![0.0; network.parameters_len()];
        let sgd = Sgd::new(STEP).unwrap();
        Trainer::new(&rt, network, &values, sgd).unwrap_err().to_string()
    };
    let builder = Network::builder(Shape::image(1, 28, 28)).relu();
    assert_eq!(
        message(builder.clone()),
        "layer after the last: got shape 1x28x28, wanted a row of features (put a flatten layer \
         before)"
    );
    assert_eq!(
        message(builder.flatten()),
        "layer softmax_cross_entropy: got shape 784, wanted at most 256 classes, because a label is one \
         byte"
    );
}

#[test]
fn steady_batches_need_no_new_memory() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let dataset = Arena::new(&rt, "dataset");
    let sgd = Sgd::new(STEP).unwrap();
    let mut trainer = Trainer::new(&rt, network(), &initial_values(&network()), sgd).unwrap();
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

    let mut trainer = Trainer::new(&rt, network(), &initial_values(&network()), sgd).unwrap();
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
        let mut trainer = Trainer::new(&rt, network(), &initial_values(&network()), sgd).unwrap();
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
