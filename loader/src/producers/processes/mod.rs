//! Producers that are processes, and the thread that supervises them.
//!
//! Each process has a link of its own to the supervisor, and nothing else: no queue is shared,
//! and none can hold up another. The supervisor sleeps in one `poll` on all links, the ends of
//! processes, what they print, and a [bell](super::bell) that rings when slots become free or
//! the run is stopped; it wakes besides only when a deadline or a restart is due.
//!
//! It is this thread that starts processes, because the system kills them when the thread that
//! started them ends: so they end with the trainer, however that ends.

mod link;
mod output;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::bell::Bell;
use super::config::{ProducersConfig, Sizes};
use super::error::{EndKind, ProducersError};
use super::frame::{self, Kind, Welcome};
use super::lane::ProducerState;
use super::layout::Layout;
use super::shared::Shared;
use super::slot::Slot;
use super::state::State;
use super::system;
use link::{Event, Link};

/// How long an ending process may take from closing its link to its end.
const LAST_MOMENT: Duration = Duration::from_millis(20);

/// The processes of a run; they end when the run is stopped.
#[derive(Debug)]
pub(crate) struct Processes {
    supervisor: Option<JoinHandle<()>>,
}

/// Memory for all slots of a run: the file, and its slots in this process.
pub(crate) fn allocate(
    layout: &Layout,
    config: &ProducersConfig,
    sizes: Sizes,
) -> Result<(OwnedFd, Vec<Slot>), ProducersError> {
    let bytes = layout.slot_bytes().saturating_mul(sizes.slots);
    let reserved = Arc::new(config.budget.reserve(bytes)?);
    let make = || -> io::Result<(OwnedFd, Vec<Slot>)> {
        let memory =
            memfd_create("millrace slots", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, bytes as u64)?;
        // Now, and not when a slot is first written: that would end the writer by a signal.
        rustix::fs::fallocate(&memory, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // `Sizes` are below 2^32.
        let slots = system::map(memory.as_fd(), sizes.slots as u32, layout.slot_bytes())?;
        Ok((memory, slots.into_iter().map(|slot| Slot::shared(slot, &reserved)).collect()))
    };
    make().map_err(|error| {
        let slots = sizes.slots;
        ProducersError::system(format!("allocate {slots} slots of {bytes} bytes in all"), error)
    })
}

impl Processes {
    /// Starts a process for each lane. `memory` is that of the slots.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        mut command: Command,
        memory: OwnedFd,
        sizes: Sizes,
        config: &ProducersConfig,
    ) -> Result<Self, ProducersError> {
        system::die_with_parent(&mut command);
        let welcome = Welcome {
            layout: shared.layout.clone(),
            slots: sizes.slots as u32,
            checksum: config.checksum,
        };
        let mut frame = Vec::new();
        frame::write(&mut frame, Kind::Welcome, 0, &welcome.body());
        let lanes = shared.lock().lanes.len();
        let supervisor = Supervisor {
            shared: Arc::clone(shared),
            command,
            memory,
            welcome: frame,
            checksum: config.checksum,
            claims: config.claims,
            start_deadline: config.start_deadline,
            links: (0..lanes).map(|_| None).collect(),
        };
        let (sender, started) = mpsc::channel();
        let supervisor = thread::Builder::new()
            .name("producers".to_owned())
            .spawn(move || supervisor.run(&sender))
            .map_err(|error| ProducersError::system("start a supervisor's thread", error))?;
        let mut processes = Processes { supervisor: Some(supervisor) };
        // The supervisor sends one result, or has panicked.
        match started.recv().unwrap_or(Err(ProducersError::Stopped)) {
            Ok(()) => Ok(processes),
            Err(error) => {
                processes.stop(shared);
                Err(error)
            }
        }
    }

    /// Ends them: within the grace by themselves, then by force.
    pub(crate) fn stop(&mut self, shared: &Shared) {
        shared.stop();
        if let Some(supervisor) = self.supervisor.take() {
            // It does not panic; if it did, its links were dropped, and the processes with them.
            let _ = supervisor.join();
        }
    }
}

struct Supervisor {
    shared: Arc<Shared>,
    command: Command,
    memory: OwnedFd,
    welcome: Vec<u8>,
    checksum: bool,
    /// Claims that a producer has at once, if that is decided.
    claims: Option<usize>,
    start_deadline: Duration,
    /// One for each lane; `None` where nobody is.
    links: Vec<Option<Link>>,
}

/// What `poll` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Bell,
    Output(usize),
    Socket(usize),
    End(usize),
}

impl Supervisor {
    fn run(mut self, started: &mpsc::Sender<Result<(), ProducersError>>) {
        for producer in 0..self.links.len() {
            if let Err(error) = self.start(producer) {
                let program = self.command.get_program().to_string_lossy().into_owned();
                let error = ProducersError::system(format!("start {program:?}"), error);
                // Whoever waits for it is there.
                let _ = started.send(Err(error));
                return;
            }
        }
        let _ = started.send(Ok(()));
        while let Some(due) = self.dispatch() {
            self.flush();
            for source in self.wait(due) {
                self.attend(source);
            }
            self.look_at_clock();
        }
        self.end_all();
    }

    fn start(&mut self, producer: usize) -> io::Result<()> {
        let link = Link::start(&mut self.command, self.memory.as_fd(), &self.welcome)?;
        self.shared.update(|state| {
            let lane = &mut state.lanes[producer];
            lane.pid = Some(link.pid());
            lane.state = ProducerState::Starting;
        });
        self.links[producer] = Some(link);
        Ok(())
    }

    /// Gives claims to whoever has room for them, each one in turn, and tells when something is
    /// due; `None` once the run is to end.
    fn dispatch(&mut self) -> Option<Option<Instant>> {
        let (links, shared, start) = (&mut self.links, &self.shared, self.start_deadline);
        let most = self.claims;
        shared.update(|state| {
            if state.stopping {
                return None;
            }
            let mut has_room = false;
            let mut goes_on = true;
            while goes_on {
                goes_on = false;
                has_room = false;
                for (producer, link) in present(links) {
                    let alone = state.ledger.is_next_again() || link.has_one_again();
                    let most = if alone { 1 } else { most.unwrap_or(link.depth()) };
                    if !link.is_ready || link.jobs.len() >= most {
                        continue;
                    }
                    let Some(job) = state.claim(producer) else {
                        has_room = true;
                        break;
                    };
                    if link.jobs.is_empty() {
                        state.begin(producer, Some(&job));
                    }
                    link.claim(job);
                    goes_on = true;
                }
            }
            state.wants_ring(has_room);
            let works = state.lanes.iter().filter_map(|lane| lane.work.as_ref());
            let ends = works.filter_map(|work| shared.deadlines.end(work));
            let restarts = state.lanes.iter().filter_map(|lane| lane.restart_at);
            let starting = links.iter().flatten().filter(|link| !link.is_ready);
            let starts = starting.filter_map(|link| link.started.checked_add(start));
            Some(ends.chain(restarts).chain(starts).min())
        })
    }

    fn flush(&mut self) {
        for producer in 0..self.links.len() {
            // A link that is closed is seen by `poll`.
            let _ = self.links[producer].as_mut().map(Link::flush);
        }
    }

    /// Sleeps until something happens or is due.
    fn wait(&self, due: Option<Instant>) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut add = |source, fd, flags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        if let Some(bell) = &self.shared.bell {
            add(Source::Bell, bell.as_fd(), PollFlags::IN);
        }
        for (producer, link) in self.links.iter().enumerate() {
            let Some(link) = link else { continue };
            if let Some(output) = link.output.fd() {
                add(Source::Output(producer), output, PollFlags::IN);
            }
            let sends = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            add(Source::Socket(producer), link.socket(), PollFlags::IN | sends);
            add(Source::End(producer), link.pidfd(), PollFlags::IN);
        }
        let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Interrupted, or short of memory for a moment: as if nothing had happened.
        let _ = poll(&mut fds, timeout.as_ref());
        let happened = fds.iter().map(|fd| !fd.revents().is_empty());
        sources.into_iter().zip(happened).filter_map(|(source, is)| is.then_some(source)).collect()
    }

    fn attend(&mut self, source: Source) {
        match source {
            Source::Bell => {
                let _ = self.shared.bell.as_ref().map(Bell::hear);
            }
            Source::Output(producer) => {
                let _ = self.links[producer].as_mut().map(|link| link.output.read());
            }
            Source::Socket(producer) => self.hear(producer),
            Source::End(producer) => {
                // What it said before its end counts.
                while self.links[producer].as_mut().is_some_and(Link::has_more) {
                    self.hear(producer);
                }
                self.end(producer, EndKind::Died, "");
            }
        }
    }

    /// Reads from a link, and acts on all that came.
    fn hear(&mut self, producer: usize) {
        let Some(link) = &mut self.links[producer] else { return };
        let is_open = link.receive().unwrap_or(false);
        let (mut events, mut broken) = (Vec::new(), None);
        loop {
            match link.event(&self.shared.layout, self.checksum) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        if !events.is_empty() {
            self.shared.update(|state| apply(state, producer, events, link));
        }
        if let Some(error) = broken {
            self.end(producer, EndKind::Rubbish, &format!("sent {error}"));
        } else if !is_open {
            let how = if link.ends_within(LAST_MOMENT) { "" } else { "closed its link" };
            self.end(producer, EndKind::Died, how);
        }
    }

    /// The producer has ended or is ended now; its lane is told, and its claims are open again.
    fn end(&mut self, producer: usize, kind: EndKind, what: &str) {
        let Some(mut link) = self.links[producer].take() else { return };
        let how = link.obituary(what);
        let jobs = std::mem::take(&mut link.jobs).into();
        self.shared.update(|state| state.end(producer, kind, &how, jobs, Instant::now()));
    }

    /// Ends whoever has missed a deadline, and starts whoever is due.
    fn look_at_clock(&mut self) {
        let now = Instant::now();
        for producer in 0..self.links.len() {
            let late = match &self.links[producer] {
                Some(link) if !link.is_ready => {
                    let limit = self.start_deadline;
                    (now.duration_since(link.started) >= limit)
                        .then(|| format!("did not say hello within {limit:?}"))
                }
                Some(_) => self.shared.missed(producer, now),
                None => None,
            };
            if let Some(how) = late {
                self.end(producer, EndKind::Hung, &how);
            }
            if self.links[producer].is_none()
                && self.shared.update(|state| state.lanes[producer].take_restart(now))
                && let Err(error) = self.start(producer)
            {
                let how = format!("cannot be started: {error}");
                self.shared.update(|state| {
                    state.end(producer, EndKind::Died, &how, Vec::new(), now);
                });
            }
        }
    }

    /// Asks all processes to end, waits for the grace, and kills those that have not.
    fn end_all(&mut self) {
        let deadline = Instant::now() + self.shared.grace;
        self.links.iter_mut().flatten().for_each(Link::ask_to_end);
        for link in self.links.iter().flatten() {
            link.ends_within(deadline.saturating_duration_since(Instant::now()));
        }
        self.links.clear();
    }
}

/// The links that there are, with their lanes.
fn present(links: &mut [Option<Link>]) -> impl Iterator<Item = (usize, &mut Link)> {
    links.iter_mut().enumerate().filter_map(|(producer, link)| Some((producer, link.as_mut()?)))
}

/// What a producer said changes the state.
fn apply(state: &mut State, producer: usize, events: Vec<Event>, link: &mut Link) {
    let now = Instant::now();
    let mut is_done = false;
    for event in events {
        let (job, made) = match event {
            Event::Hello => {
                state.begin(producer, None);
                continue;
            }
            Event::Beat => {
                let generation = state.lanes[producer].generation;
                state.beat(producer, generation);
                continue;
            }
            Event::Made(job) => {
                link.made += 1;
                (job, Ok(()))
            }
            Event::Bad(job, text) => (job, Err(text)),
        };
        state.finish(producer, job, made, now);
        is_done = true;
    }
    if is_done {
        link.answered(now);
        state.begin(producer, link.jobs.front());
    }
}
