//! How one field is written, decided once for each field.

use crate::schema::{Bits, ByteOrder, Encoding, FieldClass, FloatClass, Length};

/// What to do when a field is visited.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Of the field's first bit.
    pub(super) align: u64,
    pub(super) write: Write,
    /// Keep the value here: a text's length comes from it.
    pub(super) save: Option<u16>,
    /// An integer to write first, made of what is visited.
    pub(super) prefix: Option<Prefix>,
}

/// The bytes of a field.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// None of its own: a structure, array, optional or variant.
    Nothing,
    /// Whole bytes on a byte boundary.
    Int { bytes: u8, big: bool },
    /// Any integer.
    Bits(Bits),
    /// A boolean: 0 or 1.
    Truth(Bits),
    /// A LEB128 integer.
    VarInt { signed: bool },
    /// A floating-point number.
    Float(FloatClass),
    /// A terminated string, translated if the encodings differ.
    String { from: Encoding, to: Encoding },
    /// A counted string, filled up with zeros.
    Text(Count),
    /// Counted bytes.
    Blob(Count),
}

/// How many bytes to write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// Always so many.
    Static(u64),
    /// As many as a field before has said.
    Slot(u16),
    /// As many as there are.
    Exact,
}

/// The length, selected option or presence, written as an integer of its own: for fields whose
/// own length or selector is out of the target's reach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    /// Of the structure around, where there is one for the prefix's sake.
    pub(super) align: u64,
    pub(super) bits: Bits,
}

impl Step {
    /// How to write a field of the class. `from` is the encoding in which text comes.
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
            | FieldClass::Variant(_) => Write::Nothing,
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
