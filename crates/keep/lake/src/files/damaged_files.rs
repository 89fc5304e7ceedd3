//! Files of spans that were found damaged: they keep their place under another name, for people to look at, as long as
//! there is room for them. Start at [`DamagedFiles::find`].

use crate::files::naming;
use blkkin_journal::Disk;
use std::io;
use std::sync::Arc;

const SUFFIX: &str = ".damaged";

/// More of them help nobody.
const FILES_MAX: usize = 64;

/// The files that were put aside.
pub(crate) struct DamagedFiles {
    spans: Arc<dyn Disk>,
    /// Their numbers and bytes, the oldest first.
    files: Vec<(u64, u64)>,
    /// So many had to go since the store was opened.
    pub(crate) removed: u64,
}

/// Puts a damaged file of spans aside. False if it is still there under its name, as the system did not let us.
pub(crate) fn put(spans: &dyn Disk, number: u64) -> bool {
    match spans.rename(&naming::spans_name(number), &name(number)) {
        // The next start would refuse the file, if it were found under its name again and no
        // manifest named it.
        Ok(()) => {
            let _ = spans.remove(&naming::index_name(number));
            spans.sync().is_ok()
        }
        // A file that is missing is no file to be kept.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn name(number: u64) -> String {
    naming::spans_name(number) + SUFFIX
}

impl DamagedFiles {
    /// Finds what was put aside, now and before.
    pub(crate) fn find(spans: Arc<dyn Disk>) -> DamagedFiles {
        let mut files = Vec::new();
        // What is not found takes room until the store is opened again, and nothing else.
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

    /// What they take on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Removes the oldest until the others take so many bytes at most.
    pub(crate) fn keep_to(&mut self, bytes_max: u64) {
        while self.files.len() > FILES_MAX || self.bytes() > bytes_max {
            let Some((number, _)) = self.files.first().copied() else { return };
            if let Err(error) = self.spans.remove(&name(number))
                && error.kind() != io::ErrorKind::NotFound
            {
                // It is tried again.
                return;
            }
            self.files.remove(0);
            self.removed += 1;
        }
    }
}
