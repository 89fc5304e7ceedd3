//! Ops: the instructions into which field classes are compiled.

use crate::schema::{Bits, Encoding, FloatClass, Scope};

/// Index that means "no node" (a hidden field) or "no save".
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Padding up to a multiple of this many bits, counted from the packet's start.
    Align(u64),
    /// A run: the next `ops` ops read `bytes` bytes in total, and no later field needs their
    /// values. A walk without visits skips the run in one step.
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
    /// A fixed-width integer of any other size, alignment or bit order.
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
    /// A floating-point number of any format and alignment.
    Float {
        node: u32,
        class: FloatClass,
    },
    /// A null-terminated string.
    String {
        node: u32,
        encoding: Encoding,
    },
    /// A string of `length` bytes.
    Text {
        node: u32,
        length: Count,
        encoding: Encoding,
    },
    /// A byte string of `length` bytes.
    Blob {
        node: u32,
        length: Count,
        uuid: bool,
    },
    BeginScope(Scope, u32),
    EndScope(Scope),
    BeginStruct(u32),
    EndStruct(u32),
    /// An array; the next `body` ops are its element.
    Array {
        node: u32,
        length: Count,
        body: u32,
        element: ElementSize,
    },
    /// An optional; the next `body` ops are its content, present if `slot`'s value is in `ranges`.
    Optional {
        node: u32,
        slot: u16,
        ranges: Box<[(u64, u64)]>,
        body: u32,
    },
    /// A variant; each branch is a range of the next `body` ops, and only the selected branch runs.
    Variant {
        node: u32,
        slot: u16,
        signed: bool,
        branches: Box<[Branch]>,
        body: u32,
    },
}

/// Statically known size of an array's element, checked before a loop over the elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementSize {
    /// Exact size in bytes; no later field needs the elements' values.
    Bytes(u32),
    /// Minimum size in bits.
    Least(u64),
}

/// Source of a number of elements or bytes: a constant or the value of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Static(u64),
    Slot(u16),
}

/// A compiled option of a variant.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// Inclusive ranges of the selector's values that choose this option, in the form in which
    /// [`Save`] stores values.
    pub(super) ranges: Box<[(u64, u64)]>,
    /// Index of the branch's first op, counted from the first op of the variant's body.
    pub(super) start: u32,
    /// Number of ops of the branch.
    pub(super) ops: u32,
    /// Index of the option in the schema.
    pub(super) option: u32,
}

/// Uses of an integer's value, in addition to passing it to the visitor: storage in a slot, roles,
/// and an update of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Save {
    /// Slot to store the value in. Signed values are stored with the sign bit flipped, so that
    /// slots compare as unsigned numbers.
    pub(super) slot: Option<u16>,
    /// Roles of the field, as the bitmap of [`crate::schema::Roles`].
    pub(super) roles: u16,
    /// Number of the clock's low bits that the value replaces; 0 if the field is no timestamp.
    pub(super) clock_bits: u32,
    /// Width of the value in bits.
    pub(super) size: u32,
}
