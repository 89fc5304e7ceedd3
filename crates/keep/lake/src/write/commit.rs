//! Commits of changes to a store: writes the manifest, and then replaces the list of files.

use crate::Error;
use crate::files::disk::is_missing;
use crate::files::file_entry::Totals;
use crate::files::indexed_file::IndexedFile;
use crate::files::manifest::Manifest;
use crate::files::naming;
use crate::memory::State;
use crate::shared::{FileList, Shared};
use blkkin_store::Interval;
use std::sync::Arc;

impl Shared {
    /// Writes the next manifest, which names the new files `new`. If the write fails, a copy of the
    /// manifest may name these files nevertheless. They are then kept until a manifest without them
    /// is written.
    pub(crate) fn write_manifest(
        &self,
        next: &Manifest,
        new: impl IntoIterator<Item = u64>,
    ) -> Result<(), Error> {
        let mut uncertain = self.uncertain_files.lock();
        match next.write(&*self.root) {
            Ok(()) => {
                uncertain
                    .drain(..)
                    .for_each(|number| naming::remove_unfinished(&*self.spans, number));
            }
            Err(error) => {
                uncertain.extend(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the files of failed writes by writing a manifest without them. Otherwise repeated
    /// attempts would fill the disk.
    pub(crate) fn drop_uncertain_files(&self) -> Result<(), Error> {
        if self.uncertain_files.lock().is_empty() {
            return Ok(());
        }
        let mut manifest = self.manifest.lock();
        let next = self.next_manifest(&manifest);
        self.write_manifest(&next, [])?;
        *manifest = next;
        Ok(())
    }

    /// Returns the next manifest, without the entries of `removing` whose files no longer exist.
    pub(crate) fn next_manifest(&self, manifest: &Manifest) -> Manifest {
        let mut next = manifest.next();
        // The directory is synced first. Otherwise a power failure could restore a file that the
        // manifest no longer lists.
        if next.removing.is_empty() || self.spans.sync().is_err() {
            return next;
        }
        next.removing.retain(|file| {
            let names = [naming::spans_name(file.number), naming::index_name(file.number)];
            names.iter().any(|name| !is_missing(&*self.spans, name))
        });
        next
    }

    /// Replaces the list of files and updates the counters. Returns the old list. The caller must
    /// drop it after releasing the lock of the state, since the drop may remove files and take
    /// long.
    #[must_use]
    pub(crate) fn replace_files(
        &self,
        state: &mut State,
        files: Vec<Arc<IndexedFile>>,
        totals: Totals,
    ) -> FileList {
        let before = self.files.replace(Arc::new(files));
        state.totals.duplicates += totals.duplicates;
        state.totals.expired += totals.expired;
        if totals.expired > 0 {
            let now_ns = self.memory.options.clock.now_ns();
            Interval::extend(&mut state.counters.times.expired, now_ns);
        }
        state.totals.lost += totals.lost;
        before
    }
}
