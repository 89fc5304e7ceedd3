//! For tests only: files whose checksums are right, whatever their pages say.

use crate::index::{self, Chunk, Group, Page, Seal};
use crate::schema::COLUMNS;

/// What a page is to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// The number of its encoding.
    pub encoding: u8,
    /// How many values it claims to have.
    pub values: u32,
    /// Its bytes, not compressed.
    pub body: &'a [u8],
    /// How many texts its dictionary claims to have, and the bytes of it.
    pub dictionary: Option<(u32, &'a [u8])>,
}

/// How many columns a file has.
pub const COLUMN_COUNT: usize = COLUMNS.len();

/// A file with one row group of one page, which claims to have so many rows.
pub fn file(rows: u32, columns: &[Said<'_>; COLUMN_COUNT]) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for said in columns {
        let dictionary = said.dictionary.map(|(values, body)| page(&mut bytes, 0, values, body));
        let pages = vec![page(&mut bytes, said.encoding, said.values, said.body)];
        chunks.push(Chunk { dictionary, pages });
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
    let stored = zstd::bulk::compress(&index, 1).unwrap_or_default();
    let seal = Seal {
        index_at: bytes.len() as u64,
        index_len: stored.len() as u32,
        index_raw: index.len() as u32,
        index_crc: crc32c::crc32c(&stored),
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

/// A file as these bytes tell it: how many rows, and then for each column encoding, values, and the length of the body
/// and that, and values, length and body of a dictionary if the encoding is a dictionary's. What is missing is 0.
pub fn told(mut bytes: &[u8]) -> Vec<u8> {
    let rows = byte(&mut bytes).into();
    let columns: [Said<'_>; COLUMN_COUNT] = std::array::from_fn(|_| said(&mut bytes));
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

fn said<'a>(bytes: &mut &'a [u8]) -> Said<'a> {
    let (encoding, values) = (byte(bytes), byte(bytes).into());
    let length = byte(bytes).into();
    let body = take(bytes, length);
    let dictionary = (encoding == 8).then(|| {
        let (count, length) = (byte(bytes).into(), byte(bytes).into());
        (count, take(bytes, length))
    });
    Said { encoding, values, body, dictionary }
}

fn page(bytes: &mut Vec<u8>, encoding: u8, values: u32, body: &[u8]) -> Page {
    let stored = zstd::bulk::compress(body, 1).unwrap_or_default();
    let page = Page {
        offset: bytes.len() as u64,
        header: 0,
        encoding,
        stored: stored.len() as u32,
        raw: body.len() as u32,
        values,
        crc: crc32c::crc32c(&stored),
    };
    bytes.extend(stored);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, File};

    /// What the fuzzer begins with is read.
    #[test]
    fn a_file_that_was_told_is_read() {
        let told = told(include_bytes!("../../../../fuzz/corpus/span_file/one-row"));
        let file = File::open(told).expect("ours");
        file.verify().expect("whole");
        let mut block = Block::new();
        assert_eq!(file.rows(0..file.len(), &mut block).expect("whole"), 1);
        assert_eq!((block.trace_low(0), block.text(block.name_id(0))), (1, "a"));
        let whole = include_bytes!("../../../../fuzz/corpus/span_file/one-request").to_vec();
        let file = File::open(whole).expect("ours");
        assert_eq!(file.rows(0..file.len(), &mut block).expect("whole"), 8);
    }
}
