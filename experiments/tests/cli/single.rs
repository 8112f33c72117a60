//! One combination at a time, and charts of its trace.

use crate::{assert_one_line, assert_svg, binary, idx, json, millrace, read, text};

#[test]
fn each_binary_runs_its_combination() {
    for arena in ["single", "double"] {
        for loader in ["naive", "prefetch", "double", "advanced"] {
            let folder = tempfile::tempdir().expect("temporary directory");
            let arguments =
                ["--samples", "20", "--epochs", "1", "--workers", "1", "--json", "--out", "run"];
            let output = binary(&format!("{arena}-{loader}"), &arguments)
                .current_dir(folder.path())
                .output()
                .expect("it starts");
            assert!(output.status.success(), "{}", text(&output.stderr));
            let row = &json(&text(&output.stdout))[0];
            assert_eq!(row["combination"]["arena"], arena);
            assert_eq!(row["combination"]["loader"], loader);
            assert_eq!(row["result"]["traced"], serde_json::Value::Null);
            assert!(!folder.path().join(format!("run/trace-{arena}-{loader}.json")).exists());
        }
    }
}

#[test]
fn a_trace_can_be_drawn_again() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let arguments = "train --arena ring(3) --loader advanced --samples 100 --epochs 1 --trace \
                     --workers 2 --trace-batches 2..8 --out run";
    let output = millrace(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trace = json(&read(folder.path().join("run/trace-ring-3-advanced.json")));
    assert_eq!(trace["meta"]["batches"], "2..8");
    let marks = trace["marks"].as_array().expect("marks");
    let first = marks.iter().find(|mark| mark["kind"] == "batch").expect("a batch");
    assert_eq!(first["index"], 2);

    let arguments = "gantt run/trace-ring-3-advanced.json --out two.svg --batches 3..5 --width 900";
    let output = millrace(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_svg(&folder.path().join("two.svg"), &["ring(3)/advanced", "worker 1"]);
}

/// What each of two epochs came to, in a folder of its own.
fn epochs(more: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("temporary directory");
    let arguments = [&["--epochs", "2", "--json"], more].concat();
    let output = binary("double-advanced", &arguments)
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&text(&output.stdout))[0]["result"]["epochs"].clone()
}

#[test]
fn the_weights_do_not_depend_on_the_workers() {
    let accuracies =
        ["0", "1", "3"].map(|workers| epochs(&["--samples", "105", "--workers", workers]));
    assert_eq!(accuracies[0], accuracies[1]);
    assert_eq!(accuracies[0], accuracies[2]);
}

#[test]
fn a_data_set_of_ones_own() {
    let folder = tempfile::tempdir().expect("temporary directory");
    idx::write_set(folder.path(), 25, 5);
    let arguments = ["--dataset", ".", "--epochs", "1", "--batch-size", "7", "--out", "run"];
    let output =
        binary("single-prefetch", &arguments).current_dir(folder.path()).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&read(folder.path().join("run/run-single-prefetch.json")));
    assert_eq!((&result["images"], &result["test_samples"]), (&25.into(), &5.into()));
}

/// The path goes into the results as text; the run must not be lost over it.
#[cfg(target_os = "linux")]
#[test]
fn a_data_set_whose_path_is_not_text_is_trained_on() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("temporary directory");
    let name = std::ffi::OsStr::from_bytes(b"set \xff");
    std::fs::create_dir(folder.path().join(name)).expect("made");
    idx::write_set(&folder.path().join(name), 40, 20);
    let output = binary("single-naive", &["--epochs", "1", "--out", "run", "--dataset"])
        .arg(name)
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&read(folder.path().join("run/run-single-naive.json")));
    assert_eq!(result["settings"]["dataset"], "set \u{fffd}");
}

#[cfg(target_os = "linux")]
#[test]
fn workers_can_be_bound_to_processors() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let train = |workers: usize| {
        let workers = workers.to_string();
        let arguments = ["--samples", "20", "--epochs", "1", "--trace", "--pin"];
        let given = ["--workers", &workers, "--out", &workers];
        binary("single-naive", &[&arguments[..], &given].concat())
            .current_dir(folder.path())
            .output()
            .expect("it starts")
    };
    // A number that no machine has, and the program allows.
    assert_one_line(&train(1024), 1, &["1024 workers cannot be pinned"]);
    let output = train(1);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trace = json(&read(folder.path().join("1/trace-single-naive.json")));
    let topology = trace["meta"]["topology"].as_str().expect("text");
    assert!(topology.starts_with("1 worker (as asked), on CPUs "), "{topology}");
    let result = json(&read(folder.path().join("1/run-single-naive.json")));
    assert_eq!(result["settings"]["pin"], true);
}

/// For each worker its tasks in order: their places in submission order, and names.
fn schedule_of(path: &std::path::Path) -> Vec<Vec<(u64, String)>> {
    let trace = json(&read(path));
    assert_eq!(trace["dropped"], 0);
    let mut lanes = vec![Vec::new(); trace["lanes"].as_array().expect("lanes").len()];
    for span in trace["spans"].as_array().expect("spans") {
        if span["kind"] == "task" {
            let index = |name: &str| span[name].as_u64().expect("a number");
            let name = trace["names"][index("name") as usize].as_str().expect("a name");
            lanes[index("lane") as usize].push((index("sequence"), name.to_owned()));
        }
    }
    lanes
}

#[test]
fn the_schedule_of_a_trace_is_followed_task_by_task() {
    for (arena, loader, workers) in
        [("double", "advanced", "2"), ("single", "prefetch", "3"), ("single", "naive", "1")]
    {
        let folder = tempfile::tempdir().expect("temporary directory");
        let name = format!("trace-{arena}-{loader}.json");
        let train = |out: &str, more: &[&str]| {
            let arguments = [
                "train",
                "--arena",
                arena,
                "--loader",
                loader,
                "--workers",
                workers,
                "--samples",
                "60",
                "--epochs",
                "2",
                "--trace",
                "--trace-batches",
                "0..12",
                "--memory-window",
                "64M",
                "--trace-capacity",
                "100000",
                "--out",
                out,
            ];
            let output = millrace(folder.path(), &[&arguments[..], more].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
            let said = text(&output.stderr);
            assert!(!said.contains("warning"), "{said}");
            schedule_of(&folder.path().join(out).join(&name))
        };
        let first = train("first", &["--scheduler", "work-stealing"]);
        let tasks: usize = first.iter().map(Vec::len).sum();
        // In each of 12 batches two shards are loaded and two trained on, and there is one update.
        assert!(tasks >= 12 * 5, "{tasks} tasks");
        let placement = format!("first/{name}");
        let again = train("again", &["--scheduler", "static", "--placement", &placement]);
        assert_eq!(again, first, "{arena}/{loader} on {workers} workers");
    }
}

#[test]
fn the_weights_do_not_depend_on_the_scheduler_and_the_windows() {
    let accuracies = [
        &["--scheduler", "work-stealing"][..],
        &["--scheduler", "priority", "--memory-window", "100K"],
        &["--scheduler", "fifo", "--window", "3"],
    ]
    .map(|more| epochs(&[&["--samples", "50", "--workers", "2", "--out", "run"], more].concat()));
    assert_eq!(accuracies[0], accuracies[1]);
    assert_eq!(accuracies[0], accuracies[2]);
}

#[test]
fn a_trace_that_does_not_fit_is_refused_or_told() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let run = |arguments: &str| {
        millrace(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>())
    };
    let first =
        run("train --samples 40 --epochs 1 --workers 2 --trace --trace-batches 0..4 --out a");
    assert!(first.status.success(), "{}", text(&first.stderr));
    let follow = "train --samples 40 --epochs 1 --scheduler static --placement";
    let trace = "a/trace-double-advanced.json";
    let output = run(&format!("{follow} {trace} --workers 3"));
    assert_one_line(&output, 1, &["for 2 workers", "3"]);
    let output = run(&format!("{follow} missing.json --workers 2"));
    assert_one_line(&output, 1, &["missing.json"]);
    let output = run("--scheduler static");
    assert_one_line(&output, 2, &["--placement"]);
    let output = run(&format!("--scheduler static --placement {trace}"));
    assert_one_line(&output, 2, &["one combination"]);
    let output = run("train --memory-window 5X");
    assert_one_line(&output, 2, &["5X", "64M"]);
    // Another program: fewer shards. It is trained all the same.
    let output = run(&format!("{follow} {trace} --workers 2 --shards 1 --batch-size 5 --out b"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.path().join("b/table.json").exists());
}
