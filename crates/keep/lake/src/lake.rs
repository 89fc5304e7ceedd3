//! [`Lake`]: opens a store, runs its threads, and closes the store.
//!
//! A batch takes the same path whether it was received from the network or recovered from the
//! journal. It is decoded into blocks, which are appended to the head in the order of the journal
//! (`write/accept`). The head is flushed to a file (`write/flush`), and files are merged
//! (`write/merge`). Each flush and each merge is one commit of the manifest.

use crate::calls::ledger::Ledger;
use crate::calls::refresh;
use crate::files::cache::Cache;
use crate::files::damaged_files::{self, DamagedFiles};
use crate::files::directory_names::DirectoryNames;
use crate::files::disk::{has_another_size, remove};
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::files::reindex::open_file;
use crate::locks::{RankedCell, RankedMutex};
use crate::memory::{Memory, State};
use crate::shared::Shared;
use crate::write::head::Head;
use crate::write::{flush, merge};
use crate::{Error, Options};
use blkkin_journal::{Directory, Disk, Journal};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Embedded store of spans in a directory.
pub struct Lake {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Report on opening a store: what was opened, recovered and found damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Number of span files that were opened.
    pub files: usize,
    /// Number of spans in the opened span files.
    pub spans: u64,
    /// Number of spans recovered from the journal.
    pub recovered: u64,
    /// Descriptions of the damage found, one line each. The store does not contain damaged data.
    pub damage: Vec<String>,
}

impl Lake {
    /// Opens the store in a directory. Creates the directory if it does not exist.
    pub fn open(directory: &Path, options: Options) -> Result<(Lake, OpenReport), Error> {
        let disk =
            Directory::make(directory).map_err(Error::io(directory.display().to_string()))?;
        Lake::open_on(Arc::new(disk), options)
    }

    /// Opens the store in the root directory of a disk; see [`Lake::open`].
    pub fn open_on(root: Arc<dyn Disk>, options: Options) -> Result<(Lake, OpenReport), Error> {
        let journal = root.directory("journal").map_err(Error::io("journal"))?;
        // The journal's lock protects the whole directory.
        let (journal, recovery) = Journal::open_on(journal, options.journal.clone())?;
        let spans = root.directory("spans").map_err(Error::io("spans"))?;
        let mut opened = OpenReport::default();
        if recovery.torn_bytes > 0 {
            let bytes = recovery.torn_bytes;
            opened.damage.push(format!(
                "{bytes} bytes at the end of the journal, perhaps never acknowledged"
            ));
        }
        let names = DirectoryNames::list(&*spans)?;
        let read = Manifest::read(&*root)?;
        let found = read.as_ref().map(|(manifest, _)| manifest);
        names.check(found, recovery.next_sequence > 0)?;
        let mut manifest = match read {
            Some((manifest, is_damaged)) => {
                if is_damaged {
                    opened.damage.push("one copy of the manifest, which is made again".to_owned());
                }
                manifest
            }
            None => Manifest::default(),
        };
        if recovery.next_sequence == 0 && manifest.journal_sequence > 0 {
            opened.damage.push("the journal, which is missing or empty".to_owned());
        }
        manifest.next_file = manifest.next_file.max(names.next_number);
        // The journal reuses the sequence numbers of rejected records, which are in no file.
        manifest.journal_sequence = manifest.journal_sequence.min(recovery.next_sequence);
        if options.stores_retention {
            manifest.retention = Some(options.retention);
        }
        let cache = Arc::new(Cache::new(options.cache_bytes_max));
        let lost_before = manifest.totals.lost;
        let named = manifest.named().count();
        let files = open_files(&spans, &cache, &mut manifest, &mut opened)?;
        let are_all_open = files.len() == named;
        for file in files.iter().filter(|file| !names.spans.contains(&file.entry.number)) {
            let _ = naming::publish(&*spans, file.entry.number);
        }
        if are_all_open {
            // While any file of the store is unreadable, keep the files from which it may have been
            // merged.
            let mut left = Vec::new();
            for file in &manifest.removing {
                let name = naming::spans_name(file.number);
                if has_another_size(&*spans, &name, file.bytes) {
                    opened.damage.push(format!(
                        "spans/{name}, which has another size than the file that the store gave up under this \
                         name, and is left alone"
                    ));
                    left.push(file.clone());
                } else if !remove(&*spans, file.number) {
                    left.push(file.clone());
                }
            }
            if spans.sync().is_ok() {
                manifest.removing = left;
            }
        }
        let is_more_lost = manifest.totals.lost > lost_before || !manifest.unread.is_empty();
        let mut ledger = Ledger::new(options.links_bytes_max);
        files.iter().for_each(|file| ledger.add(&file.links().unwrap_or_default(), 1));
        manifest.commit += 1;
        manifest.write(&*root)?;
        names.remove_unfinished(&*spans, &manifest);
        let mut damaged_files = DamagedFiles::find(Arc::clone(&spans));
        damaged_files.trim(options.damaged_bytes_max);
        opened.files = files.len();
        opened.spans = files.iter().map(|file| file.entry.spans).sum();
        let totals = manifest.totals;
        let state =
            State { head: Head::new(manifest.journal_sequence), totals, ..State::default() };
        let memory = Arc::new(Memory::new(options, state, Arc::clone(&cache)));
        let shared = Arc::new(Shared {
            memory,
            root,
            spans,
            journal,
            manifest: RankedMutex::new(manifest),
            files: RankedCell::new(Arc::new(files)),
            cache,
            ledger: RankedMutex::new(ledger),
            head_links: RankedMutex::default(),
            uncertain_files: RankedMutex::default(),
            damaged_files: RankedMutex::new(damaged_files),
        });
        let mut lake = Lake { shared, threads: Vec::new() };
        lake.start("lake-write", flush::run)?;
        lake.shared.recover(&mut opened)?;
        lake.shared.memory.count_damage(opened.damage.len() as u64, is_more_lost);
        lake.start("lake-merge", merge::run)?;
        lake.start("lake-links", refresh::run)?;
        Ok((lake, opened))
    }

    fn start(&mut self, name: &str, run: fn(&Shared)) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(&shared)).map_err(Error::io(name))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Flushes the head, and waits until all spans accepted so far are in files. Durability does
    /// not require a flush.
    pub fn flush(&self) -> Result<(), String> {
        let memory = &self.shared.memory;
        let mut state = memory.state();
        let wanted = state.head.sequence;
        state.flush_target = wanted;
        memory.work.notify_all();
        while state.written < wanted && state.write_error.is_none() {
            state.wait(&memory.flush_done);
        }
        state.write_error.clone().map_or(Ok(()), Err)
    }

    /// Derives the calls of the spans in memory now, without waiting for the next refresh.
    pub fn refresh_calls(&self) {
        self.shared.refresh_head_links();
    }
}

impl Drop for Lake {
    fn drop(&mut self) {
        self.shared.memory.state().is_closing = true;
        self.shared.memory.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

/// Opens the files that a manifest names. A damaged or missing file is removed from the manifest,
/// and a damaged file is renamed. A file that the operating system refuses to read or rename is
/// left out until the next start.
pub(crate) fn open_files(
    spans: &Arc<dyn Disk>,
    cache: &Arc<Cache>,
    manifest: &mut Manifest,
    opened: &mut OpenReport,
) -> Result<Vec<Arc<IndexedFile>>, Error> {
    let mut files = Vec::new();
    for entry in manifest.take_files() {
        let lost = entry.spans;
        let name = naming::spans_name(entry.number);
        match open_file(Arc::clone(spans), Arc::clone(cache), entry.clone(), &files) {
            Ok(file) => {
                files.push(Arc::new(file));
                manifest.files.push(entry);
            }
            Err(error) if error.may_pass() || !damaged_files::put_aside(&**spans, entry.number) => {
                manifest.totals.lost += lost;
                manifest.unread.push(entry);
                opened.damage.push(format!(
                    "{lost} spans of {name}, which is tried again at the next start: {error}"
                ));
            }
            Err(error) => {
                manifest.totals.lost += lost;
                opened.damage.push(format!("{lost} spans of {name}: {error}"));
            }
        }
    }
    Ok(files)
}
