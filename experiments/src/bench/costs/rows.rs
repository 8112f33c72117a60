//! The rows of `bench costs`: as JSON, and as a table for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::bench::rows::median;
use crate::machine::Machine;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds for each.
    Nanoseconds,
    /// Bytes for each.
    Bytes,
    /// A share of one core.
    Share,
    /// How many times another figure.
    Times,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds if value < 10.0 => format!("{value:.1} ns"),
            Unit::Nanoseconds => format!("{value:.0} ns"),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::Share => format!("{:.2} %", 100.0 * value),
            Unit::Times => format!("{value:.2}"),
        }
    }
}

/// One cost, or one limit of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostRow {
    /// A name that stays.
    pub name: &'static str,
    /// What was measured, in words.
    pub what: &'static str,
    /// What the figures count.
    pub unit: Unit,
    /// The middle of the repetitions.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
    /// How many there were.
    pub repetitions: usize,
    /// What the median must not exceed, if a goal is set.
    pub goal: Option<f64>,
    /// What it would better not exceed.
    pub aim: Option<f64>,
    /// Whether the goal is met.
    pub met: Option<bool>,
    /// What it cannot be below on this machine, where that can be said.
    pub limit: Option<f64>,
    /// What bounds it, in words.
    pub bound: String,
    /// Cores that other processes kept busy meanwhile, where the system tells.
    pub others: Option<f64>,
    /// The same by others in the same sitting, by name.
    pub peers: BTreeMap<String, f64>,
}

/// What is known of a cost before it is measured.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: Unit,
    pub(super) goal: Option<f64>,
    pub(super) aim: Option<f64>,
    pub(super) limit: Option<f64>,
    pub(super) bound: String,
}

impl Cost {
    /// A cost in nanoseconds.
    pub(super) fn time(name: &'static str, what: &'static str) -> Self {
        Cost {
            name,
            what,
            unit: Unit::Nanoseconds,
            goal: None,
            aim: None,
            limit: None,
            bound: String::new(),
        }
    }

    pub(super) fn goal(self, goal: f64) -> Self {
        Cost { goal: Some(goal), ..self }
    }

    pub(super) fn aim(self, aim: f64) -> Self {
        Cost { aim: Some(aim), ..self }
    }

    /// What bounds it, and how much that is, if it is known.
    pub(super) fn bound(self, bound: impl Into<String>, limit: Option<f64>) -> Self {
        Cost { bound: bound.into(), limit, ..self }
    }

    pub(super) fn row(self, measured: &Measured) -> CostRow {
        let Cost { name, what, unit, goal, aim, limit, bound } = self;
        let (median, least, most) = median(&measured.values);
        CostRow {
            name,
            what,
            unit,
            median,
            least,
            most,
            repetitions: measured.values.len(),
            goal,
            aim,
            met: goal.map(|goal| median <= goal),
            limit,
            bound,
            others: measured.others,
            peers: BTreeMap::new(),
        }
    }
}

/// Figures of the repetitions, and what else the machine did.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) values: Vec<f64>,
    pub(super) others: Option<f64>,
}

/// The rows for people.
pub(super) fn render(rows: &[CostRow]) -> String {
    let mut table = Table::new();
    let mut peers: Vec<&String> = rows.iter().flat_map(|row| row.peers.keys()).collect();
    peers.sort_unstable();
    peers.dedup();
    let ours = ["", "median", "least to most", "of", "goal (aim)", "limit", "others"];
    let header = ours.iter().map(|name| (*name).to_owned());
    table.set_header(header.chain(peers.iter().map(|name| (*name).clone())));
    for row in rows {
        let show = |value| row.unit.show(value);
        let aim = row.aim.map(|aim| format!(" ({})", show(aim))).unwrap_or_default();
        let missed = if row.met == Some(false) { " MISSED" } else { "" };
        let own = [
            row.what.to_owned(),
            show(row.median),
            format!("{} to {}", show(row.least), show(row.most)),
            row.repetitions.to_string(),
            row.goal.map(|goal| show(goal) + &aim + missed).unwrap_or_default(),
            row.limit.map(show).unwrap_or_default(),
            row.others.map(|cores| format!("{cores:.1}")).unwrap_or_default(),
        ];
        let others =
            peers.iter().map(|name| row.peers.get(*name).map_or("-".to_owned(), |p| show(*p)));
        table.add_row(own.into_iter().chain(others));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n{table}\n\n", Machine::describe().line());
    text += "`limit` is what no runtime can be below on this machine, `others` how many cores other \
             processes kept busy.\n";
    for row in rows.iter().filter(|row| !row.bound.is_empty()) {
        let _ = writeln!(text, "{}: {}", row.name, row.bound);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[f64]) -> Measured {
        Measured { values: values.to_vec(), others: None }
    }

    #[test]
    fn a_goal_is_met_by_the_median() {
        let cost = || Cost::time("x", "something").goal(50.0).aim(30.0).bound("why", Some(7.0));
        let row = cost().row(&measured(&[60.0, 40.0, 50.0]));
        assert_eq!((row.median, row.least, row.most, row.met), (50.0, 40.0, 60.0, Some(true)));
        let missed = cost().row(&measured(&[51.0]));
        assert_eq!(missed.met, Some(false));
        let text = render(&[row, missed]);
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
        assert!(text.contains("50 ns (30 ns)") && text.contains("x: why"), "{text}");
    }

    #[test]
    fn figures_are_shown_in_their_units() {
        let shown = [
            (Unit::Nanoseconds, 4.56, "4.6 ns"),
            (Unit::Nanoseconds, 45.6, "46 ns"),
            (Unit::Bytes, 272.4, "272 B"),
            (Unit::Share, 0.0123, "1.23 %"),
            (Unit::Times, 1.5, "1.50"),
        ];
        for (unit, value, text) in shown {
            assert_eq!(unit.show(value), text);
        }
    }
}
