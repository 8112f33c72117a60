//! Bytes of a file, unpacked on the way where they turn out to be gzip.
//!
//! What a file is, its first bytes decide, never its name. A gzip file may have several
//! members, as `cat a.gz b.gz` makes them; their contents follow each other. Anything else
//! after a member is an error, and so is a wrong checksum, which is checked when the reader
//! goes past the last byte.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use crate::error::{DataError, Position, Reason};

/// The least that memory grows by, and the most that one read asks for, in bytes.
pub(crate) const STEP: usize = 64 * 1024;

/// The first byte of each gzip member; the second is `0x8b`.
const GZIP: u8 = 0x1f;

/// Counts what is taken from a reader, and remembers whether the reader itself failed: a
/// decoder's error and the disk's come through the same type.
struct Counted<R> {
    reader: R,
    taken: u64,
    failed: bool,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let n = available.len().min(buf.len());
        buf[..n].copy_from_slice(&available[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let result = self.reader.fill_buf();
        self.failed |= matches!(&result, Err(e) if e.kind() != ErrorKind::Interrupted);
        result
    }

    fn consume(&mut self, n: usize) {
        self.taken += n as u64;
        self.reader.consume(n);
    }
}

/// The state of reading.
enum Stage<R> {
    /// Not compressed.
    Plain(Counted<R>),
    /// Inside the gzip member that starts at byte `start` of the file.
    Gzip { member: Box<GzDecoder<Counted<R>>>, start: u64 },
    /// After the last gzip member.
    End,
}

/// The unpacked bytes of one file.
pub(crate) struct Input<R> {
    file: PathBuf,
    stage: Stage<R>,
    packed: bool,
}

impl<R: BufRead> Input<R> {
    /// Looks at the first byte to tell what `reader` holds. `file` is for messages.
    pub(crate) fn new(file: &Path, reader: R) -> Result<Self, DataError> {
        let mut reader = Counted { reader, taken: 0, failed: false };
        let first = fill(&mut reader).map_err(|e| read_error(file, e))?.first().copied();
        let packed = first == Some(GZIP);
        let stage = if packed { open_member(reader) } else { Stage::Plain(reader) };
        Ok(Input { file: file.to_owned(), stage, packed })
    }

    /// Fills as much of `buf` as there are bytes, and says how much that was.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) -> Result<usize, DataError> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }

    /// Reads some bytes into `buf`, which is not empty; none means the end.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize, DataError> {
        loop {
            let result = match &mut self.stage {
                Stage::Plain(reader) => reader.read(buf),
                Stage::Gzip { member, .. } => member.read(buf),
                Stage::End => return Ok(0),
            };
            match result {
                Ok(0) if self.packed => self.next_member()?,
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.explain(e)),
            }
        }
    }

    /// Reads all that is left. Memory grows as data arrives.
    pub(crate) fn read_to_end(&mut self) -> Result<Vec<u8>, DataError> {
        let mut data = Vec::new();
        loop {
            let held = data.len();
            if data.capacity() - held < STEP && data.try_reserve(STEP).is_err() {
                let held = held as u64;
                return Err(self.malformed(held, Reason::Exhausted { held }));
            }
            data.resize(held + STEP, 0);
            let read = self.fill(&mut data[held..])?;
            data.truncate(held + read);
            if read < STEP {
                return Ok(data);
            }
        }
    }

    /// An error at byte `offset` of the unpacked data.
    pub(crate) fn malformed(&self, offset: u64, reason: Reason) -> DataError {
        let position =
            if self.packed { Position::Unpacked(offset) } else { Position::File(offset) };
        DataError::Malformed { file: self.file.clone(), position, reason }
    }

    /// Bytes taken from the file so far; meaningless after its end.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        match &self.stage {
            Stage::Plain(reader) => reader.taken,
            Stage::Gzip { member, .. } => member.get_ref().taken,
            Stage::End => u64::MAX,
        }
    }

    /// Goes from the end of one gzip member to the next, or to the end of the file.
    fn next_member(&mut self) -> Result<(), DataError> {
        let Stage::Gzip { member, .. } = std::mem::replace(&mut self.stage, Stage::End) else {
            return Ok(());
        };
        let mut reader = member.into_inner();
        match fill(&mut reader).map_err(|e| read_error(&self.file, e))?.first() {
            None => {}
            Some(&GZIP) => self.stage = open_member(reader),
            Some(_) => return Err(self.damaged(reader.taken, Reason::AfterGzip)),
        }
        Ok(())
    }

    /// Turns an error of the current stage into one that says where and why.
    fn explain(&self, error: io::Error) -> DataError {
        let Stage::Gzip { member, start } = &self.stage else {
            return read_error(&self.file, error);
        };
        let reader = member.get_ref();
        if reader.failed {
            return read_error(&self.file, error);
        }
        if error.kind() == ErrorKind::UnexpectedEof {
            return self.damaged(reader.taken, Reason::ShortGzip);
        }
        // Without a header, what began after the end of one member was no further member.
        if member.header().is_none() && *start > 0 {
            return self.damaged(*start, Reason::AfterGzip);
        }
        self.damaged(reader.taken, Reason::DamagedGzip { detail: error.to_string() })
    }

    /// An error at byte `offset` of the compressed file.
    fn damaged(&self, offset: u64, reason: Reason) -> DataError {
        DataError::Malformed { file: self.file.clone(), position: Position::File(offset), reason }
    }
}

/// Opens a file, and refuses what is no regular one: opening a pipe would wait for its writer, for
/// ever if there is none.
pub(crate) fn open_file(path: &Path) -> Result<File, DataError> {
    let refused = |source| read_error(path, source);
    if !std::fs::metadata(path).map_err(refused)?.is_file() {
        return Err(refused(io::Error::new(ErrorKind::InvalidInput, "not a regular file")));
    }
    File::open(path).map_err(refused)
}

/// Opens a file that may be compressed.
pub(crate) fn open(path: &Path) -> Result<Input<BufReader<File>>, DataError> {
    Input::new(path, BufReader::with_capacity(STEP, open_file(path)?))
}

fn open_member<R: BufRead>(reader: Counted<R>) -> Stage<R> {
    let start = reader.taken;
    Stage::Gzip { member: Box::new(GzDecoder::new(reader)), start }
}

fn read_error(file: &Path, source: io::Error) -> DataError {
    DataError::Read { file: file.to_owned(), source }
}

/// `fill_buf` that goes on after an interrupted system call.
fn fill<R: BufRead>(reader: &mut Counted<R>) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(_) => break,
        }
    }
    // Asking again costs nothing, since the buffer is filled now; returning from inside the
    // loop would keep it borrowed in the other arms.
    reader.fill_buf()
}
