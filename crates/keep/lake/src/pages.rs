//! Reads requests of files for one question, and keeps pages in memory on which there are many of them. Start at
//! [`Pages`].

use crate::Error;
use crate::part::{Loaded, Part};
use blkkin_columns::{Block, Row, Scratch};
use blkkin_model::{Span, TraceId};
use std::collections::HashMap;
use std::ops::Range;

/// To read all of a page takes as long as to read one of its requests for each so many rows.
const ROWS_OF_READ: u32 = 512;

/// What pages may take in memory.
const BYTES_MAX: usize = 16 << 20;

/// Reads requests.
#[derive(Default)]
pub(crate) struct Pages {
    /// How often a request of a page was read, by the file's number and the page's first row.
    reads: HashMap<(u64, u32), u32>,
    kept: HashMap<(u64, u32), Block>,
    bytes: usize,
    block: Block,
}

impl Pages {
    /// Adds the spans of these rows.
    pub(crate) fn rows(
        &mut self,
        part: &Part,
        rows: Range<u32>,
        found: &mut Vec<Span>,
    ) -> Result<(), Error> {
        let loaded = part.load()?;
        let pages = loaded.pages_of_rows(&rows);
        if self.is_worth_keeping(part, &pages) {
            return self.take(part, &loaded, &pages, found, |_, row, number| {
                rows.contains(&number).then_some(row)
            });
        }
        self.block.clear();
        part.rows(rows, &mut self.block)?;
        let all = 0..self.block.len() as Row;
        found.extend(all.map(|row| self.block.span(row, &mut Scratch::default()).to_owned()));
        Ok(())
    }

    /// Adds the spans of requests whose ids have this lower half.
    pub(crate) fn of_low(
        &mut self,
        part: &Part,
        low: u64,
        is_wanted: impl Fn(TraceId) -> bool,
        found: &mut Vec<Span>,
    ) -> Result<(), Error> {
        let is_wanted =
            |block: &Block, row| block.trace_low(row) == low && is_wanted(block.trace_id(row));
        let loaded = part.load()?;
        let pages = loaded.pages_of_low(low);
        if self.is_worth_keeping(part, &pages) {
            return self.take(part, &loaded, &pages, found, |block, row, _| {
                is_wanted(block, row).then_some(row)
            });
        }
        self.block.clear();
        part.between(low..=low, &mut self.block)?;
        let wanted = (0..self.block.len() as Row).filter(|&row| is_wanted(&self.block, row));
        found.extend(wanted.map(|row| self.block.span(row, &mut Scratch::default()).to_owned()));
        Ok(())
    }

    /// Whether so much of pages was read that they had better be read whole.
    fn is_worth_keeping(&mut self, part: &Part, pages: &[Range<u32>]) -> bool {
        let mut is_worth = true;
        for page in pages {
            let reads = self.reads.entry((part.entry.number, page.start)).or_default();
            *reads += 1;
            is_worth &= *reads > (page.end - page.start) / ROWS_OF_READ;
        }
        is_worth
    }

    /// Adds those rows of pages that `wanted` gives back; it gets their numbers in the file too.
    fn take(
        &mut self,
        part: &Part,
        loaded: &Loaded,
        pages: &[Range<u32>],
        found: &mut Vec<Span>,
        wanted: impl Fn(&Block, Row, u32) -> Option<Row>,
    ) -> Result<(), Error> {
        for page in pages {
            let key = (part.entry.number, page.start);
            if !self.kept.contains_key(&key) {
                let mut block = Block::new();
                part.rows_of(loaded, page.clone(), &mut block)?;
                if self.bytes > BYTES_MAX {
                    self.kept.clear();
                    self.bytes = 0;
                }
                self.bytes += block.memory_bytes();
                self.kept.insert(key, block);
            }
            let Some(block) = self.kept.get(&key) else { continue };
            let rows = (0..block.len() as Row).zip(page.start..);
            let rows = rows.filter_map(|(row, number)| wanted(block, row, number));
            found.extend(rows.map(|row| block.span(row, &mut Scratch::default()).to_owned()));
        }
        Ok(())
    }
}
