//! [`Listing`]: the files of a store at one moment, for processes other than the server.

use crate::files::file_entry::FileEntry;
use crate::files::manifest::Manifest;
use crate::write::batch;
use crate::write::head::Head;
use crate::write::record::{Assembly, BatchAssembler};
use crate::{Error, Options};
use blkkin_columns::{Block, Sorted, Writer};
use blkkin_journal::{Disk, Item, Reader};
use blkkin_wire::Decoder;
use std::io::{self, Write};
use std::sync::Arc;

/// Span file of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanFile {
    /// Path relative to the store's directory.
    pub path: String,
    /// Number of spans in the file.
    pub spans: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Files of a store, and the position up to which they contain the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Span files in the order in which their spans were received. A merge or expiry may remove a
    /// file at any moment; the reader then needs a new listing.
    pub files: Vec<SpanFile>,
    /// Journal sequence number before which all records are in files.
    journal_sequence: u64,
}

/// Result of [`Listing::write_journal`]: new files with the spans that were only in the journal.
#[derive(Debug)]
pub struct JournalFiles<W> {
    /// New files, each with its number of spans.
    pub files: Vec<(W, u64)>,
    /// Descriptions of the journal's damage, one line each.
    pub damage: Vec<String>,
    /// Set if the journal lacks records that the listed files do not contain. If the records were
    /// removed since the listing, their spans are in the files of a new listing; otherwise they are
    /// lost.
    pub lacks_records: bool,
}

/// Result of reading a journal.
#[derive(Debug, Default)]
pub(crate) struct JournalRead {
    /// Descriptions of the journal's damage, one line each.
    pub(crate) damage: Vec<String>,
    /// Set if records are missing from the journal although no file of the listing has their spans.
    pub(crate) lacks_records: bool,
}

impl Listing {
    /// Lists the store in a directory. Returns `None` if the directory has no manifest.
    pub fn of(disk: &dyn Disk) -> Result<Option<Listing>, Error> {
        let read = Manifest::read(disk)?;
        Ok(read.map(|(manifest, _)| Listing::of_manifest(Some(&manifest))))
    }

    pub(crate) fn of_manifest(manifest: Option<&Manifest>) -> Listing {
        manifest.map_or_else(Listing::empty, |manifest| Listing {
            files: manifest.files.iter().map(span_file).collect(),
            journal_sequence: manifest.journal_sequence,
        })
    }

    /// Returns the listing of a store that has only a journal.
    pub fn empty() -> Listing {
        Listing { files: Vec::new(), journal_sequence: 0 }
    }

    /// Writes the spans that only the journal has to new files, which `create` provides. The size
    /// of a file is limited, since its spans are collected in memory.
    pub fn write_journal<W: Write + Send>(
        &self,
        journal: Arc<dyn Disk>,
        create: impl FnMut() -> io::Result<W>,
    ) -> Result<JournalFiles<W>, Error> {
        let rest = JournalFiles { files: Vec::new(), damage: Vec::new(), lacks_records: false };
        let (options, head) = (Options::default(), Head::default());
        let mut files = FileWriter { create, options, head, rest };
        let read = self.journal_blocks(journal, &mut |blocks| files.add(blocks))?;
        (files.rest.damage, files.rest.lacks_records) = (read.damage, read.lacks_records);
        files.finish()
    }

    /// Calls `each` with the blocks of the batches that only the journal has.
    pub(crate) fn journal_blocks(
        &self,
        journal: Arc<dyn Disk>,
        each: &mut dyn FnMut(Vec<Block>) -> Result<(), Error>,
    ) -> Result<JournalRead, Error> {
        let mut decoder = Decoder::new(Options::default().limits);
        let mut read = JournalRead::default();
        let mut reader = Reader::open_live(journal, self.journal_sequence)?;
        let mut assembler = BatchAssembler::default();
        while let Some(item) = reader.next()? {
            match item {
                Item::Record(record) => match assembler.push(record.kind, record.payload) {
                    Assembly::Incomplete => {}
                    Assembly::Batch(batch) => {
                        let (outcome, blocks) = batch::read(&mut decoder, &batch, &Block::new);
                        let damage = batch::damage(&batch, &outcome, record.sequence);
                        read.damage.extend(damage);
                        each(blocks)?;
                    }
                    Assembly::Unknown => {
                        read.damage.push(batch::unknown(record.sequence));
                    }
                },
                Item::Damage(damage) => {
                    assembler.clear();
                    // A record that is being written is no damage. Damage that affects no record,
                    // such as damage to one copy of a segment's header, is not reported.
                    if !damage.may_be_torn && damage.records != Some(0) {
                        let (bytes, offset, file) = (damage.bytes, damage.offset, damage.file());
                        read.damage.push(format!("{bytes} bytes at {offset} of journal/{file}"));
                    }
                }
                Item::Missing(_) => {
                    assembler.clear();
                    read.lacks_records = true;
                }
            }
        }
        Ok(read)
    }
}

fn span_file(entry: &FileEntry) -> SpanFile {
    let path = format!("spans/{:010}.parquet", entry.number);
    SpanFile { path, spans: entry.spans, bytes: entry.bytes }
}

/// Writer of span files. Each file gets as many spans as a flush of the head would write.
struct FileWriter<W, C> {
    create: C,
    options: Options,
    head: Head,
    rest: JournalFiles<W>,
}

impl<W: Write + Send, C: FnMut() -> io::Result<W>> FileWriter<W, C> {
    fn add(&mut self, blocks: Vec<Block>) -> Result<(), Error> {
        blocks.into_iter().for_each(|block| self.head.push(block));
        if self.head.is_full(&self.options) { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let batches = std::mem::take(&mut self.head).snapshot();
        let blocks: Vec<&Block> = batches.iter().map(|batch| &***batch).collect();
        let sorted = Sorted::of(&blocks);
        if sorted.is_empty() {
            return Ok(());
        }
        let file = (self.create)().map_err(Error::io("what is in the journal"))?;
        let written = Writer::create(file, blkkin_columns::Options::default())
            .and_then(|mut writer| writer.append(&sorted).map(|()| writer))
            .and_then(Writer::finish);
        let (file, written) = written.map_err(|error| Error::Spans(error.to_string()))?;
        self.rest.files.push((file, written.rows));
        Ok(())
    }

    fn finish(mut self) -> Result<JournalFiles<W>, Error> {
        self.write()?;
        Ok(self.rest)
    }
}
