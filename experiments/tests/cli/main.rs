//! The real binaries, from the outside: what they print, write and return.

mod bench;
mod compare;
mod costs;
mod errors;
mod experiment;
mod gantt;
mod idx;
mod interrupt;
mod metg;
mod nn;
mod single;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// A command line of one of this package's binaries.
fn binary(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin(name).expect("a binary of this package");
    command.args(arguments);
    command
}

/// Runs `millrace` in `folder`.
fn millrace(folder: &Path, arguments: &[&str]) -> Output {
    binary("millrace", arguments).current_dir(folder).output().expect("it starts")
}

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("valid UTF-8")
}

/// Asserts that the command ended with `code` and said one line, which has all of `words`.
fn assert_one_line(output: &Output, code: i32, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: "), "{said}");
    for word in words {
        assert!(said.contains(word), "`{said}` lacks `{word}`");
    }
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("valid JSON")
}

/// Asserts that a file is an SVG document with each of `words` in its text.
fn assert_svg(path: &Path, words: &[&str]) {
    let document = read(path);
    let svg = roxmltree::Document::parse(&document).expect("well-formed XML");
    assert_eq!(svg.root_element().tag_name().name(), "svg");
    let texts: Vec<&str> = svg.descendants().filter_map(|node| node.text()).collect();
    for word in words {
        assert!(texts.iter().any(|text| text.contains(word)), "{}: no {word}", path.display());
    }
}
