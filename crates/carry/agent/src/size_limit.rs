//! Limits on the size of traces: the limit of the session, and a reserve of free space on the file
//! system.

use crate::losses;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Size limit of a session, with the total size of its traces in bytes.
#[derive(Debug)]
pub(crate) struct SizeLimit {
    /// Maximum total size of the session's traces in bytes; `u64::MAX` means no limit.
    size_max: AtomicU64,
    /// Total size of the packets in the session's traces, in bytes.
    written: AtomicU64,
}

/// Space on the file system of a trace that packets may use: the free space reported by the last
/// `statvfs`, less the reserve for others and the packets written since.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    checked: Option<Instant>,
    left: u64,
}

/// Maximum number of bytes of a file system that traces leave free.
const FREE_MAX: u64 = 1 << 30;
/// Divisor of a file system's size: traces leave a twentieth of it free, at most [`FREE_MAX`]
/// bytes.
const FREE_PART: u64 = 20;
/// Time after which the free space is queried again.
const PAUSE: Duration = Duration::from_millis(200);

impl Default for SizeLimit {
    fn default() -> SizeLimit {
        SizeLimit { size_max: AtomicU64::new(u64::MAX), written: AtomicU64::new(0) }
    }
}

impl SizeLimit {
    pub(crate) fn set(&self, size_max: u64) {
        self.size_max.store(size_max, Relaxed);
    }

    /// Returns the limit in bytes; `None` means no limit.
    pub(crate) fn size_max(&self) -> Option<u64> {
        Some(self.size_max.load(Relaxed)).filter(|max| *max != u64::MAX)
    }

    /// Checks that the session may write `size` more bytes.
    pub(crate) fn check(&self, size: u64) -> io::Result<()> {
        let max = self.size_max.load(Relaxed);
        if self.written.load(Relaxed).saturating_add(size) <= max {
            return Ok(());
        }
        Err(losses::no_space(format!("the session may write {max} bytes at most (--size-max)")))
    }

    pub(crate) fn add(&self, size: u64) {
        self.written.fetch_add(size, Relaxed);
    }

    /// Resets the total size, because all traces of the session are removed.
    pub(crate) fn clear(&self) {
        self.written.store(0, Relaxed);
    }
}

impl FreeSpace {
    /// Reserves `size` bytes on the file system of `file`. Fails if too little space would be left
    /// free, unless the file system reports no size or other programs have used even the reserve.
    pub(crate) fn take(&mut self, file: &File, size: u64) -> io::Result<()> {
        let is_old = self.checked.is_none_or(|checked| checked.elapsed() >= PAUSE);
        if is_old || self.left < size {
            let found = rustix::fs::fstatvfs(file.as_fd())?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            let kept = (bytes(found.f_blocks) / FREE_PART).min(FREE_MAX);
            let free = bytes(found.f_bavail);
            self.checked = Some(Instant::now());
            self.left = free.saturating_sub(kept);
            // File systems without a known size report no blocks. If other programs have used even
            // the reserve, the file system's own error is more precise.
            if found.f_blocks == 0 || free < size.min(kept) {
                self.left = size;
            }
        }
        if self.left < size {
            return Err(losses::no_space(
                "5 % of the file system, 1 GiB at most, is left free for others".to_owned(),
            ));
        }
        self.left -= size;
        Ok(())
    }
}
