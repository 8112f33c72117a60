//! The frame of the page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Report, bars, sections};

const STYLE: &str = include_str!("style.css");

pub(super) fn page(report: &Report<'_>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Millrace: " (report.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (report.title) }
                    (sections::setting(report))
                    section {
                        h2 { "Results" }
                        (sections::results(report.rows))
                    }
                    section {
                        h2 { "Where the time went" }
                        (bars::bars(report.rows))
                    }
                    @if let Some(figure) = report.compare {
                        section {
                            h2 { "Combinations on one time axis" }
                            p {
                                "Batches " (report.traced)
                                " of each run, counted from 0, from the start of the first of them."
                            }
                            (svg(figure))
                        }
                    }
                    section {
                        h2 { "Each combination" }
                        @for row in report.rows {
                            (sections::combination(row, chart(report, &row.stem)))
                        }
                    }
                    (sections::files(report))
                }
            }
        }
    }
}

fn chart<'a>(report: &Report<'a>, stem: &str) -> Option<&'a str> {
    let found = report.charts.iter().find(|(of, _)| of == stem);
    found.map(|(_, chart)| chart.as_str())
}

/// A figure as part of the page: without the prologue that only a document of its own may have.
pub(super) fn svg(document: &str) -> Markup {
    let start = document.find("<svg").unwrap_or(0);
    html! { figure { (PreEscaped(&document[start..])) } }
}
