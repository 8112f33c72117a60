//! `millrace bench nn`: rows, layers, the peer, mistakes.

use serde_json::Value;

use crate::bench::program;
use crate::{assert_one_line, json, millrace, text};

const QUICK: [&str; 6] = ["bench", "nn", "--quick", "--quiet", "--rounds", "1"];

/// A Python that answers every line at once: 1 image per second without a mode, 50 channels last.
const PYTHON: &str = "while read net mode batch threads seconds; do
    case $mode in channels_last) rate=50;; *) rate=1;; esac
    echo \"{\\\"images_per_s\\\": $rate}\"
done";

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {row}"))
}

#[test]
fn every_network_has_its_rows() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let some = ["--batches", "3,4", "--json"];
    let output = millrace(folder.path(), &[&QUICK[..], &some].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let rows = rows.as_array().expect("rows");
    let cases: Vec<_> = rows
        .iter()
        .map(|row| (row["net"].as_str().unwrap(), number(row, "batch"), number(row, "workers")))
        .collect();
    let wanted: Vec<_> = ["D", "N1", "N2", "N3"]
        .into_iter()
        .flat_map(|net| [(net, 3.0, 1.0), (net, 3.0, 2.0), (net, 4.0, 1.0), (net, 4.0, 2.0)])
        .collect();
    assert_eq!(cases, wanted);
    let flops = [0.138e6, 1.06e6, 72.38e6, 151.40e6];
    for (row, flops) in rows.iter().zip(flops.iter().flat_map(|flops| [flops; 4])) {
        // How fast it was is not for a test to say, but the figures fit each other.
        let per_image = number(row, "gflops") * 1e9 / number(row, "images_per_s");
        assert!((per_image / flops - 1.0).abs() < 0.01, "{row}: {per_image}");
        assert!(number(row, "peak_share") > 0.0 && number(row, "rss_mb") > 1.0, "{row}");
        assert!(row["peer"].is_null() && row["ratio"].is_null(), "{row}");
    }
}

#[test]
fn pytorch_runs_in_the_same_sitting() {
    let folder = tempfile::tempdir().expect("temporary directory");
    program(folder.path(), "python", PYTHON);
    let python = folder.path().join("python");
    let case = ["--nets=n1", "--workers=1", "--batches=2", "--peer", python.to_str().unwrap()];
    let output = millrace(folder.path(), &[&QUICK[..], &case, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let row = &rows.as_array().expect("rows")[0];
    assert_eq!(row["peer"], "pytorch channels_last");
    assert_eq!(
        row["peers"],
        serde_json::json!({"channels_last": 50.0, "compile": 1.0, "eager": 1.0})
    );
    assert!((number(row, "ratio") * 50.0 / number(row, "images_per_s") - 1.0).abs() < 1e-9);

    let eager = ["--modes", "eager"];
    let output = millrace(folder.path(), &[&QUICK[..], &case, &eager].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("pytorch eager") && table.contains("ratio"), "{table}");
}

#[test]
fn layers_are_measured_in_all_directions() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let layers = ["--layers", "--nets=N1", "--batches=2", "--json"];
    let output = millrace(folder.path(), &[&QUICK[..], &layers].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let rows = rows.as_array().expect("rows");
    // Nobody wants the gradient by the images.
    let directions: Vec<_> = rows.iter().map(|row| row["direction"].as_str().unwrap()).collect();
    let (first, all) = (["forward", "by weights"], ["forward", "by weights", "by data"]);
    assert_eq!(directions, [&first[..], &all, &all].concat());
    for row in rows {
        // A difference of times has no figure where the machine was disturbed.
        let disturbed = row["direction"] == "by data" && row["gflops"].is_null();
        assert!(disturbed || number(row, "gflops") > 0.0, "{row}");
        assert_eq!(row["gflops"].is_null(), row["peak_share"].is_null(), "{row}");
        assert_eq!(number(row, "samples"), 2.0, "{row}");
        assert!(["products", "memory"].contains(&row["bound"].as_str().unwrap()), "{row}");
    }
}

#[test]
fn a_peer_that_fails_is_told() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let case = ["--nets=D", "--workers=1", "--modes=eager", "--peer"];
    let fails = |name: &str, word: &str| {
        let python = folder.path().join(name);
        let python = python.to_str().expect("a name");
        let output = millrace(folder.path(), &[&QUICK[..], &case, &[python]].concat());
        assert_one_line(&output, 1, &[word]);
    };
    fails("nowhere", "starting");
    program(folder.path(), "bare", "exit 1");
    fails("bare", "does this Python have PyTorch");
    program(folder.path(), "broken", "read line; echo '{\"error\": \"no memory\"}'");
    fails("broken", "eager of D: no memory");
    program(folder.path(), "chatty", "read line; echo hello");
    fails("chatty", "no figure in \"hello");
}
