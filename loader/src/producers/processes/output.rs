//! What a process writes to its standard output and error: all is read, the end is kept.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// So many bytes of the end are kept.
const KEPT: usize = 4096;
/// So much is read at once, so that a process that writes without end does not keep others
/// waiting.
const AT_ONCE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Output {
    /// `None` once it is closed.
    pipe: Option<PipeReader>,
    kept: Vec<u8>,
}

impl Output {
    /// With the end that the process writes to.
    pub(super) fn new() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((Output { pipe: Some(reader), kept: Vec::new() }, writer))
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads some of what there is. Whether there may be more.
    pub(super) fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut buffer = [0; AT_ONCE];
        match pipe.read(&mut buffer) {
            Ok(read) if read > 0 => {
                self.kept.extend_from_slice(&buffer[read.saturating_sub(KEPT)..read]);
                let excess = self.kept.len().saturating_sub(KEPT);
                self.kept.drain(..excess);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // The end; an error would come again and again.
            _ => {
                self.pipe = None;
                false
            }
        }
    }

    /// Reads what an ended process has left in the pipe: at most what a pipe can hold.
    pub(super) fn read_rest(&mut self) {
        let most = (1 << 20) / AT_ONCE;
        (0..most).all(|_| self.read());
    }

    /// The last line that says something.
    pub(super) fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().take(500).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_end_is_kept_and_the_last_line_told() {
        let (mut output, mut writer) = Output::new().unwrap();
        assert_eq!((output.read(), output.last_line()), (false, None));
        let writing = std::thread::spawn(move || {
            for number in 0..100_000 {
                writeln!(writer, "line {number}").unwrap();
            }
            writer.write_all(b"ValueError: b\xffd\n\n  \n").unwrap();
        });
        while output.fd().is_some() {
            output.read();
        }
        writing.join().unwrap();
        assert!(output.kept.len() == KEPT);
        assert_eq!(output.last_line().unwrap(), "ValueError: b\u{fffd}d");
    }
}
