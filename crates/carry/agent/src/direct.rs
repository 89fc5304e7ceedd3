//! Writing of packets without the page cache, for large recordings: what is written does not push
//! the pages of other programs out of memory. The agent waits for the disk at each write, while
//! events stay in the rings; so rings must be large enough for the longest write, which is noted.

use crate::rings::Packets;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Alignment of file offsets, sizes and memory, in bytes: a multiple of the blocks of all usual
/// disks.
pub(crate) const BLOCK: u64 = 4096;
/// Maximum size of one write, in bytes.
const WRITE_MAX: usize = 4 << 20;

/// Writer of a session's packets.
#[derive(Debug, Default)]
pub(crate) struct DirectWriter {
    /// Memory with room for a write at an aligned address.
    buffer: Mutex<Vec<u8>>,
    slowest_ns: AtomicU64,
}

impl DirectWriter {
    /// Returns the duration of the longest write so far, in nanoseconds.
    pub(crate) fn slowest_ns(&self) -> u64 {
        self.slowest_ns.load(Relaxed)
    }

    /// Writes packets, whose events are copied and whose size is a multiple of [`BLOCK`], at an
    /// offset that is one, too.
    pub(crate) fn write(&self, packets: &Packets, file: &File, offset: u64) -> io::Result<()> {
        let begun = Instant::now();
        let mut buffer = self.buffer.lock();
        buffer.resize(WRITE_MAX + BLOCK as usize, 0);
        let at = buffer.as_ptr().align_offset(BLOCK as usize);
        let mut offset = offset;
        for bytes in packets.copied().chunks(WRITE_MAX) {
            let aligned = buffer.get_mut(at..at + bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
            aligned.copy_from_slice(bytes);
            file.write_all_at(aligned, offset)?;
            offset += bytes.len() as u64;
        }
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.slowest_ns.fetch_max(took, Relaxed);
        Ok(())
    }
}
