//! A page, decoded: what a column says of each of its rows. Start at [`Cells::decode`].

use crate::decode::{self, Bytes, Ids, Result, TextList};
use crate::index::Page;
use crate::schema::{Column, Shape, Values};
use std::ops::Range;
use std::sync::Arc;

/// What a column says of the rows of a page.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Where the values of each row begin, and where they end at last; empty if each row has one.
    starts: Vec<u32>,
    content: Content,
    /// The only row is all of them.
    is_same: bool,
}

#[derive(Debug)]
enum Content {
    Texts(TextList),
    Coded(Vec<u32>, Arc<TextList>),
    Numbers(Vec<i64>),
    Flags(Vec<u32>),
    Ids(Ids),
    /// Not read.
    Unread,
}

impl Cells {
    /// Decodes a page of so many rows, which is not compressed any more.
    pub(crate) fn decode(
        column: Column,
        page: &Page,
        rows: usize,
        body: &[u8],
        dictionary: Option<&Arc<TextList>>,
    ) -> Result<Cells> {
        let mut bytes = Bytes(body);
        let levels = page.values as usize;
        let (starts, count) = match column.shape() {
            Shape::One if levels == rows => (Vec::new(), rows),
            Shape::One => return Err("it does not have a value for each row"),
            Shape::AtMostOne => at_most_one(&mut bytes, levels, rows)?,
            Shape::Many => many(&mut bytes, levels, rows)?,
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
        Ok(Cells { starts, content, is_same: false })
    }

    /// Decodes the first row of a page, to stand for all.
    pub(crate) fn same(
        column: Column,
        page: &Page,
        body: &[u8],
        dictionary: Option<&Arc<TextList>>,
    ) -> Result<Cells> {
        let first = Page { values: 1, ..*page };
        let cells = Cells::decode(column, &first, 1, body, dictionary)?;
        Ok(Cells { is_same: true, ..cells })
    }

    /// Decodes which rows of a page have a value, of its first levels alone. A column has one value for a row at most.
    pub(crate) fn presence(
        column: Column,
        page: &Page,
        rows: usize,
        is_same: bool,
        levels: &[u8],
    ) -> Result<Cells> {
        if column.shape() != Shape::AtMostOne {
            return Err("it has not one value for a row at most");
        }
        let (levels_of, rows) = if is_same { (1, 1) } else { (page.values as usize, rows) };
        let (starts, _) = at_most_one(&mut Bytes(levels), levels_of, rows)?;
        Ok(Cells { starts, content: Content::Unread, is_same })
    }

    /// Whether values were not read.
    pub(crate) fn has_presence_alone(&self) -> bool {
        matches!(self.content, Content::Unread)
    }

    /// About how much memory it takes, beside a dictionary.
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

    /// Which values are those of a row.
    #[inline]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        let row = if self.is_same { 0 } else { row };
        match self.starts.get(row..row + 2) {
            Some(&[start, end]) => start as usize..end as usize,
            _ => row..row + 1,
        }
    }

    /// The ids of rows, by the first row that has them, if that is what they say.
    pub(crate) fn ids(&self) -> Option<&Ids> {
        match &self.content {
            Content::Ids(ids) => Some(ids),
            _ => None,
        }
    }

    /// What it says of some rows alone.
    pub(crate) fn of_rows(self, rows: Range<usize>, all_rows: usize) -> Cells {
        let Cells { starts, content, is_same } = self;
        if is_same || rows.len() == all_rows {
            return Cells { starts, content, is_same };
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
        Cells { starts, content, is_same }
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

    /// The texts that values are numbers of, and the numbers, where the page has them.
    pub(crate) fn coded(&self) -> Option<(&[u32], &TextList)> {
        match &self.content {
            Content::Coded(ids, dictionary) => Some((ids, dictionary)),
            _ => None,
        }
    }

    /// The text of a row; empty if there is none.
    #[inline]
    pub(crate) fn row_text(&self, row: usize) -> &str {
        self.range(row).next().map_or("", |value| self.text(value))
    }

    /// The number of a row.
    #[inline]
    pub(crate) fn row_number(&self, row: usize) -> Option<i64> {
        self.range(row).next().map(|value| self.number(value))
    }
}

fn levels(bytes: &mut Bytes<'_>, count: usize) -> Result<Vec<u32>> {
    let length = bytes.u32()? as usize;
    let mut out = Vec::new();
    decode::runs(&mut Bytes(bytes.take(length)?), 1, count, &mut out)?;
    if out.iter().any(|level| *level > 1) {
        return Err("a level is greater than 1");
    }
    Ok(out)
}

fn at_most_one(bytes: &mut Bytes<'_>, count: usize, rows: usize) -> Result<(Vec<u32>, usize)> {
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

fn many(bytes: &mut Bytes<'_>, count: usize, rows: usize) -> Result<(Vec<u32>, usize)> {
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
