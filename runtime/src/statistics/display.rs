//! Statistics as a table.

use std::fmt::{self, Display, Formatter};

use super::{KindStatistics, Statistics, WorkerStatistics};

/// A time with three or four digits and its unit.
struct Time(u64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let text = match self.0 {
            0..10_000 => format!("{} ns", self.0),
            10_000..10_000_000 => format!("{:.1} us", ns / 1e3),
            10_000_000..10_000_000_000 => format!("{:.1} ms", ns / 1e6),
            _ => format!("{:.1} s", ns / 1e9),
        };
        f.pad(&text)
    }
}

/// A column: its title, and whether it holds numbers, which stand to the right.
type Column = (&'static str, bool);

fn table(f: &mut Formatter<'_>, columns: &[Column], rows: &[Vec<String>]) -> fmt::Result {
    let width = |(place, (title, _)): (usize, &Column)| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.max().unwrap_or(0).max(title.len())
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(width).collect();
    let mut line = |cells: &[String]| {
        let mut text = String::new();
        for ((cell, width), (_, number)) in cells.iter().zip(&widths).zip(columns) {
            let cell = if *number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            text += &format!("{cell}  ");
        }
        writeln!(f, "{}", text.trim_end())
    };
    line(&columns.iter().map(|(title, _)| (*title).to_owned()).collect::<Vec<_>>())?;
    rows.iter().try_for_each(|row| line(row))
}

fn worker_row(name: String, worker: &WorkerStatistics) -> Vec<String> {
    let idle = worker.idle_total_ns();
    let (looking, sleeping) = (worker.looking_ns, worker.sleeping_ns);
    let times = [worker.busy_ns, worker.scheduling_ns, idle, looking, sleeping];
    let times = times.map(|ns| Time(ns).to_string());
    let sleeps = worker.sleeps.to_string();
    let causes = worker.idle_ns.iter().filter(|(_, ns)| **ns > 0);
    let causes: Vec<_> =
        causes.map(|(cause, ns)| format!("{} {}", cause.label(), Time(*ns))).collect();
    let counts = [worker.tasks, worker.cancelled].map(|count| count.to_string());
    [name].into_iter().chain(counts).chain(times).chain([sleeps, causes.join(", ")]).collect()
}

fn kind_row(name: &str, kind: &KindStatistics) -> Vec<String> {
    let (body, delay) = (&kind.body, &kind.delay);
    let times = [
        body.total_ns(),
        body.mean_ns(),
        body.median_ns(),
        body.p99_ns(),
        delay.mean_ns(),
        delay.median_ns(),
        delay.p99_ns(),
    ];
    let times = times.map(|ns| Time(ns).to_string());
    [name.to_owned(), body.count().to_string()]
        .into_iter()
        .chain(times)
        .chain([kind.bytes.to_string()])
        .collect()
}

impl Display for Statistics {
    /// The workers, then the kinds of tasks, longest total first.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = [
            ("worker", false),
            ("tasks", true),
            ("cancelled", true),
            ("busy", true),
            ("scheduling", true),
            ("idle", true),
            ("looking", true),
            ("sleeping", true),
            ("sleeps", true),
            ("idle by cause", false),
        ];
        let workers = self.workers.iter().enumerate();
        let mut rows: Vec<_> =
            workers.map(|(i, worker)| worker_row(i.to_string(), worker)).collect();
        if self.inline.tasks + self.inline.cancelled > 0 || rows.is_empty() {
            rows.push(worker_row("none".to_owned(), &self.inline));
        }
        table(f, &columns, &rows)?;
        if self.kinds.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let columns = [
            ("kind", false),
            ("tasks", true),
            ("total", true),
            ("mean", true),
            ("median", true),
            ("p99", true),
            ("delay mean", true),
            ("delay median", true),
            ("delay p99", true),
            ("bytes", true),
        ];
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.body.total_ns()));
        let rows: Vec<_> = kinds.into_iter().map(|(name, kind)| kind_row(name, kind)).collect();
        table(f, &columns, &rows)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::trace::Cause;

    #[test]
    fn times_keep_three_digits() {
        let text = [9_999, 10_000, 12_345_678, 4_000_000_000, 36_000_000_000_000]
            .map(|ns| Time(ns).to_string());
        assert_eq!(text, ["9999 ns", "10.0 us", "12.3 ms", "4000.0 ms", "36000.0 s"]);
    }

    #[test]
    fn columns_line_up() {
        let mut statistics = Statistics { at_ns: 100, timed: true, ..Statistics::default() };
        let idle_ns = [(Cause::Drain, 20), (Cause::Window, 0)].into();
        let worker = WorkerStatistics {
            tasks: 12,
            busy_ns: 70,
            idle_ns,
            sleeping_ns: 15,
            sleeps: 3,
            ..WorkerStatistics::default()
        };
        statistics.workers = vec![worker.with_scheduling(100).with_looking()];
        let kind = KindStatistics { bytes: 4096, ..KindStatistics::default() };
        statistics.kinds = [("dense.forward".to_owned(), kind)].into();
        let text = statistics.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "worker  tasks  cancelled   busy  scheduling   idle  looking  sleeping  sleeps  \
             idle by cause"
        );
        assert_eq!(
            lines[1],
            "0          12          0  70 ns       10 ns  20 ns     5 ns     15 ns       3  \
             drain 20 ns"
        );
        assert!(lines[3].starts_with("kind           tasks  total"), "{text}");
        assert!(lines[4].starts_with("dense.forward      0   0 ns"), "{text}");
        assert!(lines[4].ends_with("   4096"), "{text}");
    }
}
