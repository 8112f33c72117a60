//! Comparisons that are stopped, and runs that die, in the middle.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{assert_one_line, json, read, text, words};

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a comparison that would take far longer than the test waits.
fn start(folder: &Path) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("millrace"))
        .args(words("--epochs 100000 --samples 60 --workers 1 --repetitions 1 --out run"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Waits until `condition` gives something.
fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The process of the run that a comparison has started, once it trains.
fn run_of(comparison: &Child) -> Pid {
    let id = comparison.id();
    let path = PathBuf::from(format!("/proc/{id}/task/{id}/children"));
    until("a run", || {
        let children = fs::read_to_string(&path).ok()?;
        let id: i32 = children.split_whitespace().next()?.parse().ok()?;
        // It trains once it has its workers.
        let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?.count();
        (threads > 1).then(|| Pid::from_raw(id)).flatten()
    })
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not 0")
}

/// A process that nobody has waited for is still listed when it has ended, as a zombie.
fn assert_gone(run: Pid) {
    until("the run to end", || {
        let state = fs::read_to_string(format!("/proc/{}/stat", run.as_raw_pid()));
        let is_gone = state.map_or(true, |state| state.contains(") Z"));
        is_gone.then_some(())
    });
}

/// What is in the folder is complete: nothing half-written, a row for each run that counts.
fn assert_valid(folder: &Path) {
    let run = folder.join("run");
    let rows = csv::Reader::from_path(run.join("table.csv")).expect("readable").records().count();
    assert_eq!(rows, 8);
    let table = json(&read(run.join("table.json")));
    assert_eq!(table.as_array().map(Vec::len), Some(8));
    assert!(read(run.join("report.html")).ends_with("</html>"));
    for entry in fs::read_dir(&run).expect("readable") {
        let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
        assert!(!name.ends_with(".tmp"), "{name}");
    }
}

fn signal_and_wait(comparison: Child, signal: Signal) -> Output {
    // Give a signal to the comparison alone: it has to pass it on.
    kill_process(pid(&comparison), signal).expect("it runs");
    comparison.wait_with_output().expect("it ends")
}

#[test]
fn an_interrupted_comparison_leaves_valid_files_and_no_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().expect("temporary directory");
        let comparison = start(folder.path());
        let run = run_of(&comparison);
        let output = signal_and_wait(comparison, signal);
        assert_one_line(&output, 130, &["0 of 16 runs are finished", "--resume"]);
        assert!(text(&output.stdout).contains("not run"));
        assert_gone(run);
        assert_valid(folder.path());
    }
}

#[test]
fn an_interrupted_run_says_so() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let run = Command::new(assert_cmd::cargo::cargo_bin("double-advanced"))
        .args(["--epochs", "100000", "--samples", "60", "--workers", "1"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let tasks = format!("/proc/{}/task", run.id());
    until("its worker", || (fs::read_dir(&tasks).ok()?.count() > 1).then_some(()));
    let output = signal_and_wait(run, Signal::INT);
    assert_one_line(&output, 130, &["stopped", "epoch"]);
}

#[test]
fn a_run_that_dies_does_not_take_the_others_with_it() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let comparison = start(folder.path());
    kill_process(run_of(&comparison), Signal::KILL).expect("it runs");
    let second = until("the second run", || {
        let record = fs::read_to_string(folder.path().join("run/runs/single-naive-0.json")).ok()?;
        assert_eq!(json(&record)["outcome"], "failed");
        Some(run_of(&comparison))
    });
    let output = signal_and_wait(comparison, Signal::INT);
    assert_gone(second);
    assert_one_line(&output, 130, &["0 of 16 runs"]);
    let record = json(&read(folder.path().join("run/runs/single-naive-0.json")));
    assert!(record["reason"].as_str().expect("why").contains("signal: 9"));
    assert_eq!(fs::read_dir(folder.path().join("run/runs")).expect("readable").count(), 1);
    assert_valid(folder.path());
}

#[test]
fn a_run_does_not_outlive_a_comparison_that_was_killed() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let comparison = start(folder.path());
    let run = run_of(&comparison);
    signal_and_wait(comparison, Signal::KILL);
    assert_gone(run);
}

/// Nothing is ever written to the pipe that the command reads.
#[test]
fn reading_a_trace_that_never_comes_can_be_interrupted() {
    let gantt = Command::new(assert_cmd::cargo::cargo_bin("millrace"))
        .args(["gantt", "/dev/stdin", "--out", "never.svg"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let fds = format!("/proc/{}/fd/3", gantt.id());
    until("the pipe to be opened", || Path::new(&fds).exists().then_some(()));
    kill_process(pid(&gantt), Signal::INT).expect("it runs");
    let Output { status, .. } = {
        let mut gantt = gantt;
        let _open = gantt.stdin.take();
        gantt.wait_with_output().expect("it ends")
    };
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
}
