//! Conversion of tag values to text and back: [`write_value`] and [`parse_value`].

use crate::decode;
use crate::layout::ValueType;
use blkkin_model::{ValueRef, hex};
use std::fmt::Write as _;

/// Writes a value as text. [`parse_value`] or [`parse_bytes`] parses the text.
pub(crate) fn write_value(value: ValueRef<'_>, out: &mut String) {
    // Writing to a `String` does not fail.
    let _ = match value {
        ValueRef::Str(text) => out.write_str(text),
        ValueRef::Int(number) => write!(out, "{number}"),
        ValueRef::Bool(flag) => write!(out, "{flag}"),
        ValueRef::Double(number) if number.is_nan() => {
            write!(out, "NaN:{:016x}", number.to_bits())
        }
        // Exponents keep the text short: in full, the largest number would have 309 digits.
        ValueRef::Double(number) if number != 0.0 && !(1e-6..1e21).contains(&number.abs()) => {
            write!(out, "{number:e}")
        }
        ValueRef::Double(number) => write!(out, "{number}"),
        ValueRef::Bytes(bytes) => {
            out.reserve(2 * bytes.len());
            let digits = bytes.iter().flat_map(|byte| hex::byte_digits(*byte));
            out.extend(digits.map(char::from));
            Ok(())
        }
    };
}

/// Parses a value of any type except byte strings, which [`parse_bytes`] parses.
pub(crate) fn parse_value(kind: ValueType, text: &str) -> decode::Result<ValueRef<'_>> {
    match kind {
        ValueType::Str => Some(ValueRef::Str(text)),
        ValueType::Int => text.parse().ok().map(ValueRef::Int),
        ValueType::Bool => text.parse().ok().map(ValueRef::Bool),
        ValueType::Double => match text.strip_prefix("NaN:") {
            Some(bits) => decode::hex(bits.as_bytes()).ok().map(f64::from_bits),
            None => text.parse().ok(),
        }
        .map(ValueRef::Double),
        ValueType::Bytes => None,
    }
    .ok_or("a value is not of the type that it should be")
}

pub(crate) fn parse_bytes(text: &str) -> decode::Result<Vec<u8>> {
    let bad = "a value is not of the type that it should be";
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(bad);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    for [high, low] in pairs {
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
    }
    if rest.is_empty() { Ok(bytes) } else { Err(bad) }
}
