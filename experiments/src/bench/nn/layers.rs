//! Each layer with products by itself, on one thread.

use std::time::Instant;

use millrace_nn::Network;
use millrace_nn::layer::{Backward, Forward, Layer};

use super::net::Net;
use super::peak;
use super::rows::{LayerRow, render_layers};
use crate::bench::rows::median;
use crate::bench::{print, stopped};
use crate::failure::Failure;
use crate::interrupt;
use crate::options::BenchNnOptions;

/// Samples that are computed together if no batch size is asked for: those of a usual shard.
const SAMPLES: u16 = 8;
/// Values of the copy that the speed of memory is measured by: more than any cache holds.
const COPIED: usize = 1 << 24;

/// Measures every layer with products in all directions, and prints the table.
pub(super) fn layers(options: &BenchNnOptions, seconds: f64) -> Result<(), Failure> {
    let nets = if options.nets.is_empty() { &Net::ALL } else { &options.nets[..] };
    let samples = if options.batches.is_empty() { &[SAMPLES][..] } else { &options.batches };
    let peak = peak::gflops(1, seconds * 4.0);
    let copied = vec![1.0f32; if options.quick { COPIED / 64 } else { COPIED }];
    let mut to = copied.clone();
    let copy = time(options.rounds, seconds, || to.copy_from_slice(&copied));
    let limits = Limits { peak, bytes_per_ns: 8.0 * copied.len() as f64 / copy * 1e-9 };
    let mut rows = Vec::new();
    for &net in nets {
        let network = net.network();
        for samples in samples.iter().map(|&samples| usize::from(samples)) {
            for (index, node) in network.layers().iter().enumerate() {
                if node.flops() == 0 {
                    continue;
                }
                if interrupt::requested() {
                    return Err(stopped());
                }
                let mut trial = Trial::new(&network, index, samples);
                for (direction, seconds, bytes) in trial.times(options.rounds, seconds) {
                    let flops = samples as f64 * trial.layer.flops() as f64;
                    let gflops = (seconds > 0.0).then(|| flops / seconds * 1e-9);
                    rows.push(LayerRow {
                        net,
                        layer: node.name().to_owned(),
                        samples,
                        direction,
                        gflops,
                        peak_share: gflops.map(|gflops| gflops / peak),
                        bound: limits.bound(flops, bytes),
                    });
                }
            }
        }
    }
    print(&rows, options.json, render_layers)
}

struct Limits {
    peak: f64,
    bytes_per_ns: f64,
}

impl Limits {
    fn bound(&self, flops: f64, bytes: usize) -> &'static str {
        let (products, memory) = (flops / self.peak, bytes as f64 / self.bytes_per_ns);
        if products >= memory { "products" } else { "memory" }
    }
}

/// The median of some rounds of `seconds` of the time of a call, in seconds.
fn time(rounds: u32, seconds: f64, mut call: impl FnMut()) -> f64 {
    call();
    let round = |_| {
        let (begin, mut calls) = (Instant::now(), 0u32);
        while calls == 0 || begin.elapsed().as_secs_f64() < seconds {
            call();
            calls += 1;
        }
        begin.elapsed().as_secs_f64() / f64::from(calls)
    };
    median(&(0..rounds).map(round).collect::<Vec<_>>()).0
}

/// A layer with all that its computations need.
struct Trial<'a> {
    layer: &'a dyn Layer<f32>,
    samples: usize,
    /// Whether somebody wants the gradient by its input.
    by_data: bool,
    x: Vec<f32>,
    y: Vec<f32>,
    dx: Vec<f32>,
    parameters: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    packed: Vec<f32>,
    scratch: Vec<f32>,
}

impl<'a> Trial<'a> {
    fn new(network: &'a Network, index: usize, samples: usize) -> Self {
        let node = &network.layers()[index];
        let layer: &dyn Layer<f32> = node.layer().as_ref();
        let input = network.shape_of(node.inputs()[0]);
        let values = |len: usize| -> Vec<f32> {
            (0..len).map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5).collect()
        };
        let parameters: Vec<Vec<f32>> =
            node.parameters().iter().map(|parameter| values(parameter.len())).collect();
        let mut packed = vec![0.0; layer.packed_len()];
        let slices: Vec<&[f32]> = parameters.iter().map(Vec::as_slice).collect();
        layer.pack(&slices, &mut packed);
        Self {
            layer,
            samples,
            by_data: network.layers()[..index].iter().any(|node| node.parameters_len() > 0),
            x: values(samples * input.len()),
            y: values(samples * node.output().len()),
            dx: values(samples * input.len()),
            gradients: parameters.clone(),
            parameters,
            packed,
            scratch: vec![0.0; layer.scratch_len(samples)],
        }
    }

    /// Each direction with its time in seconds and the bytes that it reads and writes at least.
    fn times(&mut self, rounds: u32, seconds: f64) -> Vec<(&'static str, f64, usize)> {
        let weights = self.parameters.iter().map(Vec::len).sum::<usize>();
        let bytes = 4 * (self.x.len() + self.y.len() + weights);
        let forward = time(rounds, seconds, || self.forward());
        let by_weights = time(rounds, seconds, || self.backward(false));
        let mut times = vec![("forward", forward, bytes), ("by weights", by_weights, bytes)];
        if self.by_data {
            // What remains is the gradient by data; a disturbance of one of them may leave nothing.
            let both = time(rounds, seconds, || self.backward(true));
            times.push(("by data", both - by_weights, bytes));
        }
        times
    }

    fn forward(&mut self) {
        let parameters: Vec<&[f32]> = self.parameters.iter().map(Vec::as_slice).collect();
        self.layer.forward(Forward {
            parameters: &parameters,
            packed: &self.packed,
            scratch: &mut self.scratch,
            relu: self.layer.fuses_relu(),
            ..Forward::new(self.samples, &[&self.x], &mut self.y)
        });
    }

    fn backward(&mut self, by_data: bool) {
        let parameters: Vec<&[f32]> = self.parameters.iter().map(Vec::as_slice).collect();
        let mut gradients: Vec<&mut [f32]> =
            self.gradients.iter_mut().map(Vec::as_mut_slice).collect();
        let dx = if by_data { &mut self.dx[..] } else { &mut [] };
        self.layer.backward(Backward {
            x: &[&self.x],
            parameters: &parameters,
            packed: &self.packed,
            dparameters: &mut gradients,
            scratch: &mut self.scratch,
            ..Backward::new(self.samples, &self.y, &mut [dx])
        });
    }
}
