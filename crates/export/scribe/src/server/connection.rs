//! A connection of a server: reads frames, passes them to the service in order, and writes the
//! replies.

use super::state::{Peer, ServerState};
use crate::client::write_all;
use crate::close_reason::CloseReason;
use crate::frame::{Frames, HEADER_BYTES};
use crate::service::{ConnectionAction, Handler};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Part of each receive buffer that does not count towards the memory limit, in bytes.
const OWN_BYTES: usize = 64 << 10;

/// Initial size of the receive buffer, in bytes.
const FIRST_BYTES: usize = 8 << 10;

/// Size in bytes at which buffered replies are written, even if more requests are pending.
const REPLIES_BYTES: usize = 16 << 10;

/// Capacity in bytes to which a larger reply buffer is shrunk after each write.
const REPLIES_BYTES_KEPT: usize = 64 << 10;

pub(super) struct Connection<'s, H: Handler> {
    state: &'s ServerState<H>,
    peer: &'s Peer,
    stream: TcpStream,
    frames: Frames,
    memory: Vec<u8>,
    /// Start of the received bytes that have not been answered yet; `end` is their end.
    start: usize,
    end: usize,
    /// Start of the current frame's time limit. Set after a read if the buffer is not empty;
    /// cleared when a frame has been answered or refused.
    frame_start: Option<Instant>,
    quiet_since: Instant,
    replies: Vec<u8>,
}

type Result<T> = std::result::Result<T, CloseReason>;

impl<'s, H: Handler> Connection<'s, H> {
    pub(super) fn new(state: &'s ServerState<H>, stream: TcpStream, peer: &'s Peer) -> Self {
        Connection {
            state,
            peer,
            stream,
            frames: Frames { frame_bytes_max: state.options.limits.frame_bytes_max },
            memory: vec![0; FIRST_BYTES],
            start: 0,
            end: 0,
            frame_start: None,
            quiet_since: Instant::now(),
            replies: Vec::new(),
        }
    }

    /// Serves the connection until the peer or the server closes it. An error is the server's
    /// reason for closing.
    pub(super) fn run(mut self) -> Result<()> {
        let options = &self.state.options;
        let tick = options.idle_max.min(options.frame_time_max) / 2;
        let tick = tick.clamp(Duration::from_millis(1), Duration::from_secs(5));
        self.stream.set_read_timeout(Some(tick)).map_err(CloseReason::Io)?;
        loop {
            let answered = self.answer_all();
            let written = self.write_replies();
            answered?;
            written?;
            // Without this check, a peer that keeps sending would be read for ever.
            if self.state.is_stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
            match self.make_read_space()? {
                ReadSpace::Ready => {
                    if !self.read()? {
                        return Ok(());
                    }
                }
                ReadSpace::None { size } => self.refuse(size)?,
            }
        }
    }

    /// Answers all complete frames in the receive buffer.
    fn answer_all(&mut self) -> Result<()> {
        loop {
            let received = self.memory.get(self.start..self.end).unwrap_or_default();
            let Some((body, size)) = self.frames.next(received).map_err(CloseReason::Misfit)?
            else {
                return Ok(());
            };
            self.peer.quiet_since_ms.store(u64::MAX, Ordering::Relaxed);
            let next = self.state.service.answer(body, self.peer.address, &mut self.replies);
            self.finish_frame(size);
            match next {
                ConnectionAction::Continue if self.replies.len() >= REPLIES_BYTES => {
                    self.write_replies()?
                }
                ConnectionAction::Continue => {}
                ConnectionAction::Close(fault) => return Err(CloseReason::Fault(fault)),
            }
        }
    }

    fn finish_frame(&mut self, size: usize) {
        self.start += size;
        self.frame_start = None;
        self.quiet_since = Instant::now();
        self.peer.quiet_since_ms.store(self.state.now_ms(), Ordering::Relaxed);
        self.state.counts.frames.fetch_add(1, Ordering::Relaxed);
    }

    fn write_replies(&mut self) -> Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + self.state.options.frame_time_max;
        let written = write_all(&mut self.stream, &self.replies, deadline);
        self.replies.clear();
        self.replies.shrink_to(REPLIES_BYTES_KEPT);
        written.map_err(|error| match is_timeout(&error) {
            true => CloseReason::Slow,
            false => CloseReason::Io(error),
        })
    }

    /// Makes space in the receive buffer for the next read, if necessary by moving the received
    /// bytes to the start or by enlarging the buffer. Returns [`ReadSpace::None`] if the memory
    /// limit forbids that. Releases the spare memory of an empty buffer if memory is scarce.
    fn make_read_space(&mut self) -> Result<ReadSpace> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.is_scarce() {
                self.shrink();
            }
        }
        if self.end < self.memory.len() {
            return Ok(ReadSpace::Ready);
        }
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            return Ok(ReadSpace::Ready);
        }
        // The buffer at most doubles at a time, even if the frame's length is larger.
        let size = self.frames.size(&self.memory).map_err(CloseReason::Misfit)?;
        let size = size.unwrap_or(0).max(FIRST_BYTES);
        let wanted = (self.memory.len() * 2).min(size.max(self.memory.len() + 1));
        let extra = counted_bytes(wanted) - counted_bytes(self.memory.len());
        if !self.reserve(extra) {
            return Ok(ReadSpace::None { size });
        }
        self.memory.resize(wanted, 0);
        Ok(ReadSpace::Ready)
    }

    fn reserve(&self, extra: usize) -> bool {
        let bytes_max = self.state.options.memory_bytes_max;
        let taken = &self.state.memory_bytes;
        extra == 0
            || taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    taken.checked_add(extra).filter(|taken| *taken <= bytes_max)
                })
                .is_ok()
    }

    /// Returns true if other connections may need this connection's spare memory.
    fn is_scarce(&self) -> bool {
        let taken = self.state.memory_bytes.load(Ordering::Relaxed);
        taken > self.state.options.memory_bytes_max / 2
    }

    /// Releases the memory of an empty receive buffer beyond the initial size, if the buffer is
    /// larger than 64 KiB.
    fn shrink(&mut self) {
        if self.start == self.end && self.memory.len() > OWN_BYTES {
            self.release();
            self.memory = vec![0; FIRST_BYTES];
            (self.start, self.end) = (0, 0);
        }
    }

    fn release(&self) {
        let extra = counted_bytes(self.memory.len());
        self.state.memory_bytes.fetch_sub(extra, Ordering::Relaxed);
    }

    /// Waits for bytes until the read timeout, and checks the time limits. Returns false if the
    /// peer has closed or reset the connection.
    fn read(&mut self) -> Result<bool> {
        let space = self.memory.get_mut(self.end..).unwrap_or_default();
        match self.stream.read(space) {
            Ok(0) => return Ok(false),
            Ok(size) => self.end += size,
            Err(error) if is_timeout(&error) => self.shrink(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(CloseReason::Io(error)),
        }
        self.check_time().map(|()| true)
    }

    fn check_time(&mut self) -> Result<()> {
        let options = &self.state.options;
        if self.start < self.end {
            let frame_start = *self.frame_start.get_or_insert_with(Instant::now);
            if frame_start.elapsed() >= options.frame_time_max {
                return Err(CloseReason::Slow);
            }
        } else if self.quiet_since.elapsed() >= options.idle_max {
            return Err(CloseReason::Idle);
        }
        Ok(())
    }

    /// Refuses the `Log` call at the start of the buffer and discards its remaining bytes. Returns
    /// [`CloseReason::NoMemory`] for any other frame.
    fn refuse(&mut self, size: usize) -> Result<()> {
        let received = self.end - self.start;
        let beginning = self.memory.get(self.start + HEADER_BYTES..self.end).unwrap_or_default();
        if !self.state.service.refuse(beginning, &mut self.replies) {
            return Err(CloseReason::NoMemory);
        }
        self.state.counts.refused_memory.fetch_add(1, Ordering::Relaxed);
        let mut left = size.saturating_sub(received);
        while left > 0 {
            (self.start, self.end) = (0, self.memory.len().min(1));
            let wanted = left.min(self.memory.len());
            let space = self.memory.get_mut(..wanted).unwrap_or_default();
            match self.stream.read(space) {
                Ok(0) => return Err(CloseReason::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(size) => left = left.saturating_sub(size),
                Err(error) if is_timeout(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CloseReason::Io(error)),
            }
            self.check_time()?;
        }
        (self.start, self.end) = (0, 0);
        self.finish_frame(0);
        Ok(())
    }
}

impl<H: Handler> Drop for Connection<'_, H> {
    fn drop(&mut self) {
        self.release();
    }
}

enum ReadSpace {
    Ready,
    /// The server has no memory for a frame of `size` bytes.
    None {
        size: usize,
    },
}

fn counted_bytes(bytes: usize) -> usize {
    bytes.saturating_sub(OWN_BYTES)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
