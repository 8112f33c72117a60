//! `report.html`: one page with everything a comparison gave, which opens without a network.
//!
//! The page holds its style and its figures itself, adapts to light and dark, and says of every
//! number that is missing why it is.

mod bars;
mod page;
mod sections;

use std::fmt::Write;

use crate::machine::Machine;
use crate::options::BatchRange;
use crate::result::Row;

/// What the page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// A row per combination.
    pub rows: &'a [Row],
    /// What the experiment asks.
    pub title: &'a str,
    /// Each setting with its values.
    pub facts: &'a [(&'static str, String)],
    /// Most workers of a run.
    pub workers: usize,
    /// Batches that the figure shows.
    pub traced: BatchRange,
    /// Where it ran.
    pub machine: &'a Machine,
    /// The command that gives this report again.
    pub command: &'a str,
    /// The figure of all traces on one time axis (SVG).
    pub compare: Option<&'a str>,
    /// The chart of each traced run (SVG).
    pub charts: &'a [(String, String)],
}

impl Report<'_> {
    /// The page as HTML.
    pub fn html(&self) -> String {
        page::page(self).into_string()
    }
}

/// Words as a command line that a shell reads back as the same words.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for word in words {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
        let separator = if line.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = if !word.is_empty() && word.chars().all(plain) {
            write!(line, "{separator}{word}")
        } else {
            write!(line, "{separator}'{}'", word.replace('\'', r"'\''"))
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combination::Combination;
    use crate::result::{Outcome, example};

    fn html() -> String {
        let mut rows: Vec<Row> = Combination::ALL
            .into_iter()
            .map(|combination| {
                let result = Box::new(example(combination));
                Row::single(combination, Outcome::Finished { result })
            })
            .collect();
        rows[2].outcome = Outcome::Failed { reason: "killed by <signal> 9".to_owned() };
        let result = example(Combination::ALL[0]);
        let svg = "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>";
        Report {
            rows: &rows,
            title: "Which one?",
            facts: &[("data set", "embedded".to_owned())],
            workers: 2,
            traced: result.settings.trace_batches,
            machine: &result.machine,
            command: "millrace --epochs 2",
            compare: Some(svg),
            charts: &[("single-naive".to_owned(), svg.to_owned())],
        }
        .html()
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let html = html();
        for outside in ["<link", "<script src", "url(", "@import", "<img"] {
            assert!(!html.contains(outside), "{outside}");
        }
        let without_names = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_names.contains("http:") && !without_names.contains("https:"));
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(!html.contains("<?xml"), "a prologue in the middle of a page is an error");
    }

    #[test]
    fn the_page_says_what_is_missing_and_why() {
        let html = html();
        assert!(html.contains("No such file or directory (os error 2)"));
        assert!(html.contains("failed: killed by &lt;signal&gt; 9"));
        assert!(!html.contains(">NaN") && html.contains("the computation gave NaN"));
    }

    #[test]
    fn a_command_line_keeps_its_words() {
        assert_eq!(command_line(["a", "--x=1/2", "ring(3)"]), "a --x=1/2 'ring(3)'");
        assert_eq!(command_line(["it's", ""]), r"'it'\''s' ''");
    }
}
