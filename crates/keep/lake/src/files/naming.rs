//! DirectoryNames of a file of spans and of its index, and what the store does with files by name.

use crate::files::file_entry::GREATEST;
use blkkin_journal::{Disk, File};
use std::io;
use std::sync::Arc;

/// The name of a file of spans.
pub(crate) fn spans_name(number: u64) -> String {
    format!("{number:010}.parquet")
}

/// The name of its index.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:010}.index")
}

/// The name of a file of spans until a manifest names it. Readers of all Parquet files of the
/// directory do not see half of a file, and an unfinished file that no manifest names holds nothing
/// that is not elsewhere.
pub(crate) fn unfinished_name(number: u64) -> String {
    format!("{number:010}.unfinished")
}

/// The number in a name that the store itself gives.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (stem, "parquet" | "index" | "unfinished") = name.split_once('.')? else { return None };
    let number = stem.parse().ok().filter(|number| *number < GREATEST)?;
    (format!("{number:010}") == stem).then_some(number)
}

/// Gives a file that the manifest names its final name. Failing that, the file is found under its
/// unfinished name.
pub(crate) fn publish(disk: &dyn Disk, number: u64) -> io::Result<()> {
    match disk.open(&spans_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.rename(&unfinished_name(number), &spans_name(number))
        }
        // A file that was copied in meanwhile is not replaced.
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(error),
    }
}

/// Opens a file of spans under either of its names. The unfinished name comes first: a file that is
/// renamed between two tries would not be found in the other order.
pub(crate) fn open_either(disk: &dyn Disk, number: u64) -> io::Result<Arc<dyn File>> {
    match disk.open(&unfinished_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.open(&spans_name(number)),
        opened => opened,
    }
}

/// Removes a file that no manifest names. The index goes first: it is known as ours by the file
/// beside it.
pub(crate) fn remove_unfinished(disk: &dyn Disk, number: u64) {
    let _ = disk.remove(&index_name(number));
    let _ = disk.remove(&unfinished_name(number));
}
