//! [`Shared`]: the state that all threads of a store share.

use crate::calls::ledger::{Calls, Ledger};
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

/// Files in the order in which their spans were received.
pub(crate) type FileList = Arc<Vec<Arc<IndexedFile>>>;

/// The state that all threads of a store share.
///
/// # Order of the locks
///
/// A thread that holds a lock takes only locks further down in this table. The ranks in
/// [`crate::locks::rank`] follow it, and debug builds panic where a thread violates it.
///
/// | rank | lock | protects |
/// |---|---|---|
/// | 0 | `manifest` | the manifest, throughout each change of it |
/// | 1 | `doubtful` | numbers of files that a failed write of the manifest may have named |
/// | 2 | `damaged_files` | files that were put aside as damaged |
/// | 3 | [`Memory::state`] | the head and the counters |
/// | 4 | `files` | the list of files |
/// | 5 | `head_links` | calls of spans in memory |
/// | 6 | `ledger` | sums of the calls of all files |
///
/// Changes of the files and of the head that belong together are made under the lock of the state,
/// so that a snapshot finds each span in one of them and not in both. Whoever removes files from
/// the disk holds none of the locks from `state` on: removing takes long.
///
/// Other mutexes have no rank: those of the cache, of spare decoders and blocks, and of a file's
/// retry times. No lock of the table is taken under them.
pub(crate) struct Shared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) root: Arc<dyn Disk>,
    pub(crate) spans: Arc<dyn Disk>,
    pub(crate) journal: Journal,
    /// The manifest in force; its `next_file` may be ahead of the copies on disk. Locked throughout
    /// each change.
    pub(crate) manifest: RankedMutex<Manifest, { rank::MANIFEST }>,
    pub(crate) files: RankedCell<FileList, { rank::FILES }>,
    /// Cache of the files' indexes and dictionaries.
    pub(crate) cache: Arc<Cache>,
    /// Sums of the calls of all files.
    pub(crate) ledger: RankedMutex<Ledger, { rank::LEDGER }>,
    /// Calls of spans in memory, as of the last refresh.
    pub(crate) head_links: RankedMutex<HeadLinks, { rank::HEAD_LINKS }>,
    /// New files of manifests whose write failed: one copy of the manifest may name them.
    pub(crate) doubtful: RankedMutex<Vec<u64>, { rank::DOUBTFUL }>,
    /// Files that were put aside as damaged.
    pub(crate) damaged_files: RankedMutex<DamagedFiles, { rank::DAMAGED_FILES }>,
}

/// Calls of the spans in memory, and the generation of the head that they were derived from.
#[derive(Default)]
pub(crate) struct HeadLinks {
    pub(crate) links: Arc<Vec<LinkCount>>,
    /// Spans of the head's requests that are in files.
    pub(crate) earlier: Arc<EarlierSpans>,
    pub(crate) added: u64,
    pub(crate) written: u64,
}

impl Shared {
    /// Takes a snapshot for a query.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&mut self.memory.state())
    }

    /// Takes a snapshot under the lock of the state, under which spans move from the head to files.
    pub(crate) fn snapshot_of(&self, state: &mut State) -> Snapshot {
        let batches = state.head.snapshot();
        let files = self.files.get();
        let earlier = Arc::clone(&self.head_links.lock().earlier);
        Snapshot { batches, earlier, files }
    }

    /// Counts accepted, stored and removed spans, and the memory and disk space in use.
    pub(crate) fn counters(&self) -> Counters {
        let files = self.files.get();
        // A thread that holds this lock may be removing files. The lock of the state must not wait
        // for that.
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
            aside_bytes,
            aside_removed,
            damaged: damaged.sum(),
            ..state.counters
        }
    }

    /// The calls in a range of minutes: sums of files as far as the ledger has them, the files, and
    /// the calls of spans in memory as of the last refresh. The latter are empty if the head was
    /// flushed since.
    pub(crate) fn known_links(
        &self,
        minutes: &RangeInclusive<u64>,
    ) -> (Calls, FileList, Arc<Vec<LinkCount>>) {
        let state = self.memory.state();
        let files = self.files.get();
        let head = self.head_links.lock();
        let is_current = head.written == state.head.written;
        let links = if is_current { Arc::clone(&head.links) } else { Arc::default() };
        // Files change under the lock of the state, so that each span is counted once.
        let ledger = self.ledger.lock();
        drop((head, state));
        (ledger.calls(minutes), files, links)
    }
}
