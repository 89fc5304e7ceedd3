//! BlkKin's own index of a file's pages, which other Parquet readers ignore. The index lies between
//! the last row group and Parquet's own trailing structures. With it, pages are read without
//! trusting any Parquet metadata, and every byte is verified before use.
//!
//! ```text
//! "PAR1" | row groups | index | bloom filters, page indexes | footer | its length | "PAR1"
//! ```
//!
//! A [`Seal`] is a text of fixed length among the footer's key-value pairs. It contains the
//! location of the index and three checksums (CRC-32C). They cover the index, the bytes between the
//! index and the footer, and the footer from its first byte to the end of the file. The footer's
//! checksum is computed with its own field set to zeros. The index is compressed with zstd, and has
//! a checksum of each page with its header. Numbers are little-endian.

use crate::decode::{ByteReader, Result as Decoded};
use crate::error::Error;
use crate::schema::COLUMNS;

/// Key of the seal among the footer's key-value pairs.
pub(crate) const SEAL: &str = "blkkin.spans";

const OPENING: &str = "blkkin.spans/1 ";

/// Bitmap of the `incompat` features that this version can read.
const KNOWN: u32 = 0;

/// Maximum size of the decompressed index, in bytes.
pub(crate) const INDEX_MAX: usize = 24 << 20;

/// Maximum total size of the pages of all columns for one range of rows, decompressed, in bytes.
/// [`VALUES_MAX`] limits the values in the page of one column, `ALL_VALUES_MAX` the values in the
/// pages of all columns without [`Chunk::is_same`]. The limits bound the memory of a reader, and
/// the writer respects them.
pub(crate) const PAGE_MAX: usize = 32 << 20;
pub(crate) const VALUES_MAX: usize = 1 << 20;
const ALL_VALUES_MAX: usize = 4 * VALUES_MAX;

/// Maximum number of rows in a page. A page that stands for a whole chunk may have more.
pub(crate) const PAGE_ROWS_MAX: usize = 1 << 16;

/// Maximum size of a dictionary's texts in bytes. `DICTIONARY_PAGE_MAX` is the maximum size of its
/// page, which has a length of four bytes before each text.
pub(crate) const DICTIONARY_MAX: usize = 1 << 18;
const DICTIONARY_PAGE_MAX: usize = 5 * DICTIONARY_MAX + 4;

/// Seal of a file: data needed before the index is read, such as its location and checksums. A
/// program may read and write a file with unknown bits in `compat`, but not a file with unknown
/// bits in `incompat`.
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

/// Number of hexadecimal digits of each field of the seal, in order.
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

    /// Completes the seal in the footer with two checksums: of `rest`, the bytes between index and
    /// footer, and of the footer itself. `footer` must extend to the end of the file. Returns
    /// `false` if the footer has no seal.
    pub(crate) fn close(mut self, rest: &[u8], footer: &mut [u8]) -> bool {
        self.rest_crc = crc32c::crc32c(rest);
        self.footer_crc = 0;
        let Some(at) = find_seal(footer) else { return false };
        let mut write = |seal: &Seal| {
            footer[at..at + SEAL_LEN].copy_from_slice(seal.text().as_bytes());
            crc32c::crc32c(footer)
        };
        self.footer_crc = write(&self);
        write(&self);
        true
    }

    /// Reads the seal from `rest`, the last bytes of a footer, and verifies the footer's checksum.
    /// `beginning` is the CRC-32C of the footer's bytes before `rest`.
    pub(crate) fn open(beginning: u32, rest: &mut [u8], offset: u64) -> Result<Seal, Error> {
        let damaged = |reason| Error::Damaged { offset, reason };
        let at = find_seal(rest).ok_or(damaged("the footer has no seal of ours"))?;
        let text = &mut rest[at..at + SEAL_LEN];
        let seal = Seal::parse(text).ok_or(damaged("the footer's seal is damaged"))?;
        text.copy_from_slice(Seal { footer_crc: 0, ..seal }.text().as_bytes());
        if crc32c::crc32c_append(beginning, rest) != seal.footer_crc {
            return Err(damaged("the footer is not what its checksum says"));
        }
        if seal.incompat & !KNOWN != 0 {
            return Err(Error::TooNew(seal.incompat));
        }
        if seal.index_raw as usize > INDEX_MAX || seal.index_len as usize > INDEX_MAX {
            return Err(damaged("the index is too large"));
        }
        Ok(seal)
    }
}

/// Returns the offset of the seal in a footer. The seal is the last match, since texts of spans
/// that resemble a seal precede it.
fn find_seal(footer: &[u8]) -> Option<usize> {
    let opening = OPENING.as_bytes();
    let at = footer.windows(opening.len()).rposition(|bytes| bytes == opening)?;
    (at + SEAL_LEN <= footer.len()).then_some(at)
}

/// Location and properties of a page in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Offset of the page header in the file. The index stores the offset of the first page of each
    /// chunk; the others are computed from the preceding pages.
    pub(crate) offset: u64,
    pub(crate) header: u8,
    pub(crate) encoding: u8,
    /// Size of the stored body in bytes, without the header.
    pub(crate) stored: u32,
    /// Size of the decompressed body in bytes.
    pub(crate) raw: u32,
    /// Number of values, including missing values.
    pub(crate) values: u32,
    /// CRC-32C of the header and the stored body.
    pub(crate) crc: u32,
}

impl Page {
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.header) + u64::from(self.stored)
    }
}

/// Index entry of a column chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) dictionary: Option<Page>,
    /// Set if one page replaces the pages of the chunk, since all rows are equal. The page has all
    /// rows, and readers decode its first row only.
    pub(crate) is_same: bool,
    pub(crate) pages: Vec<Page>,
}

impl Chunk {
    /// Returns this column's page for page `number` of the row group. If `is_same` is set, this is
    /// the column's only page.
    pub(crate) fn page(&self, number: usize) -> &Page {
        &self.pages[if self.is_same { 0 } else { number }]
    }
}

/// Index entry of a row group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// Row number in the file of the group's first row, computed from the preceding groups.
    pub(crate) first_row: u64,
    pub(crate) rows: u32,
    /// Earliest and latest start of the spans, in nanoseconds since 1970. If no span has a start,
    /// the first number is greater than the second.
    pub(crate) starts: (u64, u64),
    /// Lower half of the last row's trace id.
    pub(crate) last_low: u64,
    /// First row of each page, relative to the row group. The pages of all columns begin at the
    /// same rows, except for columns with a single page ([`Chunk::is_same`]).
    pub(crate) page_rows: Vec<u32>,
    /// Lower half of the trace id of each page's first row.
    pub(crate) page_lows: Vec<u64>,
    pub(crate) columns: Vec<Chunk>,
}

/// Size of a page's entry in the index, in bytes.
const PAGE_BYTES: usize = 18;

/// Returns the maximum size of a row group's index entry in bytes. Each column has `pages` pages.
pub(crate) fn len(pages: usize) -> usize {
    32 + COLUMNS.len() * (9 + PAGE_BYTES) + pages * (12 + COLUMNS.len() * PAGE_BYTES)
}

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
            out.push(u8::from(chunk.dictionary.is_some()) | u8::from(chunk.is_same) << 1);
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

/// Decodes an index. `end` is the offset at which the file's pages end.
pub(crate) fn read(bytes: &[u8], end: u64) -> Decoded<Vec<Group>> {
    let mut bytes = ByteReader(bytes);
    let mut groups = Vec::new();
    let mut first_row = 0;
    for _ in 0..bytes.u32()? {
        let mut group = Group { first_row, rows: bytes.u32()?, ..Group::default() };
        group.starts = (bytes.u64()?, bytes.u64()?);
        group.last_low = bytes.u64()?;
        let pages = bytes.u32()? as usize;
        group.page_rows = (0..pages).map(|_| bytes.u32()).collect::<Decoded<_>>()?;
        group.page_lows = (0..pages).map(|_| bytes.u64()).collect::<Decoded<_>>()?;
        let starts_with_0 = group.page_rows.first() == Some(&0);
        let ends = group.page_rows.last().is_some_and(|row| *row < group.rows);
        if !starts_with_0 || !ends || !group.page_rows.is_sorted_by(|a, b| a < b) {
            return Err("pages in the index do not begin behind each other");
        }
        let ends = group.page_rows.iter().skip(1).chain([&group.rows]);
        if group.page_rows.iter().zip(ends).any(|(row, end)| (end - row) as usize > PAGE_ROWS_MAX) {
            return Err("a page in the index has too many rows");
        }
        for _ in COLUMNS {
            group.columns.push(read_chunk(&mut bytes, pages, end)?);
        }
        for number in 0..pages {
            let of_rows = || group.columns.iter().map(|chunk| (chunk.is_same, chunk.page(number)));
            let raw: usize = of_rows().map(|(_, page)| page.raw as usize).sum();
            let values = of_rows().filter(|(is_same, _)| !is_same);
            let values: usize = values.map(|(_, page)| page.values as usize).sum();
            if raw > PAGE_MAX || values > ALL_VALUES_MAX {
                return Err("pages in the index are too large together");
            }
        }
        first_row += u64::from(group.rows);
        groups.push(group);
    }
    if bytes.0.is_empty() { Ok(groups) } else { Err("there is something behind the index") }
}

fn read_chunk(bytes: &mut ByteReader<'_>, pages: usize, end: u64) -> Decoded<Chunk> {
    let mut offset = bytes.u64()?;
    let mut chunk = Chunk::default();
    let flags = bytes.u8()?;
    let (has_dictionary, pages) = (flags & 1 != 0, if flags & 2 != 0 { 1 } else { pages });
    chunk.is_same = flags & 2 != 0;
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
        let most = [(page.raw, PAGE_MAX), (page.stored, 2 * PAGE_MAX), (page.values, VALUES_MAX)];
        if most.into_iter().any(|(size, most)| size as usize > most) {
            return Err("a page in the index is too large");
        }
        Ok(page)
    };
    if has_dictionary {
        let dictionary = page()?;
        if dictionary.raw as usize > DICTIONARY_PAGE_MAX {
            return Err("a dictionary in the index is too large");
        }
        chunk.dictionary = Some(dictionary);
    }
    chunk.pages = (0..pages).map(|_| page()).collect::<Decoded<_>>()?;
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::DecodedPage;
    use crate::decode::TextList;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        /// Decoding a page of arbitrary bytes does not panic, and every row of a decoded page can
        /// be read.
        #[test]
        fn arbitrary_pages_cause_no_panic(
            column in 0..COLUMNS.len(),
            encoding in prop::sample::select(vec![0_u8, 5, 6, 7, 8]),
            values in 0..40_u32,
            rows in 0..40_usize,
            mut body in prop::collection::vec(any::<u8>(), 0..200),
            levels in prop::collection::vec(prop::collection::vec(0..9_u8, 0..20), 0..3),
        ) {
            // Some pages have valid levels, so that the values after the levels are decoded too.
            let whole = |list: Vec<u8>| [(list.len() as u32).to_le_bytes().to_vec(), list].concat();
            let levels: Vec<u8> = levels.into_iter().flat_map(whole).collect();
            body.splice(0..0, levels);
            let texts = TextList { texts: "ab".to_owned(), ends: vec![1, 2] };
            let page = Page { encoding, values, ..Page::default() };
            let cells = DecodedPage::decode(COLUMNS[column], &page, rows, &body, Some(&Arc::new(texts)));
            if let Ok(cells) = cells {
                for row in 0..rows {
                    cells.row_text(row);
                    cells.row_number(row);
                }
            }
        }

        #[test]
        fn arbitrary_indexes_cause_no_panic(
            mut bytes in prop::collection::vec(prop_oneof![Just(0_u8), 0..3_u8, any::<u8>()], 0..900),
            groups in 0..3_u8,
        ) {
            bytes.splice(0..0, [groups, 0, 0, 0]);
            for group in read(&bytes, 1 << 20).unwrap_or_default() {
                prop_assert_eq!(group.page_rows.len(), group.page_lows.len());
                prop_assert_eq!(group.columns.len(), COLUMNS.len());
            }
        }
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let page = Page { offset: 4, header: 9, encoding: 5, stored: 7, raw: 8, values: 2, crc: 1 };
        let behind = Page { offset: 20, ..page };
        let chunk = Chunk { pages: vec![page, behind], ..Chunk::default() };
        let last = Page { offset: 36, ..page };
        let with = Chunk { dictionary: Some(page), pages: vec![behind, last], ..chunk };
        let mut columns = vec![chunk; COLUMNS.len()];
        columns[3] = with;
        columns[4] = Chunk { is_same: true, pages: vec![page], ..Chunk::default() };
        let group = Group {
            rows: 2,
            starts: (1, 2),
            last_low: 9,
            page_rows: vec![0, 1],
            page_lows: vec![3, 5],
            columns,
            ..Group::default()
        };
        let second = Group { first_row: 2, ..group.clone() };
        let bytes = write(&[group.clone(), second.clone()]);
        assert!(bytes.len() <= 4 + 2 * len(2));
        assert_eq!(read(&bytes, 52), Ok(vec![group, second]));
        assert_eq!(read(&bytes, 51), Err("a page in the index is behind the end"));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end], 52).is_err(), "{end}");
        }
    }
}
