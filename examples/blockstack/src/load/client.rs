//! A client of the load: a connection, and the expected contents of its blocks.

use super::parameters::Load;
use super::pattern::{self, Contents, hash};
use super::report::Report;
use crate::address::Address;
use crate::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

/// Time limit of one wait for answers. A client fails if no input arrives in this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to the NBD server, after the handshake.
pub(super) struct Connection {
    link: Link,
    /// Size of the volume, in bytes.
    pub(super) size: u64,
}

/// Versions that a block may contain, for the check of reads.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Version of the last acknowledged write; 0 before the first write.
    written: u32,
    /// Version of the last attempted write. After failures, the block may have any version from
    /// `written` to `attempted`.
    attempted: u32,
    is_busy: bool,
}

/// A request in flight. `begin` is the time when the request was sent or, at a fixed rate, was due.
#[derive(Clone, Copy, Debug)]
struct Request {
    command: u16,
    block: usize,
    version: u32,
    begin: Instant,
}

pub(super) struct Client<'l> {
    load: &'l Load,
    connection: Connection,
    first_block: u64,
    blocks: Vec<Block>,
    /// Requests in flight, by cookie.
    requests: Vec<Option<Request>>,
    free: Vec<usize>,
    random: u64,
    writes_since_flush: u32,
    report: Report,
}

impl Connection {
    /// Connects and selects a volume with `NBD_OPT_EXPORT_NAME`, the oldest option of the protocol.
    pub(super) fn open(address: &Address, volume: &str) -> Result<Connection, String> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let stream = address.connect().map_err(failed)?;
        let mut stream = File::from(stream.into_fd());
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).map_err(failed)?;
        if greeting[..16] != *b"NBDMAGICIHAVEOPT" {
            return Err(format!("{address}: no NBD server"));
        }
        let mut bytes = vec![0, 0, 0, 3];
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01");
        bytes.extend_from_slice(&(volume.len() as u32).to_be_bytes());
        bytes.extend_from_slice(volume.as_bytes());
        stream.write_all(&bytes).map_err(failed)?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).map_err(|_| format!("{address}: no volume `{volume}`"))?;
        let (size, _) = answer.split_first_chunk().ok_or("no size")?;
        rustix::io::ioctl_fionbio(&stream, true).map_err(|error| error.to_string())?;
        let link = Link::new(stream.into());
        Ok(Connection { link, size: u64::from_be_bytes(*size) })
    }

    fn request(&mut self, command: u16, cookie: usize, offset: u64, length: u32) {
        let output = &mut self.link.output;
        output.extend_from_slice(&0x2560_9513u32.to_be_bytes());
        output.extend_from_slice(&u32::from(command).to_be_bytes());
        output.extend_from_slice(&(cookie as u64).to_be_bytes());
        output.extend_from_slice(&offset.to_be_bytes());
        output.extend_from_slice(&length.to_be_bytes());
    }

    /// Sends pending requests, waits for input or room for unsent requests, and reads the input.
    /// Returns false after `timeout`.
    fn wait(&mut self, timeout: Duration) -> Result<bool, String> {
        let failed = |error: std::io::Error| format!("the connection has ended: {error}");
        self.link.send().map_err(failed)?;
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.link.backlog() > 0);
        let mut polled = [PollFd::new(&self.link, flags)];
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let count = poll(&mut polled, Some(&timeout)).map_err(|error| failed(error.into()))?;
        if count > 0 {
            self.link.receive().map_err(failed)?;
        }
        Ok(count > 0)
    }
}

impl<'l> Client<'l> {
    /// Creates a client for `blocks` blocks from `first_block` on.
    pub(super) fn new(
        load: &'l Load,
        connection: Connection,
        first_block: u64,
        blocks: u64,
        seed: u64,
    ) -> Client<'l> {
        Client {
            load,
            connection,
            first_block,
            blocks: vec![Block::default(); blocks as usize],
            requests: vec![None; load.depth],
            free: (0..load.depth).collect(),
            random: hash(seed),
            writes_since_flush: 0,
            report: Report::default(),
        }
    }

    pub(super) fn run(mut self, begin: Instant) -> Result<Report, String> {
        let end = begin + self.load.duration;
        let rate = self.load.rate.map(|rate| rate / self.load.clients as f64);
        let step = rate.map(|rate| Duration::from_secs_f64(1.0 / rate.max(0.001)));
        let mut due = begin;
        loop {
            let now = Instant::now();
            while now < end && due <= now && !self.free.is_empty() {
                // At a fixed rate, latency counts from the time when the request was due, even if
                // it was sent later.
                self.begin(if step.is_some() { due } else { now });
                due += step.unwrap_or_default();
            }
            if now >= end && self.free.len() == self.load.depth {
                break;
            }
            let wait = match step {
                Some(_) if now < end && !self.free.is_empty() => due.saturating_duration_since(now),
                _ => ANSWER_TIMEOUT,
            };
            self.receive_answers(wait, true)?;
        }
        self.report.duration = begin.elapsed();
        self.verify()?;
        Ok(self.report)
    }

    /// Flushes, reads again all blocks with an attempted write, and disconnects.
    fn verify(&mut self) -> Result<(), String> {
        self.flush(Instant::now());
        self.finish()?;
        for block in 0..self.blocks.len() {
            if self.blocks[block].attempted == 0 {
                continue;
            }
            while self.free.is_empty() {
                self.receive_answers(ANSWER_TIMEOUT, false)?;
            }
            self.send(READ, block, 0, Instant::now());
            self.report.verified += 1;
        }
        self.finish()?;
        self.connection.request(DISCONNECT, 0, 0, 0);
        let _ = self.connection.link.send();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        while self.free.len() < self.load.depth {
            self.receive_answers(ANSWER_TIMEOUT, false)?;
        }
        Ok(())
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash(self.random) % below
    }

    /// Sends a random read or write of a block that has no request in flight, or a flush if one is
    /// due.
    fn begin(&mut self, time: Instant) {
        let flush_every = self.load.flush_every;
        if flush_every > 0 && self.writes_since_flush >= flush_every {
            return self.flush(time);
        }
        let mut block = self.draw(self.blocks.len() as u64) as usize;
        // The search ends, as there are more blocks than requests in flight.
        while self.blocks[block].is_busy {
            block = (block + 1) % self.blocks.len();
        }
        if self.draw(100) < u64::from(self.load.mix) {
            return self.send(READ, block, 0, time);
        }
        self.writes_since_flush += 1;
        self.blocks[block].attempted += 1;
        self.send(WRITE, block, self.blocks[block].attempted, time);
    }

    fn flush(&mut self, time: Instant) {
        self.writes_since_flush = 0;
        let Some(cookie) = self.free.pop() else { return };
        self.requests[cookie] = Some(Request { command: FLUSH, block: 0, version: 0, begin: time });
        self.connection.request(FLUSH, cookie, 0, 0);
    }

    fn send(&mut self, command: u16, block: usize, version: u32, begin: Instant) {
        let Some(cookie) = self.free.pop() else { return };
        self.blocks[block].is_busy = true;
        self.requests[cookie] = Some(Request { command, block, version, begin });
        let number = self.first_block + block as u64;
        let size = self.load.block;
        self.connection.request(command, cookie, number * size, size as u32);
        if command == WRITE {
            pattern::write(number, version, size as usize, &mut self.connection.link.output);
        }
    }

    /// Waits for answers and processes all that have arrived.
    fn receive_answers(&mut self, wait: Duration, is_timed: bool) -> Result<(), String> {
        if !self.connection.wait(wait)? && wait >= ANSWER_TIMEOUT {
            return Err(format!("no answer for {} s", ANSWER_TIMEOUT.as_secs()));
        }
        let now = Instant::now();
        loop {
            let unread = self.connection.link.unread();
            let Some((head, payload)) = unread.split_first_chunk::<16>() else { return Ok(()) };
            let word = |at: usize| {
                u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (magic, error, cookie) = (word(0), word(4), word(12) as usize);
            let request = self.requests.get(cookie).copied().flatten();
            let Some(request) = request.filter(|_| magic == 0x6744_6698 && word(8) == 0) else {
                return Err("an answer to nothing that was asked".to_owned());
            };
            let has_payload = request.command == READ && error == 0;
            let size = if has_payload { self.load.block as usize } else { 0 };
            let Some(payload) = payload.get(..size) else {
                self.connection.link.reserve(16 + size);
                return Ok(());
            };
            let number = self.first_block + request.block as u64;
            let found = has_payload.then(|| pattern::read(number, payload));
            self.connection.link.consume(16 + size);
            self.requests[cookie] = None;
            self.free.push(cookie);
            if request.command != FLUSH {
                self.blocks[request.block].is_busy = false;
            }
            if error == 0 {
                self.check_answer(&request, found, is_timed.then_some(now));
            } else {
                self.fail(&request, error, is_timed)?;
            }
        }
    }

    /// Processes a successful answer: checks the contents of a read, updates the version of a
    /// written block, or counts a flush. Records the latency of a read or write if `now` is given.
    fn check_answer(&mut self, request: &Request, found: Option<Contents>, now: Option<Instant>) {
        let latency = now.map(|now| {
            u32::try_from(now.saturating_duration_since(request.begin).as_nanos())
                .unwrap_or(u32::MAX)
        });
        let block = &mut self.blocks[request.block];
        match request.command {
            READ => {
                self.report.reads.extend(latency);
                // Contents from before this load are unknown.
                let is_right = block.written == 0
                    || matches!(found, Some(Contents::Version(version))
                        if (block.written..=block.attempted).contains(&version));
                if !is_right {
                    self.report.mismatches += 1;
                    let block = *block;
                    let number = self.first_block + request.block as u64;
                    self.report.example.get_or_insert_with(|| {
                        format!("block {number}: {found:?}, and not {block:?}")
                    });
                }
            }
            WRITE => {
                self.report.writes.extend(latency);
                block.written = request.version;
            }
            _ => self.report.flushes += 1,
        }
    }

    fn fail(&mut self, request: &Request, error: u32, is_timed: bool) -> Result<(), String> {
        self.report.errors += 1;
        let what = ["read", "write", "", "flush"][usize::from(request.command)];
        if !self.load.allow_errors || !is_timed && request.command == READ {
            return Err(format!("a {what} failed with error {error}"));
        }
        // A retry without delay would only cause more errors.
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }
}
