//! [`DamagedFiles`]: damaged span files, renamed and kept for inspection within limits of number
//! and size. Start at [`DamagedFiles::find`].

use crate::files::naming;
use blkkin_journal::Disk;
use std::io;
use std::sync::Arc;

const SUFFIX: &str = ".damaged";

/// Maximum number of damaged files kept for inspection.
const FILES_MAX: usize = 64;

/// List of the damaged files in the directory of span files.
pub(crate) struct DamagedFiles {
    spans: Arc<dyn Disk>,
    /// File number and size in bytes of each damaged file, oldest first.
    files: Vec<(u64, u64)>,
    /// Number of damaged files removed since the store was opened.
    pub(crate) removed: u64,
}

/// Renames a damaged file and removes its index. Returns `false` if the operating system refused
/// the renaming or the sync, so that the file may still have its old name.
pub(crate) fn put_aside(spans: &dyn Disk, number: u64) -> bool {
    match spans.rename(&naming::spans_name(number), &name(number)) {
        // Without the sync, a power failure could restore the old name. The next start would then
        // refuse a file that no manifest names.
        Ok(()) => {
            let _ = spans.remove(&naming::index_name(number));
            spans.sync().is_ok()
        }
        // A missing file counts as renamed.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn name(number: u64) -> String {
    naming::spans_name(number) + SUFFIX
}

impl DamagedFiles {
    /// Lists the damaged files in the directory, including those of earlier runs.
    pub(crate) fn find(spans: Arc<dyn Disk>) -> DamagedFiles {
        let mut files = Vec::new();
        // If the listing fails, unlisted files only take disk space until the next start.
        let _ = spans.list(&mut |name| {
            let number = name.strip_suffix(SUFFIX).and_then(naming::number_of);
            if let Some(number) = number.filter(|number| self::name(*number) == name) {
                let bytes = spans.open(name).and_then(|file| file.size_bytes()).unwrap_or(0);
                files.push((number, bytes));
            }
            true
        });
        files.sort_unstable();
        DamagedFiles { spans, files, removed: 0 }
    }

    /// Returns the total size of the damaged files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Removes damaged files, oldest first, until the remaining files are within `bytes_max` and
    /// [`FILES_MAX`].
    pub(crate) fn trim(&mut self, bytes_max: u64) {
        while self.files.len() > FILES_MAX || self.bytes() > bytes_max {
            let Some((number, _)) = self.files.first().copied() else { return };
            if let Err(error) = self.spans.remove(&name(number))
                && error.kind() != io::ErrorKind::NotFound
            {
                // The next call retries the removal.
                return;
            }
            self.files.remove(0);
            self.removed += 1;
        }
    }
}
