//! `millrace bench metg`: rows, the peer, mistakes.

use serde_json::Value;

use crate::bench::program;
use crate::{assert_one_line, json, millrace, text};

const QUICK: [&str; 8] = ["bench", "metg", "--timesteps", "20", "--rounds", "1", "--largest", "20"];

/// A StarPU that answers at once: `$4 * $5` tasks of `$6` iterations at one microsecond each.
const STARPU: &str = "echo starpu-test $2 kernel=$3 w=$1 wall_ns=$(($4 * $5 * 1000)) work=100";

/// The points of a sweep: their granularities and efficiencies.
fn points(points: &Value) -> Vec<(f64, f64)> {
    let number = |point: &Value, key: &str| point[key].as_f64().expect("a number");
    let points = points.as_array().expect("a list").iter();
    points.map(|point| (number(point, "granularity_us"), number(point, "efficiency"))).collect()
}

#[test]
fn every_pattern_and_kernel_has_a_row() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let output = millrace(folder.path(), &[&QUICK[..], &["--json", "--width", "3"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 6 * 2 * 2);
    let patterns = ["trivial", "stencil_1d", "nearest", "fft", "random_nearest", "all_to_all"];
    for (row, pattern) in rows.iter().zip(patterns.iter().cycle()) {
        assert_eq!(row["pattern"], *pattern, "{row}");
        let workers = row["workers"].as_u64().expect("a number");
        assert_eq!(row["width"], 3 * workers, "{row}");
        assert!(row["peer"].is_null() && row["peer_metg_us"].is_null(), "{row}");
        assert!(row["peak_rate"].as_f64().expect("a number") > 0.0, "{row}");
        let points = points(&row["points"]);
        assert!(points.iter().all(|(us, share)| *us > 0.0 && (0.0..=1.0).contains(share)));
        // How fast it was is not for a test to say, but both figures are there or none.
        match (row["metg_us"].as_f64(), row["tasks_per_s"].as_f64()) {
            (Some(us), Some(tasks)) => {
                assert!((us * tasks / (workers as f64 * 1e6) - 1.0).abs() < 1e-9, "{row}");
            }
            figures => assert_eq!(figures, (None, None), "{row}"),
        }
    }
    // Somebody is the best with each kernel and number of workers.
    for (kernel, workers) in [("compute", 1), ("compute", 2), ("memory", 1), ("memory", 2)] {
        let group = rows.iter().filter(|row| row["kernel"] == kernel && row["workers"] == workers);
        let shares = group.flat_map(|row| points(&row["points"])).map(|(_, share)| share);
        assert_eq!(shares.fold(0.0, f64::max), 1.0, "{kernel} {workers}");
    }
}

#[test]
fn starpu_runs_in_the_same_sitting() {
    let folder = tempfile::tempdir().expect("temporary directory");
    program(folder.path(), "metg_starpu", STARPU);
    let one = ["--patterns=fft", "--kernels=compute", "--workers=2", "--width=1", "--peers=."];
    let output = millrace(folder.path(), &[&QUICK[..], &one, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let [row] = &rows.as_array().expect("rows")[..] else { panic!("not one row: {rows}") };
    assert_eq!(row["peer"], "starpu-test");
    let theirs = points(&row["peer_points"]);
    assert!(!theirs.is_empty(), "{row}");
    // A microsecond of two workers for each task.
    assert!(theirs.iter().all(|(us, _)| (us - 2.0).abs() < 1e-9), "{row}");
    // The same time whatever was asked for: a rate that follows the iterations.
    let per_iteration: Vec<f64> = theirs
        .iter()
        .zip(row["peer_points"].as_array().expect("a list"))
        .map(|((_, share), point)| share / point["iterations"].as_f64().expect("a number"))
        .collect();
    assert!(per_iteration.iter().all(|share| (share / per_iteration[0] - 1.0).abs() < 1e-9));
    let output = millrace(folder.path(), &[&QUICK[..], &one].concat());
    let table = text(&output.stdout);
    for word in ["METG(50%)", "fft", "GFLOP/s", "starpu-test", "other hardware", "StarPU 361"] {
        assert!(table.contains(word), "no {word} in {table}");
    }
}

#[test]
fn mistakes_and_a_failing_peer_are_told() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let told = |arguments: &[&str], code, words: &[&str]| {
        let output = millrace(folder.path(), &[&QUICK[..], arguments].concat());
        assert_one_line(&output, code, words);
    };
    told(&["--patterns", "fft,ring"], 2, &["ring", "stencil_1d"]);
    told(&["--kernels", "disk"], 2, &["disk", "memory"]);
    told(&["--workers", "0"], 2, &["--workers", "1..=1024"]);
    told(&["--window", "0"], 1, &["window"]);
    told(&["--peers", "none"], 1, &["none", "metg_starpu"]);
    program(folder.path(), "metg_starpu", "echo WRONG: 3 tasks did not run; exit 1");
    told(&["--peers", "."], 1, &["metg_starpu", "exit status: 1"]);
    program(folder.path(), "metg_starpu", "echo WRONG: 3 inputs were not of the timestep before");
    told(&["--peers", "."], 1, &["WRONG: 3 inputs"]);
    program(folder.path(), "metg_starpu", "echo hello");
    told(&["--peers", "."], 1, &["no figure", "hello"]);
}
