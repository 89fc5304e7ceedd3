//! Encoders of the Parquet encodings in BlkKin's files: hybrid run-length and bit packing, delta
//! encoding, plain numbers and flags. `decode` has their decoders. Also encodes page headers, which
//! BlkKin does not decode.

use blkkin_model::varint;

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Returns the width in bits for numbers from 0 to `most`.
pub(crate) fn width(most: u64) -> u32 {
    64 - most.leading_zeros()
}

/// Writer of bit-packed numbers, lowest bit first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u128,
    count: u32,
}

impl<'a> BitWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { out, held: 0, count: 0 }
    }

    #[inline]
    fn push(&mut self, number: u64, width: u32) {
        self.held |= u128::from(number) << self.count;
        self.count += width;
        if self.count >= 64 {
            self.out.extend_from_slice(&(self.held as u64).to_le_bytes());
            self.held >>= 64;
            self.count -= 64;
        }
    }

    /// Writes the remaining bits and pads them with zeros to a byte.
    fn finish(self) {
        let bytes = (self.held as u64).to_le_bytes();
        self.out.extend_from_slice(&bytes[..self.count.div_ceil(8) as usize]);
    }
}

/// Writes numbers of `width` bits in the hybrid encoding. Bit-packed numbers form groups of eight,
/// so a run of equal numbers first fills the last group. If at least eight of them remain, they are
/// written as a count and a value. Other numbers are bit-packed.
pub(crate) fn runs(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed_from, mut at) = (0, 0);
    while at < numbers.len() {
        let first = numbers[at];
        let run = numbers[at..].iter().take_while(|number| **number == first).count();
        let to_whole = (at - packed_from).next_multiple_of(8) - (at - packed_from);
        if run < to_whole + 8 {
            at += run;
            continue;
        }
        let run_from = at + to_whole;
        let run = run - to_whole;
        packed(&numbers[packed_from..run_from], width, out);
        varint::write(out, (run as u64) << 1);
        out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        at = run_from + run;
        packed_from = at;
    }
    packed(&numbers[packed_from..], width, out);
}

fn packed(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(8);
    varint::write(out, (groups as u64) << 1 | 1);
    if width.is_multiple_of(8) {
        let bytes = (width / 8) as usize;
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()[..bytes]));
        out.resize(out.len() + (groups * 8 - numbers.len()) * bytes, 0);
        return;
    }
    let mut bits = BitWriter::new(out);
    for number in numbers {
        bits.push(u64::from(*number), width);
    }
    for _ in numbers.len()..groups * 8 {
        bits.push(0, width);
    }
    bits.finish();
}

/// Writes the low `SIZE` bytes of each number, little-endian.
pub(crate) fn numbers<const SIZE: usize>(numbers: &[i64], out: &mut Vec<u8>) {
    out.reserve(numbers.len() * SIZE);
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes()[..SIZE]);
    }
}

/// Writes each flag as one bit.
pub(crate) fn flags(flags: &[bool], out: &mut Vec<u8>) {
    let mut bits = BitWriter::new(out);
    for flag in flags {
        bits.push((*flag).into(), 1);
    }
    bits.finish();
}

/// Number of integers in a block of the delta encoding. A block consists of miniblocks of
/// [`MINIBLOCK`] integers, each with its own bit width.
pub(crate) const BLOCK: usize = 128;
pub(crate) const MINIBLOCK: usize = 32;

/// Writes numbers in Parquet's `DELTA_BINARY_PACKED` encoding. Each difference is stored minus the
/// smallest difference of its block, in as few bits as its miniblock needs.
pub(crate) fn differences(numbers: &[i64], out: &mut Vec<u8>) {
    varint::write(out, BLOCK as u64);
    varint::write(out, (BLOCK / MINIBLOCK) as u64);
    varint::write(out, numbers.len() as u64);
    let Some((first, rest)) = numbers.split_first() else {
        varint::write(out, 0);
        return;
    };
    varint::write(out, zigzag(*first));
    let mut before = *first;
    let mut block = [0_i64; BLOCK];
    for chunk in rest.chunks(BLOCK) {
        let deltas = &mut block[..chunk.len()];
        for (delta, number) in deltas.iter_mut().zip(chunk) {
            *delta = number.wrapping_sub(before);
            before = *number;
        }
        let least = deltas.iter().copied().min().unwrap_or(0);
        varint::write(out, zigzag(least));
        let mut widths = [0_u8; BLOCK / MINIBLOCK];
        for (part, of) in deltas.chunks(MINIBLOCK).zip(&mut widths) {
            let all = part.iter().fold(0, |all, delta| all | delta.wrapping_sub(least) as u64);
            *of = width(all) as u8;
        }
        out.extend_from_slice(&widths);
        for (part, width) in deltas.chunks(MINIBLOCK).zip(widths) {
            let mut bits = BitWriter::new(out);
            for delta in part {
                bits.push(delta.wrapping_sub(least) as u64, width.into());
            }
            for _ in part.len()..MINIBLOCK {
                bits.push(0, width.into());
            }
            bits.finish();
        }
    }
}

/// Fields of a page header in Parquet.
pub(crate) struct PageHeader {
    pub(crate) is_dictionary: bool,
    pub(crate) raw: usize,
    pub(crate) stored: usize,
    /// CRC-32 (gzip's polynomial) of the stored bytes.
    pub(crate) crc: u32,
    /// Number of values, including missing values.
    pub(crate) values: usize,
    pub(crate) encoding: i32,
}

/// Parquet's number of the encoding `RLE`. Page headers name it as the encoding of the levels.
const RUNS: i32 = 3;

/// Writes a page header in Thrift's compact protocol.
pub(crate) fn page_header(page: &PageHeader, out: &mut Vec<u8>) {
    const I32: u8 = 0x15;
    const STRUCT: u8 = 0x0c;
    let number = |field: u8, number: i32, out: &mut Vec<u8>| {
        out.push(field);
        varint::write(out, zigzag(number.into()));
    };
    number(I32, if page.is_dictionary { 2 } else { 0 }, out);
    number(I32, page.raw as i32, out);
    number(I32, page.stored as i32, out);
    number(I32, page.crc as i32, out);
    // Field 5 describes a data page, field 7 a dictionary page.
    out.push(if page.is_dictionary { 0x30 } else { 0x10 } | STRUCT);
    number(I32, page.values as i32, out);
    number(I32, page.encoding, out);
    if !page.is_dictionary {
        number(I32, RUNS, out);
        number(I32, RUNS, out);
    }
    out.extend_from_slice(&[0, 0]);
}
