//! Limits on the size of traces: the limit of the session, and a reserve of free space on the file
//! system.

use crate::losses;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Size limit of a session, with the total size of its traces in bytes.
#[derive(Debug)]
pub(crate) struct SizeLimit {
    /// Maximum total size of the session's traces in bytes; `u64::MAX` means no limit.
    size_max: AtomicU64,
    /// Total size of the packets in the session's traces, in bytes.
    written: AtomicU64,
    /// Number of changes of `written`, which tells whether it has changed.
    changes: AtomicU64,
    /// Size of the last write that was refused for the limit, or 0 if a later one was not.
    refused: AtomicU64,
    /// Set if the sizes of files that an earlier agent has written are reported by the forwarder.
    awaits_size: AtomicBool,
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
        SizeLimit {
            size_max: AtomicU64::new(u64::MAX),
            written: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            awaits_size: AtomicBool::new(false),
        }
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
        let is_refused = self.written.load(Relaxed).saturating_add(size) > max;
        self.refused.store(if is_refused { size } else { 0 }, Relaxed);
        if !is_refused {
            return Ok(());
        }
        Err(losses::no_space(format!("the session may write {max} bytes at most (--size-max)")))
    }

    /// Returns the number of bytes that the session may still write.
    pub(crate) fn room(&self) -> u64 {
        self.size_max.load(Relaxed).saturating_sub(self.written.load(Relaxed))
    }

    /// Returns how much has to be removed until three quarters of the limit are used and the write
    /// that was refused has room; `None` unless more than seven eighths are, or one was refused.
    pub(crate) fn excess(&self) -> Option<u64> {
        let max = self.size_max()?;
        let (room, written) = (self.room(), self.written.load(Relaxed));
        let refused = self.refused.load(Relaxed);
        let used = max.saturating_sub(refused).min(max - max / 4);
        (room < max / 8 || refused > 0).then(|| written.saturating_sub(used))
    }

    pub(crate) fn add(&self, size: u64) {
        self.written.fetch_add(size, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Returns the number of changes of the total size: packets were written or removed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Subtracts the size of packets that were removed from the traces.
    pub(crate) fn remove(&self, size: u64) {
        let less = |written: u64| Some(written.saturating_sub(size));
        let _ = self.written.fetch_update(Relaxed, Relaxed, less);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Sets the total size.
    pub(crate) fn set_written(&self, size: u64) {
        self.written.store(size, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }

    /// Lets the forwarder report the size of the files that an earlier agent has written.
    pub(crate) fn await_size(&self) {
        self.awaits_size.store(true, Relaxed);
        self.set_written(0);
    }

    /// Adds the size of a file that is continued.
    pub(crate) fn add_continued(&self, size: u64) {
        if !self.awaits_size.load(Relaxed) {
            self.add(size);
        }
    }
}

impl FreeSpace {
    /// Reserves `size` bytes on the file system of `file`. Fails if too little space would be left
    /// free, unless the file system reports no size or is full.
    pub(crate) fn take(&mut self, file: &File, size: u64) -> io::Result<()> {
        let is_old = self.checked.is_none_or(|checked| checked.elapsed() >= PAUSE);
        if is_old || self.left < size {
            let found = rustix::fs::fstatvfs(file.as_fd())?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            self.checked = Some(Instant::now());
            let free = FreeBytes { all: bytes(found.f_bfree), for_users: bytes(found.f_bavail) };
            self.left = usable(bytes(found.f_blocks), free, size);
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

/// Free space of a file system, in bytes.
#[derive(Clone, Copy, Debug)]
struct FreeBytes {
    all: u64,
    /// Without the part that some file systems keep for root, who may write to it.
    for_users: u64,
}

/// Assumed block size of a file system, in bytes. A file system counts as full if it has fewer free
/// bytes than a block, and fewer than the write needs.
const BLOCK: u64 = 4096;

/// Returns the number of bytes that packets may use on a file system with `total` bytes, for a
/// write of `size` bytes.
fn usable(total: u64, free: FreeBytes, size: u64) -> u64 {
    let kept = (total / FREE_PART).min(FREE_MAX);
    // File systems without a known size report no bytes. The own error of a full file system is
    // more precise than that of this limit.
    let is_unlimited = total == 0 || free.all < size.min(BLOCK);
    if is_unlimited { size } else { free.for_users.saturating_sub(kept) }
}

#[cfg(test)]
mod tests {
    use super::{FreeBytes, SizeLimit, usable};

    /// Asserts the number of usable bytes on a file system of 20 MiB, with a reserve of 1 MiB.
    /// `free` has the number of all free bytes, and the number of those that are not kept for root.
    #[track_caller]
    fn check(free: (u64, u64), size: u64, expected: u64) {
        let free = FreeBytes { all: free.0, for_users: free.1 };
        assert_eq!(usable(20 << 20, free, size), expected);
    }

    /// A write that has no room asks for as much as it needs, also when much of the limit is free.
    #[test]
    fn refused_writes_ask_for_their_room() {
        let limit = SizeLimit::default();
        limit.set(1000);
        limit.add(800);
        assert_eq!(limit.excess(), None);
        limit.add(80);
        assert_eq!(limit.excess(), Some(130));
        limit.remove(180);
        assert!(limit.check(600).is_err());
        assert_eq!(limit.excess(), Some(300));
        assert!(limit.check(2000).is_err());
        assert_eq!(limit.excess(), Some(700));
        limit.check(300).unwrap();
        assert_eq!(limit.excess(), None);
    }

    #[test]
    fn the_reserve_is_kept_for_others() {
        check((20 << 20, 20 << 20), 4096, 19 << 20);
        let free = (1 << 20) + 4096;
        check((free, free), 4096, 4096);
        check((1 << 20, 1 << 20), 4096, 0);
    }

    /// Indexes and metadata use some of the reserve. A write that is larger than the reserve would
    /// fill the file system.
    #[test]
    fn a_part_of_the_reserve_is_kept_too() {
        for free in [(1 << 20) - 8192, 100 << 10, 4096] {
            for size in [4096, 1 << 20, 32 << 20] {
                check((free, free), size, 0);
            }
        }
    }

    #[test]
    fn blocks_for_root_are_not_used() {
        check((1 << 20, 0), 4096, 0);
    }

    #[test]
    fn writes_to_full_file_systems_fail_by_themselves() {
        check((0, 0), 4096, 4096);
        check((4095, 0), 32 << 20, 32 << 20);
        assert_eq!(usable(0, FreeBytes { all: 0, for_users: 0 }, 4096), 4096);
    }
}
