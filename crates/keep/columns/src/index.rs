//! Our own index of a file's pages, which other readers pass over: it lies between the last row group and what Parquet
//! has at the end. With it a page is read without anything that Parquet says, and each byte that is read was checked.
//!
//! ```text
//! "PAR1" | row groups | index | bloom filters, page indexes | footer | its length | "PAR1"
//! ```
//!
//! A [`Seal`], text of fixed length among the footer's key-value pairs, says where the index is, and has checksums
//! (CRC-32C) of the index, of what is between it and the footer, and of the footer from its first byte to the end of
//! the file, in which that checksum itself is taken for zeros. The index, compressed with zstd, has a checksum of each
//! page with its header. Numbers are little-endian.

use crate::decode::{Bytes, Result as Decoded};
use crate::error::Error;
use crate::schema::COLUMNS;

/// The name of the seal among the key-value pairs.
pub(crate) const SEAL: &str = "blkkin.spans";

const OPENING: &str = "blkkin.spans/1 ";

/// Features that a reader has to know, of those that there are: none so far.
const KNOWN: u32 = 0;

/// Most bytes of an index, not compressed.
const INDEX_MAX: usize = 64 << 20;

/// Most bytes of a page, not compressed, and most values: what a writer keeps to.
pub(crate) const PAGE_MAX: usize = 32 << 20;
pub(crate) const VALUES_MAX: usize = 1 << 20;

/// What is known of a file before its index is read. Features are bits: who does not know one of `compat` may read and
/// write, and who does not know one of `incompat` may do neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) compat: u32,
    pub(crate) incompat: u32,
    pub(crate) index_at: u64,
    pub(crate) index_len: u32,
    pub(crate) index_raw: u32,
    pub(crate) index_crc: u32,
    pub(crate) rest_crc: u32,
    pub(crate) footer_crc: u32,
}

/// How many hexadecimal digits its numbers have.
const DIGITS: [usize; 8] = [8, 8, 16, 8, 8, 8, 8, 8];
const SEAL_LEN: usize = OPENING.len() + 72 + 7;

impl Seal {
    pub(crate) fn text(&self) -> String {
        let Seal { compat, incompat, index_at, index_len, .. } = self;
        let Seal { index_raw, index_crc, rest_crc, footer_crc, .. } = self;
        format!(
            "{OPENING}{compat:08x} {incompat:08x} {index_at:016x} {index_len:08x} {index_raw:08x} \
             {index_crc:08x} {rest_crc:08x} {footer_crc:08x}"
        )
    }

    fn parse(text: &[u8]) -> Option<Seal> {
        let mut numbers = [0_u64; DIGITS.len()];
        let mut words = text.get(OPENING.len()..)?.split(|byte| *byte == b' ');
        for (number, digits) in numbers.iter_mut().zip(DIGITS) {
            let word = words.next().filter(|word| word.len() == digits)?;
            *number = u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        }
        let [compat, incompat, index_at, index_len, index_raw, index_crc, rest_crc, footer_crc] =
            numbers;
        let seal = Seal {
            compat: compat as u32,
            incompat: incompat as u32,
            index_at,
            index_len: index_len as u32,
            index_raw: index_raw as u32,
            index_crc: index_crc as u32,
            rest_crc: rest_crc as u32,
            footer_crc: footer_crc as u32,
        };
        (words.next().is_none() && seal.text().as_bytes() == text).then_some(seal)
    }

    /// Writes the last two checksums into the footer, which has a seal without them. The footer goes to the end of the
    /// file.
    pub(crate) fn close(mut self, rest: &[u8], footer: &mut [u8]) -> bool {
        self.rest_crc = crc32c::crc32c(rest);
        self.footer_crc = 0;
        let Some(at) = place(footer) else { return false };
        let mut write = |seal: &Seal| {
            footer[at..at + SEAL_LEN].copy_from_slice(seal.text().as_bytes());
            crc32c::crc32c(footer)
        };
        self.footer_crc = write(&self);
        write(&self);
        true
    }

    /// That of a footer, which has been checked.
    pub(crate) fn open(footer: &mut [u8], offset: u64) -> Result<Seal, Error> {
        let damaged = |reason| Error::Damaged { offset, reason };
        let at = place(footer).ok_or(damaged("the footer has no seal of ours"))?;
        let text = &mut footer[at..at + SEAL_LEN];
        let seal = Seal::parse(text).ok_or(damaged("the footer's seal is damaged"))?;
        text.copy_from_slice(Seal { footer_crc: 0, ..seal }.text().as_bytes());
        if crc32c::crc32c(footer) != seal.footer_crc {
            return Err(damaged("the footer is not what its checksum says"));
        }
        if seal.incompat & !KNOWN != 0 {
            return Err(Error::TooNew(seal.incompat));
        }
        if seal.index_raw as usize > INDEX_MAX {
            return Err(damaged("the index is too large"));
        }
        Ok(seal)
    }
}

/// Where the seal is. Texts of spans, which may look like it, lie before it.
fn place(footer: &[u8]) -> Option<usize> {
    let opening = OPENING.as_bytes();
    let at = footer.windows(opening.len()).rposition(|bytes| bytes == opening)?;
    (at + SEAL_LEN <= footer.len()).then_some(at)
}

/// A page: where it is, and what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where its header begins, from the beginning of the file. Worked out from the pages before it.
    pub(crate) offset: u64,
    pub(crate) header: u8,
    pub(crate) encoding: u8,
    /// Bytes behind the header.
    pub(crate) stored: u32,
    /// The same, not compressed.
    pub(crate) raw: u32,
    /// Values, missing ones included.
    pub(crate) values: u32,
    /// Of header and what is behind it.
    pub(crate) crc: u32,
}

impl Page {
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.header) + u64::from(self.stored)
    }
}

/// A column of a row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) dictionary: Option<Page>,
    pub(crate) pages: Vec<Page>,
}

/// A row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number of its first row in the file. Worked out from the groups before it.
    pub(crate) first_row: u64,
    pub(crate) rows: u32,
    /// The earliest and latest start; the first is the later one if there is none.
    pub(crate) starts: (u64, u64),
    /// The lower half of the last row's request id.
    pub(crate) last_low: u64,
    /// The row that each page begins with, in all columns.
    pub(crate) page_rows: Vec<u32>,
    /// The lower half of that row's request id.
    pub(crate) page_lows: Vec<u64>,
    pub(crate) columns: Vec<Chunk>,
}

/// Numbers of a page in the index.
const PAGE_BYTES: usize = 18;

pub(crate) fn write(groups: &[Group]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((groups.len() as u32).to_le_bytes());
    for group in groups {
        out.extend(group.rows.to_le_bytes());
        out.extend(group.starts.0.to_le_bytes());
        out.extend(group.starts.1.to_le_bytes());
        out.extend(group.last_low.to_le_bytes());
        out.extend((group.page_rows.len() as u32).to_le_bytes());
        out.extend(group.page_rows.iter().flat_map(|row| row.to_le_bytes()));
        out.extend(group.page_lows.iter().flat_map(|low| low.to_le_bytes()));
        for chunk in &group.columns {
            let first = chunk.dictionary.or(chunk.pages.first().copied()).unwrap_or_default();
            out.extend(first.offset.to_le_bytes());
            out.push(chunk.dictionary.is_some().into());
            for page in chunk.dictionary.iter().chain(&chunk.pages) {
                out.extend([page.header, page.encoding]);
                out.extend(page.stored.to_le_bytes());
                out.extend(page.raw.to_le_bytes());
                out.extend(page.values.to_le_bytes());
                out.extend(page.crc.to_le_bytes());
            }
        }
    }
    out
}

/// The groups of an index whose file's pages end at `end`.
pub(crate) fn read(bytes: &[u8], end: u64) -> Decoded<Vec<Group>> {
    let mut bytes = Bytes(bytes);
    let mut groups = Vec::new();
    let mut first_row = 0;
    for _ in 0..bytes.u32()? {
        let mut group = Group { first_row, rows: bytes.u32()?, ..Group::default() };
        group.starts = (bytes.u64()?, bytes.u64()?);
        group.last_low = bytes.u64()?;
        let pages = bytes.u32()? as usize;
        // Each page has its numbers in each column, so this many cannot take more memory than the index has bytes.
        if pages.saturating_mul(COLUMNS.len() * PAGE_BYTES) > bytes.0.len() {
            return Err("the index ends early");
        }
        group.page_rows = (0..pages).map(|_| bytes.u32()).collect::<Decoded<_>>()?;
        group.page_lows = (0..pages).map(|_| bytes.u64()).collect::<Decoded<_>>()?;
        let starts_with_0 = group.page_rows.first() == Some(&0);
        let ends = group.page_rows.last().is_some_and(|row| *row < group.rows);
        if !starts_with_0 || !ends || !group.page_rows.is_sorted_by(|a, b| a < b) {
            return Err("pages in the index do not begin behind each other");
        }
        for _ in COLUMNS {
            group.columns.push(read_chunk(&mut bytes, pages, end)?);
        }
        first_row += u64::from(group.rows);
        groups.push(group);
    }
    if bytes.0.is_empty() { Ok(groups) } else { Err("there is something behind the index") }
}

fn read_chunk(bytes: &mut Bytes<'_>, pages: usize, end: u64) -> Decoded<Chunk> {
    let mut offset = bytes.u64()?;
    let mut chunk = Chunk::default();
    let has_dictionary = bytes.u8()? != 0;
    let mut page = || {
        let page = Page {
            offset,
            header: bytes.u8()?,
            encoding: bytes.u8()?,
            stored: bytes.u32()?,
            raw: bytes.u32()?,
            values: bytes.u32()?,
            crc: bytes.u32()?,
        };
        offset = offset
            .checked_add(page.len())
            .filter(|behind| *behind <= end)
            .ok_or("a page in the index is behind the end")?;
        if page.raw as usize > PAGE_MAX || page.values as usize > VALUES_MAX {
            return Err("a page in the index is too large");
        }
        Ok(page)
    };
    if has_dictionary {
        chunk.dictionary = Some(page()?);
    }
    chunk.pages = (0..pages).map(|_| page()).collect::<Decoded<_>>()?;
    Ok(chunk)
}
