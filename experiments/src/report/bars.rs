//! A bar per combination: how the run's time is shared out among work and causes of waiting.

use maud::{Markup, html};
use millrace_runtime::trace::Cause;

use crate::result::{Row, RunResult};

/// A part of a bar: class for its colour, words, share of the whole.
struct Part {
    class: &'static str,
    label: &'static str,
    share: f64,
}

pub(super) fn bars(rows: &[Row]) -> Markup {
    html! {
        p {
            "Workers: the share of all workers' time that went to bodies of tasks and to each cause \
             of idleness. Main thread: the share of the run for which it waited, per cause; most of \
             the rest is submission of tasks."
        }
        ul.legend {
            li { span.key.busy {} "busy" }
            @for cause in Cause::ALL {
                li { span.key.(class(cause)) {} (cause.label()) }
            }
            li { span.key.rest {} "not waiting / not recorded" }
        }
        div.bars {
            @for row in rows {
                @if let Some(result) = row.result() {
                    h3 { (row.label) }
                    (bar("workers", &worker_parts(result)))
                    (bar("main thread", &main_parts(result)))
                } @else {
                    h3 { (row.label) }
                    p.missing { (row.missing().unwrap_or_default()) }
                }
            }
        }
    }
}

fn bar(name: &str, parts: &[Part]) -> Markup {
    // Rounding of clocks may add up to a little more than the whole.
    let total = parts.iter().map(|part| part.share).sum::<f64>().max(1.0);
    // What would be told as 0.0% is left out.
    let told = parts.iter().filter(|part| part.share >= 0.0005);
    let text: Vec<String> =
        told.clone().map(|part| format!("{} {:.1}%", part.label, part.share * 100.0)).collect();
    html! {
        div.bar-row {
            span.bar-name { (name) }
            div.bar role="img" aria-label={ (name) ": " (text.join(", ")) } {
                @for part in told {
                    span.(part.class)
                        style={ "width:" (format!("{:.3}", part.share / total * 100.0)) "%" }
                        title={ (part.label) ": " (format!("{:.2}", part.share * 100.0)) "%" } {}
                }
            }
            span.bar-text { (text.join(", ")) }
        }
    }
}

fn worker_parts(result: &RunResult) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(share) = result.time.busy_share(result.seconds).value() {
        parts.push(Part { class: "busy", label: "busy", share });
    }
    parts.extend(Cause::ALL.into_iter().filter_map(|cause| {
        let share = result.time.idle_share(cause, result.seconds).value()?;
        Some(Part { class: class(cause), label: cause.label(), share })
    }));
    parts
}

fn main_parts(result: &RunResult) -> Vec<Part> {
    let busy = result.time.main_busy / result.seconds;
    let waits = Cause::ALL.into_iter().filter_map(|cause| {
        let share = result.wait_share(cause).value()?;
        Some(Part { class: class(cause), label: cause.label(), share })
    });
    std::iter::once(Part { class: "busy", label: "busy", share: busy }).chain(waits).collect()
}

fn class(cause: Cause) -> &'static str {
    match cause {
        Cause::None => "rest",
        Cause::Barrier => "barrier",
        Cause::Loader => "loader",
        Cause::Window => "window",
        Cause::Memory => "memory",
        Cause::Acquire => "acquire",
        Cause::Drain => "drain",
        Cause::NoReadyTask => "no-task",
        Cause::MainBusy => "main-busy",
    }
}
