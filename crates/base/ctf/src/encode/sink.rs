//! A buffer for a packet's bytes that supports fields at any bit position.

use crate::bits;
use crate::float;
use crate::schema::{Bits, FloatClass};

/// Buffer whose length is counted in bits. The unwritten bits of its last byte are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sink {
    pub(super) bytes: Vec<u8>,
    position: u64,
}

/// A position in the sink to which it can be truncated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    position: u64,
    /// Value of the last byte at the mark. Fields after the mark may use this byte's free bits.
    last: u8,
}

impl Sink {
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Replaces the contents by the contents of another sink.
    pub(super) fn copy_from(&mut self, other: &Sink) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.position = other.position;
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { position: self.position, last: self.bytes.last().copied().unwrap_or(0) }
    }

    /// Discards all bits after the mark.
    pub(super) fn truncate(&mut self, mark: Mark) {
        self.position = mark.position;
        self.bytes.truncate(mark.position.div_ceil(8) as usize);
        if let Some(last) = self.bytes.last_mut() {
            *last = mark.last;
        }
    }

    /// Appends zero bits up to a multiple of `align` from the packet's start.
    #[inline]
    pub(super) fn align(&mut self, align: u64) {
        let aligned = self.position.next_multiple_of(align.max(1));
        if aligned != self.position {
            self.reserve(aligned - self.position);
        }
    }

    /// Appends `size` zero bits, and returns their position.
    pub(super) fn reserve(&mut self, size: u64) -> u64 {
        let at = self.position;
        self.position += size;
        self.bytes.resize(self.position.div_ceil(8) as usize, 0);
        at
    }

    /// Writes an integer of any layout at the current bit.
    pub(super) fn bits(&mut self, bits: Bits, value: u64) {
        let at = self.reserve(u64::from(bits.size));
        bits::write(&mut self.bytes, at, bits, value);
    }

    /// Writes an integer of 1, 2, 4 or 8 bytes on a byte boundary.
    #[inline]
    pub(super) fn int(&mut self, bytes: u8, big: bool, value: u64) {
        let size = usize::from(bytes);
        if big {
            self.bytes.extend_from_slice(&value.to_be_bytes()[8 - size..]);
        } else {
            let whole = value.to_le_bytes();
            match bytes {
                1 => self.bytes.push(whole[0]),
                4 => self.bytes.extend_from_slice(&whole[..4]),
                8 => self.bytes.extend_from_slice(&whole),
                _ => self.bytes.extend_from_slice(&whole[..size]),
            }
        }
        self.position += u64::from(bytes) * 8;
    }

    /// Writes whole bytes on a byte boundary.
    #[inline]
    pub(super) fn blob(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.position += bytes.len() as u64 * 8;
    }

    /// Writes a LEB128 integer on a byte boundary.
    pub(super) fn var_int(&mut self, signed: bool, value: u64) {
        let mut rest = value;
        loop {
            let low = (rest & 0x7f) as u8;
            rest = if signed { ((rest as i64) >> 7) as u64 } else { rest >> 7 };
            let sign = signed && low & 0x40 != 0;
            let is_last = if sign { rest == u64::MAX } else { rest == 0 };
            self.int(1, false, u64::from(low) | if is_last { 0 } else { 0x80 });
            if is_last {
                return;
            }
        }
    }

    pub(super) fn float(&mut self, class: &FloatClass, value: f64) {
        let at = self.reserve(u64::from(class.bits.size));
        float::write(&mut self.bytes, at, class, value);
    }
}
