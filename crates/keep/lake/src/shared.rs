//! [`Shared`]: the state that all threads of a store use.

use crate::calls::ledger::{Ledger, WindowCalls};
use crate::calls::link_table::EarlierSpans;
use crate::files::cache::Cache;
use crate::files::damaged_files::DamagedFiles;
use crate::files::file_entry::Totals;
use crate::files::index::LinkCount;
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::locks::{RankedCell, RankedMutex, rank};
use crate::memory::{Memory, State};
use crate::query::snapshot::Snapshot;
use blkkin_journal::{Disk, Journal};
use blkkin_store::Counters;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// List of files, in the order in which their spans were received.
pub(crate) type FileList = Arc<Vec<Arc<IndexedFile>>>;

/// State that all threads of a store use.
///
/// # Order of the locks
///
/// A thread that holds a lock acquires only locks further down in this table. The ranks in
/// [`crate::locks::rank`] follow the table, and debug builds panic where a thread violates it.
///
/// | rank | lock | protects |
/// |---|---|---|
/// | 0 | `manifest` | the manifest, throughout each change of it |
/// | 1 | `uncertain_files` | numbers of files that a failed write of the manifest may have named |
/// | 2 | `damaged_files` | list of damaged files |
/// | 3 | [`Memory::state`] | the head and the counters |
/// | 4 | `files` | the list of files |
/// | 5 | `head_links` | calls of spans in memory |
/// | 6 | `ledger` | sums of the calls of all files |
///
/// Related changes of the files and the head are made under the lock of the state, so that a
/// snapshot has each span either in the head or in a file. A thread that removes files from the
/// disk holds no lock from `state` on, since the removal takes long.
///
/// Other mutexes have no rank: the mutexes of the cache, of spare decoders and blocks, of a file's
/// retry times, and of a batch's callback. No lock of the table is acquired under them, except for
/// the lock of the state under a callback's mutex when the journal rejects the batch.
pub(crate) struct Shared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) root: Arc<dyn Disk>,
    pub(crate) spans: Arc<dyn Disk>,
    pub(crate) journal: Journal,
    /// Current manifest. Its `next_file` may be ahead of the copies on disk. The lock is held
    /// throughout each change.
    pub(crate) manifest: RankedMutex<Manifest, { rank::MANIFEST }>,
    pub(crate) files: RankedCell<FileList, { rank::FILES }>,
    /// Cache of the loaded indexes and dictionaries of span files.
    pub(crate) cache: Arc<Cache>,
    /// Sums of the calls between services over all files.
    pub(crate) ledger: RankedMutex<Ledger, { rank::LEDGER }>,
    /// Calls of the spans in memory, as of the last refresh.
    pub(crate) head_links: RankedMutex<HeadLinks, { rank::HEAD_LINKS }>,
    /// Numbers of new files for which the write of the manifest failed. A copy of the manifest on
    /// disk may name these files nevertheless.
    pub(crate) uncertain_files: RankedMutex<Vec<u64>, { rank::UNCERTAIN_FILES }>,
    /// Damaged files kept for inspection.
    pub(crate) damaged_files: RankedMutex<DamagedFiles, { rank::DAMAGED_FILES }>,
}

/// Calls of the spans in memory, with the generation of the head from which they were derived.
#[derive(Default)]
pub(crate) struct HeadLinks {
    pub(crate) links: Arc<Vec<LinkCount>>,
    /// Spans from files that belong to requests in the head.
    pub(crate) earlier: Arc<EarlierSpans>,
    pub(crate) added: u64,
    pub(crate) written: u64,
}

impl Shared {
    /// Returns a snapshot of the head and the files for a query.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&mut self.memory.state())
    }

    /// Returns a snapshot of the head and the files. The caller holds the lock of `state`, so no
    /// spans move from the head to a file meanwhile.
    pub(crate) fn snapshot_of(&self, state: &mut State) -> Snapshot {
        let batches = state.head.snapshot();
        let files = self.files.get();
        let earlier = Arc::clone(&self.head_links.lock().earlier);
        Snapshot { batches, earlier, files }
    }

    /// Returns the counters of the store: spans accepted, stored and removed, and memory and disk
    /// space in use.
    pub(crate) fn counters(&self) -> Counters {
        let files = self.files.get();
        // A thread with this lock may be removing files, and the lock of the state must not wait
        // for the removal.
        let (aside_bytes, aside_removed) = {
            let aside = self.damaged_files.lock();
            (aside.bytes(), aside.removed)
        };
        let state = self.memory.state();
        let Totals { accepted, duplicates, expired, lost } = state.totals;
        let earlier = self.head_links.lock().earlier.spans().memory_bytes();
        let in_memory = self.cache.bytes() + self.ledger.lock().memory_bytes() + earlier;
        let damaged = files.iter().filter(|file| file.is_damaged()).map(|file| file.entry.spans);
        let on_disk = files.iter().map(|file| file.entry.bytes_on_disk());
        Counters {
            accepted,
            duplicates,
            expired,
            lost,
            kept: accepted.saturating_sub(duplicates + expired + lost),
            memory_bytes: (state.head.memory_bytes() + in_memory) as u64,
            disk_bytes: on_disk.sum::<u64>() + aside_bytes + self.journal.file_bytes(),
            quarantined_bytes: aside_bytes,
            quarantined_removed: aside_removed,
            damaged: damaged.sum(),
            ..state.counters
        }
    }

    /// Returns the ledger's sums for a range of minutes, the files, and the calls of spans in
    /// memory. The calls in memory date from the last refresh; they are empty if the head was
    /// flushed since.
    pub(crate) fn known_links(
        &self,
        minutes: &RangeInclusive<u64>,
    ) -> (WindowCalls, FileList, Arc<Vec<LinkCount>>) {
        let state = self.memory.state();
        let files = self.files.get();
        let head = self.head_links.lock();
        let is_current = head.written == state.head.written;
        let links = if is_current { Arc::clone(&head.links) } else { Arc::default() };
        // Files change under the lock of the state, so each span is counted once.
        let ledger = self.ledger.lock();
        drop((head, state));
        (ledger.calls(minutes), files, links)
    }
}
