//! Helpers to lock a store, and to check and remove files in its directories.

use crate::Error;
use crate::files::naming::{index_name, spans_name};
use blkkin_journal::{Disk, Lock};

/// Removes a span file and its index. Returns whether both are removed or missing.
pub(crate) fn remove(spans: &dyn Disk, number: u64) -> bool {
    [spans_name(number), index_name(number)]
        .iter()
        .all(|name| spans.remove(name).is_ok() || is_missing(spans, name))
}

/// Returns whether a file exists and its size differs from `bytes`.
pub(crate) fn has_another_size(spans: &dyn Disk, name: &str, bytes: u64) -> bool {
    spans.open(name).and_then(|file| file.size_bytes()).is_ok_and(|size| size != bytes)
}

/// Locks a store against other processes until the returned lock is dropped.
pub(crate) fn lock_store(journal: &dyn Disk) -> Result<Lock, Error> {
    journal.lock(true).map_err(Error::io("journal"))?.ok_or(Error::InUse)
}

pub(crate) fn is_missing(disk: &dyn Disk, name: &str) -> bool {
    disk.open(name).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
