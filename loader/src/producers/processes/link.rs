//! One process and the link to it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::output::Output;
use crate::producers::frame::{self, FrameBuffer, FrameError, Kind};
use crate::producers::layout::Layout;
use crate::producers::state::Job;

/// A producer is given so many claims ahead that making their samples takes about this long: it
/// then need not wait for the next claim, which takes less.
const AHEAD: Duration = Duration::from_micros(500);
/// Claims that a producer has at most.
const MOST_CLAIMS: u64 = 64;
/// Samples after which it is known how long they take.
const KNOWN_AFTER: u64 = 4;
/// A producer that is a process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Link {
    child: Child,
    pid: Pid,
    /// Readable once the process has ended.
    pidfd: OwnedFd,
    socket: UnixStream,
    pub(super) output: Output,
    received: FrameBuffer,
    to_send: Vec<u8>,
    /// When it was started.
    pub(super) started: Instant,
    /// Whether it has said hello.
    pub(super) is_ready: bool,
    /// Claims that it has, the oldest first.
    pub(super) jobs: VecDeque<Job>,
    /// Samples that it made, and the time in which it had a claim.
    pub(super) made: u64,
    busy: Duration,
    /// Since when it has been busy.
    since: Instant,
}

/// What a producer says.
#[derive(Debug)]
pub(super) enum Event {
    Hello,
    Made(Job),
    Bad(Job, String),
    Beat,
}

impl Link {
    /// Starts a process, and sends it the welcome with the descriptor of the slots' memory.
    pub(super) fn start(
        command: &mut Command,
        memory: BorrowedFd<'_>,
        welcome: &[u8],
    ) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (output, writer) = Output::new()?;
        // Before the process is there, so that nothing can fail once it is.
        socket.set_nonblocking(true)?;
        send_with(&socket, memory, welcome)?;
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        let child = command.spawn();
        // The command would keep its copies of the child's ends open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child?;
        let pid = Pid::from_child(&child);
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        Ok(Link {
            child,
            pid,
            pidfd,
            socket,
            output,
            received: FrameBuffer::new(),
            to_send: Vec::new(),
            started: Instant::now(),
            is_ready: false,
            jobs: VecDeque::new(),
            made: 0,
            busy: Duration::ZERO,
            since: Instant::now(),
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether there is something that the socket did not take yet.
    pub(super) fn has_to_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// Takes a job; [`flush`](Self::flush) sends it.
    pub(super) fn claim(&mut self, job: Job) {
        // All slots of a run with processes are shared, and have a number.
        let slot = job.slot.number().unwrap_or(u32::MAX);
        let body = frame::claim_body(&job.claim, slot);
        frame::write(&mut self.to_send, Kind::Claim, job.sequence, &body);
        if self.jobs.is_empty() {
            self.since = Instant::now();
        }
        self.jobs.push_back(job);
    }

    /// It has answered claims at `now`.
    pub(super) fn answered(&mut self, now: Instant) {
        self.busy += now.saturating_duration_since(self.since);
        self.since = now;
    }

    /// Claims that it may have at once.
    pub(super) fn depth(&self) -> usize {
        if self.made < KNOWN_AFTER {
            return 1;
        }
        let mean = (self.busy.as_nanos() / u128::from(self.made)).max(1);
        let ahead = u64::try_from(AHEAD.as_nanos() / mean).unwrap_or(MOST_CLAIMS);
        ahead.clamp(1, MOST_CLAIMS) as usize
    }

    /// Whether it has a claim that a producer ended with before.
    pub(super) fn has_one_again(&self) -> bool {
        self.jobs.iter().any(|job| job.is_again)
    }

    /// Sends as much as the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.has_to_send() {
            match self.socket.write(&self.to_send) {
                Ok(sent) => drop(self.to_send.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has come; false when the other end is closed.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        match self.received.fill(&self.socket) {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What the producer said next, if all of it is there.
    pub(super) fn event(
        &mut self,
        layout: &Layout,
        verify: bool,
    ) -> Result<Option<Event>, FrameError> {
        let Some(frame) = self.received.next()? else { return Ok(None) };
        let kind = frame.kind;
        let may_come = match kind {
            Kind::Hello => !self.is_ready,
            Kind::Sample | Kind::Bad | Kind::Beat => self.is_ready,
            Kind::Welcome | Kind::Claim | Kind::Stop => false,
        };
        if !may_come {
            return Err(FrameError::Unexpected { kind });
        }
        if kind == Kind::Hello {
            self.is_ready = true;
            return Ok(Some(Event::Hello));
        }
        let oldest = self.jobs.front().map(|job| job.sequence);
        if oldest != Some(frame.sequence) {
            return Err(FrameError::Sequence { found: frame.sequence, oldest });
        }
        let text = match kind {
            Kind::Beat => return Ok(Some(Event::Beat)),
            Kind::Bad => Some(String::from_utf8_lossy(frame.body).into_owned()),
            _ => {
                let checksum = frame::check_sample(frame.body, layout)?;
                let slot = self.jobs.front().map(|job| job.slot.bytes()).unwrap_or_default();
                if verify && frame::payload_checksum(layout, slot) != checksum {
                    return Err(FrameError::PayloadChecksum);
                }
                None
            }
        };
        Ok(self.jobs.pop_front().map(|job| match text {
            Some(text) => Event::Bad(job, text),
            None => Event::Made(job),
        }))
    }

    /// Whether there is something to be received.
    pub(super) fn has_more(&mut self) -> bool {
        is_ready(self.socket.as_fd(), Duration::ZERO)
            && !matches!(rustix::io::ioctl_fionread(&self.socket), Ok(0) | Err(_))
    }

    /// Whether the process ends within that time; waits so long.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        is_ready(self.pidfd.as_fd(), time)
    }

    /// Asks the process to end.
    pub(super) fn ask_to_end(&mut self) {
        frame::write(&mut self.to_send, Kind::Stop, 0, &[]);
        // Whoever does not hear it is told otherwise.
        let _ = self.flush();
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = kill_process_group(self.pid, Signal::TERM);
    }

    /// Kills the process with all that it has started, and waits for it.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        // The group is there as long as its leader was not waited for.
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.child.wait()
    }

    /// How the process ended, once it has; its last words are added.
    pub(super) fn obituary(&mut self, what: &str) -> String {
        let status = self.kill();
        self.output.read_rest();
        let mid = if !self.received.is_empty() { ", in the middle of a frame" } else { "" };
        let how = match (what, status) {
            ("", Ok(status)) => format!("{}{mid}", ending(status)),
            ("", Err(error)) => format!("ended, nobody knows how: {error}{mid}"),
            (what, _) => what.to_owned(),
        };
        match self.output.last_line() {
            Some(line) => format!("{how}; its last words: {line}"),
            None => how,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be killed.
        let _ = self.kill();
    }
}

/// Whether there is something to be read within that time; waits so long.
fn is_ready(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec::try_from(time).ok();
    poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}

/// Sends bytes with a descriptor. The socket is new and empty, so it takes all.
fn send_with(socket: &UnixStream, memory: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [memory];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(socket, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())?;
    if sent < bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}
