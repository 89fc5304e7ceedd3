//! Types of event fields.

use blkkin_control::{Scalar, Width, catalog::Label};
use blkkin_filter::Integer;

/// Type of an event field, such as `U8`. All values are encoded in little-endian byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    /// A byte, 0 or 1.
    Bool,
    /// UTF-8, ended by a NUL.
    String,
    /// An unsigned integer of this width, shown in hexadecimal.
    Hex(Width),
    /// A fixed number of elements of a number type.
    Array(Scalar, u32),
    /// A 32-bit count of elements, followed by the elements.
    Sequence(Scalar),
    /// A 32-bit count of bytes, followed by the bytes, which are shown in hexadecimal.
    Bytes,
    /// An integer with labels for some values.
    Enum(Scalar, &'static Labels),
}

/// Labels of an enumeration: a name for each listed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels(pub &'static [Label<'static>]);

impl blkkin_filter::Labels for Labels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut labels = self.0.iter().filter(|label| label.value == value.bits());
        labels.any(|label| test(label.name.as_bytes()))
    }
}

impl Kind {
    /// Returns the size in bytes of a field of this kind; `None` if the size depends on the value.
    pub const fn size(self) -> Option<usize> {
        Some(match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
            Kind::Hex(width) => width.bytes(),
            Kind::Array(of, count) => of.bytes() * count as usize,
            Kind::Enum(of, _) => of.bytes(),
            Kind::String | Kind::Sequence(_) | Kind::Bytes => return None,
        })
    }

    /// Returns the size in bytes of the field at the start of `bytes`. For a truncated field, this
    /// is the length of `bytes` if the field is a string, and more otherwise.
    pub(crate) fn size_in(self, bytes: &[u8]) -> usize {
        match self {
            Kind::String => {
                bytes.iter().position(|byte| *byte == 0).map_or(bytes.len(), |at| at + 1)
            }
            Kind::Sequence(of) => {
                let count = bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
                4 + of.bytes() * count as usize
            }
            Kind::Bytes => {
                4 + bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)) as usize
            }
            kind => kind.size().unwrap_or(0),
        }
    }

    /// Returns the number type of a field of this kind; `None` for strings,
    /// bytes, arrays and sequences.
    pub const fn scalar(self) -> Option<Scalar> {
        const fn unsigned(width: Width) -> Scalar {
            Scalar::Unsigned { width, hex: false }
        }
        const fn signed(width: Width) -> Scalar {
            Scalar::Signed { width, hex: false }
        }
        Some(match self {
            Kind::U8 => unsigned(Width::Bits8),
            Kind::U16 => unsigned(Width::Bits16),
            Kind::U32 => unsigned(Width::Bits32),
            Kind::U64 => unsigned(Width::Bits64),
            Kind::I8 => signed(Width::Bits8),
            Kind::I16 => signed(Width::Bits16),
            Kind::I32 => signed(Width::Bits32),
            Kind::I64 => signed(Width::Bits64),
            Kind::F32 => Scalar::F32,
            Kind::F64 => Scalar::F64,
            Kind::Bool => Scalar::Bool,
            Kind::Hex(width) => Scalar::Unsigned { width, hex: true },
            Kind::Enum(of, _) => of,
            Kind::String | Kind::Array(..) | Kind::Sequence(_) | Kind::Bytes => return None,
        })
    }
}
