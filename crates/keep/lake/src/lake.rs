//! The store: takes batches, and keeps what is in memory and what is in files together. Start at [`Lake`].
//!
//! A batch goes the same way whether it comes from the network or, after an end that was not in order, from the
//! journal: it is read into a block, and the block is added to the head in the order of the journal. The head becomes
//! a file ([`crate::write`]), and files become one ([`crate::merge`]), each by one commit of the manifest.

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

/// Keeps spans in a directory.
pub struct Lake {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What was found when a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Files of spans.
    pub files: usize,
    /// Spans in them.
    pub spans: u64,
    /// Spans that were only in the journal.
    pub recovered: u64,
    /// What could not be read, and was left out: one line each.
    pub damage: Vec<String>,
}

impl Lake {
    /// Opens the store in a directory, which is made if it is not there.
    pub fn open(directory: &Path, options: Options) -> Result<(Lake, Opened), Error> {
        let disk =
            Directory::make(directory).map_err(Error::io(directory.display().to_string()))?;
        Lake::open_on(Arc::new(disk), options)
    }

    /// The same on another kind of disk.
    pub fn open_on(root: Arc<dyn Disk>, options: Options) -> Result<(Lake, Opened), Error> {
        let journal = root.directory("journal").map_err(Error::io("journal"))?;
        // Whoever has the journal has the whole directory.
        let (journal, recovery) = Journal::open_on(journal, options.journal.clone())?;
        let spans = root.directory("spans").map_err(Error::io("spans"))?;
        let mut opened = Opened::default();
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
        // Records that were refused had numbers, too, which the journal gives again: what gets them is in no file.
        manifest.journal_sequence = manifest.journal_sequence.min(recovery.next_sequence);
        if options.notes_retention {
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
            // While a file of the store cannot be read, what it was made of is kept.
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
        damaged_files.keep_to(options.aside_bytes_max);
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
            doubtful: RankedMutex::default(),
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

    /// Waits until all that was taken is in files. It need not be for being durable.
    pub fn write_files(&self) -> Result<(), String> {
        let memory = &self.shared.memory;
        let mut state = memory.state();
        let wanted = state.head.sequence;
        state.flush_target = wanted;
        memory.work.notify_all();
        while state.written < wanted && state.write_error.is_none() {
            state = state.wait(&memory.room);
        }
        state.write_error.clone().map_or(Ok(()), Err)
    }

    /// Finds the calls of what is in memory now, rather than soon.
    pub fn link(&self) {
        self.shared.refresh_head_links();
    }
}

impl Drop for Lake {
    fn drop(&mut self) {
        self.shared.memory.state().is_closing = true;
        self.shared.memory.work.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Opens the files that a manifest names. One that is damaged is left out, and put aside; one that the system does not let
/// us read, or put aside, is left out until the store is opened again.
pub(crate) fn open_files(
    spans: &Arc<dyn Disk>,
    cache: &Arc<Cache>,
    manifest: &mut Manifest,
    opened: &mut Opened,
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
            Err(error) if error.may_pass() || !damaged_files::put(&**spans, entry.number) => {
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
