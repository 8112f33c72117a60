//! The rows of `bench nn`: as JSON, and as tables for people.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::net::Net;
use super::{Case, Rounds};
use crate::bench::rows::median;

/// How fast a network was trained with one batch size and number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NnRow {
    /// The network.
    pub net: Net,
    /// Samples of a batch.
    pub batch: usize,
    /// Workers, the main thread among them; the peer has as many threads.
    pub workers: usize,
    /// Images trained per second.
    pub images_per_s: f64,
    /// Floating point operations of their products per second, in thousands of millions.
    pub gflops: f64,
    /// The same as a share of the multiply-add peak of as many threads in this sitting.
    pub peak_share: f64,
    /// The most memory that was resident, in millions of bytes.
    pub rss_mb: Option<f64>,
    /// The peer's fastest mode.
    pub peer: Option<String>,
    /// Its images per second.
    pub peer_images_per_s: Option<f64>,
    /// Ours over the peer's.
    pub ratio: Option<f64>,
    /// Images per second of all modes of the peer.
    pub peers: BTreeMap<String, f64>,
}

impl NnRow {
    pub(super) fn new(case: &Case, rounds: &Rounds, peak: f64) -> Self {
        let Case { net, batch, workers } = *case;
        let rates: Vec<f64> = rounds.ours.iter().map(|ours| ours.images_per_s).collect();
        let images_per_s = median(&rates).0;
        let gflops = images_per_s * net.network().flops() as f64 * 1e-9;
        let rss = rounds.ours.iter().map(|ours| ours.rss).max().flatten();
        let peers: BTreeMap<String, f64> = rounds
            .peers
            .iter()
            .map(|(mode, rates)| (mode.name().to_owned(), median(rates).0))
            .collect();
        let best = peers.iter().max_by(|a, b| a.1.total_cmp(b.1));
        Self {
            net,
            batch,
            workers,
            images_per_s,
            gflops,
            peak_share: gflops / peak,
            rss_mb: rss.map(|bytes| bytes as f64 * 1e-6),
            peer: best.map(|(name, _)| format!("pytorch {name}")),
            peer_images_per_s: best.map(|(_, rate)| *rate),
            ratio: best.map(|(_, rate)| images_per_s / rate),
            peers,
        }
    }
}

pub(super) fn render(rows: &[NnRow]) -> String {
    let titles = ["net", "batch", "workers", "images/s", "GFLOP/s", "of peak", "RSS MB"];
    let peers = ["best peer", "images/s", "ratio"];
    let with_peer = rows.iter().any(|row| row.peer.is_some());
    let peers = if with_peer { &peers[..] } else { &[] };
    let lines = rows.iter().map(|row| {
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
        let mut line = vec![
            row.net.name().to_owned(),
            row.batch.to_string(),
            row.workers.to_string(),
            format!("{:.0}", row.images_per_s),
            format!("{:.1}", row.gflops),
            format!("{:.0}%", row.peak_share * 100.0),
            number(row.rss_mb),
        ];
        if with_peer {
            line.push(row.peer.clone().unwrap_or_else(|| "-".to_owned()));
            line.push(number(row.peer_images_per_s));
            line.push(row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        line
    });
    table(titles.iter().chain(peers), lines, 3)
}

/// How fast one layer with products is computed, on one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerRow {
    /// The network.
    pub net: Net,
    /// The layer.
    pub layer: String,
    /// Samples that are computed together.
    pub samples: usize,
    /// What is computed: `forward`, `by data` or `by weights`.
    pub direction: &'static str,
    /// Floating point operations per second, in thousands of millions; `None` when a disturbance
    /// was longer than the computation.
    pub gflops: Option<f64>,
    /// The same as a share of the multiply-add peak in this sitting.
    pub peak_share: Option<f64>,
    /// What takes longer at the machine's limits: `products` at the multiply-add peak, or `memory`
    /// for what is read and written, at the speed of a copy.
    pub bound: &'static str,
}

pub(super) fn render_layers(rows: &[LayerRow]) -> String {
    let titles = ["net", "layer", "direction", "samples", "GFLOP/s", "of peak", "bound by"];
    let lines = rows.iter().map(|row| {
        vec![
            row.net.name().to_owned(),
            row.layer.clone(),
            row.direction.to_owned(),
            row.samples.to_string(),
            row.gflops.map_or_else(|| "-".to_owned(), |gflops| format!("{gflops:.1}")),
            row.peak_share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
            row.bound.to_owned(),
        ]
    });
    table(titles.iter(), lines, 3)
}

/// A table whose first columns are words.
fn table<'a>(
    titles: impl Iterator<Item = &'a &'a str>,
    lines: impl Iterator<Item = Vec<String>>,
    words: usize,
) -> String {
    let mut table = Table::new();
    table.set_header(titles.copied());
    for line in lines {
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}
