//! A non-blocking connection with an input and an output buffer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Minimum free buffer space for a read, in bytes.
const CHUNK: usize = 256 << 10;

/// A non-blocking socket with an input buffer and an output buffer.
#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    input: Input,
    /// Output buffer, to which callers append.
    pub(crate) output: Vec<u8>,
    /// Number of bytes of the output that have been sent.
    sent: usize,
}

/// Buffer for received bytes.
#[derive(Debug, Default)]
struct Input {
    /// Memory of the buffer; the bytes that are not consumed yet are at `start..end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Link {
    /// Creates a link for a non-blocking descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Link {
        Link { fd, input: Input::default(), output: Vec::new(), sent: 0 }
    }

    /// Reads available bytes, up to the free space of the input buffer. The end of the stream is an
    /// error.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        let count = match rustix::io::read(&self.fd, self.input.free(CHUNK)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if is_nothing(error) => 0,
            Err(error) => return Err(error.into()),
        };
        self.input.end += count;
        Ok(())
    }

    /// Sends as much output as the socket accepts.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match rustix::io::write(&self.fd, &self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if is_nothing(error) => {
                    // Without this, a peer that always leaves some output unread would make the
                    // buffer grow for ever.
                    if self.sent > self.output.len() / 2 {
                        self.output.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Returns the received bytes that have not been consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input.buffer[self.input.start..self.input.end]
    }

    /// Returns the received bytes that have not been consumed, and the output buffer.
    pub(crate) fn unread_and_output(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.input.buffer[self.input.start..self.input.end], &mut self.output)
    }

    /// Consumes `count` received bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.input.take(count);
    }

    /// Reserves buffer space for a message of `size` bytes.
    pub(crate) fn reserve(&mut self, size: usize) {
        let has = self.input.end - self.input.start;
        self.input.free(size.saturating_sub(has));
    }

    /// Returns the number of unsent bytes.
    pub(crate) fn backlog(&self) -> usize {
        self.output.len() - self.sent
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Input {
    /// Returns free buffer space of at least `more` bytes.
    fn free(&mut self, more: usize) -> &mut [u8] {
        let used = self.end - self.start;
        if self.buffer.len() - self.end < more {
            if self.start < used || self.buffer.len() - used < more {
                self.buffer.resize((used + more).max(2 * used), 0);
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, used);
        }
        &mut self.buffer[self.end..]
    }

    fn take(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }
}

fn is_nothing(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::AGAIN | Errno::INTR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// Received bytes stay in order, whatever sizes are consumed. At times the sender fills the
    /// socket faster than the link reads it.
    #[test]
    fn bytes_stay_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut link = Link::new(near.into());
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at ^ at >> 8) as u8).collect();
        let sent = bytes.clone();
        let sender = std::thread::spawn(move || {
            for piece in sent.chunks(7001) {
                far.write_all(piece).unwrap();
            }
        });
        let mut got = Vec::new();
        let mut step = 1;
        while got.len() < bytes.len() {
            let _ = link.receive();
            while link.unread().len() >= step {
                got.extend_from_slice(&link.unread()[..step]);
                link.consume(step);
                step = (step * 31 + 7) % 90_000 + 1;
            }
            link.reserve(step);
            if sender.is_finished() {
                step = step.min(bytes.len() - got.len()).max(1);
            }
        }
        sender.join().unwrap();
        assert!(got == bytes);
        assert!(link.receive().is_err(), "the other side has gone");
    }

    #[test]
    fn what_does_not_fit_waits() {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let (mut near, mut far) = (Link::new(near.into()), Link::new(far.into()));
        let bytes: Vec<u8> = (0..5_000_000u32).map(|at| (at >> 3) as u8).collect();
        near.output.extend_from_slice(&bytes);
        near.send().unwrap();
        assert!(near.backlog() > 0);
        while far.unread().len() < bytes.len() {
            near.send().unwrap();
            far.receive().unwrap();
        }
        assert!(far.unread() == bytes);
        assert_eq!((near.backlog(), near.output.len()), (0, 0));
    }
}
