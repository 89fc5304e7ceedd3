//! Values of an event as filters see them. Start at [`Values`], which a host implements.

use std::fmt;

/// An event, as the host shows it to a filter.
pub trait Values {
    /// The value of the operand with that index in [`crate::Filter::operands`].
    fn value(&self, operand: usize) -> Value<'_>;
}

/// Values by index; what is beyond the end is absent.
impl Values for [Value<'_>] {
    fn value(&self, operand: usize) -> Value<'_> {
        self.get(operand).copied().unwrap_or(Value::Absent)
    }
}

/// A field's value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The event has no such field.
    Absent,
    /// The event has the field, but it is a structure, an array or something else that compares
    /// with nothing.
    Present,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer, or a truth value.
    Uint(u64),
    /// A number.
    Float(f64),
    /// A string's bytes, without terminator.
    Str(&'a [u8]),
    /// An enumeration's value: an integer that also compares with its labels.
    Enum(Integer, &'a dyn Labels),
}

/// An integer of 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum Integer {
    /// Two's complement.
    Signed(i64),
    /// From 0 up.
    Unsigned(u64),
}

/// The labels of an enumeration.
pub trait Labels: fmt::Debug {
    /// Whether one of the labels of `value` passes the test; false if it has no label.
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

impl Integer {
    /// The number, whatever its sign.
    pub fn exact(self) -> i128 {
        match self {
            Integer::Signed(number) => number.into(),
            Integer::Unsigned(number) => number.into(),
        }
    }

    /// The 64 bits.
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
