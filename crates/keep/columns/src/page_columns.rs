//! [`PageColumns`]: single columns of a page, for scans that need no whole spans. Start at
//! [`File::pages`].

use crate::cells::DecodedPage;
use crate::error::Error;
use crate::file::File;
use crate::read_at::ReadAt;
use crate::schema::{COLUMNS, Column};
use blkkin_model::TraceId;
use std::ops::Range;

impl<R: ReadAt> File<R> {
    /// Iterates over the pages that overlap a range of rows. No columns of these pages have been
    /// read.
    pub fn pages(&self, rows: Range<u64>) -> impl Iterator<Item = PageColumns> + '_ {
        let first = self.first_group(rows.start);
        let of_rows = self.row_groups().iter().enumerate().skip(first);
        let is_there = !rows.is_empty();
        let of_rows = of_rows.take_while(move |(_, group)| is_there && group.first_row < rows.end);
        of_rows.flat_map(move |(number, group)| {
            let starts = &group.page_rows;
            let row = |row: &u32| group.first_row + u64::from(*row);
            let first = starts.partition_point(|start| row(start) <= rows.start);
            let behind = starts.partition_point(|start| row(start) < rows.end);
            (first.saturating_sub(1)..behind).map(move |page| self.page(number, page))
        })
    }

    /// Iterates over the pages of a row group. No columns of these pages have been read.
    pub fn pages_of_group(&self, group: usize) -> impl Iterator<Item = PageColumns> + '_ {
        (0..self.group(group).page_rows.len()).map(move |page| self.page(group, page))
    }

    fn page(&self, group: usize, page: usize) -> PageColumns {
        let rows = self.rows_of_page(group, page);
        let first_row = self.group(group).first_row + rows.start as u64;
        let columns = [const { None }; COLUMNS.len()];
        PageColumns { group, page, first_row, rows: 0..rows.len(), columns }
    }

    /// Reads columns of a page, except columns whose values were read before.
    pub fn read_columns(&self, page: &mut PageColumns, columns: &[Column]) -> Result<(), Error> {
        let rows = self.rows_of_page(page.group, page.page).len();
        for column in columns {
            let cells = &page.columns[*column as usize];
            if cells.as_ref().is_none_or(DecodedPage::has_presence_alone) {
                let all = self.cells(page.group, page.page, *column)?;
                page.columns[*column as usize] = Some(all.of_rows(page.rows.clone(), rows));
            }
        }
        Ok(())
    }

    /// Reads which rows of a page have a value of a column. This costs less than reading the
    /// values. The column must be optional: with no value or one value in each row.
    pub fn read_presence(&self, page: &mut PageColumns, column: Column) -> Result<(), Error> {
        if page.columns[column as usize].is_none() {
            let all = self.presence(page.group, page.page, column)?;
            let rows = self.rows_of_page(page.group, page.page).len();
            page.columns[column as usize] = Some(all.of_rows(page.rows.clone(), rows));
        }
        Ok(())
    }
}

/// Page of a span file, or a range of its rows. Columns are read on demand
/// ([`File::read_columns`]). Arguments `row` count from the first selected row.
pub struct PageColumns {
    group: usize,
    page: usize,
    /// Row number in the file of the page's first row.
    first_row: u64,
    /// Selected rows, relative to the page.
    rows: Range<usize>,
    columns: [Option<DecodedPage>; COLUMNS.len()],
}

impl PageColumns {
    /// Returns the row number in the file of the first selected row.
    pub fn first_row(&self) -> u64 {
        self.first_row + self.rows.start as u64
    }

    /// Returns the number of selected rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the page restricted to the selected rows inside `rows`, a range of row numbers in
    /// the file. No columns of the returned page have been read.
    #[must_use]
    pub fn restrict(&self, rows: &Range<u64>) -> PageColumns {
        let within = |row: u64| {
            let row = row.saturating_sub(self.first_row).min(self.rows.end as u64);
            (row as usize).max(self.rows.start)
        };
        let start = within(rows.start);
        PageColumns {
            rows: start..within(rows.end).max(start),
            columns: [const { None }; COLUMNS.len()],
            ..*self
        }
    }

    /// Returns whether the values of a column, or their presence alone, were read.
    pub fn has(&self, column: Column) -> bool {
        self.columns[column as usize].is_some()
    }

    /// Returns the approximate memory of the page with the columns read so far, in bytes. Shared
    /// dictionaries are not included.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter().flatten().map(DecodedPage::memory);
        size_of::<PageColumns>() + columns.sum::<usize>()
    }

    fn cells(&self, column: Column) -> &DecodedPage {
        self.columns[column as usize].as_ref().expect("a column that was asked for")
    }

    /// Returns the trace id of a row; `None` if the page does not have the encoding of trace ids.
    ///
    /// # Panics
    /// If [`Column::TraceId`] was not read.
    pub fn trace_id(&self, row: usize) -> Option<TraceId> {
        self.cells(Column::TraceId).ids().and_then(|ids| TraceId::from_number(ids.get(row)))
    }

    /// Returns the text of a row; empty if the row has no value, or if only the presence of values
    /// was read. Trace ids are not available as text: see [`PageColumns::trace_id`].
    ///
    /// # Panics
    /// If the column was not read.
    pub fn text(&self, column: Column, row: usize) -> &str {
        self.cells(column).row_text(row)
    }

    /// Returns the numeric value of a row; `None` if the row has no value. The value is a number of
    /// nanoseconds, a port, or a flag as 0 or 1.
    ///
    /// # Panics
    /// If the column was not read.
    pub fn number(&self, column: Column, row: usize) -> Option<u64> {
        self.cells(column).row_number(row).map(|number| number as u64)
    }

    /// Returns the indexes of a row's values in a list column.
    ///
    /// # Panics
    /// If the column was not read.
    pub fn values(&self, column: Column, row: usize) -> Range<usize> {
        self.cells(column).range(row)
    }

    /// Returns a value of a list column as text.
    ///
    /// # Panics
    /// If the column was not read.
    pub fn value_text(&self, column: Column, value: usize) -> &str {
        self.cells(column).text(value)
    }

    /// Returns a value of a list column as a number.
    ///
    /// # Panics
    /// If the column was not read.
    pub fn value_number(&self, column: Column, value: usize) -> u64 {
        self.cells(column).number(value) as u64
    }

    /// Returns the dictionary code of a value, for the dictionary of [`File::texts`]. `None` if the
    /// page is not dictionary-encoded.
    pub fn code(&self, column: Column, value: usize) -> Option<u32> {
        self.cells(column).coded().map(|(ids, _)| ids[value])
    }
}
