//! [`Writer`]: writes spans as Parquet files. Start at [`Writer::create`]. `docs/span-files.md`
//! describes the contents of a file, `index` its layout.
//!
//! Pages are encoded by this crate and not by the Parquet library, which would hash every text in
//! every row. In a block, each text already has an id. Tables map this id to the code in the
//! dictionary of a column chunk (`numbering`).
//!
//! Bytes per span in the server bench (spans of OpenTelemetry senders), 36 in total: span id 8.0,
//! parent id 6.1, trace id 2.1, start 2.9, duration 2.7, annotation times 3.2, tags 6.9. Ids are
//! hexadecimal digits of four bits each; random digits cannot be compressed further. Higher zstd
//! levels make ids and times larger, since zstd then matches digits that recur by chance. They make
//! the other columns one byte smaller and writing slower (`Options::level_of_recurring`).

use crate::block::Row;
use crate::error::Error;
use crate::group_encoder::{EncodedGroup, GroupEncoder};
use crate::index::{self, Group, INDEX_MAX, SEAL, Seal};
use crate::options::Options;
use crate::schema::schema;
use crate::sorted::Sorted;
use blkkin_sys::run_both;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{BloomFilterPosition, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of spans, size and time range of a finished file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Number of spans in the file.
    pub rows: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Earliest and latest start in nanoseconds since 1970; `None` if no span has a start.
    pub starts_ns: Option<(u64, u64)>,
}

/// Writer of one span file. It writes one row group after another.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<FooterBuffer<W>>,
    options: Options,
    /// Two encoders, which work in parallel on half of the appended row groups each; `None` until
    /// the first append.
    encoders: Option<[GroupEncoder; 2]>,
    groups: Vec<Group>,
    index_len: usize,
    rows: u64,
}

/// Maximum number of row groups in a Parquet file.
const GROUPS_MAX: usize = i16::MAX as usize;

/// Output that forwards all bytes to `to` until `footer` is set. Later bytes, among them the
/// footer, are collected in `footer`, so that the footer can be sealed before it is written.
struct FooterBuffer<W> {
    to: W,
    footer: Option<Vec<u8>>,
}

impl<W: Write> Write for FooterBuffer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.footer {
            Some(kept) => kept.write(bytes),
            None => self.to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write + Send> Writer<W> {
    /// Starts a file: writes the bytes that precede the first row group.
    pub fn create(to: W, options: Options) -> Result<Writer<W>, Error> {
        let properties = WriterProperties::builder()
            .set_bloom_filter_position(BloomFilterPosition::End)
            .set_created_by(format!("blkkin version {}", env!("CARGO_PKG_VERSION")))
            .build();
        let to = FooterBuffer { to, footer: None };
        Ok(Writer {
            file: SerializedFileWriter::new(to, schema()?, Arc::new(properties))?,
            options,
            encoders: None,
            groups: Vec::new(),
            index_len: 4,
            rows: 0,
        })
    }

    /// Appends spans as new row groups. After an error the writer must not be used again.
    pub fn append(&mut self, spans: &Sorted<'_>) -> Result<(), Error> {
        let groups: Vec<&[(u32, Row)]> =
            spans.places().chunks(self.options.rows_of_group.max(1)).collect();
        let mut encoders = match std::mem::take(&mut self.encoders) {
            Some(encoders) => encoders,
            None => [GroupEncoder::new(self.options)?, GroupEncoder::new(self.options)?],
        };
        let [one, other] = &mut encoders;
        let (own_share, other_share) = groups.split_at(groups.len().div_ceil(2));
        let mut own = || one.groups(spans, own_share, |group| self.write(group));
        let written = if other_share.is_empty() {
            own()
        } else {
            let (written, encoded) = run_both(own, || {
                let mut encoded = Vec::with_capacity(other_share.len());
                other.groups(spans, other_share, |group| {
                    encoded.push(group);
                    Ok(())
                })?;
                Ok::<_, Error>(encoded)
            });
            written.and_then(|()| encoded?.into_iter().try_for_each(|group| self.write(group)))
        };
        self.encoders = Some(encoders);
        written
    }

    fn write(&mut self, encoded: EncodedGroup) -> Result<(), Error> {
        let EncodedGroup { columns, mut group } = encoded;
        self.index_len += index::len(group.page_rows.len());
        if self.index_len > INDEX_MAX || self.groups.len() == GROUPS_MAX {
            return Err(Error::Full);
        }
        let mut of_file = self.file.next_row_group()?;
        for (bytes, close) in columns {
            of_file.append_column(&bytes, close)?;
        }
        let metadata = of_file.close()?;
        for (chunk, of) in group.columns.iter_mut().zip(metadata.columns()) {
            let mut offset = of.byte_range().0;
            for page in chunk.dictionary.iter_mut().chain(&mut chunk.pages) {
                page.offset = offset;
                offset += page.len();
            }
        }
        self.rows += u64::from(group.rows);
        self.groups.push(group);
        Ok(())
    }

    /// Finishes the file. Returns the underlying writer, whose data may not be durable yet.
    pub fn finish(mut self) -> Result<(W, FileStats), Error> {
        let index = index::write(&self.groups);
        let stored = zstd::bulk::compress(&index, self.options.level)?;
        let seal = Seal {
            index_at: self.file.bytes_written() as u64,
            index_len: stored.len() as u32,
            index_raw: index.len() as u32,
            index_crc: crc32c::crc32c(&stored),
            ..Seal::default()
        };
        self.file.write_all(&stored)?;
        self.file.append_key_value_metadata(KeyValue::new(SEAL.to_owned(), seal.text()));
        self.file.flush()?;
        let before = self.file.bytes_written() as u64;
        self.file.inner_mut().footer = Some(Vec::new());
        let FooterBuffer { mut to, footer: kept } = self.file.into_inner()?;
        let mut kept = kept.unwrap_or_default();
        let footer = kept
            .len()
            .checked_sub(8)
            .and_then(|at| Some((at, kept[at..].first_chunk::<4>()?)))
            .and_then(|(at, length)| at.checked_sub(u32::from_le_bytes(*length) as usize));
        let sealed = footer.is_some_and(|at| {
            let (rest, footer) = kept.split_at_mut(at);
            seal.close(rest, footer)
        });
        if !sealed {
            let reason = "the library has not written the footer as expected".to_owned();
            return Err(parquet::errors::ParquetError::General(reason).into());
        }
        to.write_all(&kept)?;
        to.flush()?;
        let starts = self.groups.iter().fold((u64::MAX, 0), |starts, group| {
            (starts.0.min(group.starts.0), starts.1.max(group.starts.1))
        });
        let written = FileStats {
            rows: self.rows,
            bytes: before + kept.len() as u64,
            starts_ns: (starts.0 <= starts.1).then_some(starts),
        };
        Ok((to, written))
    }
}
