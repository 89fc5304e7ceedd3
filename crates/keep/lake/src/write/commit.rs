//! Changes what the store consists of: writes the manifest, then replaces the list of files.

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
    /// Makes `next`, which has these new files, what the store consists of. If that fails, they are kept until it has
    /// succeeded without them, as one copy may name them.
    pub(crate) fn write_manifest(
        &self,
        next: &Manifest,
        new: impl IntoIterator<Item = u64>,
    ) -> Result<(), Error> {
        let mut doubtful = self.doubtful.lock();
        match next.write(&*self.root) {
            Ok(()) => {
                doubtful
                    .drain(..)
                    .for_each(|number| naming::remove_unfinished(&*self.spans, number));
            }
            Err(error) => {
                doubtful.extend(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Before more files are made, those of manifests that could not be written go: tries that follow each other must
    /// not fill the disk.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        if self.doubtful.lock().is_empty() {
            return Ok(());
        }
        let mut manifest = self.manifest.lock();
        let next = self.next_manifest(&manifest);
        self.write_manifest(&next, [])?;
        *manifest = next;
        Ok(())
    }

    /// The next manifest, which lists files as being removed as long as they are there.
    pub(crate) fn next_manifest(&self, manifest: &Manifest) -> Manifest {
        let mut next = manifest.next();
        // Without this a power failure could bring a file back that no manifest lists any more.
        if next.removing.is_empty() || self.spans.sync().is_err() {
            return next;
        }
        next.removing.retain(|file| {
            let names = [naming::spans_name(file.number), naming::index_name(file.number)];
            names.iter().any(|name| !is_missing(&*self.spans, name))
        });
        next
    }

    /// What the head held becomes a part, or parts become others, and is counted. What was there before is returned:
    /// removing files takes long, and must not be waited for by who wants the state.
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
            Interval::note(&mut state.counters.times.expired, now_ns);
        }
        state.totals.lost += totals.lost;
        before
    }
}
