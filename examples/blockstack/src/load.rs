//! The load: clients of an NBD server that read and write at random and verify reads of blocks
//! written by the load. Each client has its own connection and part of the volume. Each written
//! block contains its number and version, so lost, torn and misplaced writes are detected.

mod client;
mod pattern;
mod report;

use crate::address::Address;
use client::{Client, Connection};
use std::time::{Duration, Instant};

pub use report::Report;

/// Default size of the used part of a volume, in bytes.
const REGION_DEFAULT: u64 = 256 << 20;

/// Parameters of a load, and entry point to run it.
#[derive(Clone, Debug)]
pub struct Load {
    /// Address of the NBD server.
    pub to: Address,
    /// Name of the volume; empty for the server's first volume.
    pub volume: String,
    /// Maximum number of concurrent requests of each client.
    pub depth: usize,
    /// Number of clients, each with its own connection and part of the volume.
    pub clients: usize,
    /// Size of a read or write in bytes, a multiple of 512 and at most 8 MiB.
    pub block: u64,
    /// Percentage of reads among reads and writes, 0 to 100.
    pub mix: u32,
    /// Duration of the load, without the final verification.
    pub duration: Duration,
    /// Requests per second of all clients together; `None` means as fast as possible.
    pub rate: Option<f64>,
    /// Size of the used part of the volume, in bytes; `None` means all, but at most 256 MiB.
    pub region: Option<u64>,
    /// Number of a client's writes between flushes; 0 disables all but the final flush.
    pub flush_every: u32,
    /// Set if failed requests are counted and do not end the load. A failed read of the final
    /// verification always ends it.
    pub allow_errors: bool,
    /// Seed of the random numbers that select blocks and operations.
    pub seed: u64,
}

impl Load {
    /// Creates a load of two clients with 16 concurrent requests of 4 KiB each, 70 % of them reads.
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

    /// Runs the load, flushes, and reads all written blocks again.
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
