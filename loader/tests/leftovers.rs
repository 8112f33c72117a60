//! What producers that are processes leave behind: no process, no descriptor, no thread.
//!
//! The only test of its program: the system's lists are those of the whole process.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_loader::producers::{DType, Field, Layout, Producers, ProducersConfig};

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn faulty(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faulty-producer"));
    command.args(words);
    command
}

fn start(fault: &str, mark: &Path) -> Producers {
    let fields = [Field::new("x", DType::F32, [3]), Field::new("y", DType::U8, [])];
    let config = ProducersConfig { samples: 1000, deadline: None, ..ProducersConfig::default() };
    let command = faulty(&[fault, mark.to_str().unwrap()]);
    Producers::processes(2, command, Layout::new(fields).unwrap(), config).unwrap()
}

/// Descriptors, threads and children of this process.
fn inventory() -> (usize, usize, Vec<String>) {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let children = fs::read_dir("/proc/self/task").unwrap();
    // A thread may have ended since it was listed.
    let children = children.filter_map(|thread| of_thread(thread.unwrap()).ok());
    let children =
        children.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let children = children.collect();
    (count("/proc/self/fd"), count("/proc/self/task"), children)
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// Whether a process is there and runs; one that nobody waited for does not.
fn runs(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|state| !state.contains(") Z"))
}

#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let before = inventory();
    assert!(before.2.is_empty());
    for (round, fault) in
        ["none", "loop", "stop", "sleep", "child", "close", "no-hello"].iter().enumerate()
    {
        let mark = folder.path().join(round.to_string());
        let mut producers = start(fault, &mark);
        if *fault == "none" {
            producers.next().unwrap().unwrap();
        } else if *fault != "no-hello" {
            until("the fault", || mark.exists());
        }
        let began = Instant::now();
        let status = producers.stop();
        // A second is promised; a busy machine may take longer to run what ends it.
        assert!(began.elapsed() < Duration::from_secs(10), "{fault}: {:?}", began.elapsed());
        assert!(status.counts.is_balanced(), "{fault}");
        // A thread that was joined may be listed for a moment.
        until("the threads to end", || inventory().1 == before.1);
        assert_eq!(inventory(), before, "{fault}");
    }
    killed_trainers(folder.path());
}

/// A trainer that is killed takes its producers with it, whatever they do, and the next one can
/// start at once.
fn killed_trainers(folder: &Path) {
    for fault in ["none", "loop", "stop"] {
        let mark = folder.join(format!("train-{fault}"));
        let mark = if fault == "none" { "" } else { mark.to_str().unwrap() };
        let mut trainer =
            faulty(&["train", fault, mark]).stdout(Stdio::piped()).spawn().expect("it is there");
        let mut line = String::new();
        BufReader::new(trainer.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pids: Vec<&str> = line.split_whitespace().collect();
        assert!(pids.len() == 2 && pids.iter().all(|pid| runs(pid)), "{line}");
        trainer.kill().unwrap();
        trainer.wait().unwrap();
        until("the producers to end", || !pids.iter().any(|pid| runs(pid)));
        drop(start("none", &folder.join("again")).next().unwrap().unwrap());
    }
}
