//! One connection of a server: reads frames, has them answered in their order, and writes the replies.

use super::{Closed, Peer, Shared};
use crate::client::write_all;
use crate::frame::{Frames, HEADER_BYTES};
use crate::service::{Handler, Next};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What each connection may have without asking.
const OWN_BYTES: usize = 64 << 10;

/// What it begins with.
const FIRST_BYTES: usize = 8 << 10;

/// Replies wait for each other up to this size, as long as there are requests to answer.
const REPLIES_BYTES: usize = 16 << 10;

/// Memory for a reply that is kept for the next one.
const REPLIES_BYTES_KEPT: usize = 64 << 10;

pub(super) struct Connection<'s, H: Handler> {
    shared: &'s Shared<H>,
    peer: &'s Peer,
    stream: TcpStream,
    frames: Frames,
    memory: Vec<u8>,
    /// What of the memory has come and is not answered.
    start: usize,
    end: usize,
    /// When the frame began that is not whole.
    began: Option<Instant>,
    quiet_since: Instant,
    replies: Vec<u8>,
}

type Result<T> = std::result::Result<T, Closed>;

impl<'s, H: Handler> Connection<'s, H> {
    pub(super) fn new(shared: &'s Shared<H>, stream: TcpStream, peer: &'s Peer) -> Self {
        Connection {
            shared,
            peer,
            stream,
            frames: Frames { frame_bytes_max: shared.options.limits.frame_bytes_max },
            memory: vec![0; FIRST_BYTES],
            start: 0,
            end: 0,
            began: None,
            quiet_since: Instant::now(),
            replies: Vec::new(),
        }
    }

    /// Until the other side closes the connection, or there is a reason to do it here.
    pub(super) fn run(mut self) -> Result<()> {
        let options = &self.shared.options;
        let tick = options.idle_max.min(options.frame_time_max) / 2;
        let tick = tick.clamp(Duration::from_millis(1), Duration::from_secs(5));
        self.stream.set_read_timeout(Some(tick)).map_err(Closed::Io)?;
        loop {
            let answered = self.answer_all();
            let written = self.write_replies();
            answered?;
            written?;
            // Who goes on sending would otherwise be read for ever.
            if self.shared.is_stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
            match self.room()? {
                Room::Here => {
                    if !self.read()? {
                        return Ok(());
                    }
                }
                Room::None { size } => self.refuse(size)?,
            }
        }
    }

    /// Answers all frames that are whole.
    fn answer_all(&mut self) -> Result<()> {
        loop {
            let come = self.memory.get(self.start..self.end).unwrap_or_default();
            let Some((body, size)) = self.frames.next(come).map_err(Closed::Misfit)? else {
                return Ok(());
            };
            self.peer.quiet_since_ms.store(u64::MAX, Ordering::Relaxed);
            let next = self.shared.service.answer(body, self.peer.address, &mut self.replies);
            self.answered(size);
            match next {
                Next::Continue if self.replies.len() >= REPLIES_BYTES => self.write_replies()?,
                Next::Continue => {}
                Next::Close(fault) => return Err(Closed::Fault(fault)),
            }
        }
    }

    fn answered(&mut self, size: usize) {
        self.start += size;
        self.began = None;
        self.quiet_since = Instant::now();
        self.peer.quiet_since_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        self.shared.counts.frames.fetch_add(1, Ordering::Relaxed);
    }

    fn write_replies(&mut self) -> Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + self.shared.options.frame_time_max;
        let written = write_all(&mut self.stream, &self.replies, deadline);
        self.replies.clear();
        self.replies.shrink_to(REPLIES_BYTES_KEPT);
        written.map_err(|error| match is_timeout(&error) {
            true => Closed::Slow,
            false => Closed::Io(error),
        })
    }

    /// Makes room to read into.
    fn room(&mut self) -> Result<Room> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.is_scarce() {
                self.shrink();
            }
        }
        if self.end < self.memory.len() {
            return Ok(Room::Here);
        }
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            return Ok(Room::Here);
        }
        // No more than what has come once more is reserved, whatever the length says.
        let size = self.frames.size(&self.memory).map_err(Closed::Misfit)?;
        let size = size.unwrap_or(0).max(FIRST_BYTES);
        let wanted = (self.memory.len() * 2).min(size.max(self.memory.len() + 1));
        let extra = beyond_own(wanted) - beyond_own(self.memory.len());
        if !self.reserve(extra) {
            return Ok(Room::None { size });
        }
        self.memory.resize(wanted, 0);
        Ok(Room::Here)
    }

    fn reserve(&self, extra: usize) -> bool {
        let bytes_max = self.shared.options.memory_bytes_max;
        let taken = &self.shared.memory_bytes;
        extra == 0
            || taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    taken.checked_add(extra).filter(|taken| *taken <= bytes_max)
                })
                .is_ok()
    }

    /// Whether others may need what this connection keeps for its next frame.
    fn is_scarce(&self) -> bool {
        let taken = self.shared.memory_bytes.load(Ordering::Relaxed);
        taken > self.shared.options.memory_bytes_max / 2
    }

    /// Gives back what large frames have taken.
    fn shrink(&mut self) {
        if self.start == self.end && self.memory.len() > OWN_BYTES {
            self.release();
            self.memory = vec![0; FIRST_BYTES];
            (self.start, self.end) = (0, 0);
        }
    }

    fn release(&self) {
        let extra = beyond_own(self.memory.len());
        self.shared.memory_bytes.fetch_sub(extra, Ordering::Relaxed);
    }

    /// Reads what there is; false if no more will come.
    fn read(&mut self) -> Result<bool> {
        let place = self.memory.get_mut(self.end..).unwrap_or_default();
        match self.stream.read(place) {
            Ok(0) => return Ok(false),
            Ok(size) => self.end += size,
            Err(error) if is_timeout(&error) => self.shrink(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(Closed::Io(error)),
        }
        self.check_time().map(|()| true)
    }

    fn check_time(&mut self) -> Result<()> {
        let options = &self.shared.options;
        if self.start < self.end {
            let began = *self.began.get_or_insert_with(Instant::now);
            if began.elapsed() >= options.frame_time_max {
                return Err(Closed::Slow);
            }
        } else if self.quiet_since.elapsed() >= options.idle_max {
            return Err(Closed::Idle);
        }
        Ok(())
    }

    /// Passes over a frame that begins where what has come begins, and says so.
    fn refuse(&mut self, size: usize) -> Result<()> {
        let come = self.end - self.start;
        let beginning = self.memory.get(self.start + HEADER_BYTES..self.end).unwrap_or_default();
        if !self.shared.service.refuse(beginning, &mut self.replies) {
            return Err(Closed::NoMemory);
        }
        self.shared.counts.refused_memory.fetch_add(1, Ordering::Relaxed);
        let mut left = size.saturating_sub(come);
        while left > 0 {
            (self.start, self.end) = (0, self.memory.len().min(1));
            let wanted = left.min(self.memory.len());
            let place = self.memory.get_mut(..wanted).unwrap_or_default();
            match self.stream.read(place) {
                Ok(0) => return Err(Closed::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(size) => left = left.saturating_sub(size),
                Err(error) if is_timeout(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Closed::Io(error)),
            }
            self.check_time()?;
        }
        (self.start, self.end) = (0, 0);
        self.answered(0);
        Ok(())
    }
}

impl<H: Handler> Drop for Connection<'_, H> {
    fn drop(&mut self) {
        self.release();
    }
}

enum Room {
    Here,
    /// Not for the frame, which is so large with its length.
    None {
        size: usize,
    },
}

fn beyond_own(bytes: usize) -> usize {
    bytes.saturating_sub(OWN_BYTES)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
