//! Experiments as files: listed, run, stopped, gone on with, and refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::{assert_one_line, json, millrace, read, text, words};

const SMALL: &str = "title = 'Small'\nrepetitions = 1\n[factors]\narena = 'single'\n\
                     loader = ['naive', 'advanced']\nsamples = 20\nepochs = 1\nworkers = ";

fn write(folder: &Path, workers: &str) {
    fs::write(folder.join("small.toml"), format!("{SMALL}{workers}\n")).expect("writable");
}

/// Each run's file with the time at which it was written.
fn runs(folder: &Path) -> BTreeMap<String, SystemTime> {
    let entries = fs::read_dir(folder.join("run/runs")).expect("readable");
    let times = entries.map(|entry| {
        let entry = entry.expect("readable");
        let time = entry.metadata().and_then(|data| data.modified()).expect("a time");
        (entry.file_name().to_string_lossy().into_owned(), time)
    });
    times.collect()
}

#[test]
fn a_level_that_is_added_runs_alone() {
    let folder = tempfile::tempdir().expect("temporary directory");
    write(folder.path(), "1");
    let output = millrace(folder.path(), &words("compare small.toml --out run"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let first = runs(folder.path());
    // Two loaders, each with a warm-up and a run.
    assert_eq!(first.len(), 4, "{first:?}");

    write(folder.path(), "[1, 2]");
    let dry = "compare small.toml --out run --resume --dry-run";
    let output = millrace(folder.path(), &words(dry));
    let listed = text(&output.stdout);
    assert!(listed.contains("single/advanced, workers 2"), "{listed}");
    assert!(
        listed.contains("4 runs of 4 combinations") && listed.contains("4 are done"),
        "{listed}"
    );
    let output = millrace(folder.path(), &words("compare small.toml --out run --resume"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let second = runs(folder.path());
    assert_eq!(second.len(), 8, "{second:?}");
    assert!(first.iter().all(|(name, time)| second.get(name) == Some(time)), "{second:?}");
    let table = json(&read(folder.path().join("run/table.json")));
    let workers: Vec<&str> = table
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["levels"]["workers"].as_str().expect("a level"))
        .collect();
    assert_eq!(workers, ["1", "2", "1", "2"]);
    let names = csv::Reader::from_path(folder.path().join("run/table.csv")).expect("readable");
    let header = names.into_records().count();
    assert_eq!(header, 4);
    assert!(read(folder.path().join("run/report.html")).contains("<h1>Small</h1>"));
}

#[test]
fn a_run_that_failed_is_run_again_and_the_folder_knows_its_experiment() {
    let folder = tempfile::tempdir().expect("temporary directory");
    write(folder.path(), "1");
    let output = millrace(folder.path(), &words("compare small.toml --out run"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let before = runs(folder.path());
    let name = "single-naive-1.json";
    let path = folder.path().join("run/runs").join(name);
    let mut record = json(&read(&path));
    record["outcome"] = "failed".into();
    record["reason"] = "killed".into();
    fs::write(&path, record.to_string()).expect("writable");
    fs::remove_file(folder.path().join("run/runs/single-advanced-1.json")).expect("there");

    let output = millrace(folder.path(), &words("compare --out run --resume"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let after = runs(folder.path());
    assert_eq!(after.len(), 4);
    let kept = |name: &str| after[name] == before[name];
    assert!(kept("single-naive-0.json") && kept("single-advanced-0.json"));
    assert_eq!(json(&read(&path))["outcome"], "finished");
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = tempfile::tempdir().expect("temporary directory");
    write(folder.path(), "[1, 2]");
    let output = millrace(folder.path(), &words("compare small.toml --dry-run"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let listed = text(&output.stdout);
    assert_eq!(listed.lines().count(), 8 + 1, "{listed}");
    assert!(listed.contains("8 runs of 4 combinations, about"), "{listed}");
    assert!(listed.lines().next().expect("a line").contains("warm-up"), "{listed}");
    let left = fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 1, "only the experiment");
}

#[test]
fn a_quick_look_has_few_runs() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let output = millrace(folder.path(), &words("compare --quick --dry-run --samples 50"));
    assert!(text(&output.stdout).contains("24 runs of 8 combinations"), "{}", text(&output.stdout));
}

#[test]
fn mistakes_in_an_experiment() {
    let folder = tempfile::tempdir().expect("temporary directory");
    for (content, arguments, wanted) in [
        ("[factors]\nlodaer = 'naive'", "", &["bad.toml", "did you mean `loader`?"][..]),
        ("[factors]\nloader = 'advance'", "", &["bad.toml", "'advanced'"]),
        ("[factors\n", "", &["bad.toml", "line 1"]),
        ("[factors]\nbatch_size = [1, 64]", "--samples 20", &["batch size 64", "only 20 samples"]),
        ("[factors]\nworkers = [1, 2]", "--workers 3", &["--workers", "1, 2"]),
        ("", "--repetitions 0", &["--repetitions 0", "1 to 1000"]),
        ("", "--resume", &["--out"]),
    ] {
        fs::write(folder.path().join("bad.toml"), content).expect("writable");
        let line = format!("compare bad.toml {arguments}");
        assert_one_line(&millrace(folder.path(), &words(&line)), 2, wanted);
    }
    assert_one_line(&millrace(folder.path(), &words("compare none.toml")), 1, &["none.toml"]);
    let nothing = millrace(folder.path(), &words("compare --out none --resume"));
    assert_one_line(&nothing, 1, &["none"]);
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
}

#[test]
fn results_of_another_version_are_refused() {
    let folder = tempfile::tempdir().expect("temporary directory");
    write(folder.path(), "1");
    let output = millrace(folder.path(), &words("compare small.toml --out run"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = folder.path().join("run/runs/single-naive-1.json");
    let record = read(&path);
    fs::write(&path, record.replacen("\"version\": 1", "\"version\": 0", 1)).expect("writable");
    let output = millrace(folder.path(), &words("compare --out run --resume"));
    assert_one_line(&output, 1, &["single-naive-1.json", "version 0", "version 1"]);
    fs::write(&path, "{").expect("writable");
    let output = millrace(folder.path(), &words("compare --out run --resume"));
    assert_one_line(&output, 1, &["single-naive-1.json", "run again"]);
    assert_eq!(runs(folder.path()).len(), 4, "nothing is lost");
}
