//! The parts of the page.

use maud::{Markup, html};

use super::Report;
use super::page::svg;
use crate::counters::Event;
use crate::reading::Reading;
use crate::result::{Row, RunResult};
use crate::table::{MEASURES, Unit};

/// What was run, where, and how to run it again.
pub(super) fn setting(report: &Report<'_>) -> Markup {
    html! {
        section {
            dl.facts { @for (name, value) in report.facts {
                div { dt { (name) } dd { (value) } }
            } }
            p { (report.machine.line()) }
            pre { (report.command) }
            @if report.workers > report.machine.cores {
                p.missing { "More workers than cores: they take turns." }
            }
        }
    }
}

/// The table of all measures: a row per measure, a column per combination.
pub(super) fn results(rows: &[Row]) -> Markup {
    let reasons = reasons(rows);
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    th {}
                    @for row in rows { th scope="col" { (row.label) } }
                } }
                tbody {
                    @for measure in MEASURES { tr {
                        th scope="row" { (measure.label) }
                        @for row in rows { td {
                            @match row.result() {
                                Some(result) => { (number(&measure.of(result), measure.unit)) }
                                None => { span.missing { "none" } }
                            }
                        } }
                    } }
                }
            }
        }
        @if !reasons.is_empty() {
            h3 { "What is missing, and why" }
            ul.reasons { @for (reason, what) in &reasons { li { b { (what) } ": " (reason) } } }
        }
    }
}

/// A number with its status, or the word that there is none, with the reason as a tip.
fn number(reading: &Reading<f64>, unit: Unit) -> Markup {
    html! {
        @match reading {
            Reading::Measured { value } => { (unit.format(*value)) }
            Reading::Scaled { value, .. } => {
                span title=(reading.status()) { "≈ " (unit.format(*value)) }
            }
            missing => { span.missing title=(missing.status()) { "unavailable" } }
        }
    }
}

/// Each reason with all the measures or runs that it concerns.
fn reasons(rows: &[Row]) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    let mut told: Vec<(String, String)> = Vec::new();
    for row in rows {
        let Some(result) = row.result() else {
            told.push((row.missing().unwrap_or_default(), row.label.clone()));
            continue;
        };
        for measure in MEASURES {
            let reading = measure.of(result);
            let status = match &reading {
                Reading::Measured { .. } => continue,
                other => other.status(),
            };
            match reasons.iter_mut().find(|(known, _)| *known == status) {
                Some((_, labels)) if labels.contains(&measure.label) => {}
                Some((_, labels)) => labels.push(measure.label),
                None => reasons.push((status, vec![measure.label])),
            }
        }
    }
    told.extend(reasons.into_iter().map(|(status, labels)| (status, labels.join(", "))));
    told
}

/// One combination: its chart, its learning curve, its memory and its counters.
pub(super) fn combination(row: &Row, chart: Option<&str>) -> Markup {
    html! {
        details {
            summary { (row.label) }
            @match row.result() {
                None => { p.missing { (row.missing().unwrap_or_default()) } }
                Some(result) => {
                    @if let Some(chart) = chart { (svg(chart)) }
                    (epochs(result))
                    (waits(result))
                    (arenas(result))
                    (counters(result))
                    (energy(result))
                }
            }
        }
    }
}

fn epochs(result: &RunResult) -> Markup {
    html! {
        h3 { "Learning" }
        p {
            "Test accuracy " (Unit::Share.format(result.test_accuracy)) " on "
            (result.test_samples) " samples. Means over the batches of each epoch, before each \
            update:"
        }
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "epoch" }
                @for epoch in 0..result.epochs.len() { th scope="col" { (epoch) } }
            } }
            tbody {
                tr {
                    th scope="row" { "loss" }
                    @for epoch in &result.epochs { td { (number(&epoch.loss, Unit::Plain)) } }
                }
                tr {
                    th scope="row" { "accuracy" }
                    @for epoch in &result.epochs { td { (Unit::Share.format(epoch.accuracy)) } }
                }
            }
        } }
    }
}

fn waits(result: &RunResult) -> Markup {
    html! {
        h3 { "What the main thread waited for" }
        @if result.time.main_waits.is_empty() { p { "Nothing." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "for" } th { "cause" } th { "times" } th { "in all" } } }
                tbody { @for wait in &result.time.main_waits { tr {
                    th scope="row" { (wait.name) }
                    td { (wait.cause.label()) }
                    td { (wait.count) }
                    td { (Unit::Seconds.format(wait.seconds)) }
                } } }
            } }
        }
    }
}

fn arenas(result: &RunResult) -> Markup {
    html! {
        h3 { "Arenas" }
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "arena" } th { "slots" } th { "peak" } th { "per generation" } th { "chunks" }
                th { "allocated late" } th { "waits" } th { "waited" }
            } }
            tbody { @for arena in &result.arenas { tr {
                th scope="row" { (arena.name) }
                td { (arena.depth) }
                td { (Unit::Bytes.format(arena.peak_bytes as f64)) }
                td { (Unit::Bytes.format(arena.generation_bytes as f64)) }
                td { (arena.chunks) }
                td { (arena.late_chunks) }
                td { (arena.waits) }
                td { (Unit::Seconds.format(arena.wait_seconds)) }
            } } }
        } }
    }
}

fn counters(result: &RunResult) -> Markup {
    let events = || Event::HARDWARE.into_iter().chain(Event::SOFTWARE);
    let threads = &result.counters.threads;
    html! {
        h3 { "Counters" }
        div.scroll tabindex="0" { table {
            thead { tr {
                th {}
                th scope="col" { "all workers" }
                @for (name, _) in threads { th scope="col" { (name) } }
            } }
            tbody { @for event in events() { tr {
                th scope="row" { (event.label()) }
                td { (count(&result.counters.workers.reading(event), event)) }
                @for (_, counts) in threads { td { (count(&counts.reading(event), event)) } }
            } } }
        } }
    }
}

fn count(reading: &Reading<u64>, event: Event) -> Markup {
    match event {
        Event::TaskClock => number(&reading.map(|value| value as f64 / 1e9), Unit::Seconds),
        _ => number(&reading.map(|value| value as f64), Unit::Count),
    }
}

fn energy(result: &RunResult) -> Markup {
    html! {
        h3 { "Energy" }
        @if let Some(reason) = result.energy.packages.reason() {
            p.missing { "unavailable: " (reason) }
        }
        ul { @for (name, joules) in &result.energy.domains {
            li { (name) ": " (number(joules, Unit::Joules)) }
        } }
    }
}

/// The files beside the page.
pub(super) fn files(report: &Report<'_>) -> Markup {
    html! {
        section {
            h2 { "Files" }
            ul {
                li { code { "table.csv" } ", " code { "table.json" } ": this table" }
                @if report.compare.is_some() {
                    li { code { "compare.svg" } ": all charts on one time axis" }
                }
                @for row in report.rows {
                    @if row.result().is_some() {
                        @let name = &row.stem;
                        li {
                            code { "runs/" (name) "-*.json" }
                            @if report.charts.iter().any(|(of, _)| of == name) {
                                ", " code { "trace-" (name) ".json" } ", "
                                code { "gantt-" (name) ".svg" }
                            }
                        }
                    }
                }
            }
        }
    }
}
