//! The rows of `bench runtime`: as JSON, and as a table for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// What one scenario cost with one number of workers and one length of bodies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeRow {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Workers, the helping thread among them.
    pub workers: usize,
    /// Length of a body in nanoseconds.
    pub body_ns: u64,
    /// Tasks of a run.
    pub tasks: usize,
    /// Whether a recorded graph was replayed.
    pub replay: bool,
    /// What no runtime can be below, in nanoseconds per task: the bodies, divided among the
    /// workers where the graph lets it be.
    pub ideal_ns: u64,
    /// From the first submission until all have ended, in nanoseconds per task: the median.
    pub ns_per_task: f64,
    /// The least of the runs.
    pub least: f64,
    /// The most of the runs.
    pub most: f64,
    /// Until the last submission returned, in nanoseconds per task: the median.
    pub submit_ns_per_task: f64,
    /// The same graph by others in the same sitting, by name.
    pub peers: BTreeMap<String, PeerFigure>,
}

/// What a peer needed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PeerFigure {
    /// As [`RuntimeRow::ns_per_task`].
    pub ns_per_task: f64,
    /// As [`RuntimeRow::submit_ns_per_task`].
    pub submit_ns_per_task: f64,
    /// Its time per task over Millrace's.
    pub ratio: f64,
}

/// The middle of `values`, their least and their most.
pub(super) fn median(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let middle = f64::midpoint(at(last / 2), at(last.div_ceil(2)));
    (middle, at(0), at(last))
}

/// The rows for people: a table for each number of workers and length of bodies.
pub(super) fn render(rows: &[RuntimeRow]) -> String {
    let mut text = String::new();
    for block in rows.chunk_by(|a, b| (a.workers, a.body_ns) == (b.workers, b.body_ns)) {
        let body = match block[0].body_ns {
            0 => "empty bodies".to_owned(),
            ns => format!("bodies of {} µs", ns as f64 / 1000.0),
        };
        let workers = block[0].workers;
        let plural = if workers == 1 { "" } else { "s" };
        let _ = writeln!(text, "{workers} worker{plural}, {body}, ns per task");
        let _ = writeln!(text, "{}\n", table(block));
    }
    text
}

fn table(block: &[RuntimeRow]) -> Table {
    let mut table = Table::new();
    let mut peers: Vec<&String> = block.iter().flat_map(|row| row.peers.keys()).collect();
    peers.sort_unstable();
    peers.dedup();
    let ours = ["scenario", "ideal", "Millrace", "least to most", "submission"].map(str::to_owned);
    table.set_header(ours.into_iter().chain(peers.iter().map(|name| format!("{name}\n(ratio)"))));
    for row in block {
        let own = [
            if row.replay {
                format!("{}, replayed", row.scenario)
            } else {
                row.scenario.to_owned()
            },
            row.ideal_ns.to_string(),
            format!("{:.0}", row.ns_per_task),
            format!("{:.0} to {:.0}", row.least, row.most),
            format!("{:.0}", row.submit_ns_per_task),
        ];
        let others = peers.iter().map(|name| match row.peers.get(*name) {
            Some(peer) => format!("{:.0} ({:.1})", peer.ns_per_task, peer.ratio),
            None => "-".to_owned(),
        });
        table.add_row(own.into_iter().chain(others));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(median(&[4.0, 1.0]), (2.5, 1.0, 4.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), (2.5, 1.0, 4.0));
        assert!(median(&[]).0.is_nan());
    }

    #[test]
    fn a_block_per_setting_and_a_column_per_peer() {
        let row = |workers, body_ns, replay, peers: &[&str]| RuntimeRow {
            scenario: "chain",
            workers,
            body_ns,
            tasks: 10,
            replay,
            ideal_ns: body_ns,
            ns_per_task: 50.0,
            least: 40.0,
            most: 60.0,
            submit_ns_per_task: 30.0,
            peers: peers
                .iter()
                .map(|name| {
                    let figure =
                        PeerFigure { ns_per_task: 100.0, submit_ns_per_task: 1.0, ratio: 2.0 };
                    ((*name).to_owned(), figure)
                })
                .collect(),
        };
        let text =
            render(&[row(2, 0, false, &["a"]), row(2, 0, true, &["b"]), row(1, 5000, false, &[])]);
        assert_eq!(text.matches("ns per task\n").count(), 2, "{text}");
        assert!(text.contains("2 workers, empty bodies") && text.contains("bodies of 5 µs"));
        assert_eq!(text.matches("100 (2.0)").count(), 2, "{text}");
        assert_eq!(text.matches("chain, replayed").count(), 1, "{text}");
    }
}
