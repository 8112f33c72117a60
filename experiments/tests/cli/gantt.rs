//! `millrace gantt`: figures and pages of traces that were written before.

use std::fs;
use std::path::Path;

use crate::{assert_one_line, assert_svg, millrace, read, text};

/// A trace of one worker whose task takes `length` nanoseconds of two batches.
fn trace(title: &str, length: u64) -> String {
    let end = 2 * length;
    format!(
        r#"{{"format": "millrace-trace", "version": 4, "title": "{title}", "meta": {{}},
        "origin": 0, "lanes": [{{"name": "worker 0", "kind": "worker"}}],
        "names": ["dense.forward"], "dropped": 0, "spans": [
            {{"lane": 0, "kind": "task", "name": 0, "start": 0, "end": {length}, "batch": 0}},
            {{"lane": 0, "kind": "task", "name": 0, "start": {length}, "end": {end}, "batch": 1}}],
        "marks": [{{"time": 0, "kind": "batch", "index": 0}},
            {{"time": {length}, "kind": "batch", "index": 1}}]}}"#
    )
}

/// A folder with the traces `a.json` and `b.json`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary directory");
    for (name, length) in [("a", 1000), ("b", 3000)] {
        let path = folder.path().join(format!("{name}.json"));
        fs::write(path, trace(&format!("run {name}"), length)).expect("writable");
    }
    folder
}

fn gantt(folder: &Path, arguments: &str) {
    let arguments: Vec<&str> = ["gantt"].into_iter().chain(arguments.split(' ')).collect();
    let output = millrace(folder, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_ending_of_the_file_decides_what_it_is() {
    let folder = folder();
    gantt(folder.path(), "a.json --out a.svg");
    assert_svg(&folder.path().join("a.svg"), &["run a", "worker 0"]);
    gantt(folder.path(), "a.json --out a.HTML --batches 1..2");
    let page = read(folder.path().join("a.HTML"));
    assert!(page.starts_with("<!doctype html>"), "{}", &page[..80]);
    assert!(page.contains("<title>run a</title>") && page.contains("\"view\":[1000,2000]"));
}

#[test]
fn several_traces_are_drawn_on_one_axis() {
    let folder = folder();
    gantt(folder.path(), "a.json b.json --out both.svg --batches 0..1");
    assert_svg(&folder.path().join("both.svg"), &["run a", "run b", "batch 0; time 0 is its"]);
    gantt(folder.path(), "a.json b.json --out both.html");
    let page = read(folder.path().join("both.html"));
    assert!(page.contains("<title>run a and run b</title>") && page.contains("id=\"run-1\""));
}

#[test]
fn what_cannot_be_drawn_is_named_and_nothing_is_written() {
    let folder = folder();
    for (arguments, code, wanted) in [
        ("a.json --out chart.pdf", 2, &["--out chart.pdf", ".svg", ".html"][..]),
        ("a.json --out chart", 2, &["--out chart", ".svg"]),
        ("a.json c.json --out both.html", 1, &["c.json", "No such file"]),
        ("a.json --out a.html --batches 7..9", 1, &["a.json", "none of the batches 7..9"]),
    ] {
        let arguments: Vec<&str> = ["gantt"].into_iter().chain(arguments.split(' ')).collect();
        assert_one_line(&millrace(folder.path(), &arguments), code, wanted);
    }
    let left = fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 2, "nothing but the two traces");
}
