//! Writes to files while the disk may be full. A write of a packet waits for room: meanwhile its
//! connection is not read, so its producer holds packets back, and counts those that it must
//! discard. Writes of indexes and metadata are tried again later, so that commands are answered.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause between two attempts to write to a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// Receiver of log lines.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes to the relay's files.
#[derive(Clone)]
pub(crate) struct Disk {
    log: Log,
    /// Set while a disk is full, so that one line is logged.
    is_full: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
}

impl Disk {
    pub(crate) fn new(log: Log) -> Disk {
        Disk { log, is_full: Arc::default(), is_stopping: Arc::default() }
    }

    pub(crate) fn log(&self, line: &str) {
        (self.log)(line);
    }

    /// Ends the waiting for room on full disks.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Writes all bytes at an offset. Waits while the disk or the quota is full.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        loop {
            match self.try_write(file, bytes, offset) {
                Err(error) if is_full(&error) && !self.is_stopping.load(Ordering::Relaxed) => {
                    std::thread::sleep(FULL_PAUSE);
                }
                written => return written,
            }
        }
    }

    /// Writes all bytes at an offset. Fails while the disk or the quota is full; part of the bytes
    /// may then be written. See [`is_full`].
    pub(crate) fn try_write(
        &self,
        file: &File,
        mut bytes: &[u8],
        mut offset: u64,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            match file.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    if self.is_full.swap(false, Ordering::Relaxed) {
                        self.log("the disk has room again");
                    }
                    bytes = bytes.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if is_full(&error) && !self.is_full.swap(true, Ordering::Relaxed) {
                        self.log(&format!("{error}; producers wait until there is room"));
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a write failed because the disk or the quota is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("is_full", &self.is_full).finish_non_exhaustive()
    }
}
