//! Snapshot of a store for one query: the span files, and the records that are only in the journal,
//! converted to files in memory. All files are open, so a query can still read a file that a merge
//! has removed. Start at [`Snapshot::take`].

use crate::error::Error;
use blkkin_journal::Directory;
use blkkin_lake::Listing;
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Open span files, in the order of the manifest, followed by the files converted from the journal.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) files: Vec<Arc<SpanFile>>,
    /// True if the server moved records from the journal to files after the manifest was read. The
    /// snapshot lacks these records.
    is_behind: bool,
    /// Descriptions of the unreadable or missing parts of the journal, a line each.
    damage: Vec<String>,
}

/// Open span file. The footer without page indexes is cached after the first read.
#[derive(Debug)]
pub(crate) struct SpanFile {
    /// Path relative to the store's directory; `journal/N` for files converted from the journal.
    pub(crate) name: String,
    pub(crate) spans: u64,
    pub(crate) bytes: u64,
    /// Size in bytes according to the manifest; `None` for files converted from the journal.
    bytes_named: Option<u64>,
    file: Arc<File>,
    footer: OnceLock<Arc<ParquetMetaData>>,
}

/// Reason why the files of a store could not be opened.
enum OpenError {
    /// The store may have changed during the attempt, so a retry may succeed.
    Transient(Error),
    Permanent(Error),
}

/// Maximum number of attempts to take a snapshot while the store changes.
const TRIES: usize = 20;
/// Time between two attempts to take a snapshot.
const PAUSE: Duration = Duration::from_millis(20);

impl Snapshot {
    /// Opens all files of the store in `directory`, and converts the records that are only in the
    /// journal to files in memory. Stores the size of the converted files in `made_bytes`.
    pub(crate) fn take(directory: &Path, made_bytes: &Arc<AtomicUsize>) -> Result<Snapshot, Error> {
        let disk = Directory::open(directory).map_err(|error| cannot_read(directory, &error))?;
        allow_descriptors();
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match Snapshot::try_take(directory, &disk, made_bytes) {
                Ok(mut snapshot) if snapshot.is_behind && tries == 0 => {
                    snapshot.damage.push("records of the journal, which are missing".to_owned());
                    return Ok(snapshot);
                }
                Ok(snapshot) if !snapshot.is_behind => return Ok(snapshot),
                Err(OpenError::Permanent(error)) => return Err(error),
                Err(OpenError::Transient(error)) if tries == 0 => return Err(error),
                _ => thread::sleep(PAUSE),
            }
        }
    }

    fn try_take(
        directory: &Path,
        disk: &Directory,
        made_bytes: &Arc<AtomicUsize>,
    ) -> Result<Snapshot, OpenError> {
        made_bytes.store(0, Ordering::Relaxed);
        let cannot = |error: &dyn std::fmt::Display| cannot_read(directory, error);
        let journal = Directory::open(&directory.join("journal"));
        let listing = Listing::of(disk).map_err(|error| OpenError::Permanent(cannot(&error)))?;
        let listing = match (listing, &journal) {
            (Some(listing), _) => listing,
            (None, Ok(_)) if has_files(directory) => {
                return Err(OpenError::Permanent(
                    cannot(&"there are files in spans/, and no manifest")
                        .hint("`blkkin store adopt --data DIR` makes a store of them"),
                ));
            }
            (None, Ok(_)) => Listing::empty(),
            (None, Err(_)) => {
                return Err(OpenError::Permanent(cannot(&"there is no manifest in it")));
            }
        };
        let opened = listing.files.iter().map(|file| open(directory, file));
        let mut files = opened.collect::<Result<Vec<_>, OpenError>>()?;
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Snapshot { files, ..Snapshot::default() });
            }
            Err(error) => return Err(OpenError::Permanent(cannot(&error))),
        };
        // The server removes journal segments once files contain their records, so an error may be
        // transient.
        let rest = listing.write_journal(Arc::new(journal), || MemoryFile::create(made_bytes));
        let rest = rest.map_err(|error| OpenError::Transient(cannot(&error)))?;
        for (number, (file, spans)) in rest.files.into_iter().enumerate() {
            let name = format!("journal/{number}");
            files.push(
                SpanFile::new(name, spans, None, file.0)
                    .map_err(|error| OpenError::Permanent(cannot(&error)))?,
            );
        }
        Ok(Snapshot { files, damage: rest.damage, is_behind: rest.lacks_records })
    }

    /// Returns descriptions of the unreadable or missing parts of the journal, a line each.
    pub(crate) fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Verifies all files completely, and removes the damaged files from the snapshot. Returns a
    /// description of each damaged file and of each unreadable or missing part of the journal.
    pub(crate) fn remove_damaged(&mut self) -> Vec<String> {
        let mut damaged = std::mem::take(&mut self.damage);
        self.files.retain(|file| match file.check() {
            Ok(()) => true,
            Err(error) => {
                damaged.push(error);
                false
            }
        });
        damaged
    }

    pub(crate) fn spans(&self) -> u64 {
        self.files.iter().map(|file| file.spans).sum()
    }
}

/// Raises the soft limit of file descriptors to the hard limit, because a store may have more files
/// than the soft limit allows.
fn allow_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If this fails, a later `open` reports the error.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Returns whether the directory contains any span file, even if no manifest lists it.
fn has_files(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory.join("spans"));
    let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| Path::new(&name).extension().is_some_and(|it| it == "parquet"))
}

fn cannot_read(directory: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::failed(format!("cannot read the store in {}: {error}", directory.display()))
        .hint("--data names the directory that `blkkin server --data` was started with")
}

fn open(directory: &Path, file: &blkkin_lake::SpanFile) -> Result<Arc<SpanFile>, OpenError> {
    let path = directory.join(&file.path);
    let opened = File::open(&path).or_else(|error| match error.kind() {
        // The manifest names a file before the server renames it to its final name.
        ErrorKind::NotFound => File::open(path.with_extension("unfinished")).map_err(|_| error),
        _ => Err(error),
    });
    let opened = opened
        .and_then(|opened| SpanFile::new(file.path.clone(), file.spans, Some(file.bytes), opened));
    opened.map_err(|error| {
        let told = Error::failed(format!("cannot open {}: {error}", path.display()));
        match error.kind() {
            ErrorKind::NotFound => OpenError::Transient(told),
            _ => OpenError::Permanent(told),
        }
    })
}

/// Anonymous file in memory, and the total size in bytes of all such files.
struct MemoryFile(File, Arc<AtomicUsize>);

impl MemoryFile {
    fn create(made_bytes: &Arc<AtomicUsize>) -> io::Result<MemoryFile> {
        let file = memfd_create("journal", MemfdFlags::CLOEXEC)?;
        Ok(MemoryFile(file.into(), Arc::clone(made_bytes)))
    }
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1.fetch_add(written, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl SpanFile {
    fn new(
        name: String,
        spans: u64,
        bytes_named: Option<u64>,
        file: File,
    ) -> io::Result<Arc<SpanFile>> {
        let bytes = file.metadata()?.len();
        let (file, footer) = (Arc::new(file), OnceLock::new());
        Ok(Arc::new(SpanFile { name, spans, bytes, bytes_named, file, footer }))
    }

    /// Compares the file's size with the manifest; the error describes the damage. DataFusion may
    /// skip an empty file without an error.
    pub(crate) fn check_size(&self) -> Result<(), String> {
        let (name, bytes) = (&self.name, self.bytes);
        match self.bytes_named {
            Some(named) if named != bytes => {
                Err(format!("{name} is damaged: it has {bytes} bytes, and {named} by the manifest"))
            }
            _ => Ok(()),
        }
    }

    /// Reads `length` bytes from the offset `start`.
    pub(crate) fn read(&self, start: u64, length: u64) -> Result<Bytes, ParquetError> {
        let is_within = start.checked_add(length).is_some_and(|end| end <= self.bytes);
        let length = usize::try_from(length).ok().filter(|_| is_within);
        let Some(length) = length else {
            return Err(ParquetError::EOF(format!("{} is shorter than it says", self.name)));
        };
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start).map_err(|error| {
            ParquetError::General(format!("cannot read {}: {error}", self.name))
        })?;
        Ok(bytes.into())
    }

    /// Returns the metadata in the file's footer, with page indexes if `policy` requests them.
    pub(crate) fn metadata(
        &self,
        policy: PageIndexPolicy,
    ) -> Result<Arc<ParquetMetaData>, ParquetError> {
        if policy == PageIndexPolicy::Skip
            && let Some(known) = self.footer.get()
        {
            return Ok(known.clone());
        }
        let read = ParquetMetaDataReader::new().with_page_index_policy(policy);
        let metadata = read.parse_and_finish(self).map_err(|error| self.damaged(&error))?;
        let metadata = Arc::new(metadata);
        if policy == PageIndexPolicy::Skip {
            let _ = self.footer.set(metadata.clone());
        }
        Ok(metadata)
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> ParquetError {
        ParquetError::General(format!("{} is damaged: {error}", self.name))
    }

    /// Verifies the file's size and all its pages; the error describes the damage.
    pub(crate) fn check(self: &Arc<SpanFile>) -> Result<(), String> {
        self.check_size()?;
        self.check_pages().map_err(|error| match error {
            ParquetError::General(text) if text.starts_with(&self.name) => text,
            error => format!("{} is damaged: {error}", self.name),
        })
    }

    fn check_pages(self: &Arc<SpanFile>) -> Result<(), ParquetError> {
        self.metadata(PageIndexPolicy::Required)?;
        let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
        let options = ReadOptionsBuilder::new().with_reader_properties(properties).build();
        let reader = SerializedFileReader::new_with_options(SharedSpanFile(self.clone()), options)?;
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            for column in 0..group.num_columns() {
                group.get_column_page_reader(column)?.try_for_each(|page| page.map(drop))?;
            }
        }
        Ok(())
    }
}

/// Handle of a span file for Parquet's reader, which needs an owned value.
struct SharedSpanFile(Arc<SpanFile>);

impl Length for SpanFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl Length for SharedSpanFile {
    fn len(&self) -> u64 {
        self.0.bytes
    }
}

impl ChunkReader for SpanFile {
    type T = OffsetReader;

    fn get_read(&self, start: u64) -> Result<OffsetReader, ParquetError> {
        Ok(OffsetReader { file: self.file.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.read(start, length as u64)
    }
}

impl ChunkReader for SharedSpanFile {
    type T = OffsetReader;

    fn get_read(&self, start: u64) -> Result<OffsetReader, ParquetError> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

/// Sequential reader of a file from an offset on.
pub(crate) struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl Read for OffsetReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(to, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
