//! One run in a process of its own, followed from its start to its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::protocol::{Event, Progress};
use crate::result::{Outcome, RunResult};

/// How often an interruption is looked for while the run says nothing.
const TICK: Duration = Duration::from_millis(50);
/// How long a run may take to stop between two batches before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of the end of a run's standard error is kept.
const KEPT_STDERR: usize = 4096;

/// A process that does not outlive its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both do nothing for a process that has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `command` and follows it to its end. `interrupted` is asked now and then whether to
/// stop it, `progress` is told how far it has come, `stalled` that nothing moves any more.
///
/// # Errors
/// When the process cannot be started. A process that fails is an outcome, not an error.
pub(super) fn follow(
    command: &mut Command,
    interrupted: impl Fn() -> bool,
    mut progress: impl FnMut(&Progress),
    mut stalled: impl FnMut(&str),
) -> Result<Outcome, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Owned(command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        Failure::failed(format_args!("cannot start {program}: {error}"))
    })?);
    let (Some(stdout), Some(stderr)) = (child.0.stdout.take(), child.0.stderr.take()) else {
        return Err(Failure::failed("cannot read what the run writes"));
    };
    let events = read_events(stdout);
    let stderr = thread::spawn(move || tail(stderr));

    let mut result = None;
    let mut stopping: Option<Instant> = None;
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Progress(now)) => progress(&now),
            Ok(Event::Stalled { report }) => stalled(&report),
            Ok(Event::Finished { result: all }) => result = Some(all),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        match stopping {
            None if interrupted() => {
                ask_to_stop(&child.0);
                stopping = Some(Instant::now());
            }
            Some(since) if since.elapsed() > STOP_TIMEOUT => {
                // It may have ended in this moment, which is as good.
                let _ = child.0.kill();
            }
            _ => {}
        }
    }
    let status = child.0.wait().map_err(|error| {
        Failure::failed(format_args!("cannot wait for the process of a run: {error}"))
    })?;
    let said = stderr.join().unwrap_or_default();
    Ok(outcome(result, status, stopping.is_some() || interrupted(), &said))
}

fn ask_to_stop(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A process that has ended in this moment needs no signal.
        let _ = kill_process(pid, Signal::INT);
    }
}

fn outcome(
    result: Option<Box<RunResult>>,
    status: ExitStatus,
    interrupted: bool,
    said: &str,
) -> Outcome {
    match result {
        Some(result) if status.success() => Outcome::Finished { result },
        _ if interrupted => Outcome::Stopped,
        _ => {
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            let told = last.map(|line| line.strip_prefix("error: ").unwrap_or(line));
            let reason = match told {
                Some(told) if status.code().is_some() => told.to_owned(),
                Some(told) => format!("{status}: {told}"),
                None if status.success() => "the run ended without a result".to_owned(),
                None => format!("the run ended with {status}"),
            };
            Outcome::Failed { reason }
        }
    }
}

/// Events as they come. What is no event is left out: it can only be the last line of a process
/// that was killed while it wrote.
fn read_events(stdout: ChildStdout) -> Receiver<Event> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        for event in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The end of what is written to standard error, which is read to its end so that the writer is
/// never blocked.
fn tail(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        let excess = kept.len().saturating_sub(KEPT_STDERR);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::combination::Combination;
    use crate::result::example;

    fn shell(script: &str, interrupted: bool) -> (Outcome, Vec<u32>, Vec<String>) {
        let (mut batches, mut stalls) = (Vec::new(), Vec::new());
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let outcome = follow(
            &mut command,
            || interrupted,
            |now| batches.push(now.batch),
            |report| stalls.push(report.to_owned()),
        );
        (outcome.expect("there is a shell"), batches, stalls)
    }

    fn failed(script: &str) -> String {
        match shell(script, false).0 {
            Outcome::Failed { reason } => reason,
            other => panic!("not failed: {other:?}"),
        }
    }

    #[test]
    fn a_run_reports_progress_and_result() {
        let result = Box::new(example(Combination::ALL[0]));
        let line = |event: &Event| serde_json::to_string(event).expect("plain data");
        let progress = Event::Progress(Progress { batch: 7, batches: 9, ..Progress::default() });
        let stalled = Event::Stalled { report: "two\nlines".to_owned() };
        let finished = Event::Finished { result: result.clone() };
        let lines = [line(&progress), "rubbish".to_owned(), line(&stalled), line(&finished)];
        let script = format!("cat <<'END'\n{}\nEND", lines.join("\n"));
        let expected = (Outcome::Finished { result }, vec![7], vec!["two\nlines".to_owned()]);
        assert_eq!(shell(&script, false), expected);
    }

    #[test]
    fn a_run_that_dies_says_why() {
        assert_eq!(failed("echo 'error: no space left' >&2; exit 1"), "no space left");
        assert_eq!(failed("exit 3"), "the run ended with exit status: 3");
        assert_eq!(failed("true"), "the run ended without a result");
        assert!(failed("kill -9 $$").contains("signal: 9"));
        assert!(failed("yes 'much to say' | head -c 300000 >&2; exit 1").contains("much to say"));
    }

    #[test]
    fn an_interrupted_run_is_stopped_and_not_a_failure() {
        let (outcome, ..) = shell("exec sleep 600", true);
        assert_eq!(outcome, Outcome::Stopped);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let mut command = Command::new("/nonexistent/millrace");
        let failure = follow(&mut command, || false, |_| (), |_| ()).expect_err("not there");
        assert!(failure.to_string().contains("/nonexistent/millrace"), "{failure}");
    }
}
