//! Which files a store has at the moment, for those who only read it, beside whoever writes it.

use crate::Error;
use crate::manifest::{FileEntry, Manifest};
use blkkin_journal::Disk;

/// A file of spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanFile {
    /// Where it is, from the store's directory on.
    pub path: String,
    /// How many spans it has.
    pub spans: u64,
    /// Its length.
    pub bytes: u64,
}

/// The files of spans that a store consists of, in order of what was received when; `None` if there is no store. They
/// may be merged with others at any moment, and be gone then: who does not find one asks again.
pub fn span_files(disk: &dyn Disk) -> Result<Option<Vec<SpanFile>>, Error> {
    let read = Manifest::read(disk)?;
    Ok(read.map(|(manifest, _)| manifest.files.iter().map(span_file).collect()))
}

fn span_file(entry: &FileEntry) -> SpanFile {
    let path = format!("spans/{:010}.parquet", entry.number);
    SpanFile { path, spans: entry.spans, bytes: entry.bytes }
}
