//! [`GroupEncoder`]: encodes the pages, columns and index entries of row groups. Start at
//! [`GroupEncoder::groups`].

use crate::block::Row;
use crate::chunk_writer::{ChunkWriter, PageCompressor};
use crate::column_writers::{ColumnWriters, ListPair, TraceIds};
use crate::dictionary::Texts;
use crate::error::Error;
use crate::index::{Group, PAGE_ROWS_MAX};
use crate::numbering::{NumberedBlock, Numbering};
use crate::options::Options;
use crate::schema::{COLUMNS, Column, schema};
use crate::sorted::Sorted;
use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use std::ops::Range;

/// Maximum weight of a page in bytes. Only a page with a single span may be heavier.
const PAGE_WEIGHT_MAX: usize = 1 << 20;

/// Encoded row group: the bytes and Parquet metadata of its columns, and its entry in the index.
pub(crate) struct EncodedGroup {
    pub(crate) columns: Vec<(Bytes, ColumnCloseResult)>,
    pub(crate) group: Group,
}

/// Encoder of row groups. It reuses its buffers for the next row group.
pub(crate) struct GroupEncoder {
    options: Options,
    schema: Vec<ColumnDescPtr>,
    compressor: PageCompressor,
    numbering: Numbering,
}

impl GroupEncoder {
    pub(crate) fn new(options: Options) -> Result<GroupEncoder, Error> {
        let schema = SchemaDescriptor::new(schema()?).columns().to_vec();
        let compressor = PageCompressor::new(options.level, options.level_of_recurring)?;
        Ok(GroupEncoder { options, schema, compressor, numbering: Numbering::default() })
    }

    /// Encodes row groups one after another, and passes each to `each`.
    pub(crate) fn groups(
        &mut self,
        spans: &Sorted<'_>,
        groups: &[&[(u32, Row)]],
        mut each: impl FnMut(EncodedGroup) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut texts = Texts::new();
        let blocks: Vec<NumberedBlock<'_>> =
            spans.blocks().iter().map(|block| NumberedBlock::new(block, &mut texts)).collect();
        self.numbering.texts = texts;
        for places in groups {
            let rows: Vec<(&NumberedBlock<'_>, Row)> =
                places.iter().map(|(block, row)| (&blocks[*block as usize], *row)).collect();
            each(self.group(&rows)?)?;
        }
        Ok(())
    }

    fn group(&mut self, rows: &[(&NumberedBlock<'_>, Row)]) -> Result<EncodedGroup, Error> {
        let pages = pages(rows, self.options.rows_of_page.clamp(1, PAGE_ROWS_MAX));
        let low = |at: usize| rows[at].0.block.trace_low(rows[at].1);
        let mut group = Group {
            rows: rows.len() as u32,
            last_low: low(rows.len() - 1),
            page_rows: pages.iter().map(|page| page.start as u32).collect(),
            page_lows: pages.iter().map(|page| low(page.start)).collect(),
            starts: (u64::MAX, 0),
            ..Group::default()
        };
        for start in rows.iter().filter_map(|(of, row)| of.block.start_ns(*row)) {
            group.starts = (group.starts.0.min(start), group.starts.1.max(start));
        }
        let mut of_rows = ColumnWriters {
            rows,
            locals: rows.iter().map(|(of, row)| of.local(*row)).collect(),
            remotes: rows.iter().map(|(of, row)| of.remote(*row)).collect(),
            pages: &pages,
            numbering: &mut self.numbering,
        };
        let mut spaced = ListPair::default();
        let mut columns = Vec::with_capacity(self.schema.len());
        for (column, descriptor) in COLUMNS.into_iter().zip(&self.schema) {
            self.compressor.set_recurring(column.recurs());
            let mut chunk = ChunkWriter::new(descriptor.clone(), &mut self.compressor);
            let mut bloom = None;
            if column == Column::TraceId {
                let ids = TraceIds::of(rows);
                if self.options.bloom {
                    bloom = Some(ids.bloom()?);
                }
                of_rows.trace_ids(&mut chunk, &ids)?;
            } else {
                of_rows.column(column, &mut chunk, &mut spaced)?;
            }
            let (bytes, mut close, of_chunk) = chunk.finish()?;
            close.bloom_filter = bloom;
            columns.push((Bytes::from(bytes), close));
            group.columns.push(of_chunk);
        }
        Ok(EncodedGroup { columns, group })
    }
}

/// Divides the rows of a row group into pages of at most `most` rows. Only a page with a single
/// span may exceed [`PAGE_WEIGHT_MAX`].
fn pages(rows: &[(&NumberedBlock<'_>, Row)], most: usize) -> Vec<Range<usize>> {
    let heaviest = rows.iter().map(|(of, _)| of.block.heaviest()).max().unwrap_or(0);
    if heaviest.saturating_mul(most) <= PAGE_WEIGHT_MAX {
        let starts = (0..rows.len()).step_by(most);
        return starts.map(|start| start..rows.len().min(start + most)).collect();
    }
    let mut pages = Vec::new();
    let (mut start, mut weight) = (0, 0);
    for (at, (of, row)) in rows.iter().enumerate() {
        let more = of.block.weight(*row);
        if at > start && (weight + more > PAGE_WEIGHT_MAX || at - start == most) {
            pages.push(start..at);
            (start, weight) = (at, 0);
        }
        weight += more;
    }
    pages.push(start..rows.len());
    pages
}
