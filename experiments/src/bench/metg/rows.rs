//! The rows of `bench metg`: as JSON, and as a table for people.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::kernel::Kernel;
use super::pattern::Pattern;
use super::sweep::{Efficiency, HALF};

/// What others reached, in microseconds, as published; see [`PUBLISHED_ON`].
const PUBLISHED: [(&str, f64); 8] = [
    ("MPI", 4.6),
    ("Charm++", 12.0),
    ("Realm", 59.0),
    ("OpenMP", 64.0),
    ("PaRSEC DTD", 79.0),
    ("OmpSs-2", 348.0),
    ("StarPU", 361.0),
    ("Legion", 1758.0),
];

/// What the published figures were measured on.
const PUBLISHED_ON: &str = "\
Published METG(50%), on other hardware and not to be compared line by line:
Slaughter et al., Task Bench, SC20; compute-bound stencil with 3 dependencies, one node of 32 cores.";

/// The smallest efficient granularity of one pattern, kernel, number of workers and width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetgRow {
    /// What a task depends on.
    pub pattern: Pattern,
    /// What the bodies do.
    pub kernel: Kernel,
    /// Workers, the helping thread among them.
    pub workers: usize,
    /// Columns of the graph.
    pub width: usize,
    /// The smallest granularity with half of the best rate, in microseconds; `None` when the
    /// sweep did not cross one half.
    pub metg_us: Option<f64>,
    /// Tasks per second at that granularity, of all workers.
    pub tasks_per_s: Option<f64>,
    /// The sweep, from the largest granularity down.
    pub points: Vec<Efficiency>,
    /// The best rate that anybody reached in this sitting with the kernel and the number of
    /// workers: floating-point operations or bytes per second.
    pub peak_rate: f64,
    /// The other runtime that ran in the same sitting.
    pub peer: Option<String>,
    /// As `metg_us`, of the other runtime.
    pub peer_metg_us: Option<f64>,
    /// As `points`, of the other runtime.
    pub peer_points: Vec<Efficiency>,
}

/// The rows for people, and the published figures.
pub(super) fn render(rows: &[MetgRow]) -> String {
    let published: Vec<String> =
        PUBLISHED.iter().map(|(name, metg_us)| format!("{name} {metg_us} µs")).collect();
    format!("{}\n\n{PUBLISHED_ON}\n{}\n", table(rows), published.join(", "))
}

fn table(rows: &[MetgRow]) -> Table {
    let mut table = Table::new();
    let peer = rows.iter().find_map(|row| row.peer.as_deref());
    let ours = ["pattern", "kernel", "workers", "width", "METG(50%) µs", "tasks/s", "peak rate"];
    let other = peer.map(|name| format!("{name}\nMETG µs (ratio)"));
    table.set_header(ours.map(str::to_owned).into_iter().chain(other));
    for row in rows {
        let own = [
            row.pattern.name().to_owned(),
            row.kernel.name().to_owned(),
            row.workers.to_string(),
            row.width.to_string(),
            figure(row.metg_us, &row.points),
            row.tasks_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            format!("{:.1} {}", row.peak_rate / 1e9, row.kernel.unit()),
        ];
        table.add_row(own.into_iter().chain(peer.map(|_| versus(row))));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn versus(row: &MetgRow) -> String {
    let figure = figure(row.peer_metg_us, &row.peer_points);
    match row.peer_metg_us.zip(row.metg_us) {
        Some((theirs, ours)) => format!("{figure} ({:.1})", theirs / ours),
        None => figure,
    }
}

/// A figure, or on which side of the sweep it would be.
fn figure(metg_us: Option<f64>, points: &[Efficiency]) -> String {
    match (metg_us, points) {
        (Some(metg_us), _) => format!("{metg_us:.2}"),
        (None, [.., last]) if points.iter().any(|point| point.efficiency >= HALF) => {
            format!("below {:.2}", last.granularity_us)
        }
        (None, [first, ..]) => format!("above {:.2}", first.granularity_us),
        (None, []) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metg_us: Option<f64>, peer_metg_us: Option<f64>) -> MetgRow {
        let point =
            |granularity_us, efficiency| Efficiency { iterations: 1, granularity_us, efficiency };
        MetgRow {
            pattern: Pattern::Stencil1d,
            kernel: Kernel::Memory,
            workers: 2,
            width: 8,
            metg_us,
            tasks_per_s: metg_us.map(|metg_us| 2e6 / metg_us),
            points: vec![point(9.0, 0.4), point(4.0, 0.2)],
            peak_rate: 21.5e9,
            peer: peer_metg_us.map(|_| "starpu-default".to_owned()),
            peer_metg_us,
            peer_points: Vec::new(),
        }
    }

    #[test]
    fn published_figures_are_marked_as_of_other_hardware() {
        let text = render(&[row(Some(0.5), None)]);
        let (table, below) = text.split_once("\n\n").expect("two parts");
        for word in ["stencil_1d", "memory", "0.50", "4000000", "21.5 GB/s"] {
            assert!(table.contains(word), "no {word} in {table}");
        }
        assert!(!table.contains("ratio"), "{table}");
        for word in ["other hardware", "32 cores", "MPI 4.6 µs", "Legion 1758 µs"] {
            assert!(below.contains(word), "no {word} in {below}");
        }
    }

    #[test]
    fn peers_have_a_column() {
        let text = render(&[row(Some(0.5), Some(12.0)), row(None, None)]);
        assert!(text.contains("starpu-default") && text.contains("12.00 (24.0)"), "{text}");
    }

    #[test]
    fn a_sweep_without_a_crossing_tells_its_side() {
        assert!(render(&[row(None, None)]).contains("above 9.00"));
        let mut good = row(None, None);
        good.points.iter_mut().for_each(|point| point.efficiency = 0.9);
        assert!(render(&[good]).contains("below 4.00"));
    }
}
