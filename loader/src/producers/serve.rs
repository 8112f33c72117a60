//! The other end of a link: what a program needs to be a producer.

use std::cell::RefCell;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::claim::Claim;
use super::frame::{self, FrameBuffer, FrameError, Kind, Welcome};
use super::layout::Layout;
use super::produce::{Made, Make, produce};
use super::slot::SampleMut;
use super::system::{self, SharedSlot};

/// Answers wait at most so long for others to be sent with them, while there is more to do.
const GATHER: Duration = Duration::from_micros(200);
/// Signs of life are sent at most so often.
const BEAT_EVERY: Duration = Duration::from_millis(5);

/// Why a program cannot be a producer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Nobody is at the other end, or the link failed.
    #[error(
        "standard input is no link to a trainer, or it failed (a producer is started by a trainer): {0}"
    )]
    Link(#[from] io::Error),
    /// The trainer broke a rule.
    #[error("the trainer sent {0}")]
    Trainer(String),
}

/// Makes samples for the trainer that has started this program, until it stops: the whole of a
/// producer's `main`.
///
/// `make` writes every value of every field; the values must depend on the claim alone. Its
/// error should name the file that the sample comes from. A panic is taken as such an error.
/// The layout is the trainer's; [`SampleMut::layout`] tells it.
///
/// ```no_run
/// use millrace_loader::producers::{ServeError, serve};
///
/// fn main() -> Result<(), ServeError> {
///     serve("ones", |claim, sample| {
///         sample.field::<f32>(0).fill(1.0);
///         sample.field::<u8>(1)[0] = (claim.index % 10) as u8;
///         Ok(())
///     })
/// }
/// ```
///
/// # Errors
/// When the program was not started by a trainer, and when the link fails or brings rubbish. The
/// trainer's end is no error.
pub fn serve(
    name: &str,
    make: impl Fn(&Claim, &mut SampleMut<'_>) -> Made + Send + Sync + 'static,
) -> Result<(), ServeError> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // What reads standard input must not get frames, and what this starts must not hold the link.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?).map_err(io::Error::from)?;
    let Some(mut server) = Server::welcomed(socket)? else { return Ok(()) };
    server.answer(Kind::Hello, 0, frame::short(name).as_bytes());
    server.run(&make)
}

struct Server {
    link: RefCell<Sender>,
    received: FrameBuffer,
    layout: Layout,
    checksum: bool,
    slots: Vec<SharedSlot>,
    /// The body of the answer to each claim, but for the checksum of a payload.
    sample: Vec<u8>,
}

struct Sender {
    socket: UnixStream,
    to_send: Vec<u8>,
    sent: Instant,
}

impl Sender {
    fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.to_send)?;
        self.to_send.clear();
        self.sent = Instant::now();
        Ok(())
    }
}

impl Server {
    /// Waits for the welcome; `None` when the trainer has ended before.
    fn welcomed(socket: UnixStream) -> Result<Option<Self>, ServeError> {
        let mut received = FrameBuffer::new();
        let mut memory: Option<OwnedFd> = None;
        let welcome = loop {
            let read = received.fill(WithDescriptor { socket: &socket, found: &mut memory })?;
            if let Some(frame) = received.next().map_err(rubbish)? {
                let welcome =
                    (frame.kind == Kind::Welcome).then(|| Welcome::parse(frame.body)).flatten();
                break welcome.ok_or(ServeError::Trainer("no welcome".to_owned()))?;
            }
            if read == 0 {
                return Ok(None);
            }
        };
        let memory = memory.ok_or(ServeError::Trainer("no descriptor".to_owned()))?;
        let slots = system::map(memory.as_fd(), welcome.slots, welcome.layout.slot_bytes())?;
        let sender = Sender { socket, to_send: Vec::new(), sent: Instant::now() };
        Ok(Some(Server {
            link: RefCell::new(sender),
            received,
            sample: frame::sample_body(&welcome.layout, 0),
            layout: welcome.layout,
            checksum: welcome.checksum,
            slots,
        }))
    }

    fn answer(&mut self, kind: Kind, sequence: u64, body: &[u8]) {
        frame::write(&mut self.link.get_mut().to_send, kind, sequence, body);
    }

    fn run(&mut self, make: &Make) -> Result<(), ServeError> {
        loop {
            let sender = self.link.get_mut();
            let has_more = self.received.has_frame();
            if !sender.to_send.is_empty() && (!has_more || sender.sent.elapsed() >= GATHER) {
                match sender.flush() {
                    // The trainer has ended.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    result => result?,
                }
            }
            if !has_more && self.received.fill(&sender.socket)? == 0 {
                return Ok(());
            }
            let Some(frame) = self.received.next().map_err(rubbish)? else { continue };
            match frame.kind {
                Kind::Claim => {}
                Kind::Stop => return Ok(()),
                kind => return Err(rubbish(FrameError::Unexpected { kind })),
            }
            let (sequence, claim) = (frame.sequence, frame::parse_claim(frame.body));
            let Some((claim, slot)) = claim.filter(|&(_, slot)| self.has_slot(slot)) else {
                return Err(ServeError::Trainer("a claim that makes no sense".to_owned()));
            };
            self.make(make, sequence, &claim, slot as usize);
        }
    }

    fn has_slot(&self, slot: u32) -> bool {
        (slot as usize) < self.slots.len()
    }

    fn make(&mut self, make: &Make, sequence: u64, claim: &Claim, slot: usize) {
        let last = std::cell::Cell::new(Instant::now());
        let beat = || {
            if last.get().elapsed() >= BEAT_EVERY {
                last.set(Instant::now());
                let mut link = self.link.borrow_mut();
                frame::write(&mut link.to_send, Kind::Beat, sequence, &[]);
                // A link that failed is seen at the answer.
                let _ = link.flush();
            }
        };
        let made = produce(make, &self.layout, claim, self.slots[slot].bytes_mut(), &beat);
        match made {
            Ok(()) => {
                if self.checksum {
                    let payload = self.slots[slot].bytes();
                    let checksum = frame::payload_checksum(&self.layout, payload);
                    self.sample[8..12].copy_from_slice(&checksum.to_le_bytes());
                }
                let to_send = &mut self.link.get_mut().to_send;
                frame::write(to_send, Kind::Sample, sequence, &self.sample);
            }
            Err(text) => self.answer(Kind::Bad, sequence, text.as_bytes()),
        }
    }
}

fn rubbish(error: FrameError) -> ServeError {
    ServeError::Trainer(error.to_string())
}

/// Reads bytes and the descriptor that comes with them.
struct WithDescriptor<'a> {
    socket: &'a UnixStream,
    found: &'a mut Option<OwnedFd>,
}

impl io::Read for WithDescriptor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [io::IoSliceMut::new(buffer)];
        let got = recvmsg(self.socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                *self.found = descriptors.last().or(self.found.take());
            }
        }
        Ok(got.bytes)
    }
}
