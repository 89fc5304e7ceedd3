//! Packed lists of nondecreasing integers, each with a payload of a few bits. A list is divided
//! into blocks. The first number of each block is stored apart; the block contains the differences
//! between successive numbers. The width of a block is the width of its greatest difference plus
//! the width of a payload. Start at [`write()`] and [`AscendingList`].
//!
//! ```text
//! list   = first numbers of blocks, sums of widths before each block, blocks, padding
//! block  = up to 128 times: payload (lower bits), difference to the previous number (upper bits)
//! ```
//!
//! A full block of width w takes 16 w bytes; only the last block may be shorter. The sum of the
//! widths of all earlier blocks therefore gives the offset of a block. A search reads only the
//! first numbers until it has found the block.

use crate::files::bytes::read;
use crate::files::packed::{PADDING_BYTES, WIDTH_MAX, extract, pack, width_of};
use blkkin_journal::File;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;
use std::ops::Range;

/// Number of integers in a block; the last block may have fewer.
const BLOCK: u32 = 128;

/// Size in bytes of a full block whose width is one bit. The size is proportional to the width.
const UNIT_BYTES: u64 = (BLOCK / 8) as u64;

/// Maximum size in bytes of a list that is read whole. Of a longer list, only the required blocks
/// are read. Its first numbers are also read whole if their size is within this limit.
const READ_WHOLE_BYTES: u64 = 16 << 10;

/// Parameters of a list, stored apart from the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListShape {
    /// Number of integers in the list.
    pub(crate) len: u32,
    /// Width of the blocks' first numbers, in bits.
    first: u32,
    /// Width of each integer's payload, in bits.
    pub(crate) own: u32,
    /// Sum of the widths of all blocks, in bits.
    units: u32,
    /// Width of the last block, in bits.
    last: u32,
}

/// Byte offsets of the sections and the end of a list, relative to the start of the list.
struct Offsets {
    units: u64,
    blocks: u64,
    padding: u64,
    end: u64,
}

impl ListShape {
    /// Returns the size of the list in bytes; `None` if the parameters are invalid.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let is_good = self.first <= WIDTH_MAX && self.own < WIDTH_MAX && self.last <= WIDTH_MAX;
        let least = u64::from(self.blocks()) * u64::from(self.own);
        let is_good = is_good && self.last <= self.units && least <= self.units.into();
        let is_good = is_good && (self.len > 0 || self.units == 0);
        is_good.then(|| self.offsets().end)
    }

    fn blocks(&self) -> u32 {
        self.len.div_ceil(BLOCK)
    }

    fn offsets(&self) -> Offsets {
        let heads = |width: u32| (u64::from(self.blocks()) * u64::from(width)).div_ceil(8);
        let units = heads(self.first);
        let blocks = units + heads(self.units_width());
        let of_last = u64::from(self.len_of(self.blocks().saturating_sub(1)));
        let whole = u64::from(self.units.saturating_sub(self.last)) * UNIT_BYTES;
        let padding = blocks + whole + (of_last * u64::from(self.last)).div_ceil(8);
        Offsets { units, blocks, padding, end: padding + PADDING_BYTES as u64 }
    }

    fn units_width(&self) -> u32 {
        width_of(self.units.into())
    }

    fn len_of(&self, block: u32) -> u32 {
        self.len.saturating_sub(block.saturating_mul(BLOCK)).min(BLOCK)
    }
}

/// Appends a list to `to`. Each pair in `numbers` is an integer and its payload of `own` bits.
/// Returns the parameters of the list.
pub(crate) fn write(numbers: &[(u64, u64)], own: u32, to: &mut Vec<u8>) -> ListShape {
    let (mut units, mut last) = (0, 0);
    let mut units_before = Vec::new();
    let mut blocks = Vec::new();
    for block in numbers.chunks(BLOCK as usize) {
        let differences = || {
            let before = block[..1].iter().chain(block);
            block.iter().zip(before).map(|(this, before)| this.0 - before.0)
        };
        last = own + differences().map(width_of).max().unwrap_or(0);
        let both = differences().zip(block).map(|(difference, (_, of))| difference << own | of);
        pack(both, last, &mut blocks);
        blocks.truncate(blocks.len() - PADDING_BYTES);
        units_before.push(units.into());
        units += last;
    }
    let first = width_of(numbers.last().map_or(0, |number| number.0));
    let shape = ListShape { len: numbers.len() as u32, first, own, units, last };
    let firsts = numbers.iter().step_by(BLOCK as usize).map(|number| number.0);
    pack(firsts, first, to);
    to.truncate(to.len() - PADDING_BYTES);
    pack(units_before, shape.units_width(), to);
    to.truncate(to.len() - PADDING_BYTES);
    to.extend_from_slice(&blocks);
    to.extend_from_slice(&[0; PADDING_BYTES]);
    shape
}

/// Packed list in a file.
pub(crate) struct AscendingList<'f> {
    file: &'f dyn File,
    section: Range<u64>,
    shape: ListShape,
    offsets: Offsets,
    /// Bytes of the whole list if it is small; `None` otherwise.
    whole: Option<Vec<u8>>,
}

impl<'f> AscendingList<'f> {
    /// Opens a list. The length of `section` must be [`ListShape::bytes`].
    pub(crate) fn open(
        file: &'f dyn File,
        section: Range<u64>,
        shape: ListShape,
    ) -> io::Result<AscendingList<'f>> {
        let is_little = section.end.saturating_sub(section.start) <= READ_WHOLE_BYTES;
        let whole = if is_little { Some(read(file, section.clone())?) } else { None };
        Ok(AscendingList { file, section, shape, offsets: shape.offsets(), whole })
    }

    /// Returns the number of integers less than `bound`.
    pub(crate) fn count_less_than(&self, bound: u64) -> io::Result<u32> {
        let Some(block) = self.blocks_before(bound)?.checked_sub(1) else { return Ok(0) };
        let mut count = block * BLOCK;
        self.each(block..block + 1, |number, _| count += u32::from(number < bound))?;
        Ok(count)
    }

    /// Returns the integer at an index.
    pub(crate) fn get(&self, index: u32) -> io::Result<u64> {
        let block = index / BLOCK;
        let mut left = index % BLOCK + 1;
        let mut found = None;
        self.each(block..block.saturating_add(1), |number, _| {
            left = left.saturating_sub(1);
            if left == 0 && found.is_none() {
                found = Some(number);
            }
        })?;
        found.ok_or_else(damaged)
    }

    /// Calls `each` with every integer within a range of values, and with the integer's payload.
    pub(crate) fn for_each_in_range(
        &self,
        of: Range<u64>,
        mut each: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        // The block before may end with integers of the range.
        let first = self.blocks_before(of.start)?.saturating_sub(1);
        let end = self.blocks_before(of.end)?;
        self.each(first..end, |number, own| {
            if of.contains(&number) {
                each(number, own);
            }
        })
    }

    /// Returns the number of blocks whose first number is less than `bound`.
    fn blocks_before(&self, bound: u64) -> io::Result<u32> {
        let (blocks, width) = (self.shape.blocks(), self.shape.first);
        if self.offsets.units <= READ_WHOLE_BYTES {
            let firsts = self.numbers(0, width, 0..blocks)?;
            return Ok(firsts.partition_point(|first| *first < bound) as u32);
        }
        let (mut low, mut high) = (0, blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_less = self.numbers(0, width, middle..middle + 1)?[0] < bound;
            if is_less { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Calls `each` with every integer in a range of blocks, and with the integer's payload.
    fn each(&self, blocks: Range<u32>, mut each: impl FnMut(u64, u64)) -> io::Result<()> {
        let ListShape { own, units: all_units, .. } = self.shape;
        let count = self.shape.blocks();
        let blocks = blocks.start..blocks.end.min(count);
        if blocks.is_empty() {
            return Ok(());
        }
        let firsts = self.numbers(0, self.shape.first, blocks.clone())?;
        let known = blocks.start..(blocks.end + 1).min(count);
        let mut units = self.numbers(self.offsets.units, self.shape.units_width(), known)?;
        if blocks.end == count {
            units.push(all_units.into());
        }
        let at = |units: u64| self.offsets.blocks + units * UNIT_BYTES;
        let start = at(units[0]);
        let end = at(units[units.len() - 1]).min(self.offsets.padding);
        if start > end {
            return Err(damaged());
        }
        let bytes = self.load(start..end + PADDING_BYTES as u64)?;
        for (block, (first, units)) in blocks.zip(firsts.into_iter().zip(units.windows(2))) {
            let width = units[1].checked_sub(units[0]).and_then(|width| u32::try_from(width).ok());
            let width = width.filter(|width| (own..=WIDTH_MAX).contains(width));
            let width = width.ok_or_else(damaged)?;
            let len = self.shape.len_of(block) as usize;
            let from = at(units[0]).checked_sub(start).ok_or_else(damaged)? as usize;
            let of_block = bytes.get(from..).unwrap_or_default();
            if of_block.len() < (len * width as usize).div_ceil(8) + PADDING_BYTES {
                return Err(damaged());
            }
            let mut number = first;
            for index in 0..len {
                let bit = index * width as usize;
                let both =
                    extract(*of_block[bit / 8..].first_chunk().expect("padding"), bit, width);
                number = number.saturating_add(both >> own);
                each(number, both & ((1 << own) - 1));
            }
        }
        Ok(())
    }

    /// Reads a range of packed numbers. Their section starts at offset `at` of the list.
    fn numbers(&self, at: u64, width: u32, which: Range<u32>) -> io::Result<Vec<u64>> {
        let first_bit = u64::from(which.start) * u64::from(width);
        let end_bit = u64::from(which.end) * u64::from(width);
        let end = at + end_bit.div_ceil(8) + PADDING_BYTES as u64;
        let bytes = self.load(at + first_bit / 8..end)?;
        let number = |index: usize| {
            let bit = (first_bit % 8) as usize + index * width as usize;
            extract(*bytes[bit / 8..].first_chunk().expect("padding"), bit, width)
        };
        Ok((0..which.len()).map(number).collect())
    }

    /// Returns a range of the list's bytes, from memory or from the file.
    fn load(&self, range: Range<u64>) -> io::Result<Cow<'_, [u8]>> {
        match &self.whole {
            Some(whole) => {
                let bytes = whole.get(range.start as usize..range.end as usize);
                bytes.map(Cow::Borrowed).ok_or_else(damaged)
            }
            None => {
                let start = self.section.start;
                read(self.file, start + range.start..start + range.end).map(Cow::Owned)
            }
        }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "numbers are not as they were written")
}

#[cfg(test)]
mod tests {
    use super::{AscendingList, ListShape, write};
    use blkkin_journal::testing::SimulatedDisk;
    use blkkin_journal::{Disk, File};
    use std::sync::Arc;

    fn file_of(bytes: &[u8]) -> Arc<dyn File> {
        let file = SimulatedDisk::new(1).create("numbers").expect("created");
        file.write_at(bytes, 0).expect("written");
        file
    }

    #[test]
    fn written_list_is_read_back() {
        for len in [0_u64, 1, 2, 127, 128, 129, 1000, 40_000] {
            for (step, own) in [(0, 0), (1, 5), (3, 12), (1 << 20, 0), (1 << 40, 13)] {
                let number = |index: u64| index / 3 * step + index % 3 * step / 4;
                let numbers: Vec<(u64, u64)> =
                    (0..len).map(|index| (number(index), index & ((1 << own) - 1))).collect();
                let mut bytes = vec![7; 5];
                let shape = write(&numbers, own, &mut bytes);
                assert_eq!(shape.bytes(), Some(bytes.len() as u64 - 5), "{len} {step}");
                let file = file_of(&bytes);
                let section = 5..bytes.len() as u64;
                let list = AscendingList::open(&*file, section, shape).expect("read");
                for index in (0..len).step_by(97) {
                    assert_eq!(list.get(index as u32).expect("read"), number(index));
                }
                assert!(list.get(len as u32).is_err());
                let ends = [0, 1, number(len / 3), number(len / 2) + 1, number(len), u64::MAX];
                for start in ends {
                    let before = numbers.partition_point(|it| it.0 < start);
                    assert_eq!(list.count_less_than(start).expect("read") as usize, before);
                    for end in ends {
                        let mut found = Vec::new();
                        list.for_each_in_range(start..end, |a, b| found.push((a, b)))
                            .expect("read");
                        let expected = numbers.iter().filter(|it| (start..end).contains(&it.0));
                        assert!(found.iter().eq(expected), "{start}..{end} of {len} by {step}");
                    }
                }
            }
        }
    }

    /// A list whose differences need 4 bits takes fewer than 5 bits for each number.
    #[test]
    fn similar_differences_are_packed_tightly() {
        let numbers: Vec<(u64, u64)> = (0..100_000).map(|n| (n * 10 + n * 7 % 5, 0)).collect();
        let mut bytes = Vec::new();
        write(&numbers, 0, &mut bytes);
        assert!(bytes.len() < 100_000 * 5 / 8, "{} bytes", bytes.len());
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let shape = write(&[(1, 1), (5, 0)], 1, &mut Vec::new());
        assert!(shape.bytes().is_some());
        for wrong in [
            ListShape { first: 65, ..shape },
            ListShape { own: 64, ..shape },
            ListShape { last: shape.units + 1, ..shape },
            ListShape { len: 0, ..shape },
        ] {
            assert_eq!(wrong.bytes(), None);
        }
    }
}
