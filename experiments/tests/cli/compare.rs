//! A tiny comparison and everything it writes.

use std::collections::HashSet;

use crate::{assert_svg, binary, json, millrace, read, text, words};

const NAMES: [&str; 8] = [
    "single-naive",
    "single-prefetch",
    "single-double",
    "single-advanced",
    "double-naive",
    "double-prefetch",
    "double-double",
    "double-advanced",
];

#[test]
fn a_comparison_writes_all_its_results() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let output = millrace(
        folder.path(),
        &words("--samples 60 --epochs 2 --workers 3 --repetitions 1 --out run"),
    );
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(printed.matches("run time").count(), 1, "{printed}");
    assert!(printed.contains("main waits: barrier"), "{printed}");
    assert!(printed.contains("run/ (open report.html)"), "{printed}");

    let run = folder.path().join("run");
    let mut table = csv::Reader::from_path(run.join("table.csv")).expect("readable");
    let header = table.headers().expect("a header").clone();
    let records: Vec<csv::StringRecord> =
        table.records().collect::<Result<_, _>>().expect("valid CSV");
    assert_eq!(records.len(), 8);
    let column = |key: &str| -> Vec<&str> {
        let index = header.iter().position(|name| name == key).expect("a column");
        records.iter().map(|record| &record[index]).collect()
    };
    let unique = |key: &str| column(key).into_iter().collect::<HashSet<_>>().len();
    assert_eq!(column("combination")[7], "double/advanced");
    assert_eq!(unique("test_accuracy"), 1, "every combination learns the same");
    assert_eq!(unique("last_loss"), 1, "every combination learns the same");
    assert!(column("outcome").iter().all(|outcome| *outcome == "finished"));
    assert!(column("late_chunks").iter().all(|chunks| *chunks == "0"), "memory settles");
    for (index, key) in header.iter().enumerate().filter(|(_, key)| key.ends_with("_status")) {
        for record in &records {
            let (value, status) = (&record[index - 1], &record[index]);
            assert_eq!(value.is_empty(), status.starts_with("unavailable: "), "{key}: {status}");
        }
    }

    for name in NAMES {
        let title = name.replace('-', "/");
        let lanes = [title.as_str(), "main", "worker 0", "worker 1", "worker 2"];
        assert_svg(&run.join(format!("gantt-{name}.svg")), &lanes);
        let warm_up = json(&read(run.join(format!("runs/{name}-0.json"))));
        assert_eq!(warm_up["result"]["traced"]["first"], 0);
        let run = json(&read(run.join(format!("runs/{name}-1.json"))));
        let result = &run["result"];
        assert_eq!(result["traced"], serde_json::Value::Null);
        for state in [&run["before"], &run["after"]] {
            assert!(state["calibration"].as_f64() > Some(0.0), "{state}");
        }
        assert_eq!(result["epochs"].as_array().map(Vec::len), Some(2));
        assert_eq!(result["images"], 120);
        let kinds = result["time"]["kinds"].as_array().expect("kinds of tasks");
        let count = kinds.iter().map(|kind| kind["body"]["count"].as_u64().expect("a number"));
        assert_eq!(result["time"]["tasks"], count.sum::<u64>());
        assert!(kinds.iter().any(|kind| kind["bytes"].as_u64() > Some(0)), "{kinds:?}");
        let trace = json(&read(folder.path().join(format!("run/trace-{name}.json"))));
        assert_eq!(trace["title"], title);
        assert_eq!(trace["lanes"].as_array().map(Vec::len), Some(4));
        assert_eq!(trace["dropped"], 0);
        let spans = trace["spans"].as_array().expect("spans");
        let tasks = spans.iter().filter(|span| span["kind"] == "task").count();
        // In each of 12 batches two shards are loaded and two trained on, and there is one update.
        assert!(tasks >= 12 * 5, "{name}: {tasks} tasks");
    }
    assert_svg(&run.join("compare.svg"), &["single/naive", "double/advanced", "worker 2"]);
    let report = read(run.join("report.html"));
    assert_eq!(report.matches("<svg").count(), 9);
    assert!(report.contains("double-advanced"));

    let names: Vec<String> = std::fs::read_dir(&run)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    // command.txt, experiment.toml, table.csv, table.json, compare.svg, report.html, the folder of
    // the runs; trace and chart of each.
    assert_eq!(names.len(), 7 + 2 * 8, "{names:?}");
}

#[test]
fn the_table_comes_as_json() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let arguments = "compare --samples 20 --epochs 1 --repetitions 2 --json";
    let output = millrace(folder.path(), &words(arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = json(&text(&output.stdout));
    let rows = table.as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 8, "a row per run, without the warm-ups");
    assert!(rows.iter().all(|row| row["outcome"] == "finished"));
    assert_eq!((&rows[0]["repetition"], &rows[1]["repetition"]), (&1.into(), &2.into()));
    let counts = &rows[0]["result"]["counters"]["workers"]["counts"];
    for count in counts.as_array().expect("counts") {
        let reading = &count["reading"];
        match reading["status"].as_str().expect("a status") {
            "measured" | "scaled" => assert!(reading["value"].is_u64(), "{count}"),
            "unavailable" => assert!(!reading["reason"].as_str().expect("why").is_empty()),
            other => panic!("unknown status {other}"),
        }
    }
    // Without --out a new folder named after the time.
    let results: Vec<_> = std::fs::read_dir(folder.path().join("results")).expect("made").collect();
    assert_eq!(results.len(), 1);
}

#[test]
fn a_training_that_diverges_is_told_as_such() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let arguments = "--samples 40 --epochs 2 --lr 1e38 --repetitions 1";
    let output = millrace(folder.path(), &words(arguments));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    // The task, its batch and layer, and what is wrong with its values, of every combination.
    let told = text(&output.stderr);
    let wrong = "task `sgd.update` (batch 1, layer 0, shard 0)";
    assert_eq!(told.matches(wrong).count(), 8, "{told}");
    assert_eq!(told.matches("value 0 of the gradient is NaN").count(), 8, "{told}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let millrace = assert_cmd::cargo::cargo_bin("millrace");
    let script =
        format!("{} --help | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}", millrace.display());
    let output =
        assert_cmd::Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output();
    let output = output.expect("there is a shell");
    assert_eq!(text(&output.stdout).trim(), "0");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn help_shows_examples() {
    for arguments in [&["--help"][..], &["compare", "--help"], &["train", "--help"]] {
        let help = text(&binary("millrace", arguments).output().expect("it starts").stdout);
        assert!(help.contains("Examples:\n  millrace"), "{help}");
        assert!(help.contains("--json"), "{help}");
    }
    let help = text(&binary("millrace", &["gantt", "--help"]).output().expect("it starts").stdout);
    assert!(help.contains("Examples:\n  millrace gantt"), "{help}");
}
