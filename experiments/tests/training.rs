//! Loader, arenas and network together, on the embedded set: the published curve of the
//! reference network, and the same bits from every combination and any number of workers.

use millrace_arena::Arena;
use millrace_loader::{Dataset, Loader, LoaderConfig, LoaderKind, embedded};
use millrace_nn::{BatchPlace, EpochMetrics, Network, Sgd, Trainer, init};
use millrace_runtime::Runtime;

/// What the curve was published with: `srand(42)`, values in -0.1..0.1, rate 0.001, batch 10.
const SEED: u32 = 42;
const BOUND: f64 = 0.1;
const RATE: f64 = 0.001;

/// Loss and accuracy during the first five epochs, as published for DAHL (computed in double).
const PUBLISHED: [(f64, f64); 5] = [
    (2.282767, 0.122333),
    (2.036433, 0.312333),
    (1.414622, 0.604167),
    (1.026908, 0.665333),
    (0.884220, 0.694500),
];

/// One way of running the same training.
#[derive(Clone, Copy, Debug)]
struct Way {
    workers: usize,
    depth: usize,
    loader: LoaderKind,
}

fn train(way: Way, set: &Dataset, config: LoaderConfig) -> (Vec<f32>, Vec<EpochMetrics>) {
    let Way { workers, depth, loader } = way;
    let rt = Runtime::builder().workers(workers).build().expect("a runtime");
    let network = Network::reference();
    let values = init::gnu_uniform(SEED, BOUND, network.parameters_len());
    let sgd = Sgd::new(RATE).expect("a rate");
    let mut trainer = Trainer::new(&rt, network, &values, sgd).expect("a trainer");
    let batches = Arena::builder(&rt, "batch").depth(depth).build();
    let epochs = config.epochs;
    let mut loader = Loader::new(&rt, loader, set, config).expect("a loader");
    while let Some(batch) = loader.next().expect("a batch") {
        let place = BatchPlace { epoch: batch.epoch, index: batch.index };
        trainer.submit_batch(&batches, place, batch.images, batch.labels).expect("submitted");
    }
    let metrics = (0..epochs).map(|epoch| trainer.epoch_metrics(epoch).expect("an epoch"));
    (trainer.weights().expect("weights"), metrics.collect())
}

#[test]
fn the_reference_network_follows_the_published_curve() {
    let (set, _) = embedded();
    for depth in [1, 2] {
        let way = Way { workers: 2, depth, loader: LoaderKind::Advanced };
        let config = LoaderConfig { epochs: 5, shards: 2, ..LoaderConfig::default() };
        let (_, epochs) = train(way, &set, config);
        for (epoch, (got, (loss, accuracy))) in epochs.iter().zip(PUBLISHED).enumerate() {
            let off = ((got.loss - loss).abs(), (got.accuracy - accuracy).abs());
            assert!(off.0 < 0.001, "depth {depth}, epoch {epoch}: loss {} for {loss}", got.loss);
            assert!(off.1 < 0.003, "depth {depth}, epoch {epoch}: {} for {accuracy}", got.accuracy);
        }
        assert_eq!(epochs.len(), PUBLISHED.len());
    }
}

#[test]
fn every_combination_and_any_number_of_workers_give_the_same_bits() {
    let (mut set, _) = embedded();
    // 47 batches of 13, the last one of 9: an odd number of batches, and uneven shards.
    set.truncate(607);
    for shuffle in [false, true] {
        let mut expected: Option<Vec<u32>> = None;
        for workers in [0, 1, 2, 4] {
            for depth in [1, 2, 3] {
                for loader in LoaderKind::ALL {
                    let way = Way { workers, depth, loader };
                    let (batch_size, epochs, shards) = (13, 2, 3);
                    let base = LoaderConfig { batch_size, epochs, shards, ..Default::default() };
                    let config = LoaderConfig { seed: 7, shuffle, ..base };
                    let (weights, _) = train(way, &set, config);
                    let bits: Vec<u32> = weights.iter().map(|value| value.to_bits()).collect();
                    assert_eq!(*expected.get_or_insert_with(|| bits.clone()), bits, "{way:?}");
                }
            }
        }
    }
}
