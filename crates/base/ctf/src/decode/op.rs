//! The ops of programs.

use crate::schema::{Bits, Encoding, FloatClass, Scope};

/// Stands for "no node": the field is hidden. Also "no save".
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Skip to a multiple of so many bits.
    Align(u64),
    /// The next `ops` ops take `bytes` bytes and nobody needs their values later.
    Run {
        bytes: u32,
        ops: u32,
    },
    /// A byte-aligned integer of 1, 2, 4 or 8 bytes.
    Int {
        node: u32,
        save: u32,
        bytes: u8,
        signed: bool,
        big: bool,
    },
    /// Any other fixed-width integer.
    Bits {
        node: u32,
        save: u32,
        bits: Bits,
        signed: bool,
    },
    /// A LEB128 integer.
    VarInt {
        node: u32,
        save: u32,
        signed: bool,
    },
    /// A floating-point number.
    Float {
        node: u32,
        class: FloatClass,
    },
    /// A terminated string.
    String {
        node: u32,
        encoding: Encoding,
    },
    /// A counted string; `length` in bytes.
    Text {
        node: u32,
        length: Count,
        encoding: Encoding,
    },
    /// Counted bytes.
    Blob {
        node: u32,
        length: Count,
        uuid: bool,
    },
    BeginScope(Scope, u32),
    EndScope(Scope),
    BeginStruct(u32),
    EndStruct(u32),
    /// Elements; the body is the next `body` ops.
    Array {
        node: u32,
        length: Count,
        body: u32,
        element: ElementSize,
    },
    /// The body is the next `body` ops, if `slot`'s value is in `ranges`.
    Optional {
        node: u32,
        slot: u16,
        ranges: Box<[(u64, u64)]>,
        body: u32,
    },
    /// One of the branches, all within the next `body` ops.
    Variant {
        node: u32,
        slot: u16,
        signed: bool,
        branches: Box<[Branch]>,
        body: u32,
    },
}

/// How much an array's element takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementSize {
    /// Always so many bytes, and nobody needs its values later.
    Bytes(u32),
    /// At least so many bits.
    Least(u64),
}

/// A number of elements or bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Static(u64),
    Slot(u16),
}

/// An option of a variant.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// Values of the selector, as [`Save`] keeps them.
    pub(super) ranges: Box<[(u64, u64)]>,
    /// Index of its first op, from the first op of the variant's body.
    pub(super) start: u32,
    /// Number of its ops.
    pub(super) ops: u32,
    /// Index of the option in the schema.
    pub(super) option: u32,
}

/// What to do with a value that was just read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Save {
    /// Keep it in this slot. Signed values are stored with the sign bit flipped, so that slots
    /// compare as unsigned numbers.
    pub(super) slot: Option<u16>,
    /// Bits of [`crate::schema::Roles`] that the reader asks for.
    pub(super) roles: u16,
    /// Advance the stream's clock by this many low bits.
    pub(super) clock_bits: u32,
    /// Width in bits.
    pub(super) size: u32,
}
