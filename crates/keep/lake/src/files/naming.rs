//! Names of a span file and its index, and operations on files by number.

use crate::files::file_entry::COUNTER_MAX;
use blkkin_journal::{Disk, File};
use std::io;
use std::sync::Arc;

/// Returns the final name of a span file.
pub(crate) fn spans_name(number: u64) -> String {
    format!("{number:010}.parquet")
}

/// Returns the name of the index of a span file.
pub(crate) fn index_name(number: u64) -> String {
    format!("{number:010}.index")
}

/// Returns the name of a span file until [`publish`] renames the file. Other programs, which read
/// all Parquet files of the directory, ignore this name and thus never read a partial file. If no
/// manifest names the unfinished file, its spans are also elsewhere: in the journal, in older
/// files, or in the source of an import.
pub(crate) fn unfinished_name(number: u64) -> String {
    format!("{number:010}.unfinished")
}

/// Parses the file number in a name. Returns `None` for names that are not in the store's form.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (stem, "parquet" | "index" | "unfinished") = name.split_once('.')? else { return None };
    let number = stem.parse().ok().filter(|number| *number < COUNTER_MAX)?;
    (format!("{number:010}") == stem).then_some(number)
}

/// Renames a file to its final name; the manifest already names it. If the renaming fails, the file
/// is still opened under its unfinished name.
pub(crate) fn publish(disk: &dyn Disk, number: u64) -> io::Result<()> {
    match disk.open(&spans_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.rename(&unfinished_name(number), &spans_name(number))
        }
        // A file that was copied into the directory meanwhile must not be replaced.
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(error),
    }
}

/// Opens a span file under its unfinished or its final name. The unfinished name is tried first: in
/// the other order, a file renamed between the two attempts would not be found.
pub(crate) fn open_either(disk: &dyn Disk, number: u64) -> io::Result<Arc<dyn File>> {
    match disk.open(&unfinished_name(number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.open(&spans_name(number)),
        opened => opened,
    }
}

/// Removes a file under its unfinished name, and its index. The index is removed first: without the
/// file, the next start would remove only an index with an intact magic.
pub(crate) fn remove_unfinished(disk: &dyn Disk, number: u64) {
    let _ = disk.remove(&index_name(number));
    let _ = disk.remove(&unfinished_name(number));
}
