//! What a store has at the moment, for those who only read it, beside whoever writes it. Start at [`Listing::of`].

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

/// What a store consists of: files, and the rest of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// In order of what was received when. They may be merged with others at any moment, and be gone then: who does not
    /// find one makes another listing.
    pub files: Vec<SpanFile>,
    /// From where on the journal is in no file.
    journal_sequence: u64,
}

/// Spans that were only in the journal.
#[derive(Debug)]
pub struct Rest<W> {
    /// FileWriter like the others, each with its number of spans.
    pub files: Vec<(W, u64)>,
    /// What could not be read: one line each.
    pub damage: Vec<String>,
    /// Whether some of them are not in the journal any more: in files, if another listing has those.
    pub is_behind: bool,
}

/// What reading a journal found beside spans.
#[derive(Debug, Default)]
pub(crate) struct JournalRead {
    /// What could not be read: one line each.
    pub(crate) damage: Vec<String>,
    /// Whether the journal lacks records that are in no file of the listing.
    pub(crate) is_behind: bool,
}

impl Listing {
    /// What the store in this directory consists of; `None` if it has never written a file.
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

    /// That of a store that has only a journal.
    pub fn empty() -> Listing {
        Listing { files: Vec::new(), journal_sequence: 0 }
    }

    /// Makes files of what the journal has and none of these files: as many as memory is bounded by, in what `create`
    /// makes.
    pub fn rest<W: Write + Send>(
        &self,
        journal: Arc<dyn Disk>,
        create: impl FnMut() -> io::Result<W>,
    ) -> Result<Rest<W>, Error> {
        let rest = Rest { files: Vec::new(), damage: Vec::new(), is_behind: false };
        let (options, head) = (Options::default(), Head::default());
        let mut files = FileWriter { create, options, head, rest };
        let read = self.journal_blocks(journal, &mut |blocks| files.add(blocks))?;
        (files.rest.damage, files.rest.is_behind) = (read.damage, read.is_behind);
        files.finish()
    }

    /// Hands over the spans that the journal has and none of these files.
    pub(crate) fn journal_blocks(
        &self,
        journal: Arc<dyn Disk>,
        each: &mut dyn FnMut(Vec<Block>) -> Result<(), Error>,
    ) -> Result<JournalRead, Error> {
        let mut decoder = Decoder::new(Options::default().limits);
        let mut read = JournalRead::default();
        let mut reader = Reader::beside_writer(journal, self.journal_sequence)?;
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
                    // What is being written looks so, too; and of a segment's header there are two copies.
                    if !damage.may_be_torn && damage.records != Some(0) {
                        let (bytes, offset, file) = (damage.bytes, damage.offset, damage.file());
                        read.damage.push(format!("{bytes} bytes at {offset} of journal/{file}"));
                    }
                }
                Item::Gone(_) => {
                    assembler.clear();
                    read.is_behind = true;
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

/// Makes files of what a head would, each of as many spans.
struct FileWriter<W, C> {
    create: C,
    options: Options,
    head: Head,
    rest: Rest<W>,
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

    fn finish(mut self) -> Result<Rest<W>, Error> {
        self.write()?;
        Ok(self.rest)
    }
}
