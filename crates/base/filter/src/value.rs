//! Values of an event for the evaluation of filters. Start at [`Values`], which a host implements.

use std::fmt;

/// Access to the values of an event, implemented by the host.
pub trait Values {
    /// Returns the value of the operand with that index in [`crate::Filter::operands`].
    fn value(&self, operand: usize) -> Value<'_>;
}

/// Supplies values by index; operands beyond the end are absent.
impl Values for [Value<'_>] {
    fn value(&self, operand: usize) -> Value<'_> {
        self.get(operand).copied().unwrap_or(Value::Absent)
    }
}

/// Value of a field or expression for one event.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The event has no such field.
    Absent,
    /// The field is present, but its value cannot be compared, for example a structure or an array.
    Present,
    /// A signed integer of 64 bits.
    Int(i64),
    /// An unsigned integer of 64 bits, or a truth value as 0 or 1.
    Uint(u64),
    /// A floating-point number of 64 bits.
    Float(f64),
    /// Bytes of a string, without terminator.
    Str(&'a [u8]),
    /// Value of an enumeration: an integer that also compares with its labels.
    Enum(Integer, &'a dyn Labels),
}

/// An integer of 64 bits, with or without sign.
#[derive(Clone, Copy, Debug)]
pub enum Integer {
    /// A signed integer in two's complement.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
}

/// Access to the labels of an enumeration by value, implemented by the host.
pub trait Labels: fmt::Debug {
    /// Returns whether a label of `value` passes the test; false for a value without labels.
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

impl Integer {
    /// Returns the number as a signed integer of 128 bits.
    #[inline]
    pub fn exact(self) -> i128 {
        match self {
            Integer::Signed(number) => number.into(),
            Integer::Unsigned(number) => number.into(),
        }
    }

    /// Returns the bit pattern of the integer, without regard to its sign.
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
