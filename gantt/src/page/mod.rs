//! The interactive page: one HTML file that holds the traces and the program that shows them.
//!
//! The program is in `src/html`, one file per part; they are joined in the order of [`SCRIPT`]
//! to one module, so that the page needs no server and asks for no other file. The spans are
//! packed by [`columns`]; the rest of what the program needs is [`head`].

mod columns;
mod head;

use std::ops::Range;

use millrace_runtime::trace::Trace;

use crate::GanttError;
use crate::palette::Palette;
use crate::segment::check;
use crate::window::Selection;

const PAGE: &str = include_str!("../html/page.html");
const STYLE: &str = include_str!("../html/style.css");
/// The parts of the program, each after those that it is made of.
const SCRIPT: [&str; 10] = [
    include_str!("../html/bytes.js"),
    include_str!("../html/words.js"),
    include_str!("../html/run.js"),
    include_str!("../html/camera.js"),
    include_str!("../html/raster.js"),
    include_str!("../html/query.js"),
    include_str!("../html/scene.js"),
    include_str!("../html/panel.js"),
    include_str!("../html/input.js"),
    include_str!("../html/main.js"),
];

/// An interactive Gantt chart of one trace or several as one HTML file, which works offline.
///
/// It zooms and moves by pointer, touch and keys, tells what is under the pointer, searches,
/// hides kinds of spans, and tells where the workers' time went in a stretch of time. Several
/// traces are shown below each other on one axis, aligned on the start of a batch, the first two
/// with a table of their differences.
///
/// A million spans make a file of some megabytes: spans are stored by column, as differences,
/// compressed.
///
/// ```
/// use millrace_gantt::Page;
/// use millrace_runtime::trace::Trace;
///
/// let document = r#"{"format": "millrace-trace", "version": 4, "title": "single/naive",
///     "meta": {}, "origin": 0, "lanes": [{"name": "worker 0", "kind": "worker"}],
///     "names": ["dense.forward"], "marks": [], "dropped": 0,
///     "spans": [{"lane": 0, "kind": "task", "name": 0, "start": 0, "end": 1000}]}"#;
/// let trace = Trace::read_json(document.as_bytes()).expect("a document of this version");
///
/// let page = Page::new(&trace).render()?;
/// assert!(page.starts_with("<!doctype html>") && page.contains("dense.forward"));
/// let both = Page::new(&trace).beside(&trace).title("Twice the same").render()?;
/// assert!(both.contains("<title>Twice the same</title>"));
/// # Ok::<(), millrace_gantt::GanttError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a page is made by `render`"]
pub struct Page<'a> {
    traces: Vec<&'a Trace>,
    title: Option<String>,
    view: Selection,
}

impl<'a> Page<'a> {
    /// A page of one trace, with its title.
    pub fn new(trace: &'a Trace) -> Self {
        Page { traces: vec![trace], title: None, view: Selection::All }
    }

    /// Adds a trace below those that are there.
    pub fn beside(mut self, trace: &'a Trace) -> Self {
        self.traces.push(trace);
        self
    }

    /// Sets the title; otherwise it is the traces' titles.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Shows some batches of the first trace when the page is opened; the rest is there too.
    pub fn batches(mut self, batches: Range<u32>) -> Self {
        self.view = Selection::Batches(batches);
        self
    }

    /// Shows the time from `from` to `to` of the first trace, in nanoseconds since its origin,
    /// when the page is opened; the rest is there too.
    pub fn window(mut self, from: u64, to: u64) -> Self {
        self.view = Selection::Window(from, to);
        self
    }

    /// Makes the HTML document.
    ///
    /// # Errors
    /// When a trace has no spans or contradicts itself, or when the first has nothing of what is
    /// to be shown at first.
    pub fn render(&self) -> Result<String, GanttError> {
        for trace in &self.traces {
            check(trace)?;
        }
        let palette = Palette::new(&self.traces);
        let (head, whats) = head::head(&self.traces, &palette, self.words(), &self.view)?;
        let mut runs = String::new();
        for (index, (trace, whats)) in self.traces.iter().zip(&whats).enumerate() {
            let packed = columns::pack(trace, whats)?;
            let open = "<script type=\"application/octet-stream\" id=\"run-";
            runs.push_str(&format!("{open}{index}\">{packed}</script>\n"));
        }
        let head = serde_json::to_string(&head).map_err(|e| GanttError::Draw(e.to_string()))?;
        // A title must not end the element that holds it.
        let head = head.replace('<', "\\u003c");
        let script = SCRIPT.concat();
        let title = escape(&self.words());
        let fill = |name: &str| match name {
            "title" => title.as_str(),
            "style" => STYLE,
            "head" => head.as_str(),
            "runs" => runs.as_str(),
            "script" => script.as_str(),
            other => unreachable!("the page has no place `{other}`"),
        };
        Ok(filled(PAGE, fill))
    }

    /// The title that was set, or else those of the traces.
    fn words(&self) -> String {
        let titles = || self.traces.iter().map(|trace| trace.title.as_str());
        self.title.clone().unwrap_or_else(|| titles().collect::<Vec<_>>().join(" and "))
    }
}

/// The template with what `fill` has for each `{{name}}`.
fn filled<'t>(template: &'t str, fill: impl Fn(&str) -> &'t str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        out.push_str(before);
        out.push_str(fill(name));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
