//! Decoders of the Parquet encodings in BlkKin's files. No input causes a panic, and the limits in
//! `index` bound the memory that is allocated. `encode` has the encoders.

use crate::encode::{BLOCK, MINIBLOCK};
use blkkin_model::hex;
use blkkin_model::varint::{self, VarintError};
use std::ops::Range;

/// Result of decoding; the error describes the damage.
pub(crate) type Result<T> = std::result::Result<T, &'static str>;

/// Cursor over the bytes of a page or an index.
#[derive(Clone, Copy)]
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it ends early")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let (low, high) = (self.u32()?, self.u32()?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        match varint::read(self.0) {
            Ok((number, size)) => self.take(size).map(|_| number),
            Err(VarintError::TooLong) => Err("a number is too long"),
            Err(VarintError::Incomplete) => Err("it ends early"),
        }
    }

    fn zigzag(&mut self) -> Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// Reader of bit-packed numbers, lowest bit first. After the end of the bytes, it reads zeros.
struct BitReader<'a> {
    bytes: &'a [u8],
    held: u128,
    count: u32,
}

impl<'a> BitReader<'a> {
    fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, held: 0, count: 0 }
    }

    #[inline]
    fn next(&mut self, width: u32) -> u64 {
        if self.count < width {
            let word = match self.bytes.split_first_chunk::<8>() {
                Some((word, rest)) => {
                    self.bytes = rest;
                    u64::from_le_bytes(*word)
                }
                None => {
                    let mut word = [0; 8];
                    word[..self.bytes.len()].copy_from_slice(self.bytes);
                    self.bytes = &[];
                    u64::from_le_bytes(word)
                }
            };
            self.held |= u128::from(word) << self.count;
            self.count += 64;
        }
        let number = self.held as u64 & mask(width);
        self.held >>= width;
        self.count -= width;
        number
    }
}

fn mask(width: u32) -> u64 {
    if width == 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Decodes `count` numbers of `width` bits in the hybrid run-length and bit-packed encoding.
pub(crate) fn runs(
    bytes: &mut ByteReader<'_>,
    width: u32,
    count: usize,
    out: &mut Vec<u32>,
) -> Result<()> {
    if width > 32 {
        return Err("numbers of more than 32 bits");
    }
    out.clear();
    out.reserve(count);
    while out.len() < count {
        let head = bytes.varint()?;
        let left = count - out.len();
        let of_head = usize::try_from(head >> 1).map_err(|_| "a run is too long")?;
        if of_head == 0 {
            return Err("a run is empty");
        }
        if head & 1 == 0 {
            let mut number = [0; 4];
            let value = bytes.take(width.div_ceil(8) as usize)?;
            number[..value.len()].copy_from_slice(value);
            out.resize(out.len() + of_head.min(left), u32::from_le_bytes(number));
        } else {
            let size = of_head.checked_mul(width as usize).ok_or("a run is too long")?;
            let packed = bytes.take(size)?;
            unpack(packed, width, left.min(of_head.saturating_mul(8)), out);
        }
    }
    Ok(())
}

/// Unpacks `count` numbers of `width` bits each, at most 32 bits. Eight numbers take `width` bytes.
fn unpack(bytes: &[u8], width: u32, count: usize, out: &mut Vec<u32>) {
    let eights = count / 8;
    let (whole, rest) = bytes.split_at(eights * width as usize);
    match width {
        0 => out.resize(out.len() + eights * 8, 0),
        1 => out.extend(whole.iter().flat_map(|byte| SHIFTS.map(|at| u32::from(byte >> at & 1)))),
        _ => {
            for eight in whole.chunks_exact(width as usize) {
                let mut padded = [0; 40];
                padded[..eight.len()].copy_from_slice(eight);
                out.extend(SHIFTS.map(|at| {
                    let bit = at as usize * width as usize;
                    let word = padded[bit / 8..].first_chunk().expect("padding");
                    (u64::from_le_bytes(*word) >> (bit % 8) & mask(width)) as u32
                }));
            }
        }
    }
    let mut bits = BitReader::new(rest);
    out.extend((eights * 8..count).map(|_| bits.next(width) as u32));
}

const SHIFTS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Decodes `count` little-endian integers of `size` bytes each. `size` is at most 8.
pub(crate) fn numbers(
    bytes: &mut ByteReader<'_>,
    size: usize,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<()> {
    let all = bytes.take(count.checked_mul(size).ok_or("it ends early")?)?;
    out.clear();
    if size == size_of::<i64>() {
        let (numbers, _) = all.as_chunks();
        out.extend(numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)));
    } else {
        out.extend(all.chunks_exact(size).map(|bytes| {
            let mut number = [0; 8];
            number[..size].copy_from_slice(bytes);
            i64::from_le_bytes(number)
        }));
    }
    Ok(())
}

/// Decodes `count` flags of one bit each.
pub(crate) fn flags(bytes: &mut ByteReader<'_>, count: usize, out: &mut Vec<u32>) -> Result<()> {
    let mut bits = BitReader::new(bytes.take(count.div_ceil(8))?);
    out.clear();
    out.extend((0..count).map(|_| bits.next(1) as u32));
    Ok(())
}

/// Decodes `count` numbers in the `DELTA_BINARY_PACKED` encoding.
pub(crate) fn differences(
    bytes: &mut ByteReader<'_>,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<()> {
    out.clear();
    if bytes.varint()? != BLOCK as u64 || bytes.varint()? != (BLOCK / MINIBLOCK) as u64 {
        return Err("its blocks are not of the size that we write");
    }
    if bytes.varint()? != count as u64 {
        return Err("it does not have as many values as it should");
    }
    let mut number = bytes.zigzag()?;
    if count == 0 {
        return Ok(());
    }
    out.reserve(count);
    out.push(number);
    while out.len() < count {
        let least = bytes.zigzag()?;
        let widths = bytes.take(BLOCK / MINIBLOCK)?;
        for width in widths {
            let left = count - out.len();
            if left == 0 {
                break;
            }
            if *width > 64 {
                return Err("numbers of more than 64 bits");
            }
            let mut bits = BitReader::new(bytes.take(usize::from(*width) * MINIBLOCK / 8)?);
            for _ in 0..left.min(MINIBLOCK) {
                let delta = bits.next(u32::from(*width)) as i64;
                number = number.wrapping_add(least).wrapping_add(delta);
                out.push(number);
            }
        }
    }
    Ok(())
}

/// List of texts in contiguous memory, with the end of each text.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextList {
    pub(crate) texts: String,
    pub(crate) ends: Vec<u32>,
}

impl TextList {
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.texts[start..self.ends[index] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.texts.capacity() + self.ends.capacity() * 4
    }

    /// Copies the texts with the given indexes.
    pub(crate) fn of(&self, which: Range<usize>) -> TextList {
        let mut some = TextList::default();
        for index in which {
            some.texts.push_str(self.get(index));
            some.ends.push(some.texts.len() as u32);
        }
        some
    }

    /// Sets the bytes of all texts; their ends must be set already. Returns an error unless each
    /// text is valid UTF-8.
    fn set(&mut self, bytes: &[u8]) -> Result<()> {
        self.texts.clear();
        self.texts.push_str(std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?);
        if self.ends.iter().all(|end| self.texts.is_char_boundary(*end as usize)) {
            Ok(())
        } else {
            Err("a text is not UTF-8")
        }
    }
}

/// Decodes `count` texts in the `DELTA_LENGTH_BYTE_ARRAY` encoding. The lengths of all texts, as
/// packed differences, precede their bytes.
pub(crate) fn lengths(
    bytes: &mut ByteReader<'_>,
    count: usize,
    numbers: &mut Vec<i64>,
    out: &mut TextList,
) -> Result<()> {
    differences(bytes, count, numbers)?;
    out.ends.clear();
    let mut end = 0_usize;
    for length in numbers.iter() {
        end = usize::try_from(*length)
            .ok()
            .and_then(|length| end.checked_add(length))
            .filter(|end| *end <= bytes.0.len())
            .ok_or("it ends early")?;
        out.ends.push(end as u32);
    }
    out.set(bytes.take(end)?)
}

/// Trace ids of the rows of a page, as runs of equal ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    /// First row of each run.
    pub(crate) starts: Vec<u32>,
    /// Id of each run; never 0.
    pub(crate) ids: Vec<u128>,
}

impl Ids {
    /// Returns the trace id of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> u128 {
        let place = self.starts.partition_point(|start| *start as usize <= row);
        self.ids.get(place.wrapping_sub(1)).copied().unwrap_or(0)
    }

    /// Copies the trace ids of a range of rows.
    pub(crate) fn of(&self, rows: Range<usize>) -> Ids {
        let first = self.starts.partition_point(|start| *start as usize <= rows.start);
        let behind = self.starts.partition_point(|start| (*start as usize) < rows.end);
        let places = first.saturating_sub(1)..behind.max(first);
        let starts = self.starts[places.clone()].iter();
        let starts = starts.map(|start| start.saturating_sub(rows.start as u32)).collect();
        Ids { starts, ids: self.ids[places].to_vec() }
    }
}

/// Maximum number of hexadecimal digits of a trace id.
const DIGITS_MAX: usize = 32;

/// Decodes `count` hexadecimal trace ids in the `DELTA_BYTE_ARRAY` encoding. Each id consists of a
/// prefix of the previous id and a suffix.
pub(crate) fn ids(bytes: &mut ByteReader<'_>, count: usize) -> Result<Ids> {
    let (mut shared, mut lengths) = (Vec::new(), Vec::new());
    differences(bytes, count, &mut shared)?;
    differences(bytes, count, &mut lengths)?;
    let mut ids = Ids::default();
    let (mut digits, mut before) = ([0; DIGITS_MAX], 0);
    for (row, (shared, length)) in (0..).zip(shared.iter().zip(&lengths)) {
        if (*shared, *length) == (before as i64, 0) && row > 0 {
            continue;
        }
        let shared = usize::try_from(*shared)
            .ok()
            .filter(|shared| *shared <= before)
            .ok_or("a text shares more than there is")?;
        let rest = bytes.take(usize::try_from(*length).map_err(|_| "it ends early")?)?;
        before = shared + rest.len();
        digits.get_mut(shared..before).ok_or("its texts are too long")?.copy_from_slice(rest);
        let id = id_of(&digits[..before])?;
        if ids.ids.last() != Some(&id) {
            ids.starts.push(row);
            ids.ids.push(id);
        }
    }
    Ok(ids)
}

/// Parses a trace id of 16 or 32 hexadecimal digits, which must not be 0.
fn id_of(digits: &[u8]) -> Result<u128> {
    let (high, low) = digits.split_at(digits.len().saturating_sub(16));
    let high = if high.is_empty() { 0 } else { hex(high)? };
    let id = u128::from(high) << 64 | u128::from(hex(low)?);
    if id == 0 { Err("an id is 0") } else { Ok(id) }
}

/// Decodes `count` texts in the `PLAIN` encoding of dictionary pages, where a length precedes each
/// text.
pub(crate) fn plain_texts(
    bytes: &mut ByteReader<'_>,
    count: usize,
    out: &mut TextList,
) -> Result<()> {
    let mut all = Vec::new();
    out.ends.clear();
    for _ in 0..count {
        let length = bytes.u32()? as usize;
        all.extend_from_slice(bytes.take(length)?);
        out.ends.push(all.len() as u32);
    }
    out.set(&all)
}

/// Parses a number of 16 lower-case hexadecimal digits.
pub(crate) fn hex(text: &[u8]) -> Result<u64> {
    if text.len() != 16 {
        return Err("an id does not have 16 digits");
    }
    hex::parse(text).ok_or("an id has other characters than hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::{BitReader, unpack};

    #[test]
    fn unpack_agrees_with_bit_reader() {
        let bytes: Vec<u8> =
            (0..200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
        for width in 0..=32 {
            for count in [0, 1, 7, 8, 9, 16, 41, 48] {
                let mut bits = BitReader::new(&bytes);
                let expected: Vec<u32> = (0..count).map(|_| bits.next(width) as u32).collect();
                let mut numbers = vec![7];
                unpack(&bytes[..6 * width as usize], width, count, &mut numbers);
                assert_eq!(numbers[1..], expected, "{width} {count}");
            }
        }
    }
}
