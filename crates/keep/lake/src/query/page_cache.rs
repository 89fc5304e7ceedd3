//! What a question has read of pages of files, kept in memory until it is too much. Start at [`PageCache`].

use crate::Error;
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use blkkin_columns::{Column, PageColumns};
use std::collections::HashMap;
use std::ops::Range;

/// What pages may take in memory, beside those that are needed at once.
const BYTES_MAX: usize = 16 << 20;

/// Of a page that was uses for so often only rows that were uses for are kept; then all, so that it is read once.
const PARTIAL_USES_MAX: u32 = 12;

/// PageCache.
#[derive(Default)]
pub(crate) struct PageCache {
    /// Whole pages, and some rows of others.
    kept: HashMap<Key, PageColumns>,
    /// How often a page was uses for, by the file's number and the page's first row.
    uses: HashMap<(u64, u64), u32>,
    bytes: usize,
}

/// The file's number, the first row, and how many there are.
type Key = (u64, u64, usize);

impl PageCache {
    /// The pages that have some of these rows, and which rows of each that are. These columns of them are read.
    pub(crate) fn of(
        &mut self,
        file: &IndexedFile,
        loaded: &LoadedFile,
        rows: Range<u32>,
        columns: &[Column],
    ) -> Result<Vec<(&PageColumns, Range<usize>)>, Error> {
        if self.bytes > BYTES_MAX {
            self.kept.clear();
            self.bytes = 0;
        }
        let rows = u64::from(rows.start)..u64::from(rows.end);
        let number = file.entry.number;
        let mut keys = Vec::new();
        for page in loaded.columns().pages(rows.clone()) {
            let of_page = (number, page.first_row());
            let uses = self.uses.entry(of_page).or_default();
            *uses = uses.saturating_add(1);
            let wanted = if *uses > PARTIAL_USES_MAX { page } else { page.only(&rows) };
            let key = (number, wanted.first_row(), wanted.rows());
            let bytes = &mut self.bytes;
            let page = self.kept.entry(key).or_insert_with(|| {
                *bytes += wanted.memory_bytes();
                wanted
            });
            let before = page.memory_bytes();
            file.read_columns(loaded, page, columns)?;
            self.bytes += page.memory_bytes() - before;
            keys.push(key);
        }
        let of_page = |key: &Key| {
            let page = self.kept.get(key)?;
            let within = |row: u64| row.saturating_sub(page.first_row()).min(page.rows() as u64);
            Some((page, within(rows.start) as usize..within(rows.end) as usize))
        };
        Ok(keys.iter().filter_map(of_page).collect())
    }
}
