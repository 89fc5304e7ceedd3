//! The load: clients of an NBD server that read and write at random, and know what they must read. Each has a
//! connection and a part of the volume of its own, and each block that is written says which block it is and which
//! of its versions, so that a write that is lost, torn or put elsewhere is found.

mod client;
mod pattern;
mod report;

use crate::address::Address;
use client::{Client, Connection};
use std::time::{Duration, Instant};

pub use report::Report;

/// How much of a volume is used if nothing else is said.
const REGION_DEFAULT: u64 = 256 << 20;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Load {
    /// The NBD server.
    pub to: Address,
    /// The volume; empty for the server's first.
    pub volume: String,
    /// Requests under way for each client.
    pub depth: usize,
    /// How many clients.
    pub clients: usize,
    /// Bytes of a request: a multiple of 512.
    pub block: u64,
    /// How many of a hundred requests read.
    pub mix: u32,
    /// How long.
    pub duration: Duration,
    /// Requests a second of all clients; without it, as many as are answered.
    pub rate: Option<f64>,
    /// How much of the volume is used.
    pub region: Option<u64>,
    /// After so many writes a client flushes; 0 is never.
    pub flush_every: u32,
    /// Whether requests may fail.
    pub allow_errors: bool,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Load {
    /// Two clients that have 16 requests of 4 KiB each under way, 70 of 100 of them reads.
    pub fn new(to: Address, duration: Duration) -> Load {
        Load {
            to,
            volume: String::new(),
            depth: 16,
            clients: 2,
            block: 4096,
            mix: 70,
            duration,
            rate: None,
            region: None,
            flush_every: 0,
            allow_errors: false,
            seed: 1,
        }
    }

    /// Does it, flushes, and reads all again that was written.
    pub fn run(&self) -> Result<Report, String> {
        if self.block == 0 || !self.block.is_multiple_of(512) || self.block > 8 << 20 {
            return Err("a block has a multiple of 512 bytes, and at most 8M".to_owned());
        }
        let connect = |_| Connection::open(&self.to, &self.volume);
        let connections: Vec<Connection> =
            (0..self.clients).map(connect).collect::<Result<_, _>>()?;
        let size = connections.first().map_or(0, |connection| connection.size);
        let region = self.region.unwrap_or(REGION_DEFAULT).min(size);
        let blocks = region / self.block / self.clients.max(1) as u64;
        if blocks < 2 * self.depth as u64 {
            return Err("the region is too small for so many requests at once".to_owned());
        }
        let begin = Instant::now();
        let clients = connections.into_iter().enumerate();
        let clients = clients.map(|(number, connection)| {
            let number = number as u64;
            Client::new(self, connection, number * blocks, blocks, self.seed + number)
        });
        let clients: Vec<Client<'_>> = clients.collect();
        let done: Vec<Result<Report, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                clients.into_iter().map(|client| scope.spawn(move || client.run(begin))).collect();
            let failed = || Err("a client has ended in disorder".to_owned());
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
        });
        let mut report = Report::default();
        for part in done {
            report.add(part?);
        }
        report.finish();
        Ok(report)
    }
}
