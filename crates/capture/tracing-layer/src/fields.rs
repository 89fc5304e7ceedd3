//! Values of a span's or event's fields: collected by the visitor of `tracing`, then recorded.

use blkkin_ring::Encoder;
use blkkin_trace::Kind;
use std::fmt;
use tracing_core::Field;
use tracing_core::field::Visit;

/// Maximum number of recorded fields of a span or event. Further fields are dropped.
pub(crate) const FIELDS_MAX: usize = 32;

/// Size of the memory for all values of a span or event, in bytes. Long strings are truncated. The
/// first value of a field always fits if it is a number.
const SIZE: usize = 512;
/// Size of a number, in bytes.
const NUMBER_SIZE: usize = 8;
/// Size of the length prefix of a string, in bytes.
const LENGTH_SIZE: usize = 2;
/// Number of bytes reserved for each field that has not been set, so that a number fits.
const RESERVE: usize = NUMBER_SIZE;
const _: () = assert!(FIELDS_MAX * RESERVE <= SIZE && SIZE <= 1 << 16);

/// Kinds of the fields that have values: four bits for each field, 0 for no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldKinds(u128);

const KIND_BITS: usize = 4;
const _: () = assert!(FIELDS_MAX * KIND_BITS == 128);
const KIND_MASK: u128 = 0xf;

const fn bits_of(kind: Kind) -> u128 {
    match kind {
        Kind::I64 => 1,
        Kind::F64 => 2,
        Kind::Bool => 3,
        Kind::String => 4,
        _ => 5,
    }
}

/// Decodes the four bits of a field; `None` if the field has no value. Fields have only the kinds
/// listed here.
const fn kind_of(bits: u128) -> Option<Kind> {
    match bits {
        0 => None,
        1 => Some(Kind::I64),
        2 => Some(Kind::F64),
        3 => Some(Kind::Bool),
        4 => Some(Kind::String),
        _ => Some(Kind::U64),
    }
}

impl FieldKinds {
    const NONE: FieldKinds = FieldKinds(0);

    /// Returns the kinds of `fields_count` fields that all have string values.
    pub(crate) fn all_strings(fields_count: usize) -> FieldKinds {
        let mut kinds = FieldKinds::NONE;
        (0..fields_count.min(FIELDS_MAX)).for_each(|index| kinds.set(index, Kind::String));
        kinds
    }

    fn set(&mut self, index: usize, kind: Kind) {
        self.remove(index);
        self.0 |= bits_of(kind) << (index * KIND_BITS);
    }

    fn remove(&mut self, index: usize) {
        self.0 &= !(KIND_MASK << (index * KIND_BITS));
    }

    /// Returns the kind of a field's value; `None` if the field has no value.
    fn kind(&self, index: usize) -> Option<Kind> {
        kind_of(self.0 >> (index * KIND_BITS) & KIND_MASK)
    }

    /// Iterates over the indexes and kinds of the fields that have values, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (usize, Kind)> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let index = left.trailing_zeros() as usize / KIND_BITS;
            let kind = kind_of(left.checked_shr((index * KIND_BITS) as u32)? & KIND_MASK)?;
            left &= !(KIND_MASK << (index * KIND_BITS));
            Some((index, kind))
        })
    }
}

/// Values of the fields of one span or event.
pub(crate) struct FieldValues {
    kinds: FieldKinds,
    /// Offset of each field's value in `bytes`.
    starts: [u16; FIELDS_MAX],
    used: usize,
    /// Bitmap of the fields that have been set. `reserved` is the number of bytes reserved for the
    /// other fields.
    seen: u32,
    reserved: usize,
    /// The values; the first `used` bytes are written.
    bytes: [u8; SIZE],
}

impl FieldValues {
    /// Returns an empty set of values, without reserved bytes.
    pub(crate) const fn new() -> FieldValues {
        FieldValues {
            kinds: FieldKinds::NONE,
            starts: [0; FIELDS_MAX],
            used: 0,
            seen: 0,
            reserved: 0,
            bytes: [0; SIZE],
        }
    }

    /// Removes all values, and reserves the size of a number, in bytes, for each of up to
    /// `fields_count` fields.
    pub(crate) fn clear(&mut self, fields_count: usize) {
        self.kinds = FieldKinds::NONE;
        self.used = 0;
        self.seen = 0;
        self.reserved = fields_count.min(FIELDS_MAX) * RESERVE;
    }

    pub(crate) fn kinds(&self) -> &FieldKinds {
        &self.kinds
    }

    /// Copies the values of `others`, which replace earlier values of the same fields. If too few
    /// bytes are free, a number is not copied; a string is not copied, and the earlier value of its
    /// field is removed.
    pub(crate) fn merge(&mut self, others: &FieldValues) {
        for (index, kind) in others.kinds.fields() {
            match kind {
                Kind::String => {
                    if let Some(mut text) = self.begin_string(index) {
                        // The string was truncated at a character boundary, so it is still UTF-8.
                        text.push(str::from_utf8(others.string(index)).unwrap_or_default());
                    }
                }
                _ => self.set_number(index, kind, others.word(index)),
            }
        }
    }

    fn set_number(&mut self, index: usize, kind: Kind, number: u64) {
        if index >= FIELDS_MAX {
            return;
        }
        let at = match self.size_at(index) >= NUMBER_SIZE {
            true => Some(usize::from(self.starts[index])),
            false => self.reserve(index, NUMBER_SIZE),
        };
        if let Some(at) = at {
            self.bytes[at..at + NUMBER_SIZE].copy_from_slice(&number.to_le_bytes());
            self.kinds.set(index, kind);
        }
    }

    /// Reserves `size` bytes for a field's value after all other values, and returns the offset of
    /// these bytes. Returns `None` if too few bytes are free.
    fn reserve(&mut self, index: usize, size: usize) -> Option<usize> {
        if self.seen & 1 << index == 0 {
            self.seen |= 1 << index;
            self.reserved = self.reserved.saturating_sub(RESERVE);
        }
        if self.used + size + self.reserved > SIZE {
            return None;
        }
        let at = self.used;
        self.used += size;
        self.starts[index] = at as u16;
        Some(at)
    }

    /// Returns the size of a field's value in bytes; 0 if the field has no value.
    fn size_at(&self, index: usize) -> usize {
        match self.kinds.kind(index) {
            None => 0,
            Some(Kind::String) => LENGTH_SIZE + self.string(index).len(),
            Some(_) => NUMBER_SIZE,
        }
    }

    fn string(&self, index: usize) -> &[u8] {
        let at = usize::from(self.starts[index]);
        let length = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
        &self.bytes[at + LENGTH_SIZE..at + LENGTH_SIZE + usize::from(length)]
    }

    /// Removes the former value of a field, and returns a writer for its string value. Returns
    /// `None` if too few bytes are free, or if the index is not below [`FIELDS_MAX`].
    fn begin_string(&mut self, index: usize) -> Option<StringWriter<'_>> {
        if index >= FIELDS_MAX {
            return None;
        }
        if self.kinds.kind(index).is_some() {
            // The former value is freed if it is the last one.
            let old = usize::from(self.starts[index]);
            if old + self.size_at(index) == self.used {
                self.used = old;
            }
            self.kinds.remove(index);
        }
        let at = self.reserve(index, LENGTH_SIZE)?;
        self.kinds.set(index, Kind::String);
        self.bytes[at..at + LENGTH_SIZE].fill(0);
        Some(StringWriter { values: self, at, is_full: false })
    }

    /// Appends the values to an event with these field kinds. A value of another kind is converted
    /// to text; a missing value becomes an empty string.
    pub(crate) fn encode(&self, kinds: &FieldKinds, encoder: &mut Encoder<'_>) {
        for (index, kind) in kinds.fields() {
            match self.kinds.kind(index) {
                Some(own) if own == kind => self.encode_own(index, kind, encoder),
                Some(own) => encoder.put_string(&self.to_text(index, own)),
                None => encoder.put_string(""),
            }
        }
    }

    #[inline]
    fn encode_own(&self, index: usize, kind: Kind, encoder: &mut Encoder<'_>) {
        match kind {
            Kind::String => encoder.put_bytes_as_string(self.string(index)),
            Kind::Bool => encoder.put([self.word(index) as u8]),
            _ => encoder.put_words([self.word(index)]),
        }
    }

    fn word(&self, index: usize) -> u64 {
        let at = usize::from(self.starts[index]);
        let bytes = self.bytes[at..].first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(bytes)
    }

    #[cold]
    fn to_text(&self, index: usize, kind: Kind) -> String {
        let word = self.word(index);
        match kind {
            Kind::I64 => word.cast_signed().to_string(),
            Kind::F64 => f64::from_bits(word).to_string(),
            Kind::Bool => (word != 0).to_string(),
            Kind::String => String::from_utf8_lossy(self.string(index)).into_owned(),
            _ => word.to_string(),
        }
    }
}

impl Visit for FieldValues {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set_number(field.index(), Kind::I64, value.cast_unsigned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set_number(field.index(), Kind::U64, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set_number(field.index(), Kind::F64, value.to_bits());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set_number(field.index(), Kind::Bool, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(mut text) = self.begin_string(field.index()) {
            text.push(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(mut text) = self.begin_string(field.index()) {
            // Fails only if the `Debug` implementation fails; text that does not fit is dropped.
            let _ = fmt::write(&mut text, format_args!("{value:?}"));
        }
    }
}

/// Writer of a string value after all other values.
struct StringWriter<'v> {
    values: &'v mut FieldValues,
    /// Offset of the string's length prefix in the values' memory.
    at: usize,
    is_full: bool,
}

impl StringWriter<'_> {
    fn push(&mut self, string: &str) {
        let values = &mut *self.values;
        let room = SIZE.saturating_sub(values.used + values.reserved);
        let string = if string.len() < room {
            string
        } else {
            self.is_full = true;
            &string[..string.floor_char_boundary(room)]
        };
        values.bytes[values.used..values.used + string.len()].copy_from_slice(string.as_bytes());
        values.used += string.len();
        let length = (values.used - self.at - LENGTH_SIZE) as u16;
        values.bytes[self.at..self.at + LENGTH_SIZE].copy_from_slice(&length.to_le_bytes());
    }
}

impl fmt::Write for StringWriter<'_> {
    /// Appends as much of the text as fits, and nothing once a text was truncated. Never fails,
    /// because `Debug` implementations may rely on that.
    fn write_str(&mut self, string: &str) -> fmt::Result {
        if !self.is_full {
            self.push(string);
        }
        Ok(())
    }
}
