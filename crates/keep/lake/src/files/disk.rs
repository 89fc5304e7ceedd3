//! Small operations on the directories of a store.

use crate::Error;
use crate::files::naming::{index_name, spans_name};
use blkkin_journal::{Disk, Lock};

/// Removes a file that the store gave up; whether it is gone.
pub(crate) fn remove(spans: &dyn Disk, number: u64) -> bool {
    [spans_name(number), index_name(number)]
        .iter()
        .all(|name| spans.remove(name).is_ok() || is_missing(spans, name))
}

/// Whether a file is there, and has not so many bytes.
pub(crate) fn has_another_size(spans: &dyn Disk, name: &str, bytes: u64) -> bool {
    spans.open(name).and_then(|file| file.size_bytes()).is_ok_and(|size| size != bytes)
}

/// Keeps all others from a store until what is returned is dropped.
pub(crate) fn lock_store(journal: &dyn Disk) -> Result<Lock, Error> {
    journal.lock(true).map_err(Error::io("journal"))?.ok_or(Error::InUse)
}

pub(crate) fn is_missing(disk: &dyn Disk, name: &str) -> bool {
    disk.open(name).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
