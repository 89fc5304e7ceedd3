//! The load: clients of an NBD server that read and write at random and verify reads of blocks
//! written by the load. Each client has its own connection and part of the volume. Each written
//! block contains its number and version, so lost, torn and misplaced writes are detected.

mod client;
mod parameters;
mod pattern;
mod report;

use client::{Client, Connection};
use std::time::Instant;

pub use parameters::Load;
pub use report::Report;

/// Default size of the used part of a volume, in bytes.
const REGION_DEFAULT: u64 = 256 << 20;

impl Load {
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
