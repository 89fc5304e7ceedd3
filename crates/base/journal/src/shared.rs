//! State that the writer of a journal shares with its readers: the table of segments with their
//! durable ends, and the counters. Old segments are removed here.

use crate::counters::Counters;
use crate::damage::Damage;
use crate::disk::{Disk, File};
use crate::error::Error;
use crate::layout::{Identity, segment_name};
use crate::quarantine::{CopyResult, Quarantine};
use crate::table::{Segment, Table, records};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) identity: Identity,
    table: Mutex<Table>,
    /// Condition variable of `table`, notified when new records have become durable.
    pub(crate) grown: Condvar,
    counters: Mutex<Counters>,
    quarantine: Mutex<Option<Quarantine>>,
    /// Lock that serialises the removal of files.
    removing: Mutex<()>,
}

/// Segments and disk space freed by trimming a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimResult {
    /// Number of removed segments.
    pub segments: u64,
    /// Total size of the removed segments' files, in bytes.
    pub bytes: u64,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        identity: Identity,
        table: Table,
        quarantine: Option<Quarantine>,
    ) -> Shared {
        Shared {
            disk,
            identity,
            table: Mutex::new(table),
            grown: Condvar::new(),
            counters: Mutex::default(),
            quarantine: Mutex::new(quarantine),
            removing: Mutex::default(),
        }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.lock());
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.counters.lock()
    }

    /// Counts new damage and copies its bytes to quarantine. Ignores damage that was recorded
    /// before, or copied in an earlier run. Does nothing without a quarantine: only a journal that
    /// is open for writing has one.
    pub(crate) fn record_damage(&self, damage: &Damage, file: &dyn File) {
        let Some(quarantine) = &mut *self.quarantine.lock() else { return };
        let result = quarantine.copy(file, damage.segment, damage.offset, damage.bytes);
        if let CopyResult::Copied(copied) = result {
            self.count(|counters| {
                counters.damages += 1;
                counters.damaged_bytes += damage.bytes;
                counters.damaged_records += damage.records.unwrap_or(0);
                counters.quarantined_bytes += copied;
                counters.quarantine_refused_bytes += damage.bytes.saturating_sub(copied);
            });
        }
    }

    /// Removes segments whose records all precede `sequence`, but never the last segment.
    pub(crate) fn trim_before(&self, sequence: u64) -> Result<TrimResult, Error> {
        let _removing = self.removing.lock();
        {
            let mut table = self.table();
            while table.oldest_is_before(sequence) && table.remove_oldest().is_some() {}
        }
        self.remove_files()
    }

    /// Removes the oldest segments until the total size is at most `bytes_max` bytes, or one
    /// segment remains.
    pub(crate) fn drop_oldest(&self, bytes_max: u64) -> Result<(), Error> {
        let _removing = self.removing.lock();
        while self.table().file_bytes() > bytes_max {
            let oldest = self.table().remove_oldest();
            if let Some(oldest) = oldest {
                let records = records(&oldest);
                self.count(|counters| counters.dropped_records += records.end - records.start);
            }
            if self.remove_files()?.segments == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Deletes the files of removed segments one by one, oldest first. Each deletion is made
    /// durable before the next one, because a disk may lose an earlier change and keep a later one.
    /// So the remaining segments are contiguous whenever the deletion is aborted.
    fn remove_files(&self) -> Result<TrimResult, Error> {
        let mut trimmed = TrimResult::default();
        loop {
            let Some(segment) = self.table().to_remove.front().copied() else { break };
            self.remove_file(&segment)?;
            self.disk.sync().map_err(Error::io("", "make the directory durable"))?;
            self.table().to_remove.pop_front();
            trimmed.segments += 1;
            trimmed.bytes += segment.file_bytes;
        }
        Ok(trimmed)
    }

    fn remove_file(&self, segment: &Segment) -> Result<(), Error> {
        let name = segment_name(segment.number);
        match self.disk.remove(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io(&name, "remove it")),
        }
    }
}
