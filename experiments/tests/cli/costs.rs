//! `millrace bench costs`: rows, peers, mistakes.

use crate::bench::program;
use crate::{assert_one_line, json, millrace, text};

const QUICK: [&str; 3] = ["bench", "costs", "--quick"];

#[test]
fn every_cost_has_a_figure_and_goals_are_judged_by_it() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let starpu = "echo 'wait_for_all, empty runtime     med=44 ns  min=42  max=50'";
    program(folder.path(), "starpu_data", starpu);
    let output = millrace(folder.path(), &[&QUICK[..], &["--json", "--peers", "."]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = json(&text(&output.stdout));
    let rows = rows.as_array().expect("rows");
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    for name in ["limit.line", "task.memory", "acquire.buffer", "drain.growth", "idle.cpu"] {
        assert_eq!(names.iter().filter(|known| **known == name).count(), 1, "{name}");
    }
    for row in rows {
        let number = |key: &str| row[key].as_f64();
        let (least, median) = (number("least").expect("a number"), number("median"));
        let median = median.expect("a number");
        assert!(0.0 <= least && least <= median && Some(median) <= number("most"), "{row}");
        assert!(median > 0.0 && row["repetitions"].as_u64() > Some(0), "{row}");
        assert_eq!(row["met"].as_bool(), number("goal").map(|goal| median <= goal), "{row}");
        let peer = (row["name"] == "wait.idle").then_some(44.0);
        assert_eq!(row["peers"]["StarPU"].as_f64(), peer, "{row}");
    }
    // A task is at least its slot, and a handle at least the name of its last writer.
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    assert!(of("task.memory")["median"].as_f64() >= Some(192.0));
    assert!(of("handle.memory")["median"].as_f64() >= Some(8.0));
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "none"]].concat());
    assert_one_line(&output, 1, &["none", "starpu_data"]);
    let output = millrace(folder.path(), &["bench", "costs", "--probe", "moon"]);
    assert_one_line(&output, 2, &["moon"]);
    program(folder.path(), "starpu_data", "exit 3");
    let output = millrace(folder.path(), &[&QUICK[..], &["--peers", "."]].concat());
    assert_one_line(&output, 1, &["starpu_data", "exit status: 3"]);
}
