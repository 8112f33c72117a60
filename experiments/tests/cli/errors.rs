//! Every mistake ends with one line that says what and where, and with its exit code.

use std::fs;
use std::path::Path;

use crate::{assert_one_line, idx, millrace, text, words};

#[test]
fn wrong_use() {
    let folder = tempfile::tempdir().expect("temporary directory");
    for (line, wanted) in [
        ("--batch-size 0", &["--batch-size 0"][..]),
        ("--batch-size 6001", &["--batch-size 6001", "6000"]),
        ("--samples 6001", &["--samples 6001", "6000"]),
        ("--samples 0", &["--samples 0"]),
        ("--workers 1025", &["--workers 1025", "1024"]),
        ("--epochs 0", &["--epochs 0"]),
        ("--epochs many", &["--epochs", "many"]),
        ("--epoch 3", &["'--epochs'"]),
        ("train --arena triple --loader naive", &["'triple'", "single, double"]),
        ("train --arena single --loader advance", &["'advance'", "'advanced'"]),
        ("gantt", &["<TRACE>"]),
        ("compere", &["'compere'", "'compare'"]),
    ] {
        let output = millrace(folder.path(), &words(line));
        assert_one_line(&output, 2, wanted);
        assert_eq!(text(&output.stdout), "", "{line}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
    assert!(left.is_empty(), "a refused command line leaves nothing behind: {left:?}");
}

#[test]
fn data_sets_that_are_none() {
    /// Name of the folder, what breaks it, words of the message.
    type Broken<'a> = (&'a str, fn(&Path), &'a [&'a str]);
    let broken: [Broken<'_>; 5] = [
        ("missing", |folder| fs::remove_dir(folder).expect("there"), &["No such file"]),
        ("empty", |_| (), &["train-images-idx3-ubyte"]),
        (
            "truncated",
            |folder| {
                idx::write_set(folder, 20, 5);
                fs::remove_file(folder.join("train-images-idx3-ubyte")).expect("there");
                let bytes = idx::gzip(&idx::images(20));
                let cut = &bytes[..bytes.len() / 2];
                fs::write(folder.join("train-images-idx3-ubyte.gz"), cut).expect("writable");
            },
            &["train-images-idx3-ubyte.gz", "gzip", "byte"],
        ),
        (
            "labels",
            |folder| {
                idx::write_set(folder, 20, 5);
                fs::write(folder.join("train-labels-idx1-ubyte"), idx::labels(19))
                    .expect("writable");
            },
            &["train-labels-idx1-ubyte", "19", "20"],
        ),
        (
            "magic",
            |folder| {
                idx::write_set(folder, 20, 5);
                fs::write(folder.join("t10k-images-idx3-ubyte"), b"PNG!").expect("writable");
            },
            &["t10k-images-idx3-ubyte"],
        ),
    ];
    for (name, make, wanted) in broken {
        let folder = tempfile::tempdir().expect("temporary directory");
        let set = folder.path().join(name);
        fs::create_dir(&set).expect("writable");
        make(&set);
        for line in ["compare --dataset", "train --arena single --loader naive --dataset"] {
            let arguments = [&words(line)[..], &[name]].concat();
            let output = millrace(folder.path(), &arguments);
            assert_one_line(&output, 1, wanted);
        }
        assert!(!folder.path().join("results").exists());
    }
}

#[test]
fn folders_that_cannot_take_results() {
    let folder = tempfile::tempdir().expect("temporary directory");
    fs::write(folder.path().join("file"), "").expect("writable");
    fs::create_dir(folder.path().join("full")).expect("writable");
    fs::write(folder.path().join("full/kept"), "old").expect("writable");
    for line in ["compare --epochs 1 --out", "train --arena single --loader naive --out"] {
        let with = |out| millrace(folder.path(), &[&words(line)[..], &[out]].concat());
        assert_one_line(&with("file/out"), 1, &["file/out"]);
        assert_one_line(&with("full"), 1, &["full", "not empty"]);
    }
    assert_eq!(fs::read_dir(folder.path().join("full")).expect("readable").count(), 1);
}

#[test]
fn a_trace_with_holes_is_drawn_with_a_warning() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let trace = |dropped: u32| {
        format!(
            r#"{{"format": "millrace-trace", "version": 2, "title": "t", "meta": {{}}, "origin": 0,
            "lanes": [{{"name": "worker 0", "kind": "worker", "dropped": {dropped}}}],
            "names": ["task"], "marks": [], "dropped": {dropped}, "keep": "newest",
            "spans": [{{"lane": 0, "kind": "task", "name": 0, "start": 1, "end": 9}}]}}"#
        )
    };
    let draw = |dropped| {
        fs::write(folder.path().join("trace.json"), trace(dropped)).expect("writable");
        let output = millrace(folder.path(), &["gantt", "trace.json", "--out", "chart.svg"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert_eq!(draw(0), "");
    let warning = "warning: the trace of trace.json has holes: 12 spans were lost, the oldest ones \
                   of worker 0 (12)\n";
    assert_eq!(draw(12), warning);
}

#[test]
fn traces_that_are_none() {
    let folder = tempfile::tempdir().expect("temporary directory");
    fs::write(folder.path().join("text.json"), "{\"format\": ").expect("writable");
    fs::write(folder.path().join("list.json"), "[1, 2]").expect("writable");
    fs::write(
        folder.path().join("empty.json"),
        r#"{"format": "millrace-trace", "version": 1, "title": "t", "meta": {}, "origin": 0,
            "lanes": [], "names": [], "spans": [], "marks": [], "dropped": 0}"#,
    )
    .expect("writable");
    for (trace, wanted) in [
        ("nothing.json", &["nothing.json", "No such file"][..]),
        ("text.json", &["text.json", "line 1"]),
        ("list.json", &["list.json"]),
        ("empty.json", &["empty.json", "no spans"]),
    ] {
        let output = millrace(folder.path(), &["gantt", trace, "--out", "chart.svg"]);
        assert_one_line(&output, 1, wanted);
        assert!(!folder.path().join("chart.svg").exists());
    }
}
