//! Test support: builds span files that have valid checksums and arbitrary page contents.

use crate::index::{self, Chunk, Group, Page, Seal};
use crate::schema::COLUMNS;

/// Page of a file under test: its contents, and the properties that the file claims for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageClaims<'a> {
    /// Parquet's number of the encoding.
    pub encoding: u8,
    /// Number of values that the file claims for the page.
    pub values: u32,
    /// Body of the page before compression.
    pub body: &'a [u8],
    /// Claimed size after decompression, and stored bytes. With `None`, both are derived from
    /// `body`.
    pub stored: Option<(u32, &'a [u8])>,
    /// Set if the file claims that the first row stands for all rows of the row group.
    pub is_same: bool,
    /// Claimed number of texts in the dictionary, and the dictionary's uncompressed body.
    pub dictionary: Option<(u32, &'a [u8])>,
}

/// Number of columns of a span file.
pub const COLUMN_COUNT: usize = COLUMNS.len();

/// Builds a file with one row group of one page. The file claims to have `rows` rows.
pub fn file(rows: u32, columns: &[PageClaims<'_>; COLUMN_COUNT]) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for said in columns {
        let dictionary = said.dictionary.map(|(values, body)| {
            page(&mut bytes, &PageClaims { values, body, ..PageClaims::default() })
        });
        let pages = vec![page(&mut bytes, said)];
        chunks.push(Chunk { dictionary, is_same: said.is_same, pages });
    }
    let group = Group {
        rows,
        last_low: u64::MAX,
        page_rows: vec![0],
        page_lows: vec![0],
        columns: chunks,
        ..Group::default()
    };
    let index = index::write(&[group]);
    sealed(bytes, index.len() as u32, &zstd::bulk::compress(&index, 1).unwrap_or_default())
}

/// Builds a file from the bytes that precede its index, the claimed size of the decompressed index,
/// and the stored bytes of the index.
pub fn sealed(mut bytes: Vec<u8>, index_raw: u32, stored: &[u8]) -> Vec<u8> {
    let seal = Seal {
        index_at: bytes.len() as u64,
        index_len: stored.len() as u32,
        index_raw,
        index_crc: crc32c::crc32c(stored),
        ..Seal::default()
    };
    bytes.extend(stored);
    let mut footer = seal.text().into_bytes();
    let length = footer.len() as u32;
    footer.extend(length.to_le_bytes());
    footer.extend(b"PAR1");
    assert!(seal.close(&[], &mut footer), "the footer is its seal");
    bytes.extend(footer);
    bytes
}

/// Builds a file from fuzzer input. The input starts with the number of rows, followed by the
/// columns. Each column has the encoding (plus 128 if the first row stands for all rows), the
/// number of values, and the length and bytes of the body. With the dictionary encoding, the number
/// of texts, the length and the body of a dictionary follow. Each number is one byte, 0 if the
/// input has ended. A body that is longer than the remaining input is truncated.
pub fn file_of_input(mut bytes: &[u8]) -> Vec<u8> {
    let rows = byte(&mut bytes).into();
    let columns: [PageClaims<'_>; COLUMN_COUNT] =
        std::array::from_fn(|_| page_of_input(&mut bytes));
    file(rows, &columns)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    taken
}

fn byte(bytes: &mut &[u8]) -> u8 {
    take(bytes, 1).first().copied().unwrap_or(0)
}

fn page_of_input<'a>(bytes: &mut &'a [u8]) -> PageClaims<'a> {
    let (first, values) = (byte(bytes), byte(bytes).into());
    let (encoding, is_same) = (first & 0x7f, first >= 0x80);
    let length = byte(bytes).into();
    let body = take(bytes, length);
    let dictionary = (encoding == 8).then(|| {
        let (count, length) = (byte(bytes).into(), byte(bytes).into());
        (count, take(bytes, length))
    });
    PageClaims { encoding, values, body, is_same, dictionary, stored: None }
}

fn page(bytes: &mut Vec<u8>, said: &PageClaims<'_>) -> Page {
    let (raw, stored) = match said.stored {
        Some((raw, stored)) => (raw, stored.to_vec()),
        None => {
            let stored = zstd::bulk::compress(said.body, 1).unwrap_or_default();
            (said.body.len() as u32, stored)
        }
    };
    let page = Page {
        offset: bytes.len() as u64,
        header: 0,
        encoding: said.encoding,
        stored: stored.len() as u32,
        raw,
        values: said.values,
        crc: crc32c::crc32c(&stored),
    };
    bytes.extend(stored);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{INDEX_MAX, PAGE_MAX, PAGE_ROWS_MAX, VALUES_MAX};
    use crate::schema::{Repetition, Values};
    use crate::{Block, Column, File, encode};
    use blkkin_model::{Count, varint};
    use std::io::Write;

    /// The fuzzer's seeds are read without errors. One seed is fuzzer input for [`file_of_input`],
    /// the other a span file.
    #[test]
    fn seeds_are_read() {
        let bytes = file_of_input(include_bytes!("../../../../fuzz/corpus/span_file/one-row"));
        let file = File::open(bytes).expect("ours");
        file.verify().expect("whole");
        let mut block = Block::new();
        assert_eq!(file.rows(0..file.len(), &mut block).expect("whole"), 1);
        assert_eq!((block.trace_low(0), block.text(block.name_id(0))), (1, "a"));
        let whole = include_bytes!("../../../../fuzz/corpus/span_file/one-request").to_vec();
        let file = File::open(whole).expect("ours");
        assert_eq!(file.rows(0..file.len(), &mut block).expect("whole"), 8);
    }

    /// Maximum growth of the process's memory during the test, in bytes. The largest valid page
    /// takes half of it.
    const MEMORY_MAX: u64 = 96 << 20;

    /// Returns the peak memory of this process in bytes.
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
    }

    /// Compresses `first` followed by `count` zeros, without holding the zeros in memory.
    fn zeros(first: &[u8], count: usize) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("zstd");
        encoder.write_all(first).expect("written");
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), count as u64), &mut encoder)
            .expect("written");
        encoder.finish().expect("written")
    }

    /// Encodes `count` equal levels.
    fn levels(count: usize, level: u8) -> Vec<u8> {
        let mut run = Vec::new();
        varint::write(&mut run, (count as u64) << 1);
        run.push(level);
        [(run.len() as u32).to_le_bytes().to_vec(), run].concat()
    }

    /// Returns the encoding and the body of a page with `rows` equal rows. In list columns, all
    /// rows have empty lists.
    fn rows(column: Column, rows: usize) -> (u8, Vec<u8>) {
        let (mut body, rows) = match column.repetition() {
            Repetition::Required => (Vec::new(), rows),
            Repetition::Optional => (levels(rows, 1), rows),
            Repetition::Repeated => ([levels(rows, 0), levels(rows, 0)].concat(), 0),
        };
        let same = |length: i64, body: &mut Vec<u8>| {
            encode::differences(&vec![length; rows], body);
        };
        let encoding = match column.values() {
            Values::Numbers(size) => {
                body.resize(body.len() + rows * size, 0);
                0
            }
            Values::Flags => {
                body.resize(body.len() + rows.div_ceil(8), 0);
                0
            }
            Values::Texts if column == Column::TraceId => {
                let first = |first| {
                    let mut lengths = vec![32 - first; rows];
                    lengths[0] = first;
                    lengths
                };
                encode::differences(&first(0), &mut body);
                encode::differences(&first(32), &mut body);
                body.extend([b'1'; 32]);
                7
            }
            Values::Texts if column == Column::SpanId => {
                same(16, &mut body);
                body.resize(body.len() + rows * 16, b'1');
                6
            }
            Values::Texts => {
                same(0, &mut body);
                6
            }
        };
        (encoding, body)
    }

    /// Opens, reads and verifies a file. Returns the number of its rows, or the error as text.
    fn read(bytes: Vec<u8>) -> Result<u64, String> {
        let file = File::open(bytes).map_err(|error| error.to_string())?;
        let mut count = Count::default();
        let read = file.read(0..file.len(), &mut count).and_then(|_| file.verify());
        read.map_err(|error| error.to_string()).map(|()| file.len())
    }

    /// Files with false sizes of pages, dictionaries or the index, or with decompression bombs, are
    /// refused. Neither they nor valid files with large pages take [`MEMORY_MAX`] bytes.
    #[test]
    fn false_sizes_take_no_memory() {
        let before = peak();
        let check = |expected: Result<u64, &str>, file: Vec<u8>| {
            let read = read(file);
            match expected {
                Ok(rows) => assert_eq!(read, Ok(rows)),
                Err(part) => {
                    let error = read.expect_err(part);
                    assert!(error.contains(part), "{error}, but not: {part}");
                }
            }
            let more = peak().saturating_sub(before);
            assert!(more < MEMORY_MAX, "{expected:?} took {more} bytes");
        };
        let gib = zeros(&[], 1 << 30);
        check(Err("the index cannot be decompressed"), sealed(vec![0; 4], INDEX_MAX as u32, &gib));
        check(Err("the index is too large"), sealed(vec![0; 4], u32::MAX, &gib));

        let many = PAGE_ROWS_MAX;
        let pages: Vec<(u8, Vec<u8>)> =
            COLUMNS.into_iter().map(|column| rows(column, many)).collect();
        let whole: [PageClaims<'_>; COLUMN_COUNT] = std::array::from_fn(|at| PageClaims {
            encoding: pages[at].0,
            values: many as u32,
            body: &pages[at].1,
            ..PageClaims::default()
        });
        check(Ok(many as u64), file(many as u32, &whole));
        check(Err("too many rows"), file(many as u32 + 1, &whole));

        let with = |column: Column, said: PageClaims<'_>| {
            let mut columns = whole;
            columns[column as usize] = said;
            file(many as u32, &columns)
        };
        let name = whole[Column::Name as usize];
        for (raw, error) in [
            (1 << 10, "a page cannot be decompressed"),
            (16 << 20, "a page cannot be decompressed"),
            (PAGE_MAX as u32, "too large together"),
            (u32::MAX, "too large"),
        ] {
            check(Err(error), with(Column::Name, PageClaims { stored: Some((raw, &gib)), ..name }));
        }
        check(Err("too large"), with(Column::Name, PageClaims { values: u32::MAX, ..name }));

        // A text of 16 MiB, longer than the texts of any span.
        let mut body = levels(many, 1);
        let mut lengths = vec![0; many];
        lengths[0] = 16 << 20;
        encode::differences(&lengths, &mut body);
        let raw = body.len() as u32 + (16 << 20);
        let stored = zeros(&body, 16 << 20);
        let long = PageClaims { stored: Some((raw, &stored)), ..name };
        check(Ok(many as u64), with(Column::Name, long));

        // Texts with shared prefixes can become long, so only trace ids may have this encoding.
        let mut body = levels(many, 1);
        let mut shared = vec![1 << 10; many];
        shared[0] = 0;
        encode::differences(&shared, &mut body);
        shared.fill(0);
        shared[0] = 1 << 10;
        encode::differences(&shared, &mut body);
        body.extend([b'1'; 1 << 10]);
        let said = PageClaims { encoding: 7, body: &body, ..name };
        check(Err("an encoding that we do not write"), with(Column::Name, said));
        let said = PageClaims { body: &body[levels(many, 1).len()..], ..said };
        check(Err("its texts are too long"), with(Column::TraceId, said));

        // Lists with many values of zero bytes.
        let (encoding, body) = rows(Column::TagKey, VALUES_MAX);
        let list = PageClaims { encoding, values: VALUES_MAX as u32, body: &body, ..name };
        check(Err("as many rows"), with(Column::TagKey, list));
        let mut lists = whole;
        for column in [Column::TagKey, Column::TagValue, Column::AnnotationTime] {
            lists[column as usize] = list;
        }
        check(Err("too large together"), file(many as u32, &lists));

        let texts = PageClaims { encoding: 8, ..name };
        let body = vec![0; 2 << 20];
        let said = PageClaims { dictionary: Some((u32::MAX, &[])), ..texts };
        check(Err("too large"), with(Column::Name, said));
        let said = PageClaims { dictionary: Some((1 << 20, &body[..9])), ..texts };
        check(Err("it ends early"), with(Column::Name, said));
        let said = PageClaims { dictionary: Some((1, &body)), ..texts };
        check(Err("a dictionary in the index is too large"), with(Column::Name, said));
    }
}
