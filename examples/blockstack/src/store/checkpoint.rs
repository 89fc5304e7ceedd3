//! The journal's files: appends records, replays them when a store starts, and removes files. A
//! full file is removed once a background thread has made its changes durable in the objects.

use super::journal::{self, OBJECT_SIZE};
use super::objects::{self, Objects};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Maximum number of full files that wait for the background thread. If so many files wait, records
/// are appended to the last file, regardless of its size.
const WAITING_MAX: usize = 2;

/// The journal, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    file: Arc<File>,
    path: PathBuf,
    file_number: u64,
    size: u64,
    size_max: u64,
    next_record: u64,
    /// Files to which records were appended since the last sync.
    unsynced: Vec<Arc<File>>,
    /// Numbers of the objects that records of the current file change.
    changed: BTreeSet<u64>,
    full: Sender<FullFile>,
    waiting: Arc<AtomicUsize>,
    /// Kind of the first error. The contents of the file are unknown after an error, so no more
    /// records are written.
    broken: Option<io::ErrorKind>,
}

/// A full journal file whose changes are not durable in the objects yet.
struct FullFile {
    path: PathBuf,
    changed: BTreeSet<u64>,
}

/// Counts of the replay at the start of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayStats {
    pub(super) records: u64,
    pub(super) torn: u64,
}

impl Journal {
    /// Applies the records of all files to the objects, removes the files, and starts a new one.
    pub(super) fn open(
        directory: &Path,
        objects_directory: &Path,
        objects: &mut Objects,
        size_max: u64,
    ) -> io::Result<(Journal, ReplayStats)> {
        fs::create_dir_all(directory)?;
        let found = files(directory)?;
        let mut replayed = ReplayStats::default();
        let mut changed = BTreeSet::new();
        let mut next_record = 0;
        for (_, path) in &found {
            let mut input = BufReader::with_capacity(OBJECT_SIZE as usize, File::open(path)?);
            let read = journal::read(&mut input, None, |record| {
                changed.insert(record.object);
                next_record = record.number + 1;
                objects.apply(&record)
            })?;
            replayed.records += read.records;
            replayed.torn += u64::from(read.is_torn);
        }
        objects::sync(objects_directory, changed)?;
        for (_, path) in &found {
            fs::remove_file(path)?;
        }
        let file_number = found.last().map_or(0, |(number, _)| *number) + 1;
        let (file, path) = begin(directory, file_number)?;
        let waiting = Arc::new(AtomicUsize::new(0));
        let full = start_thread(objects_directory.to_owned(), waiting.clone())?;
        let journal = Journal {
            directory: directory.to_owned(),
            file,
            path,
            file_number,
            size: 0,
            size_max,
            next_record,
            unsynced: Vec::new(),
            changed: BTreeSet::new(),
            full,
            waiting,
            broken: None,
        };
        Ok((journal, replayed))
    }

    /// Returns the number of the next record and increments the counter.
    pub(super) fn next_record(&mut self) -> u64 {
        self.next_record += 1;
        self.next_record - 1
    }

    /// Appends encoded records. `changed` are the numbers of the objects that they change.
    pub(super) fn append(
        &mut self,
        records: &[u8],
        changed: impl IntoIterator<Item = u64>,
    ) -> io::Result<()> {
        self.check()?;
        let result = self.rotate().and_then(|()| self.file.write_all_at(records, self.size));
        self.record_error(&result);
        result?;
        self.size += records.len() as u64;
        self.changed.extend(changed);
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, &self.file)) {
            self.unsynced.push(self.file.clone());
        }
        Ok(())
    }

    /// Makes all appended records durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        let result = self.unsynced.iter().try_for_each(|file| file.sync_data());
        self.record_error(&result);
        self.unsynced.clear();
        result
    }

    fn check(&self) -> io::Result<()> {
        self.broken.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn record_error(&mut self, result: &io::Result<()>) {
        if let Err(error) = result {
            self.broken = Some(error.kind());
        }
    }

    /// Starts a new file if the current file is full and fewer than [`WAITING_MAX`] files wait.
    fn rotate(&mut self) -> io::Result<()> {
        if self.size < self.size_max || self.waiting.load(Ordering::Acquire) >= WAITING_MAX {
            return Ok(());
        }
        let (file, path) = begin(&self.directory, self.file_number + 1)?;
        let path = std::mem::replace(&mut self.path, path);
        let changed = std::mem::take(&mut self.changed);
        self.file = file;
        self.file_number += 1;
        self.size = 0;
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.full.send(FullFile { path, changed }).map_err(|_| io::Error::other("no thread"))
    }
}

/// Creates an empty journal file, whose directory entry is durable.
fn begin(directory: &Path, number: u64) -> io::Result<(Arc<File>, PathBuf)> {
    let path = directory.join(format!("{number:016x}"));
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    File::open(directory)?.sync_all()?;
    Ok((Arc::new(file), path))
}

/// Returns the journal's files in order, with their numbers.
fn files(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}

/// Starts the thread that makes changes durable in the objects and removes full files. The thread
/// ends when the sender is dropped.
fn start_thread(objects: PathBuf, waiting: Arc<AtomicUsize>) -> io::Result<Sender<FullFile>> {
    let (sender, receiver) = channel::<FullFile>();
    std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
        for FullFile { path, changed } in receiver {
            // A file stays in the journal if its changes cannot be made durable. Files are removed
            // in order, also on disk: a replay of only an old file would revert objects to an
            // earlier state.
            let synced = objects::sync(&objects, changed);
            if synced.and_then(|()| fs::remove_file(&path)).is_ok() {
                let directory = path.parent().unwrap_or_else(|| Path::new("."));
                let _ = File::open(directory).and_then(|directory| directory.sync_all());
            }
            waiting.fetch_sub(1, Ordering::AcqRel);
        }
    })?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Change, Record};
    use super::*;
    use blkkin_sys::testing::Scratch;
    use std::time::{Duration, Instant};

    struct Store {
        objects: Objects,
        journal: Journal,
        replayed: ReplayStats,
    }

    fn open(scratch: &Scratch, size_max: u64) -> Store {
        let (journal, objects) = (scratch.0.join("journal"), scratch.0.join("objects"));
        let mut store = Objects::open(objects.clone()).unwrap();
        let (journal, replayed) = Journal::open(&journal, &objects, &mut store, size_max).unwrap();
        Store { objects: store, journal, replayed }
    }

    impl Store {
        fn append(&mut self, object: u64, bytes: &[u8]) {
            let mut record = Vec::new();
            let number = self.journal.next_record();
            Record { number, object, offset: 0, change: Change::Write(bytes) }.write(&mut record);
            self.journal.append(&record, [object]).unwrap();
        }

        fn read(&mut self, object: u64) -> Vec<u8> {
            let mut output = Vec::new();
            self.objects.read(object, 0, 4, &mut output).unwrap();
            output
        }
    }

    /// After a restart, the objects have all changes in the journal. A torn tail does not affect
    /// the records before it.
    #[test]
    fn a_journal_is_replayed() {
        let scratch = Scratch::new("blockstack-replay");
        let mut store = open(&scratch, 1 << 20);
        store.append(1, b"old.");
        store.append(1, b"new.");
        store.append(2, b"two.");
        store.journal.sync().unwrap();
        let path = store.journal.path.clone();
        drop(store);
        let size = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(size - 1).unwrap();

        let mut store = open(&scratch, 1 << 20);
        assert_eq!(store.replayed, ReplayStats { records: 2, torn: 1 });
        assert_eq!((store.read(1), store.read(2)), (b"new.".to_vec(), vec![0; 4]));
        store.append(2, b"2222");
        drop(store);
        let mut store = open(&scratch, 1 << 20);
        assert_eq!(store.replayed, ReplayStats { records: 1, torn: 0 });
        assert_eq!((store.read(1), store.read(2)), (b"new.".to_vec(), b"2222".to_vec()));
    }

    /// Full files are removed. A restart afterwards preserves the last change.
    #[test]
    fn full_files_go() {
        let scratch = Scratch::new("blockstack-full");
        let mut store = open(&scratch, 1000);
        for number in 0..200u32 {
            let bytes = number.to_le_bytes();
            store.append(7, &bytes);
            let change = Change::Write(&bytes);
            store.objects.apply(&Record { number: 0, object: 7, offset: 0, change }).unwrap();
        }
        store.journal.sync().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while store.journal.waiting.load(Ordering::Acquire) > 0 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(store.journal.file_number > 1, "{}", store.journal.file_number);
        assert_eq!(files(&scratch.0.join("journal")).unwrap().len(), 1);
        drop(store);
        let mut store = open(&scratch, 1000);
        assert_eq!(store.read(7), 199u32.to_le_bytes());
    }
}
