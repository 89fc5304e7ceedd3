//! Opens span files with their index, and rebuilds the index from the file if necessary. Start at
//! [`open_file`].

use crate::calls::link_table::{EarlierSpans, LinkResult, LinkTable};
use crate::files::cache::Cache;
use crate::files::column_file::{ColumnFile, ROWS_AT_ONCE, open_spans, read_rows};
use crate::files::file_entry::FileEntry;
use crate::files::index::{Builder, Directory, Index, KeyValues, LinkCount, OpenError, Row};
use crate::files::indexed_file::{IndexedFile, index_error};
use crate::files::naming::{index_name, open_either, spans_name};
use crate::files::tag_table::TagTable;
use crate::{Error, Options};
use blkkin_columns::{Block, Sorted};
use blkkin_journal::{Disk, File};
use std::io;
use std::sync::Arc;

/// Opens a span file that a manifest names. If the index cannot be used, or its number of rows
/// differs from the manifest's, it is rebuilt from the file and earlier files.
pub(crate) fn open_file(
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
    entry: FileEntry,
    before: &[Arc<IndexedFile>],
) -> Result<IndexedFile, Error> {
    let file = open_spans(&*disk, entry.number)?;
    let name = index_name(entry.number);
    let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
    let index = match opened {
        Ok(index) if u64::from(index.directory.rows) == entry.spans => index,
        _ => rebuild_index(&disk, entry.number, &file, before)?,
    };
    IndexedFile::of(disk, cache, entry, file, index)
}

/// Opens a span file that no manifest names. The index is rebuilt from the file and earlier files.
pub(crate) fn adopt_file(
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
    number: u64,
    received_ns: u64,
    before: &[Arc<IndexedFile>],
) -> Result<IndexedFile, Error> {
    let file = open_spans(&*disk, number)?;
    let index = rebuild_index(&disk, number, &file, before)?;
    let size = |opened: io::Result<Arc<dyn File>>| opened.and_then(|file| file.size_bytes());
    let options = Options::default();
    let files = file.len() / options.file_spans as u64;
    let entry = FileEntry {
        number,
        tier: files.checked_ilog(options.merge_files as u64).unwrap_or(0),
        spans: file.len(),
        bytes: size(open_either(&*disk, number)).map_err(Error::io(spans_name(number)))?,
        index_bytes: size(disk.open(&index_name(number))).map_err(Error::io(index_name(number)))?,
        min_start_ns: index.directory.min_start_ns,
        max_start_ns: index.directory.max_start_ns,
        received_ns,
    };
    IndexedFile::of(disk, cache, entry, file, index)
}

pub(crate) fn push_elsewhere(builder: &mut Builder, earlier: &EarlierSpans) {
    let spans = earlier.spans();
    let rows = 0..spans.len() as blkkin_columns::Row;
    rows.for_each(|row| builder.push_elsewhere(&row_of(spans, row)));
    builder.is_whole &= earlier.is_whole();
}

pub(crate) fn row_of(block: &Block, row: blkkin_columns::Row) -> Row<'_> {
    Row {
        trace_low: block.trace_low(row),
        trace_high: block.trace_high(row),
        id: block.id(row).number(),
        start_ns: block.start_ns(row),
        duration_ns: block.duration_ns(row),
        is_root: block.parent_id(row).is_none(),
        is_error: block.is_error(row),
        service: block.text(block.service_id(row)),
        name: block.text(block.name_id(row)),
        remote: block.text(block.remote_service_id(row)),
    }
}

/// Rebuilds the index of a span file from its rows and from the earlier files `before`. Writes the
/// index to the disk and opens it.
fn rebuild_index(
    disk: &Arc<dyn Disk>,
    number: u64,
    file: &ColumnFile,
    before: &[Arc<IndexedFile>],
) -> Result<Index, Error> {
    let mut builder = Builder::default();
    let mut all_earlier = Vec::new();
    let (mut links, mut tags) = (LinkTable::default(), TagTable::default());
    let mut block = Block::new();
    let end = file.len() as u32;
    let mut start = 0;
    while start < end {
        let next = end.min(start.saturating_add(ROWS_AT_ONCE));
        block.clear();
        read_rows(file, number, start..next, &mut block)?;
        (0..block.len() as u32).for_each(|row| builder.push(&row_of(&block, row)));
        // Calls of a request that continues in the next step may be missed.
        let sorted = Sorted::of(&[&block]);
        let LinkResult { table, earlier, .. } = LinkTable::of(&sorted, before);
        links.merge(&table.counts());
        all_earlier.push(earlier);
        tags.merge(&TagTable::of(&sorted).keys());
        start = next;
    }
    all_earlier.iter().for_each(|earlier| push_elsewhere(&mut builder, earlier));
    write_index(&**disk, number, builder, &links.counts(), tags.keys())?;
    let name = index_name(number);
    let opened = disk.open(&name).map_err(OpenError::Io).and_then(Index::open);
    opened.map_err(|error| index_error(number, error))
}

pub(crate) fn write_index(
    disk: &dyn Disk,
    number: u64,
    builder: Builder,
    links: &[LinkCount],
    keys: Vec<KeyValues>,
) -> Result<Directory, Error> {
    let name = index_name(number);
    let (directory, bytes) =
        builder.finish(links, keys).map_err(|error| Error::Spans(format!("{name}: {error}")))?;
    let written = || {
        let _ = disk.remove(&name);
        let file = disk.create(&name)?;
        file.write_at(&bytes, 0)?;
        file.sync()
    };
    written().map_err(Error::io(&name))?;
    Ok(directory)
}
