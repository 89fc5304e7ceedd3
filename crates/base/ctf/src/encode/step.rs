//! The operations that write a field, determined once for each field.

use crate::schema::{Bits, ByteOrder, Encoding, FieldClass, FloatClass, Length};

/// The operations that write one visited field.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Alignment of the field's first bit, in bits from the packet's start.
    pub(super) align: u64,
    pub(super) write: Write,
    /// Slot to store the value in, if the field is the length of a string.
    pub(super) save: Option<u16>,
    /// Integer to write before the field, with the field's length, option or presence.
    pub(super) prefix: Option<Prefix>,
}

/// Form in which the value of a field is written.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// No bytes: a structure, array, optional or variant, whose contents are separate fields.
    Compound,
    /// An integer of 1, 2, 4 or 8 bytes on a byte boundary, in the usual bit order.
    Int { bytes: u8, big: bool },
    /// An integer of any layout.
    Bits(Bits),
    /// A boolean converted for CTF 1.8, written as 0 or 1.
    Truth(Bits),
    /// A LEB128 integer.
    VarInt { signed: bool },
    /// A floating-point number, converted to the format of the class.
    Float(FloatClass),
    /// A null-terminated string; UTF-16 and UTF-32 are converted if `to` is UTF-8.
    String { from: Encoding, to: Encoding },
    /// A string, truncated or padded with NULs to the given length.
    Text(Count),
    /// A blob, truncated or padded with zeros to the given length.
    Blob(Count),
}

/// Source of the length of a string or blob, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// A constant length from the schema.
    Static(u64),
    /// The value of an earlier length field, by slot.
    Slot(u16),
    /// The length of the value that is being encoded.
    Exact,
}

/// Integer written before a field, with the field's length, selected option or presence. It is
/// needed if the field cannot refer to its length or selector in the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    /// Alignment in bits of the structure that was added around prefix and field; 1 without such a
    /// structure.
    pub(super) align: u64,
    pub(super) bits: Bits,
}

impl Step {
    /// Derives the step that writes a field of `class`. `from` is the encoding of visited strings.
    pub(super) fn of(class: &FieldClass, from: Encoding) -> Step {
        let write = match class {
            FieldClass::Int(int) => Write::int(int.bits),
            FieldClass::VarInt(int) => Write::VarInt { signed: int.signed },
            FieldClass::Float(float) => Write::Float(float.clone()),
            FieldClass::String(string) => Write::String { from, to: string.encoding },
            FieldClass::Text(text) => Write::Text(Count::of(&text.length)),
            FieldClass::Blob(blob) => Write::Blob(Count::of(&blob.length)),
            FieldClass::Struct(_)
            | FieldClass::Array(_)
            | FieldClass::Optional(_)
            | FieldClass::Variant(_) => Write::Compound,
        };
        Step { align: class.align(), write, save: None, prefix: None }
    }
}

impl Count {
    pub(super) fn of(length: &Length) -> Count {
        match length {
            Length::Static(length) => Count::Static(*length),
            Length::Dynamic(_) => Count::Exact,
        }
    }
}

impl Write {
    pub(super) fn int(bits: Bits) -> Write {
        let is_usual = bits.bit_order == bits.byte_order.usual_bit_order();
        match bits.size {
            8 | 16 | 32 | 64 if is_usual && bits.align >= 8 => {
                Write::Int { bytes: (bits.size / 8) as u8, big: bits.byte_order == ByteOrder::Big }
            }
            _ => Write::Bits(bits),
        }
    }
}
