//! `millrace bench runtime`: rows, peers, mistakes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{assert_one_line, json, millrace, text};

const QUICK: [&str; 10] = [
    "bench",
    "runtime",
    "--bodies",
    "0",
    "--workers",
    "2",
    "--rounds",
    "1",
    "--scenarios",
    "cholesky32,grid",
];

pub(crate) fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("allowed");
}

#[test]
fn rows_have_the_peers_of_the_same_sitting() {
    let folder = tempfile::tempdir().expect("temporary directory");
    program(
        folder.path(),
        "taskflow",
        "echo other $3 body=$2 w=$1 n=10 total=1000000 min=1 max=2 submit=7\n\
         echo taskflow-rerun $3 body=$2 w=$1 n=10 total=1000000 min=1 max=2 submit=3",
    );
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", ".", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    let scenarios = [("cholesky32", 5984), ("grid", 90_000)];
    let expected = scenarios.into_iter().flat_map(|it| [(it, false), (it, true)]);
    for (row, ((scenario, tasks), replay)) in rows.iter().zip(expected) {
        assert_eq!((&row["scenario"], &row["tasks"]), (&scenario.into(), &tasks.into()));
        assert_eq!((&row["workers"], &row["body_ns"]), (&2.into(), &0.into()));
        assert_eq!(row["replay"], replay);
        let ours = row["ns_per_task"].as_f64().expect("a number");
        let submit = row["submit_ns_per_task"].as_f64().expect("a number");
        assert!(ours > 0.0 && submit > 0.0);
        // What builds its graph each time is no peer of a replay.
        assert_eq!(row["peers"]["other"].is_null(), replay, "{row}");
        let peer = &row["peers"]["taskflow-rerun"];
        assert_eq!(peer["submit_ns_per_task"], 3.0);
        let ratio = peer["ratio"].as_f64().expect("a number");
        assert!((ratio * ours / 1e6 - 1.0).abs() < 1e-9, "{row}");
    }
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "."]].concat());
    let table = text(&output.stdout);
    assert!(table.contains("2 workers, empty bodies") && table.contains("other"), "{table}");
    assert!(table.contains("grid, replayed"), "{table}");
}

#[test]
fn mistakes_and_failing_peers_are_told() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let output = millrace(folder.path(), &["bench", "runtime", "--scenarios", "ring"]);
    assert_one_line(&output, 2, &["ring", "cholesky32"]);
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "none"]].concat());
    assert_one_line(&output, 1, &["none", "taskflow"]);
    program(folder.path(), "taskflow", "echo other grid WRONG: 3 tasks not run; exit 0");
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "."]].concat());
    assert_one_line(&output, 1, &["WRONG: 3 tasks"]);
    program(folder.path(), "taskflow", "exit 3");
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "."]].concat());
    assert_one_line(&output, 1, &["taskflow", "exit status: 3"]);
    let output = millrace(folder.path(), &["bench", "runtime", "--workers", "1025"]);
    assert_one_line(&output, 1, &["1025", "1024"]);
}
