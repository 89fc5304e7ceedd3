//! [`DecodedPage`]: a decoded page of one column.

use crate::decode::{self, ByteReader, Ids, Result, TextList};
use crate::index::Page;
use crate::schema::{Column, Repetition, Values};
use std::ops::Range;
use std::sync::Arc;

/// Decoded page of one column.
#[derive(Debug)]
pub(crate) struct DecodedPage {
    /// Index of the first value of each row. A last entry has the number of all values. Empty if
    /// the column is required: each row then has exactly one value.
    starts: Vec<u32>,
    content: Content,
    /// Set if all rows of the row group are equal, so that only the first row was decoded.
    is_same: bool,
}

#[derive(Debug)]
enum Content {
    Texts(TextList),
    Coded(Vec<u32>, Arc<TextList>),
    Numbers(Vec<i64>),
    Flags(Vec<u32>),
    Ids(Ids),
    /// Values that were not decoded; only `starts` is known.
    Unread,
}

impl DecodedPage {
    /// Decodes the decompressed body of a page with `rows` rows.
    pub(crate) fn decode(
        column: Column,
        page: &Page,
        rows: usize,
        body: &[u8],
        dictionary: Option<&Arc<TextList>>,
    ) -> Result<DecodedPage> {
        let mut bytes = ByteReader(body);
        let levels = page.values as usize;
        let (starts, count) = match column.repetition() {
            Repetition::Required if levels == rows => (Vec::new(), rows),
            Repetition::Required => return Err("it does not have a value for each row"),
            Repetition::Optional => at_most_one(&mut bytes, levels, rows)?,
            Repetition::Repeated => many(&mut bytes, levels, rows)?,
        };
        let mut numbers = Vec::new();
        let mut texts = TextList::default();
        let content = match (column.values(), page.encoding) {
            (Values::Numbers(size), 0) => {
                decode::numbers(&mut bytes, size, count, &mut numbers)?;
                Content::Numbers(numbers)
            }
            (Values::Flags, 0) => {
                let mut flags = Vec::new();
                decode::flags(&mut bytes, count, &mut flags)?;
                Content::Flags(flags)
            }
            (Values::Texts, 6) => {
                decode::lengths(&mut bytes, count, &mut numbers, &mut texts)?;
                Content::Texts(texts)
            }
            (Values::Texts, 7) if column == Column::TraceId => {
                Content::Ids(decode::ids(&mut bytes, count)?)
            }
            (Values::Texts, 8) => {
                let dictionary = dictionary.ok_or("its dictionary is missing")?;
                let width = bytes.u8()?;
                let mut ids = Vec::new();
                decode::runs(&mut bytes, width.into(), count, &mut ids)?;
                if ids.iter().any(|id| *id as usize >= dictionary.len()) {
                    return Err("its dictionary does not have that many texts");
                }
                Content::Coded(ids, dictionary.clone())
            }
            _ => return Err("it has an encoding that we do not write"),
        };
        Ok(DecodedPage { starts, content, is_same: false })
    }

    /// Decodes a page whose first row stands for all rows of its row group.
    pub(crate) fn decode_constant(
        column: Column,
        page: &Page,
        body: &[u8],
        dictionary: Option<&Arc<TextList>>,
    ) -> Result<DecodedPage> {
        let first = Page { values: 1, ..*page };
        let cells = DecodedPage::decode(column, &first, 1, body, dictionary)?;
        Ok(DecodedPage { is_same: true, ..cells })
    }

    /// Decodes from the definition levels which rows of a page have a value. The column must be
    /// optional: with no value or one value in each row.
    pub(crate) fn decode_presence(
        column: Column,
        page: &Page,
        rows: usize,
        is_same: bool,
        levels: &[u8],
    ) -> Result<DecodedPage> {
        if column.repetition() != Repetition::Optional {
            return Err("it has not one value for a row at most");
        }
        let (levels_of, rows) = if is_same { (1, 1) } else { (page.values as usize, rows) };
        let (starts, _) = at_most_one(&mut ByteReader(levels), levels_of, rows)?;
        Ok(DecodedPage { starts, content: Content::Unread, is_same })
    }

    /// Returns whether only the presence of values was decoded.
    pub(crate) fn has_presence_alone(&self) -> bool {
        matches!(self.content, Content::Unread)
    }

    /// Returns the approximate memory in bytes. The shared dictionary is not included.
    pub(crate) fn memory(&self) -> usize {
        let content = match &self.content {
            Content::Texts(texts) => texts.memory(),
            Content::Coded(ids, _) => ids.capacity() * 4,
            Content::Numbers(numbers) => numbers.capacity() * 8,
            Content::Flags(flags) => flags.capacity() * 4,
            Content::Ids(ids) => ids.starts.capacity() * 4 + ids.ids.capacity() * 16,
            Content::Unread => 0,
        };
        self.starts.capacity() * 4 + content
    }

    /// Returns the indexes of the values that belong to a row.
    #[inline]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        let row = if self.is_same { 0 } else { row };
        match self.starts.get(row..row + 2) {
            Some(&[start, end]) => start as usize..end as usize,
            _ => row..row + 1,
        }
    }

    /// Returns the trace ids of the page as runs of equal ids; `None` if the page belongs to
    /// another column or does not have the encoding `DELTA_BYTE_ARRAY`.
    pub(crate) fn ids(&self) -> Option<&Ids> {
        match &self.content {
            Content::Ids(ids) => Some(ids),
            _ => None,
        }
    }

    /// Removes the rows outside of a range. `all_rows` is the number of rows of the page.
    pub(crate) fn of_rows(self, rows: Range<usize>, all_rows: usize) -> DecodedPage {
        let DecodedPage { starts, content, is_same } = self;
        if is_same || rows.len() == all_rows {
            return DecodedPage { starts, content, is_same };
        }
        let values = match (starts.get(rows.start), starts.get(rows.end)) {
            (Some(start), Some(end)) => *start as usize..*end as usize,
            _ => rows.clone(),
        };
        let of_rows = starts.get(rows.start..=rows.end).unwrap_or_default();
        let starts = of_rows.iter().map(|start| start - values.start as u32).collect();
        let content = match content {
            Content::Texts(texts) => Content::Texts(texts.of(values)),
            Content::Coded(ids, dictionary) => Content::Coded(ids[values].to_vec(), dictionary),
            Content::Numbers(numbers) => Content::Numbers(numbers[values].to_vec()),
            Content::Flags(flags) => Content::Flags(flags[values].to_vec()),
            Content::Ids(ids) => Content::Ids(ids.of(values)),
            Content::Unread => Content::Unread,
        };
        DecodedPage { starts, content, is_same }
    }

    #[inline]
    pub(crate) fn text(&self, value: usize) -> &str {
        match &self.content {
            Content::Texts(texts) => texts.get(value),
            Content::Coded(ids, dictionary) => dictionary.get(ids[value] as usize),
            _ => "",
        }
    }

    #[inline]
    pub(crate) fn number(&self, value: usize) -> i64 {
        match &self.content {
            Content::Numbers(numbers) => numbers[value],
            Content::Flags(flags) => flags[value].into(),
            _ => 0,
        }
    }

    /// Returns the dictionary codes of the values together with the dictionary; `None` if the page
    /// is not dictionary-encoded.
    pub(crate) fn coded(&self) -> Option<(&[u32], &TextList)> {
        match &self.content {
            Content::Coded(ids, dictionary) => Some((ids, dictionary)),
            _ => None,
        }
    }

    /// Returns the first text of a row; empty if the row has no value, or if the page has no
    /// decoded texts. Trace ids are not decoded as texts.
    #[inline]
    pub(crate) fn row_text(&self, row: usize) -> &str {
        self.range(row).next().map_or("", |value| self.text(value))
    }

    /// Returns the first number or flag of a row; `None` if the row has no value, and 0 if its
    /// value is not a number or flag.
    #[inline]
    pub(crate) fn row_number(&self, row: usize) -> Option<i64> {
        self.range(row).next().map(|value| self.number(value))
    }
}

fn levels(bytes: &mut ByteReader<'_>, count: usize) -> Result<Vec<u32>> {
    let length = bytes.u32()? as usize;
    let mut out = Vec::new();
    decode::runs(&mut ByteReader(bytes.take(length)?), 1, count, &mut out)?;
    if out.iter().any(|level| *level > 1) {
        return Err("a level is greater than 1");
    }
    Ok(out)
}

fn at_most_one(bytes: &mut ByteReader<'_>, count: usize, rows: usize) -> Result<(Vec<u32>, usize)> {
    if count != rows {
        return Err("it does not have as many rows as it should");
    }
    let mut starts = levels(bytes, count)?;
    let mut values = 0;
    for start in &mut starts {
        let present = *start;
        *start = values;
        values += present;
    }
    starts.push(values);
    Ok((starts, values as usize))
}

fn many(bytes: &mut ByteReader<'_>, count: usize, rows: usize) -> Result<(Vec<u32>, usize)> {
    let repeats = levels(bytes, count)?;
    let present = levels(bytes, count)?;
    let mut starts = Vec::with_capacity(rows.min(count) + 1);
    let mut values = 0;
    for (repeats, present) in repeats.iter().zip(&present) {
        if *repeats == 0 {
            starts.push(values);
        }
        values += present;
    }
    starts.push(values);
    if repeats.first().is_some_and(|first| *first != 0) || starts.len() != rows + 1 {
        return Err("it does not have as many rows as it should");
    }
    Ok((starts, values as usize))
}
