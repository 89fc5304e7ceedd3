//! [`ColumnWriters`]: encodes the rows of a row group, column by column. Start at
//! [`ColumnWriters::column`].

use crate::block::Row;
use crate::chunk_writer::{Bounds, ChunkWriter, Levels};
use crate::dictionary::TextId;
use crate::encode;
use crate::error::Error;
use crate::numbering::{NumberedBlock, NumberedEndpoint, Numbering};
use crate::schema::{Column, KINDS, STATUSES, TAGS, kind_text, status_text};
use blkkin_model::hex;
use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use std::ops::Range;

/// False positive rate of the Bloom filter of trace ids. The filter's size is a power of two: 8 KiB
/// for 8192 ids (65536 rows of requests with 8 spans). Half of this rate would double that size.
const BLOOM_FALSE_POSITIVES: f64 = 0.05;

/// Trace ids of a row group as text. Each id is stored once for each run of adjacent rows that have
/// it.
pub(crate) struct TraceIds {
    texts: Vec<String>,
    /// Index of each row's trace id in `texts`.
    of_row: Vec<u32>,
}

impl TraceIds {
    pub(crate) fn of(rows: &[(&NumberedBlock<'_>, Row)]) -> TraceIds {
        let mut ids = TraceIds { texts: Vec::new(), of_row: Vec::with_capacity(rows.len()) };
        let mut last = None;
        for (of, row) in rows {
            let id = of.block.trace_id(*row);
            if last != Some(id) {
                ids.texts.push(id.to_string());
                last = Some(id);
            }
            ids.of_row.push(ids.texts.len() as u32 - 1);
        }
        ids
    }

    pub(crate) fn bloom(&self) -> Result<Sbbf, Error> {
        let mut bloom = Sbbf::new_with_ndv_fpp(self.texts.len() as u64, BLOOM_FALSE_POSITIVES)?;
        for text in &self.texts {
            bloom.insert(text.as_str());
        }
        Ok(bloom)
    }
}

/// State shared by the two columns of a list pair, such as tag keys and tag values. Writing the
/// first column stores here the levels of both columns and the values of the second column.
#[derive(Default)]
pub(crate) struct ListPair {
    levels: Levels,
    /// Text ids of the second column, such as those of the tag values.
    values: Vec<TextId>,
}

/// Encoder of the columns of a row group.
pub(crate) struct ColumnWriters<'g, 'b> {
    pub(crate) rows: &'g [(&'g NumberedBlock<'b>, Row)],
    /// Local endpoints of the rows, looked up once for several columns.
    pub(crate) locals: Vec<&'g NumberedEndpoint>,
    pub(crate) remotes: Vec<&'g NumberedEndpoint>,
    pub(crate) pages: &'g [Range<usize>],
    pub(crate) numbering: &'g mut Numbering,
}

impl<'b> ColumnWriters<'_, 'b> {
    pub(crate) fn column(
        &mut self,
        column: Column,
        chunk: &mut ChunkWriter<'_>,
        lists: &mut ListPair,
    ) -> Result<(), Error> {
        match column {
            Column::TraceId => Ok(()),
            Column::SpanId => {
                let ids = self.map_rows(|of, row| of.block.id(row).number());
                self.ids(chunk, &Levels::required(self.pages), &ids)
            }
            Column::ParentId => {
                let ids =
                    self.map_rows(|of, row| of.block.parent_id(row).map_or(0, |id| id.number()));
                let present = ids.iter().map(|id| (*id != 0).into()).collect();
                let ids: Vec<u64> = ids.into_iter().filter(|id| *id != 0).collect();
                self.ids(chunk, &Levels::optional(present, self.pages), &ids)
            }
            Column::Kind => {
                let kinds = KINDS.map(|kind| self.numbering.texts.intern(kind_text(kind)));
                let texts = self.map_rows(|of, row| kinds[of.block.kind(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Status => {
                let statuses =
                    STATUSES.map(|status| self.numbering.texts.intern(status_text(status)));
                let texts = self.map_rows(|of, row| statuses[of.block.status(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Error => self.flags(chunk, |of, row| of.block.is_error(row)),
            Column::Debug => self.flags(chunk, |of, row| of.block.is_debug(row)),
            Column::Shared => self.flags(chunk, |of, row| of.block.is_shared(row)),
            Column::Name => {
                let texts = self.map_rows(|of, row| of.texts[of.block.name_id(row) as usize]);
                self.texts(chunk, texts)
            }
            Column::Service => {
                let texts = self.locals.iter().map(|of| of.service).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteService => {
                let texts = self.remotes.iter().map(|of| of.service).collect();
                self.texts(chunk, texts)
            }
            Column::LocalIpv4 => {
                let texts = self.locals.iter().map(|of| of.ipv4).collect();
                self.texts(chunk, texts)
            }
            Column::LocalIpv6 => {
                let texts = self.locals.iter().map(|of| of.ipv6).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteIpv4 => {
                let texts = self.remotes.iter().map(|of| of.ipv4).collect();
                self.texts(chunk, texts)
            }
            Column::RemoteIpv6 => {
                let texts = self.remotes.iter().map(|of| of.ipv6).collect();
                self.texts(chunk, texts)
            }
            Column::TagLayout => {
                let texts =
                    self.map_rows(|of, row| of.layouts[of.block.layout_id(row) as usize].text);
                self.texts(chunk, texts)
            }
            Column::StartTime => {
                let numbers = self.map_rows(|of, row| of.block.start_ns(row).map(|at| at as i64));
                self.numbers::<8>(chunk, &numbers, Bounds::Numbers)
            }
            Column::Duration => {
                let numbers =
                    self.map_rows(|of, row| of.block.duration_ns(row).map(|of| of as i64));
                self.numbers::<8>(chunk, &numbers, Bounds::Numbers)
            }
            Column::LocalPort => {
                let numbers: Vec<Option<i64>> =
                    self.locals.iter().map(|of| port(of.port)).collect();
                self.numbers::<4>(chunk, &numbers, small)
            }
            Column::RemotePort => {
                let numbers: Vec<Option<i64>> =
                    self.remotes.iter().map(|of| port(of.port)).collect();
                self.numbers::<4>(chunk, &numbers, small)
            }
            Column::AnnotationTime => self.annotations(chunk, lists),
            Column::TagKey | Column::ResourceKey | Column::ScopeKey => {
                self.tags(column, chunk, lists)
            }
            Column::AnnotationValue
            | Column::TagValue
            | Column::ResourceValue
            | Column::ScopeValue => {
                let values = std::mem::take(&mut lists.values);
                self.text_values(chunk, &lists.levels, values, false)
            }
        }
    }

    fn map_rows<T>(&self, get: impl Fn(&NumberedBlock<'b>, Row) -> T) -> Vec<T> {
        self.rows.iter().map(|(of, row)| get(of, *row)).collect()
    }

    /// Writes span ids of 16 hexadecimal digits. The encoded list of lengths is tiny, since all
    /// lengths are equal.
    fn ids(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        levels: &Levels,
        ids: &[u64],
    ) -> Result<(), Error> {
        let encoding = Encoding::DELTA_LENGTH_BYTE_ARRAY;
        let mut lengths = Vec::new();
        chunk.pages(self.pages, levels, encoding, |range, out| {
            lengths.clear();
            lengths.resize(range.len(), 16);
            encode::differences(&lengths, &mut out.bytes);
            out.end_block();
            ids[range].iter().for_each(|id| out.bytes.extend_from_slice(&hex::digits(*id)));
            Bounds::Unknown
        })
    }

    /// Writes trace ids. An id that equals the id of the previous row in the page is written as a
    /// shared prefix and an empty suffix, any other id in full.
    pub(crate) fn trace_ids(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        ids: &TraceIds,
    ) -> Result<(), Error> {
        let levels = Levels::required(self.pages);
        let (mut shared, mut lengths, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        chunk.pages(self.pages, &levels, Encoding::DELTA_BYTE_ARRAY, |range, out| {
            shared.clear();
            lengths.clear();
            texts.clear();
            let mut before = None;
            let mut bounds: Option<(&[u8], &[u8])> = None;
            for id in &ids.of_row[range] {
                let text = ids.texts[*id as usize].as_bytes();
                if before == Some(id) {
                    shared.push(text.len() as i64);
                    lengths.push(0);
                    continue;
                }
                before = Some(id);
                shared.push(0);
                lengths.push(text.len() as i64);
                texts.extend_from_slice(text);
                bounds = Some(match bounds {
                    None => (text, text),
                    Some((least, most)) => (least.min(text), most.max(text)),
                });
            }
            encode::differences(&shared, &mut out.bytes);
            encode::differences(&lengths, &mut out.bytes);
            out.end_block();
            out.bytes.extend_from_slice(&texts);
            bounds
                .map_or(Bounds::None, |(least, most)| Bounds::Texts(least.to_vec(), most.to_vec()))
        })
    }

    /// Writes a column with one optional text in each row. Text 0, the empty text, means no value.
    fn texts(&mut self, chunk: &mut ChunkWriter<'_>, texts: Vec<TextId>) -> Result<(), Error> {
        let present = texts.iter().map(|text| (*text != 0).into()).collect();
        let levels = Levels::optional(present, self.pages);
        let texts = texts.into_iter().filter(|text| *text != 0).collect();
        self.text_values(chunk, &levels, texts, true)
    }

    fn text_values(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        levels: &Levels,
        mut texts: Vec<TextId>,
        in_order: bool,
    ) -> Result<(), Error> {
        let dictionary = self.numbering.dictionary(&mut texts, in_order);
        let known = &self.numbering.texts;
        let Some(dictionary) = dictionary else {
            return self.plain(chunk, levels, &texts);
        };
        chunk.dictionary(dictionary.iter().map(|text| known.get(*text)))?;
        let text = |number: u32| known.get(dictionary[number as usize]).as_bytes().to_vec();
        chunk.pages(self.pages, levels, Encoding::RLE_DICTIONARY, |range, out| {
            let numbers = &texts[range];
            let most = numbers.iter().copied().max().unwrap_or(0);
            let width = encode::width(most.into()).next_multiple_of(8);
            out.bytes.push(width as u8);
            encode::runs(numbers, width, &mut out.bytes);
            match numbers.iter().min() {
                Some(least) if in_order => Bounds::Texts(text(*least), text(most)),
                _ => Bounds::Unknown,
            }
        })
    }

    fn plain(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        levels: &Levels,
        texts: &[TextId],
    ) -> Result<(), Error> {
        let known = &self.numbering.texts;
        let mut lengths = Vec::new();
        chunk.pages(self.pages, levels, Encoding::DELTA_LENGTH_BYTE_ARRAY, |range, out| {
            let texts = &texts[range];
            lengths.clear();
            lengths.extend(texts.iter().map(|text| known.get(*text).len() as i64));
            encode::differences(&lengths, &mut out.bytes);
            out.end_block();
            let texts = texts.iter().map(|text| known.get(*text).as_bytes());
            texts.for_each(|text| out.bytes.extend_from_slice(text));
            Bounds::Unknown
        })
    }

    fn numbers<const SIZE: usize>(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        numbers: &[Option<i64>],
        bounds: impl Fn(i64, i64) -> Bounds,
    ) -> Result<(), Error> {
        let present = numbers.iter().map(|number| number.is_some().into()).collect();
        let levels = Levels::optional(present, self.pages);
        let numbers: Vec<i64> = numbers.iter().flatten().copied().collect();
        self.plain_numbers::<SIZE>(chunk, &levels, &numbers, bounds)
    }

    fn plain_numbers<const SIZE: usize>(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        levels: &Levels,
        numbers: &[i64],
        bounds: impl Fn(i64, i64) -> Bounds,
    ) -> Result<(), Error> {
        chunk.pages(self.pages, levels, Encoding::PLAIN, |range, out| {
            let numbers = &numbers[range];
            encode::numbers::<SIZE>(numbers, &mut out.bytes);
            let (least, most) = (numbers.iter().min(), numbers.iter().max());
            least.zip(most).map_or(Bounds::None, |(least, most)| bounds(*least, *most))
        })
    }

    fn flags(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        get: impl Fn(&NumberedBlock<'b>, Row) -> bool,
    ) -> Result<(), Error> {
        let flags = self.map_rows(get);
        let same = flags.iter().all(|flag| *flag == flags[0]);
        let levels = Levels { same, ..Levels::required(self.pages) };
        chunk.pages(self.pages, &levels, Encoding::PLAIN, |range, out| {
            let flags = &flags[range];
            encode::flags(flags, &mut out.bytes);
            Bounds::Flags(flags.iter().all(|flag| *flag), flags.iter().any(|flag| *flag))
        })
    }

    fn annotations(
        &mut self,
        chunk: &mut ChunkWriter<'_>,
        lists: &mut ListPair,
    ) -> Result<(), Error> {
        let (mut counts, mut times) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (of, row) in self.rows {
            let (at, values) = of.block.annotation_ids(*row);
            counts.push(at.len() as u32);
            times.extend(at.iter().map(|time| *time as i64));
            lists.values.extend(values.iter().map(|value| of.texts[*value as usize]));
        }
        lists.levels = Levels::repeated(&counts, self.pages);
        self.plain_numbers::<8>(chunk, &lists.levels, &times, Bounds::Numbers)
    }

    fn tags(
        &mut self,
        column: Column,
        chunk: &mut ChunkWriter<'_>,
        lists: &mut ListPair,
    ) -> Result<(), Error> {
        let list = TAGS.iter().position(|(_, key, _)| *key == column).unwrap_or(0);
        let origin = TAGS[list].0;
        let (mut counts, mut keys) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for (of, row) in self.rows {
            let id = of.block.layout_id(*row);
            let count = of.layouts[id as usize].counts[list];
            counts.push(count);
            if count == 0 {
                continue;
            }
            for (shape, value) in of.block.layout(id).iter().zip(of.block.values(*row)) {
                if shape.origin == origin {
                    keys.push(of.texts[shape.key as usize]);
                    lists.values.push(self.numbering.value(of, shape.value, *value));
                }
            }
        }
        lists.levels = Levels::repeated(&counts, self.pages);
        self.text_values(chunk, &lists.levels, keys, false)
    }
}

fn port(port: u16) -> Option<i64> {
    (port != 0).then_some(port.into())
}

fn small(least: i64, most: i64) -> Bounds {
    Bounds::Numbers32(least as i32, most as i32)
}
