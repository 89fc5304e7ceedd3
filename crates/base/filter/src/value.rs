//! Values of an event, for the evaluation of filters. A host implements [`Values`]; start there.

use std::fmt;

/// Source of an event's values, implemented by the host.
pub trait Values {
    /// Returns the value of the operand with this index in [`crate::Filter::operands`].
    fn value(&self, operand: usize) -> Value<'_>;
}

/// Slice of values in the order of the operands. Operands beyond its end are absent.
impl Values for [Value<'_>] {
    fn value(&self, operand: usize) -> Value<'_> {
        self.get(operand).copied().unwrap_or(Value::Absent)
    }
}

/// Value of a field or an expression for one event.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Missing value: the event has no such field, or the expression has no result, as after a
    /// division by 0.
    Absent,
    /// Value of a present field that cannot be compared, such as a structure or an array.
    Present,
    /// Signed integer of 64 bits.
    Int(i64),
    /// Unsigned integer of 64 bits, or a truth value as 0 or 1.
    Uint(u64),
    /// Floating-point number of 64 bits.
    Float(f64),
    /// Bytes of a string, without a terminator, or of a blob.
    Str(&'a [u8]),
    /// Integer of an enumeration, a bit map or the severity, with its labels. It compares with
    /// numbers, and by `==` and `!=` also with strings that equal a label.
    Enum(Integer, &'a dyn Labels),
}

/// Integer of 64 bits, signed or unsigned.
#[derive(Clone, Copy, Debug)]
pub enum Integer {
    /// Signed integer in two's complement.
    Signed(i64),
    /// Unsigned integer from 0 up.
    Unsigned(u64),
}

/// Source of the labels of a [`Value::Enum`]. The host implements it for its enumerations.
pub trait Labels: fmt::Debug {
    /// Returns true if a label of `value` passes the test. Returns false for a value without
    /// labels.
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

impl Integer {
    /// Returns the same number as a signed integer of 128 bits, which can represent all values.
    #[inline]
    pub fn exact(self) -> i128 {
        match self {
            Integer::Signed(number) => number.into(),
            Integer::Unsigned(number) => number.into(),
        }
    }

    /// Returns the 64 bits of the integer, without interpretation of the sign.
    #[inline]
    pub fn bits(self) -> u64 {
        match self {
            Integer::Signed(number) => number.cast_unsigned(),
            Integer::Unsigned(number) => number,
        }
    }
}

impl PartialEq for Integer {
    fn eq(&self, other: &Integer) -> bool {
        self.exact() == other.exact()
    }
}
