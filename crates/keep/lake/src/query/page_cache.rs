//! [`PageCache`]: decoded pages of one query, within a memory limit.

use crate::Error;
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use blkkin_columns::{Column, PageColumns};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum memory of the cached pages in bytes. The pages of the current call do not count.
const BYTES_MAX: usize = 16 << 20;

/// Number of uses of a page after which the whole page is cached. Until then, only the rows that a
/// use needs are cached.
const PARTIAL_USES_MAX: u32 = 12;

/// Cache of the decoded pages of one query.
#[derive(Default)]
pub(crate) struct PageCache {
    /// Cached columns: whole pages, and row ranges of pages with fewer uses.
    pages: HashMap<Key, PageColumns>,
    /// Number of uses of each page, by file number and first row of the page.
    uses: HashMap<(u64, u64), u32>,
    bytes: usize,
}

/// Key of a cached page: file number, first row and number of rows.
type Key = (u64, u64, usize);

impl PageCache {
    /// Returns the pages that overlap a range of rows, each with the range of its overlapping rows.
    /// The given columns of these pages have been read.
    pub(crate) fn read_pages(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        rows: Range<u32>,
        columns: &[Column],
    ) -> Result<Vec<(&PageColumns, Range<usize>)>, Error> {
        if self.bytes > BYTES_MAX {
            self.pages.clear();
            self.bytes = 0;
        }
        let rows = u64::from(rows.start)..u64::from(rows.end);
        let number = file.entry.number;
        let mut keys = Vec::new();
        for page in loaded.columns().pages(rows.clone()) {
            let of_page = (number, page.first_row());
            let uses = self.uses.entry(of_page).or_default();
            *uses = uses.saturating_add(1);
            let wanted = if *uses > PARTIAL_USES_MAX { page } else { page.restrict(&rows) };
            let key = (number, wanted.first_row(), wanted.rows());
            let bytes = &mut self.bytes;
            let page = self.pages.entry(key).or_insert_with(|| {
                *bytes += wanted.memory_bytes();
                wanted
            });
            let before = page.memory_bytes();
            file.read_columns(loaded, page, columns)?;
            self.bytes += page.memory_bytes() - before;
            keys.push(key);
        }
        let of_page = |key: &Key| {
            let page = self.pages.get(key)?;
            let within = |row: u64| row.saturating_sub(page.first_row()).min(page.rows() as u64);
            Some((page, within(rows.start) as usize..within(rows.end) as usize))
        };
        Ok(keys.iter().filter_map(of_page).collect())
    }
}
