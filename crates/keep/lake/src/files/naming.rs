//! Names of a file of spans and its index, and operations on files by their number.

use crate::files::file_entry::GREATEST;
use blkkin_journal::{Disk, File};
use std::io;
use std::sync::Arc;

/// Final name of a file of spans.
pub(crate) fn spans_name(number: u64) -> String {
    format!("{number:010}.parquet")
}

/// Name of the index of a file of spans.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:010}.index")
}

/// Name of a file of spans until a manifest names it. Programs that read all Parquet files of the
/// directory therefore never see half a file. The spans of an unfinished file that no manifest
/// names are also elsewhere.
pub(crate) fn unfinished_name(number: u64) -> String {
    format!("{number:010}.unfinished")
}

/// Parses the number from a name that the store itself gives to files.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (stem, "parquet" | "index" | "unfinished") = name.split_once('.')? else { return None };
    let number = stem.parse().ok().filter(|number| *number < GREATEST)?;
    (format!("{number:010}") == stem).then_some(number)
}

/// Renames a file that the manifest names to its final name. If that fails, the file is still found
/// under its unfinished name.
pub(crate) fn publish(disk: &dyn Disk, number: u64) -> io::Result<()> {
    match disk.open(&spans_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.rename(&unfinished_name(number), &spans_name(number))
        }
        // A file that was copied in meanwhile must not be replaced.
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(error),
    }
}

/// Opens a file of spans under either of its names. The unfinished name is tried first: in the
/// other order, a file renamed between the two attempts would not be found.
pub(crate) fn open_either(disk: &dyn Disk, number: u64) -> io::Result<Arc<dyn File>> {
    match disk.open(&unfinished_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.open(&spans_name(number)),
        opened => opened,
    }
}

/// Removes a file that no manifest names. The index is removed first, as the file beside it proves
/// that it belongs to the store.
pub(crate) fn remove_unfinished(disk: &dyn Disk, number: u64) {
    let _ = disk.remove(&index_name(number));
    let _ = disk.remove(&unfinished_name(number));
}
