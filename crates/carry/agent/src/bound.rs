//! Bounds on what sessions write: their own, and space on the file system that is left for others.

use crate::losses;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bound on the bytes of all traces of a session.
#[derive(Debug)]
pub(crate) struct Bound {
    /// `u64::MAX` if there is none.
    size_max: AtomicU64,
    written: AtomicU64,
}

/// Space that a trace may still take on its file system.
#[derive(Debug, Default)]
pub(crate) struct Space {
    looked: Option<Instant>,
    left: u64,
}

/// Bytes that are left free on a file system at most, …
const FREE_MAX: u64 = 1 << 30;
/// … and the part of the file system that is enough.
const FREE_PART: u64 = 20;
/// From one look at the file system to the next.
const PAUSE: Duration = Duration::from_millis(200);

impl Default for Bound {
    fn default() -> Bound {
        Bound { size_max: AtomicU64::new(u64::MAX), written: AtomicU64::new(0) }
    }
}

impl Bound {
    pub(crate) fn set(&self, size_max: u64) {
        self.size_max.store(size_max, Relaxed);
    }

    /// None if there is none.
    pub(crate) fn size_max(&self) -> Option<u64> {
        Some(self.size_max.load(Relaxed)).filter(|max| *max != u64::MAX)
    }

    /// Refuses what would be too much.
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

    /// All that was written is removed.
    pub(crate) fn clear(&self) {
        self.written.store(0, Relaxed);
    }
}

impl Space {
    /// Takes so many bytes of the file system that a file is on, or refuses them, as others need the rest.
    pub(crate) fn take(&mut self, file: &File, size: u64) -> io::Result<()> {
        let is_old = self.looked.is_none_or(|looked| looked.elapsed() >= PAUSE);
        if is_old || self.left < size {
            let found = rustix::fs::fstatvfs(file.as_fd())?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            let kept = (bytes(found.f_blocks) / FREE_PART).min(FREE_MAX);
            let free = bytes(found.f_bavail);
            self.looked = Some(Instant::now());
            self.left = free.saturating_sub(kept);
            // File systems that do not say how large they are have no blocks. Where others have used up the space
            // that is kept, the file system's own error says more.
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
