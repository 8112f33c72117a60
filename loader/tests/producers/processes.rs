//! Producers that are processes, and everything that such a process may do wrong.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use millrace_loader::producers::{
    BadSamples, EndKind, Producers, ProducersConfig, Restarts, Status,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{config, expected, layout, rest};

/// A producer with a fault that happens once.
fn faulty(fault: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faulty-producer"));
    command.arg(fault).arg(folder.join("mark"));
    command
}

/// Sample 7 is claim 7, and is claimed alone.
fn plain() -> ProducersConfig {
    ProducersConfig {
        shuffle: false,
        claims: Some(1),
        restarts: Restarts { pause: Duration::ZERO, ..Restarts::default() },
        ..config()
    }
}

/// A run of two producers, one of which has a fault once; the stream is whole all the same.
fn run(fault: &str, config: &ProducersConfig) -> Status {
    let folder = tempfile::tempdir().unwrap();
    let command = faulty(fault, folder.path());
    let mut producers = Producers::processes(2, command, layout(), config.clone()).unwrap();
    assert_eq!(rest(&mut producers), expected(config), "{fault}");
    let status = producers.stop();
    assert!(status.counts.is_balanced(), "{fault}: {status:?}");
    assert_eq!((status.counts.lost, status.counts.duplicates), (0, 0), "{fault}");
    status
}

#[test]
fn any_number_of_processes_makes_the_same_stream() {
    for checksum in [false, true] {
        let config = ProducersConfig { checksum, ..config() };
        for count in [1, 2, 5] {
            let folder = tempfile::tempdir().unwrap();
            let command = faulty("none", folder.path());
            let mut producers =
                Producers::processes(count, command, layout(), config.clone()).unwrap();
            assert_eq!(rest(&mut producers), expected(&config), "{count} processes");
            let status = producers.stop();
            assert_eq!((status.ended, status.restarts()), (Default::default(), 0));
        }
    }
}

/// Each way to go wrong: the kind of end that is counted, and what its message says.
#[test]
fn a_process_that_goes_wrong_is_replaced_and_named() {
    for (fault, kind, words) in [
        ("kill", EndKind::Died, "was ended by signal 9"),
        ("exit", EndKind::Died, "ended with exit code 3; its last words: cannot open /data/7.png"),
        ("child", EndKind::Died, "ended with exit code 4"),
        ("half", EndKind::Died, "ended with exit code 0, in the middle of a frame"),
        ("close", EndKind::Died, "closed its link"),
        ("magic", EndKind::Rubbish, "sent a frame with the magic [6d, 52, 43, 45]"),
        ("version", EndKind::Rubbish, "sent a frame of version 2, wanted 1"),
        ("kind", EndKind::Rubbish, "sent a frame of the unknown kind 99"),
        ("welcome", EndKind::Rubbish, "sent a Welcome frame, which it must not send now"),
        ("twice", EndKind::Rubbish, "sent a Hello frame, which it must not send now"),
        ("header", EndKind::Rubbish, "sent a frame header with a wrong checksum"),
        ("length", EndKind::Rubbish, "bytes: at most 65536 are allowed"),
        ("body", EndKind::Rubbish, "sent a frame body with a wrong checksum"),
        ("short", EndKind::Rubbish, "sent a Sample frame with a body of 3 bytes"),
        ("sequence", EndKind::Rubbish, "an answer to claim 8; the oldest that waits for one is 7"),
        ("bytes", EndKind::Rubbish, "sent a sample of 14 payload bytes, wanted 13"),
        ("dtype", EndKind::Rubbish, "field 0 with type and shape u32[3], wanted f32[3]"),
        ("shape", EndKind::Rubbish, "field 0 with type and shape f32[4], wanted f32[3]"),
        ("checksum", EndKind::Rubbish, "sent a sample whose payload has a wrong checksum"),
        ("noise", EndKind::Rubbish, "sent a frame with the magic"),
    ] {
        let status = run(fault, &ProducersConfig { checksum: fault == "checksum", ..plain() });
        let [end] = &status.ends[..] else { panic!("{fault}: {:?}", status.ends) };
        assert_eq!(end.kind, kind, "{fault}: {end}");
        assert!(end.how.contains(words), "{fault}: {end}");
        assert!(end.pid.is_some() && end.samples.contains(&(0, 7)), "{fault}: {end}");
        assert!(status.counts.reissued >= 1);
    }
}

/// Megabytes of text neither block the producer nor fill memory, and are no fault.
#[test]
fn a_process_may_say_much() {
    assert_eq!(run("shout", &plain()).ended, Default::default());
}

/// A process that stands still or runs in circles meets its deadline; others that meet it because
/// the machine is busy are replaced as well.
#[test]
fn a_process_that_hangs_is_killed_at_its_deadline() {
    for fault in ["stop", "loop", "sleep"] {
        let config = ProducersConfig {
            deadline: Some(Duration::from_millis(300)),
            restarts: Restarts { limit: 1000, pause: Duration::ZERO, ..Restarts::default() },
            attempts: 1000,
            ..plain()
        };
        let status = run(fault, &config);
        let is_it = |end: &&millrace_loader::producers::End| end.samples.contains(&(0, 7));
        let end = status.ends.iter().find(is_it).expect("it was ended");
        assert_eq!(end.kind, EndKind::Hung);
        assert!(end.how.starts_with("gave no sign of life for 300ms"), "{end}");
    }
}

/// What takes longer than the deadline but gives signs of life is left alone. (The deadline is
/// long against the time between two signs; if the machine stands still for longer, the sample
/// is made by another, and the run repeated here.)
#[test]
fn a_slow_process_that_gives_signs_of_life_is_left_alone() {
    let config = ProducersConfig { deadline: Some(Duration::from_millis(350)), ..plain() };
    let undisturbed = (0..10).any(|_| run("beat", &config).ended == Default::default());
    assert!(undisturbed);
    // Without them it is ended.
    let limit = ProducersConfig { limit: Some(Duration::from_millis(350)), ..config };
    let status = run("beat", &limit);
    let is_it = |end: &millrace_loader::producers::End| end.how.contains("the limit of 350ms");
    assert!(status.ends.iter().any(is_it), "{:?}", status.ends);
}

#[test]
fn bad_samples_of_processes_follow_the_rule() {
    for fault in ["always-bad", "always-panic"] {
        let config = ProducersConfig { bad: BadSamples::Skip { limit: 3 }, ..plain() };
        let folder = tempfile::tempdir().unwrap();
        let command = faulty(fault, folder.path());
        let mut producers = Producers::processes(2, command, layout(), config).unwrap();
        let samples: usize = rest(&mut producers).iter().map(|batch| batch.samples.len()).sum();
        let status = producers.stop();
        assert_eq!((samples, status.bad.len(), status.ended), (3 * 22, 3, Default::default()));
        let cause = &status.bad[0].cause;
        assert!(cause.contains("images/7.png") || cause.contains("index out of range"), "{cause}");
    }
}

/// A sample that ends whoever makes it is bad, and does not end the run by itself.
#[test]
fn a_sample_that_ends_every_process_is_bad() {
    // With claims ahead, one more end may be needed each time to know which of them it was.
    for (claims, most) in [(Some(1), 6), (Some(5), 9), (None, 9)] {
        let config = ProducersConfig {
            bad: BadSamples::Skip { limit: 3 },
            attempts: 2,
            restarts: Restarts { limit: 100, pause: Duration::ZERO, ..Restarts::default() },
            claims,
            ..plain()
        };
        let folder = tempfile::tempdir().unwrap();
        let command = faulty("always-kill", folder.path());
        let mut producers = Producers::processes(2, command, layout(), config).unwrap();
        rest(&mut producers);
        let status = producers.stop();
        assert!((6..=most).contains(&status.ended.died), "{:?}", status.ended);
        let how = "it ended 2 producers; the last was ended by signal 9";
        assert!(status.bad.iter().all(|bad| bad.index == 7 && bad.cause == how));
        assert_eq!(status.bad.len(), 3);
    }
}

/// Two producers may be replaced once each; then one is left, then none, and the error names the
/// last of each.
#[test]
fn when_no_process_is_left_the_run_fails_by_name() {
    let restarts = Restarts { limit: 1, pause: Duration::ZERO, ..Restarts::default() };
    let config = ProducersConfig { restarts, attempts: 1000, ..plain() };
    let folder = tempfile::tempdir().unwrap();
    let command = faulty("always-kill", folder.path());
    let mut producers = Producers::processes(2, command, layout(), config).unwrap();
    let first = producers.next().unwrap().unwrap();
    assert_eq!(first.len(), 4);
    drop(first);
    let error = producers.next().unwrap_err().to_string();
    assert!(error.starts_with("no producer is left: producer 0 (process "), "{error}");
    assert!(error.contains("; producer 1 (process ") && error.contains("signal 9"), "{error}");
    assert!(error.contains("at sample"), "{error}");
    assert_eq!(producers.stop().ended.died, 4);
}

#[test]
fn a_process_that_never_says_hello_is_given_up() {
    let restarts = Restarts { limit: 0, ..Restarts::default() };
    let start_deadline = Duration::from_millis(50);
    let error = |fault, config| {
        let folder = tempfile::tempdir().unwrap();
        let command = faulty(fault, folder.path());
        let mut producers = Producers::processes(1, command, layout(), config).unwrap();
        producers.next().unwrap_err().to_string()
    };
    let late = error("no-hello", ProducersConfig { restarts, start_deadline, ..plain() });
    assert!(late.contains("did not say hello within 50ms"), "{late}");
    let early = error("early", ProducersConfig { restarts, ..plain() });
    assert!(early.contains("exit code 5; its last words: no licence for this lib"), "{early}");
}

#[test]
fn a_command_that_is_not_there_is_told() {
    let command = Command::new("/nonexistent/producer");
    let error = Producers::processes(2, command, layout(), config()).unwrap_err().to_string();
    assert!(error.contains(r#"cannot start "/nonexistent/producer": No such file"#), "{error}");
}

/// 100 epochs while producers are killed at random: every sample arrives exactly once, with the
/// right bytes.
#[test]
fn killed_at_random_over_100_epochs() {
    let config = ProducersConfig {
        samples: 50,
        epochs: 100,
        restarts: Restarts { limit: 100_000, pause: Duration::ZERO, ..Restarts::default() },
        attempts: 1000,
        ..config()
    };
    let folder = tempfile::tempdir().unwrap();
    let command = faulty("none", folder.path());
    let mut producers = Producers::processes(3, command, layout(), config.clone()).unwrap();
    let monitor = producers.monitor();
    let mut batches = Vec::new();
    while let Some(batch) = producers.next().unwrap() {
        batches.push(crate::common::content(&batch));
        if batches.len().is_multiple_of(16) {
            let victim = batches.len() / 16 % 3;
            if let Some(pid) = monitor.status().producers[victim].pid {
                // It may have ended in this moment.
                let pid = Pid::from_raw(pid as i32).unwrap();
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
    assert!(batches == expected(&config));
    let status = producers.stop();
    assert!(status.ended.died >= 20, "{:?}", status.ended);
    assert_eq!(status.restarts(), status.ended.died);
    assert_eq!((status.counts.lost, status.counts.duplicates), (0, 0));
    assert!(status.counts.is_balanced());
}
