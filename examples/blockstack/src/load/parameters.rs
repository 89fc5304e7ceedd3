//! The parameters of a load, which all of its clients read.

use crate::address::Address;
use std::time::Duration;

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
}
