//! Helpers for the directories of a store.

use crate::Error;
use crate::files::naming::{index_name, spans_name};
use blkkin_journal::{Disk, Lock};

/// Removes a file of spans and its index. Returns whether both are gone.
pub(crate) fn remove(spans: &dyn Disk, number: u64) -> bool {
    [spans_name(number), index_name(number)]
        .iter()
        .all(|name| spans.remove(name).is_ok() || is_missing(spans, name))
}

/// Returns whether a file exists with another size.
pub(crate) fn has_another_size(spans: &dyn Disk, name: &str, bytes: u64) -> bool {
    spans.open(name).and_then(|file| file.size_bytes()).is_ok_and(|size| size != bytes)
}

/// Locks a store against all other processes until the result is dropped.
pub(crate) fn lock_store(journal: &dyn Disk) -> Result<Lock, Error> {
    journal.lock(true).map_err(Error::io("journal"))?.ok_or(Error::InUse)
}

pub(crate) fn is_missing(disk: &dyn Disk, name: &str) -> bool {
    disk.open(name).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
