//! Reads rows of a file as spans, by row number or by the lower half of the trace id. Start at
//! [`File::read`].

use crate::block::{Block, PushError};
use crate::cells::DecodedPage;
use crate::decode;
use crate::error::Error;
use crate::file::File;
use crate::layout::ValueType;
use crate::read_at::ReadAt;
use crate::schema::{COLUMNS, Column, KINDS, STATUSES, TAGS, kind_text, status_text};
use crate::tag_layout::tag_type;
use crate::value_text::{parse_bytes, parse_value};
use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, SpanSink, Status, TagRef, TraceId,
    ValueRef,
};
use std::ops::{ControlFlow, Range, RangeInclusive};

/// Number of a page in its row group, and the page's decoded trace ids.
type TraceIdPage = (usize, DecodedPage);

/// Adjacent rows of one row group.
struct GroupRows {
    /// Number of the row group.
    group: usize,
    /// Row numbers relative to the start of the row group.
    rows: Range<usize>,
    /// Decoded trace ids of one page, so that they are not decoded again.
    trace_ids: Option<TraceIdPage>,
}

impl<R: ReadAt> File<R> {
    /// Sends the spans in a range of rows to a sink, in order, until the sink stops the reading.
    pub fn read(
        &self,
        rows: Range<u64>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        let first = self.first_group(rows.start);
        for (number, group) in self.row_groups().iter().enumerate().skip(first) {
            if group.first_row >= rows.end {
                break;
            }
            let of_group = rows.start.saturating_sub(group.first_row) as usize
                ..(rows.end - group.first_row).min(group.rows.into()) as usize;
            let of_group = GroupRows { group: number, rows: of_group, trace_ids: None };
            if self.read_group(of_group, None, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Appends the spans in a range of rows to a block. Returns the number of appended spans; it is
    /// smaller than the range if the block became full or the file ended.
    pub fn rows(&self, rows: Range<u64>, into: &mut Block) -> Result<u64, Error> {
        let before = into.len();
        let mut sink = BlockSink { into, too_large: false };
        let broken = self.read(rows, &mut sink)?.is_break();
        if broken && sink.too_large {
            let reason = "a span is larger than any that we write";
            return Err(Error::Damaged { offset: 0, reason });
        }
        Ok((into.len() - before) as u64)
    }

    /// Sends the spans whose trace ids have the lower half `low` to a sink, until the sink stops
    /// the reading.
    pub fn trace(
        &self,
        low: u64,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        self.read_trace_range(low..=low, sink)
    }

    /// Sends the spans whose trace ids have a lower half in the range `lows` to a sink, until the
    /// sink stops the reading.
    pub fn read_trace_range(
        &self,
        lows: RangeInclusive<u64>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        self.read_span_in_range(lows, None, sink)
    }

    /// Sends spans like [`File::read_trace_range`]. If `id` is given, spans with other span ids are
    /// skipped. A page without that id in the range is skipped after its span ids were read.
    pub fn read_span_in_range(
        &self,
        lows: RangeInclusive<u64>,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        for group in 0..self.groups() {
            if self.read_group(self.rows_between(group, &lows)?, id, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the rows of a row group whose trace ids have a lower half in a range, with the
    /// decoded trace ids of the last page with such rows.
    fn rows_between(&self, number: usize, lows: &RangeInclusive<u64>) -> Result<GroupRows, Error> {
        let group = self.group(number);
        let (first, last) = (*lows.start(), *lows.end());
        if last < group.page_lows[0] || first > group.last_low || first > last {
            return Ok(GroupRows { group: number, rows: 0..0, trace_ids: None });
        }
        let page = group.page_lows.partition_point(|low| *low < first).saturating_sub(1);
        let of_page = self.cells(number, page, Column::TraceId)?;
        let before = self.rows_before(number, page, &of_page, |low| low < first)?;
        let start = group.page_rows[page] as usize + before;
        let end_page = group.page_lows.partition_point(|low| *low <= last) - 1;
        let of_page = match end_page == page {
            true => of_page,
            false => self.cells(number, end_page, Column::TraceId)?,
        };
        let before = self.rows_before(number, end_page, &of_page, |low| low <= last)?;
        let end = (group.page_rows[end_page] as usize + before).max(start);
        let trace_ids = Some((end_page, of_page));
        Ok(GroupRows { group: number, rows: start..end, trace_ids })
    }

    /// Returns the index of the first row in a page for which `holds` is false, or the number of
    /// rows if there is no such row. The argument of `holds` is the lower half of the row's trace
    /// id.
    fn rows_before(
        &self,
        group: usize,
        page: usize,
        cells: &DecodedPage,
        holds: impl Fn(u64) -> bool,
    ) -> Result<usize, Error> {
        let not_ids = "an id is none";
        let ids = cells.ids().ok_or_else(|| self.damaged(group, page, Column::TraceId, not_ids))?;
        let place = ids.ids.partition_point(|id| holds(*id as u64));
        let rows = self.rows_of_page(group, page).len();
        Ok(ids.starts.get(place).map_or(rows, |start| *start as usize))
    }

    fn read_group(
        &self,
        mut of_group: GroupRows,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        if of_group.rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let starts = &self.group(of_group.group).page_rows;
        let first = starts.partition_point(|row| *row as usize <= of_group.rows.start) - 1;
        let end = starts.partition_point(|row| (*row as usize) < of_group.rows.end);
        for page in first..end {
            if self.read_page(page, &mut of_group, id, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sends those spans in a range of rows that are in one page.
    fn read_page(
        &self,
        page: usize,
        of_group: &mut GroupRows,
        id: Option<SpanId>,
        sink: &mut (impl SpanSink + ?Sized),
    ) -> Result<ControlFlow<()>, Error> {
        let GroupRows { group, ref rows, ref mut trace_ids } = *of_group;
        let of_page = self.rows_of_page(group, page);
        let from = rows.start.max(of_page.start) - of_page.start;
        let rows = from..rows.end.min(of_page.end) - of_page.start;
        let ids = match id {
            Some(id) => Some((self.cells(group, page, Column::SpanId)?, id.to_string())),
            None => None,
        };
        let is_wanted = |row: &usize| {
            let ids = ids.as_ref();
            ids.is_none_or(|(ids, wanted)| ids.row_text(*row) == wanted)
        };
        if !rows.clone().any(|row| is_wanted(&row)) {
            return Ok(ControlFlow::Continue(()));
        }
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for column in COLUMNS {
            let is_known = |of: &mut TraceIdPage| column == Column::TraceId && of.0 == page;
            columns.push(match trace_ids.take_if(is_known) {
                Some((_, ids)) => ids,
                None => self.cells(group, page, column)?,
            });
        }
        let spans = PageRows { columns: &columns };
        for row in rows.filter(is_wanted) {
            let flow = spans
                .with(row, |span| sink.span(span))
                .map_err(|(column, reason)| self.damaged(group, page, column, reason))?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns whether the file has spans whose trace ids have the lower half `low`.
    pub fn contains_trace(&self, low: u64) -> Result<bool, Error> {
        for group in 0..self.groups() {
            if !self.rows_between(group, &(low..=low))?.rows.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct BlockSink<'a> {
    into: &'a mut Block,
    too_large: bool,
}

impl SpanSink for BlockSink<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        match self.into.push(span) {
            Ok(_) => ControlFlow::Continue(()),
            Err(refused) => {
                self.too_large = refused == PushError::TooLarge;
                ControlFlow::Break(())
            }
        }
    }
}

/// Decoded columns of a page, from which spans are assembled row by row.
struct PageRows<'c> {
    columns: &'c [DecodedPage],
}

type ColumnResult<T> = Result<T, (Column, &'static str)>;

/// Iterator over the tags of a row, in the order of the layout. Each origin has its own position in
/// its key and value columns.
struct TagIter<'c> {
    keys: [&'c DecodedPage; 3],
    values: [&'c DecodedPage; 3],
    left: [Range<usize>; 3],
    layout: &'c [u8],
}

impl<'c> Iterator for TagIter<'c> {
    type Item = decode::Result<(&'c str, &'c str, Origin, ValueType)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (origin, kind) = match self.layout.split_first() {
            Some((letter, rest)) => {
                self.layout = rest;
                match tag_type(*letter) {
                    Some(of) => of,
                    None => return Some(Err("there is no such letter in a layout")),
                }
            }
            // An empty layout means that all tags are texts of the span itself. At the end of any
            // other layout, no value remains, since `tags` has compared the counts.
            None if self.left.iter().all(Range::is_empty) => return None,
            None => (Origin::Span, ValueType::Str),
        };
        let list = TAGS.iter().position(|(of, ..)| *of == origin).unwrap_or(0);
        Some(match self.left[list].next() {
            Some(at) => Ok((self.keys[list].text(at), self.values[list].text(at), origin, kind)),
            None => Err("it says more or other tags than there are"),
        })
    }
}

impl<'c> PageRows<'c> {
    fn of(&self, column: Column) -> &'c DecodedPage {
        &self.columns[column as usize]
    }

    /// Assembles the span of a row and passes the span to `take`.
    fn with<T>(&self, row: usize, take: impl FnOnce(&SpanRef<'_>) -> T) -> ColumnResult<T> {
        let text = |column| self.of(column).row_text(row);
        let number = |column| self.of(column).row_number(row).map(|number| number as u64);
        let flag = |column| number(column) == Some(1);
        let ids = self.of(Column::TraceId).ids();
        let trace_id = ids.and_then(|ids| TraceId::from_number(ids.get(row)));
        let trace_id = trace_id.ok_or((Column::TraceId, "an id is none"))?;
        let id = in_column(Column::SpanId, span_id(text(Column::SpanId)))?;
        let parent = Some(text(Column::ParentId)).filter(|text| !text.is_empty()).map(span_id);
        let parent_id = in_column(Column::ParentId, parent.transpose())?;
        let times = self.of(Column::AnnotationTime);
        let values = self.of(Column::AnnotationValue);
        let of_row = times.range(row);
        if of_row != values.range(row) {
            return Err((Column::AnnotationValue, "it has not as many values as there are times"));
        }
        let annotation =
            |at| AnnotationRef { time_ns: times.number(at) as u64, value: values.text(at) };
        let annotations: Vec<AnnotationRef<'_>> = of_row.map(annotation).collect();
        let blobs = in_column(Column::TagLayout, self.blobs(row))?;
        let mut blobs = blobs.iter();
        let mut tags = Vec::new();
        for tag in in_column(Column::TagLayout, self.tags(row))? {
            let (key, text, origin, kind) = in_column(Column::TagLayout, tag)?;
            let value = match kind {
                ValueType::Bytes => ValueRef::Bytes(blobs.next().map_or(&[], Vec::as_slice)),
                _ => in_column(Column::TagLayout, parse_value(kind, text))?,
            };
            tags.push(TagRef { key, value, origin });
        }
        let local = [Column::Service, Column::LocalIpv4, Column::LocalIpv6, Column::LocalPort];
        let remote =
            [Column::RemoteService, Column::RemoteIpv4, Column::RemoteIpv6, Column::RemotePort];
        Ok(take(&SpanRef {
            trace_id,
            id,
            parent_id,
            kind: in_column(Column::Kind, kind(text(Column::Kind)))?,
            status: in_column(Column::Status, status(text(Column::Status)))?,
            debug: flag(Column::Debug),
            shared: flag(Column::Shared),
            name: text(Column::Name),
            start_ns: number(Column::StartTime),
            duration_ns: number(Column::Duration),
            local: self.endpoint(row, local)?,
            remote: self.endpoint(row, remote)?,
            annotations: &annotations,
            tags: &tags,
        }))
    }

    fn tags(&self, row: usize) -> decode::Result<TagIter<'c>> {
        let keys = TAGS.map(|(_, key, _)| self.of(key));
        let values = TAGS.map(|(_, _, value)| self.of(value));
        let left = keys.map(|keys| keys.range(row));
        let layout = self.of(Column::TagLayout).row_text(row).as_bytes();
        let tags: usize = left.iter().map(Range::len).sum();
        let fits = layout.len() == tags || (layout.is_empty() && left[0].len() == tags);
        if !fits || (0..3).any(|list| values[list].range(row) != left[list]) {
            return Err("it says more or fewer tags than there are");
        }
        Ok(TagIter { keys, values, left, layout })
    }

    /// Decodes those tag values of a row that are byte strings.
    fn blobs(&self, row: usize) -> decode::Result<Vec<Vec<u8>>> {
        let mut blobs = Vec::new();
        for tag in self.tags(row)? {
            let (_, text, _, kind) = tag?;
            if kind == ValueType::Bytes {
                blobs.push(parse_bytes(text)?);
            }
        }
        Ok(blobs)
    }

    fn endpoint(
        &self,
        row: usize,
        [service, ipv4, ipv6, port]: [Column; 4],
    ) -> ColumnResult<EndpointRef<'c>> {
        let address = |column| Some(self.of(column).row_text(row)).filter(|text| !text.is_empty());
        let bad = "an address is none";
        Ok(EndpointRef {
            service: self.of(service).row_text(row),
            ipv4: address(ipv4).map(str::parse).transpose().map_err(|_| (ipv4, bad))?,
            ipv6: address(ipv6).map(str::parse).transpose().map_err(|_| (ipv6, bad))?,
            port: u16::try_from(self.of(port).row_number(row).unwrap_or(0))
                .map_err(|_| (port, "a port is none"))?,
        })
    }
}

fn in_column<T>(column: Column, result: decode::Result<T>) -> ColumnResult<T> {
    result.map_err(|reason| (column, reason))
}

fn span_id(text: &str) -> decode::Result<SpanId> {
    SpanId::from_number(decode::hex(text.as_bytes())?).ok_or("an id is 0")
}

fn kind(text: &str) -> decode::Result<Kind> {
    KINDS.into_iter().find(|kind| kind_text(*kind) == text).ok_or("there is no such kind")
}

fn status(text: &str) -> decode::Result<Status> {
    STATUSES.into_iter().find(|of| status_text(*of) == text).ok_or("there is no such status")
}
