//! Pages of files that a question has read some columns of, kept in memory until they are too many. Start at
//! [`Pages`].

use crate::Error;
use crate::part::{Loaded, Part};
use blkkin_columns::{Column, PageColumns};
use std::collections::HashMap;
use std::ops::Range;

/// What pages may take in memory, beside those that are needed at once.
const BYTES_MAX: usize = 16 << 20;

/// Pages.
#[derive(Default)]
pub(crate) struct Pages {
    /// By the file's number and the page's first row.
    kept: HashMap<(u64, u64), PageColumns>,
    bytes: usize,
}

impl Pages {
    /// The pages that have some of these rows, and which rows of each that are. These columns of them are read.
    pub(crate) fn of(
        &mut self,
        part: &Part,
        loaded: &Loaded,
        rows: Range<u32>,
        columns: &[Column],
    ) -> Result<Vec<(&PageColumns, Range<usize>)>, Error> {
        if self.bytes > BYTES_MAX {
            self.kept.clear();
            self.bytes = 0;
        }
        let rows = u64::from(rows.start)..u64::from(rows.end);
        let number = part.entry.number;
        let mut keys = Vec::new();
        for page in loaded.columns().pages(rows.clone()) {
            let key = (number, page.first_row());
            let page = self.kept.entry(key).or_insert(page);
            let before = page.memory_bytes();
            part.read_columns(loaded, page, columns)?;
            self.bytes += page.memory_bytes() - before;
            keys.push(key);
        }
        let of_page = |key: &(u64, u64)| {
            let page = self.kept.get(key)?;
            let first = rows.start.saturating_sub(page.first_row()) as usize;
            let behind = (rows.end - page.first_row()).min(page.rows() as u64) as usize;
            Some((page, first..behind))
        };
        Ok(keys.iter().filter_map(of_page).collect())
    }
}
