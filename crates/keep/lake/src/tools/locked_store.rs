//! [`LockedStore`]: reads and copies the spans of a store that no server has open, and imports span
//! files.

use crate::files::column_file::{self, ColumnFile, DiskInput};
use crate::files::directory_names::DirectoryNames;
use crate::files::disk::lock_store;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::tools::adopt::adopt_with;
use crate::tools::listing::Listing;
use crate::{AdoptReport, Error, Lake, Options, Retention};
use blkkin_columns::Block;
use blkkin_journal::{Directory, Disk, Lock};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Number of rows that are read from a file at a time.
const ROWS: u64 = 4096;

const COPY_BYTES: usize = 1 << 20;

/// Store that is locked and open for reading.
pub struct LockedStore {
    spans: Arc<dyn Disk>,
    journal: Arc<dyn Disk>,
    listing: Listing,
    numbers: Vec<u64>,
    _lock: Lock,
}

impl LockedStore {
    /// Opens the store in a directory. Returns an error if the directory contradicts its manifest.
    pub fn open(directory: &Path) -> Result<LockedStore, Error> {
        if !directory.join("spans").is_dir() {
            return Err(Error::NoStore);
        }
        let root =
            Directory::open(directory).map_err(Error::io(directory.display().to_string()))?;
        let manifest = Manifest::read(&root)?.map(|(manifest, _)| manifest);
        let spans = root.directory("spans").map_err(Error::io("spans"))?;
        let journal = root.directory("journal").map_err(Error::io("journal"))?;
        let lock = lock_store(&*journal)?;
        DirectoryNames::list(&*spans)?.check(manifest.as_ref(), true)?;
        let manifest = manifest.ok_or(Error::NoStore)?;
        let numbers = manifest.files.iter().map(|file| file.number).collect();
        let listing = Listing::of(&root)?.ok_or(Error::NoStore)?;
        Ok(LockedStore { spans, journal, listing, numbers, _lock: lock })
    }

    /// Returns the number of span files. The other methods number the files from 0.
    pub fn files(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the size of all span files in bytes.
    pub fn bytes(&self) -> u64 {
        self.listing.files.iter().map(|file| file.bytes).sum()
    }

    /// Copies a file unchanged after verifying it. Returns the file's number of spans.
    pub fn copy(&self, file: usize, to: &mut dyn Write) -> Result<u64, Error> {
        let number = self.numbers[file];
        let name = naming::spans_name(number);
        let opened = self.verified(number)?;
        let from = naming::open_either(&*self.spans, number).map_err(Error::io(&name))?;
        let mut offset = 0;
        let mut bytes = vec![0; COPY_BYTES];
        loop {
            match from.read_at(&mut bytes, offset).map_err(Error::io(&name))? {
                0 => return Ok(opened.len()),
                count => {
                    to.write_all(&bytes[..count]).map_err(Error::io("the copy"))?;
                    offset += count as u64;
                }
            }
        }
    }

    /// Calls `each` with the spans of a file, after verifying the file.
    pub fn read(
        &self,
        file: usize,
        each: &mut dyn FnMut(&Block) -> io::Result<()>,
    ) -> Result<(), Error> {
        let number = self.numbers[file];
        let opened = self.verified(number)?;
        let mut block = Block::new();
        let mut start = 0;
        while start < opened.len() {
            let next = opened.len().min(start + ROWS);
            block.clear();
            column_file::read_rows(&opened, number, start as u32..next as u32, &mut block)?;
            each(&block).map_err(Error::io("the copy"))?;
            start = next;
        }
        Ok(())
    }

    fn verified(&self, number: u64) -> Result<ColumnFile, Error> {
        let file = column_file::open_spans(&*self.spans, number)?;
        file.verify().map_err(|error| column_file::read_error(number, error))?;
        Ok(file)
    }

    /// Calls `each` with the spans that only the journal has. Returns descriptions of the journal's
    /// damage, one line each.
    pub fn read_journal(
        &self,
        each: &mut dyn FnMut(&Block) -> io::Result<()>,
    ) -> Result<Vec<String>, Error> {
        let journal = Arc::clone(&self.journal);
        let read = self.listing.journal_blocks(journal, &mut |blocks| {
            blocks.iter().try_for_each(&mut *each).map_err(Error::io("the copy"))
        })?;
        let mut damage = read.damage;
        if read.lacks_records {
            damage.push("records of the journal, which are missing".to_owned());
        }
        Ok(damage)
    }

    /// Writes the spans that only the journal has to new files; see [`Listing::write_journal`].
    pub fn copy_journal<W: Write + Send>(
        &self,
        create: impl FnMut() -> io::Result<W>,
    ) -> Result<crate::JournalFiles<W>, Error> {
        self.listing.write_journal(Arc::clone(&self.journal), create)
    }

    /// Imports span files into the store in a directory. Creates the store if it does not exist.
    /// Spans that the store already has are skipped. `bytes_done` is the approximate size of the
    /// files of the store and the imported files processed so far.
    pub fn import(
        directory: &Path,
        sources: &mut [impl Read],
        bytes_done: &AtomicU64,
    ) -> Result<AdoptReport, Error> {
        let is_new = !directory.join("manifest").exists();
        // Creates the store if the directory has none. Fails if the directory contradicts its
        // manifest.
        let retention = Retention::ALL;
        let options = Options { retention, stores_retention: is_new, ..Options::default() };
        drop(Lake::open(directory, options)?);
        let root =
            Directory::open(directory).map_err(Error::io(directory.display().to_string()))?;
        let spans = root.directory("spans").map_err(Error::io("spans"))?;
        let journal = root.directory("journal").map_err(Error::io("journal"))?;
        let lock = lock_store(&*journal)?;
        let (manifest, _) = Manifest::read(&root)?.ok_or(Error::NoStore)?;
        let first = manifest.next_file.max(DirectoryNames::list(&*spans)?.next_number);
        let mut incoming = Vec::new();
        for (source, number) in sources.iter_mut().zip(first..) {
            incoming.push(number);
            if let Err(error) = import_file(&*spans, source, number) {
                incoming.iter().for_each(|&number| naming::remove_unfinished(&*spans, number));
                return Err(error);
            }
        }
        drop(lock);
        let adopted = adopt_with(Arc::new(root), &incoming, bytes_done);
        if adopted.is_err() {
            incoming.iter().for_each(|&number| naming::remove_unfinished(&*spans, number));
        }
        adopted
    }
}

/// Copies a span file into the store under an unfinished name.
fn import_file(spans: &dyn Disk, source: &mut impl Read, number: u64) -> Result<(), Error> {
    let name = naming::unfinished_name(number);
    let file = spans.create(&name).map_err(Error::io(&name))?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let count = source.read(&mut bytes).map_err(Error::io("a file that is brought in"))?;
        if count == 0 {
            break;
        }
        file.write_at(&bytes[..count], offset).map_err(Error::io(&name))?;
        offset += count as u64;
    }
    file.sync().map_err(Error::io(&name))?;
    ColumnFile::open(DiskInput(file))
        .map_err(|error| column_file::read_error(number, error))
        .map(drop)
}
