//! [`FileWriter`]: writes a span file and its index. Start at [`FileWriter::create`].

use crate::Error;
use crate::calls::link_table::EarlierSpans;
use crate::files::cache::Cache;
use crate::files::column_file::spans_error;
use crate::files::file_entry::FileEntry;
use crate::files::index::{Builder, KeyValues, LinkCount};
use crate::files::indexed_file::IndexedFile;
use crate::files::naming::{index_name, spans_name, unfinished_name};
use crate::files::reindex::{open_file, push_elsewhere, row_of, write_index};
use blkkin_columns::{Options, Sorted, Writer};
use blkkin_journal::{Disk, File};
use blkkin_sys::run_both;
use std::io::{self, BufWriter};
use std::sync::Arc;

/// Writer of a span file and its index.
pub(crate) struct FileWriter {
    disk: Arc<dyn Disk>,
    cache: Arc<Cache>,
    number: u64,
    writer: Writer<BufWriter<DiskOutput>>,
    builder: Builder,
}

/// Size of the write buffer in bytes.
const WRITE_BYTES: usize = 1 << 20;

impl FileWriter {
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        cache: Arc<Cache>,
        number: u64,
        options: Options,
    ) -> Result<FileWriter, Error> {
        let name = unfinished_name(number);
        // The final name must be free, since `publish` does not replace an existing file. The next
        // attempt has another number.
        let last = spans_name(number);
        match disk.open(&last) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => {
                return Err(Error::Spans(format!(
                    "{last} is there already, and not of this store"
                )));
            }
        }
        // Removes the file of an earlier attempt with this number, which no manifest names.
        let _ = disk.remove(&name);
        let file = disk.create(&name).map_err(Error::io(&name))?;
        let output = DiskOutput { file, offset: 0 };
        let writer = Writer::create(BufWriter::with_capacity(WRITE_BYTES, output), options);
        let writer = writer.map_err(|error| spans_error(number, error))?;
        Ok(FileWriter { disk, cache, number, writer, builder: Builder::default() })
    }

    /// Appends spans. Their requests must sort after all requests appended before.
    pub(crate) fn append(&mut self, sorted: &Sorted<'_>) -> Result<(), Error> {
        let FileWriter { writer, builder, .. } = self;
        let push = || {
            for index in 0..sorted.len() {
                let (block, row) = sorted.row(index);
                builder.push(&row_of(block, row));
            }
        };
        let (appended, ()) = run_both(|| writer.append(sorted), push);
        appended.map_err(|error| spans_error(self.number, error))
    }

    /// Adds spans of earlier files to the index. They belong to requests of this file.
    pub(crate) fn append_elsewhere(&mut self, earlier: &EarlierSpans) {
        push_elsewhere(&mut self.builder, earlier);
    }

    /// Makes the file durable under its unfinished name, writes its index, and opens both. After a
    /// manifest names the file, [`publish`](crate::files::naming::publish) renames it.
    pub(crate) fn finish(
        self,
        tier: u32,
        received_ns: u64,
        links: &[LinkCount],
        keys: Vec<KeyValues>,
    ) -> Result<IndexedFile, Error> {
        let FileWriter { disk, cache, number, writer, builder } = self;
        let name = unfinished_name(number);
        let spans = builder.rows() as u64;
        let (output, _) = writer.finish().map_err(|error| spans_error(number, error))?;
        let output = output.into_inner().map_err(|error| Error::io(&name)(error.into_error()))?;
        output.file.sync().map_err(Error::io(&name))?;
        let directory = write_index(&*disk, number, builder, links, keys)?;
        disk.sync().map_err(Error::io(""))?;
        let index_file = disk.open(&index_name(number)).map_err(Error::io(index_name(number)))?;
        let entry = FileEntry {
            number,
            tier,
            spans,
            bytes: output.offset,
            index_bytes: index_file.size_bytes().map_err(Error::io(index_name(number)))?,
            min_start_ns: directory.min_start_ns,
            max_start_ns: directory.max_start_ns,
            received_ns,
        };
        open_file(disk, cache, entry, &[])
    }
}

/// Output of the Parquet writer that appends to a file on the store's disk.
struct DiskOutput {
    file: Arc<dyn File>,
    offset: u64,
}

impl io::Write for DiskOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
