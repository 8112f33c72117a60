//! Frames as `PROTOCOL.md` describes them: how they are written, read and checked.

use std::io::{self, Read};

use super::claim::Claim;
use super::layout::{DType, Field, Layout, MAX_FIELDS, MAX_RANK};

pub(crate) const MAGIC: [u8; 4] = *b"MRCE";
pub(crate) const VERSION: u16 = 1;
pub(crate) const HEADER: usize = 32;
pub(crate) const MAX_BODY: usize = 1 << 16;
/// Bit of the welcome's flags: payloads are to have a checksum.
const WANTS_CHECKSUM: u32 = 1;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Claim = 3,
    Sample = 4,
    Bad = 5,
    Beat = 6,
    Stop = 7,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Hello, Kind::Welcome, Kind::Claim, Kind::Sample, Kind::Bad, Kind::Beat, Kind::Stop];
}

/// A rule that a frame breaks; reads on after "it sent".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame with the magic {found:02x?}, wanted {MAGIC:02x?}")]
    Magic { found: [u8; 4] },
    #[error("a frame of version {found}, wanted {VERSION}")]
    Version { found: u16 },
    #[error("a frame header with a wrong checksum")]
    HeaderChecksum,
    #[error("a frame of {found} bytes: at most {MAX_BODY} are allowed")]
    Length { found: u32 },
    #[error("a frame body with a wrong checksum")]
    BodyChecksum,
    #[error("a frame of the unknown kind {found}")]
    Kind { found: u16 },
    #[error("a {kind:?} frame, which it must not send now")]
    Unexpected { kind: Kind },
    #[error("a {kind:?} frame with a body of {found} bytes, too short for what it says")]
    Short { kind: Kind, found: usize },
    #[error("an answer to claim {found}; the oldest that waits for one is {}", Oldest(*oldest))]
    Sequence { found: u64, oldest: Option<u64> },
    #[error("a sample of {found} payload bytes, wanted {wanted}")]
    PayloadBytes { found: u64, wanted: u64 },
    #[error("a sample of {found} fields, wanted {wanted}")]
    Fields { found: u32, wanted: usize },
    #[error("field {field} with type and shape {found}, wanted {wanted}")]
    Field { field: usize, found: String, wanted: String },
    #[error("a sample whose payload has a wrong checksum")]
    PayloadChecksum,
}

struct Oldest(Option<u64>);

impl std::fmt::Display for Oldest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(sequence) => sequence.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// A frame that obeys the rules for all frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    pub(crate) body: &'a [u8],
}

/// Appends a frame. The body is cut where it is longer than a frame may be.
pub(crate) fn write(out: &mut Vec<u8>, kind: Kind, sequence: u64, body: &[u8]) {
    let body = &body[..body.len().min(MAX_BODY)];
    let start = out.len();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend((kind as u16).to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32fast::hash(body).to_le_bytes());
    let checksum = crc32fast::hash(&out[start..]);
    out.extend(checksum.to_le_bytes());
    out.extend(body);
}

/// Bytes as they come from a link, and the frames in them. Of a fixed size: two of the longest
/// frames.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    /// Where the first frame that was not read begins.
    start: usize,
    /// Where the bytes that came end.
    end: usize,
}

impl FrameBuffer {
    pub(crate) fn new() -> Self {
        FrameBuffer { bytes: vec![0; 2 * (HEADER + MAX_BODY)], start: 0, end: 0 }
    }

    /// Reads once; 0 at the end.
    pub(crate) fn fill(&mut self, mut from: impl Read) -> io::Result<usize> {
        if self.bytes.len() - self.end < HEADER + MAX_BODY {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let read = from.read(&mut self.bytes[self.end..])?;
        self.end += read;
        Ok(read)
    }

    /// Whether every byte belongs to a frame that was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether a whole frame is there.
    pub(crate) fn has_frame(&self) -> bool {
        let bytes = &self.bytes[self.start..self.end];
        bytes.len() >= HEADER && bytes.len() - HEADER >= u32_at(bytes, 16) as usize
    }

    /// The next frame, once all of it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let bytes = &self.bytes[self.start..self.end];
        let Some(header) = bytes.get(..HEADER) else { return Ok(None) };
        let (kind, sequence, length) = check(header)?;
        let Some(body) = bytes.get(HEADER..HEADER + length) else { return Ok(None) };
        if crc32fast::hash(body) != u32_at(header, 24) {
            return Err(FrameError::BodyChecksum);
        }
        self.start += HEADER + length;
        Ok(Some(Frame { kind, sequence, body }))
    }
}

/// Kind, sequence and length of a header.
fn check(header: &[u8]) -> Result<(Kind, u64, usize), FrameError> {
    let found = [header[0], header[1], header[2], header[3]];
    if found != MAGIC {
        return Err(FrameError::Magic { found });
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return Err(FrameError::Version { found: version });
    }
    if crc32fast::hash(&header[..28]) != u32_at(header, 28) {
        return Err(FrameError::HeaderChecksum);
    }
    let length = u32_at(header, 16);
    if length as usize > MAX_BODY {
        return Err(FrameError::Length { found: length });
    }
    let number = u16::from_le_bytes([header[6], header[7]]);
    let kind = Kind::ALL.into_iter().find(|&kind| kind as u16 == number);
    let kind = kind.ok_or(FrameError::Kind { found: number })?;
    Ok((kind, u64_at(header, 8), length as usize))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A name in at most 256 bytes: names are for people, and one that is longer is cut.
pub(crate) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Appends the description of a field.
fn write_field(out: &mut Vec<u8>, field: &Field, name: &str) {
    // Checked by the layout: at most `MAX_RANK` axes.
    out.extend([field.dtype as u8, field.shape.len() as u8]);
    out.extend((name.len() as u16).to_le_bytes());
    field.shape.iter().for_each(|axis| out.extend(axis.to_le_bytes()));
    out.extend(name.as_bytes());
}

/// Reads the description of a field, and goes on behind it.
fn read_field(bytes: &mut &[u8]) -> Option<Field> {
    let (head, rest) = bytes.split_at_checked(4)?;
    let dtype = DType::ALL.into_iter().find(|&dtype| dtype as u8 == head[0])?;
    let rank = usize::from(head[1]);
    let name = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if rank > MAX_RANK {
        return None;
    }
    let (axes, rest) = rest.split_at_checked(4 * rank)?;
    let (name, rest) = rest.split_at_checked(name)?;
    *bytes = rest;
    let shape: Vec<u32> = (0..rank).map(|axis| u32_at(axes, 4 * axis)).collect();
    Some(Field::new(std::str::from_utf8(name).ok()?, dtype, shape))
}

/// What a producer has to know of the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) layout: Layout,
    pub(crate) slots: u32,
    pub(crate) checksum: bool,
}

impl Welcome {
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend((self.layout.slot_bytes() as u64).to_le_bytes());
        body.extend(self.slots.to_le_bytes());
        body.extend(if self.checksum { WANTS_CHECKSUM } else { 0 }.to_le_bytes());
        body.extend((self.layout.fields().len() as u32).to_le_bytes());
        for field in self.layout.fields() {
            write_field(&mut body, field, &short(&field.name));
        }
        body
    }

    /// None when the body is not a welcome's.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (head, mut rest) = body.split_at_checked(20)?;
        let count = u32_at(head, 16) as usize;
        if count > MAX_FIELDS {
            return None;
        }
        let fields = (0..count).map(|_| read_field(&mut rest)).collect::<Option<Vec<_>>>()?;
        let layout = Layout::new(fields).ok()?;
        if layout.slot_bytes() as u64 != u64_at(head, 0) {
            return None;
        }
        let checksum = u32_at(head, 12) & WANTS_CHECKSUM != 0;
        Some(Welcome { layout, slots: u32_at(head, 8), checksum })
    }
}

/// The body of a claim on a slot.
pub(crate) fn claim_body(claim: &Claim, slot: u32) -> [u8; 24] {
    let mut body = [0; 24];
    body[0..4].copy_from_slice(&claim.epoch.to_le_bytes());
    body[4..8].copy_from_slice(&claim.index.to_le_bytes());
    body[8..16].copy_from_slice(&claim.seed.to_le_bytes());
    body[16..20].copy_from_slice(&slot.to_le_bytes());
    body
}

/// A claim and its slot.
pub(crate) fn parse_claim(body: &[u8]) -> Option<(Claim, u32)> {
    if body.len() < 24 {
        return None;
    }
    let claim = Claim { epoch: u32_at(body, 0), index: u32_at(body, 4), seed: u64_at(body, 8) };
    Some((claim, u32_at(body, 16)))
}

/// The body of a sample of this layout.
pub(crate) fn sample_body(layout: &Layout, checksum: u32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend((layout.sample_bytes() as u64).to_le_bytes());
    body.extend(checksum.to_le_bytes());
    body.extend((layout.fields().len() as u32).to_le_bytes());
    layout.fields().iter().for_each(|field| write_field(&mut body, field, ""));
    body
}

/// Checks what a producer says of its sample, and returns the payload's checksum.
pub(crate) fn check_sample(body: &[u8], layout: &Layout) -> Result<u32, FrameError> {
    let short = || FrameError::Short { kind: Kind::Sample, found: body.len() };
    let (head, mut rest) = body.split_at_checked(16).ok_or_else(short)?;
    let wanted = layout.sample_bytes() as u64;
    if u64_at(head, 0) != wanted {
        return Err(FrameError::PayloadBytes { found: u64_at(head, 0), wanted });
    }
    let fields = layout.fields();
    if u32_at(head, 12) as usize != fields.len() {
        return Err(FrameError::Fields { found: u32_at(head, 12), wanted: fields.len() });
    }
    for (field, wanted) in fields.iter().enumerate() {
        let found = read_field(&mut rest);
        if !found.as_ref().is_some_and(|it| it.dtype == wanted.dtype && it.shape == wanted.shape) {
            let found = found.map_or_else(|| "that cannot be read".to_owned(), |it| it.to_string());
            return Err(FrameError::Field { field, found, wanted: wanted.to_string() });
        }
    }
    Ok(u32_at(head, 8))
}

/// The checksum of a payload, field after field.
pub(crate) fn payload_checksum(layout: &Layout, slot: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for field in 0..layout.fields().len() {
        hasher.update(&slot[layout.range(field)]);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout() -> Layout {
        let x = Field::new("image", DType::F32, [2, 3]);
        Layout::new([x, Field::new("label", DType::U8, [])]).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Option<(Kind, u64, Vec<u8>)>, FrameError> {
        let mut buffer = FrameBuffer::new();
        buffer.fill(bytes).unwrap();
        let frame = buffer.next()?;
        Ok(frame.map(|frame| (frame.kind, frame.sequence, frame.body.to_vec())))
    }

    fn claim() -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Claim, 7, &claim_body(&Claim { epoch: 1, index: 2, seed: 3 }, 4));
        bytes
    }

    /// Written by hand from the tables of the protocol; checksums by zlib.
    #[test]
    fn golden() {
        let beat: Vec<u8> = [
            &b"MRCE\x01\0\x06\0"[..],
            &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &BEAT_CHECKSUM.to_le_bytes(),
        ]
        .concat();
        let mut written = Vec::new();
        write(&mut written, Kind::Beat, 9, b"");
        assert_eq!(written, beat);
        assert_eq!(read(&beat).unwrap(), Some((Kind::Beat, 9, vec![])));
    }

    /// `zlib.crc32(b"MRCE\x01\0\x06\0\x09" + bytes(19))`
    const BEAT_CHECKSUM: u32 = 0x1ef3_fe6e;

    #[test]
    fn bodies_come_back() {
        let welcome = Welcome { layout: layout(), slots: 5, checksum: true };
        assert_eq!(Welcome::parse(&welcome.body()), Some(welcome));
        let it = Claim { epoch: 1, index: u32::MAX, seed: u64::MAX - 1 };
        assert_eq!(parse_claim(&claim_body(&it, 4)), Some((it, 4)));
        assert_eq!(check_sample(&sample_body(&layout(), 77), &layout()), Ok(77));
    }

    #[test]
    fn half_a_frame_is_none_yet() {
        let bytes = claim();
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(None), "{end} bytes");
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for bit in 0..claim().len() * 8 {
            let mut bytes = claim();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Longer frames are not there yet.
            assert!(read(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_length_is_refused_before_anything_is_taken_for_it() {
        let mut bytes = claim();
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(read(&bytes), Err(FrameError::Length { found: u32::MAX }));
    }

    #[test]
    fn samples_of_another_layout_are_told() {
        let error = |fields: &[Field]| {
            let body = sample_body(&Layout::new(fields.to_vec()).unwrap(), 0);
            check_sample(&body, &layout()).unwrap_err().to_string()
        };
        let label = || Field::new("", DType::U8, []);
        assert_eq!(error(&[label()]), "a sample of 1 payload bytes, wanted 25");
        let split = [Field::new("", DType::U8, [24]), label()];
        assert_eq!(error(&split), "field 0 with type and shape u8[24], wanted f32[2, 3]");
        let turned = [Field::new("", DType::F32, [3, 2]), label()];
        assert_eq!(error(&turned), "field 0 with type and shape f32[3, 2], wanted f32[2, 3]");
        assert_eq!(error(&[Field::new("", DType::U8, [25])]), "a sample of 1 fields, wanted 2");
    }

    proptest! {
        /// Whatever comes is an error, nothing yet, or a frame; never a panic.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = Welcome::parse(&bytes);
            let _ = parse_claim(&bytes);
            let _ = check_sample(&bytes, &layout());
        }
    }
}
