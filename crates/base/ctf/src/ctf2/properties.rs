//! Reading of those field class properties that depend neither on the scope nor on aliases.

use super::json::{
    PathContext, Problem, array, integer, object, optional, quote, required, string, unsigned,
};
use super::value::{Object, Value};
use super::vocabulary::{BIT_ORDERS, BYTE_ORDERS, ENCODINGS, meaning};
use crate::decode::size;
use crate::schema::*;
use std::sync::Arc;

pub(super) fn bits(object: &Object<'_>) -> Result<Bits, Problem> {
    let size = required(object, "length", |value| {
        let size = u32::try_from(unsigned(value)?).unwrap_or(0);
        if size == 0 { Err(Problem::new("must be from 1 to 4294967295 bits")) } else { Ok(size) }
    })?;
    let byte_order = required(object, "byte-order", |value| meaning(string(value)?, &BYTE_ORDERS))?;
    let bit_order = optional(object, "bit-order", |value| meaning(string(value)?, &BIT_ORDERS))?;
    Ok(Bits {
        size,
        align: alignment(object, "alignment")?,
        byte_order,
        bit_order: bit_order.unwrap_or(byte_order.usual_bit_order()),
    })
}

pub(super) fn alignment(object: &Object<'_>, key: &str) -> Result<u64, Problem> {
    let align = optional(object, key, |value| match unsigned(value)? {
        align if align.is_power_of_two() => Ok(align),
        align => Err(Problem::new(format!("{align} is not a power of two"))),
    })?;
    Ok(align.unwrap_or(1))
}

/// Returns the class for a number of more than 64 bits: a blob, or an array of one blob if the
/// alignment exceeds 8 bits. `None` if the size or alignment is not a multiple of 8 bits.
pub(super) fn wide_integer_class(bits: Bits) -> Option<FieldClass> {
    if !bits.size.is_multiple_of(8) || !bits.align.is_multiple_of(8) {
        return None;
    }
    let length = Length::Static(u64::from(bits.size / 8));
    let blob = FieldClass::Blob(BlobClass { length, media_type: None, roles: Roles::NONE });
    if bits.align == 8 {
        return Some(blob);
    }
    // A blob class has no alignment property, but an array class has.
    let array = ArrayClass { length: Length::Static(1), element: blob, align: bits.align };
    Some(FieldClass::Array(Box::new(array)))
}

pub(super) fn float(object: &Object<'_>) -> Result<FieldClass, Problem> {
    let bits = bits(object)?;
    let Some(exponent) = exponent_size(bits.size) else {
        let message = format!("no floating-point format has {} bits", bits.size);
        let hint = "16, 32, 64, 128 or a larger multiple of 32".to_owned();
        return Err(Problem::new(message).hint(Some(hint))).add_step("length");
    };
    Ok(FieldClass::Float(FloatClass { bits, exponent, mantissa: bits.size - exponent }))
}

/// Returns the exponent size, in bits, of IEEE 754-2008's binary interchange format of `size` bits
/// (section 3.6); `None` if there is no such format.
pub(super) fn exponent_size(size: u32) -> Option<u32> {
    match size {
        16 => Some(5),
        32 => Some(8),
        64 => Some(11),
        128 => Some(15),
        _ if size > 128 && size.is_multiple_of(32) => {
            Some((4.0 * f64::from(size).log2()).round() as u32 - 13)
        }
        _ => None,
    }
}

pub(super) fn preferred_base(object: &Object<'_>) -> Result<Base, Problem> {
    let base = optional(object, "preferred-display-base", |value| match unsigned(value)? {
        2 => Ok(Base::Binary),
        8 => Ok(Base::Octal),
        10 => Ok(Base::Decimal),
        16 => Ok(Base::Hexadecimal),
        other => Err(Problem::new(format!("must be 2, 8, 10 or 16, not {other}"))),
    })?;
    Ok(base.unwrap_or_default())
}

pub(super) fn encoding(object: &Object<'_>) -> Result<Encoding, Problem> {
    let encoding = optional(object, "encoding", |value| meaning(string(value)?, &ENCODINGS))?;
    Ok(encoding.unwrap_or_default())
}

pub(super) fn mappings(
    value: &Value<'_>,
    keep: impl Fn(usize) -> Result<(), Problem>,
) -> Result<Arc<[Mapping]>, Problem> {
    let labels = object(value)?;
    let mut mappings = Vec::with_capacity(labels.iter().len());
    for (label, value) in labels.iter() {
        let ranges = ranges(value).add_step(quote(label))?;
        // `into` copies the vector into the `Arc`, so two lists of mappings exist for a moment.
        keep(size::mapping(label, ranges.0.len()) + size_of::<Mapping>())?;
        mappings.push(Mapping { label: label.to_string(), ranges });
    }
    Ok(mappings.into())
}

pub(super) fn ranges(value: &Value<'_>) -> Result<Ranges, Problem> {
    let values = array(value)?;
    let mut ranges = Vec::with_capacity(values.len());
    for value in values {
        match array(value)? {
            [low, high] => match (integer(low)?, integer(high)?) {
                (low, high) if low <= high => ranges.push((low, high)),
                (low, high) => return Err(Problem::new(format!("{low} is above {high}"))),
            },
            _ => return Err(Problem::new("a range needs a lower and an upper bound")),
        }
    }
    if ranges.is_empty() {
        return Err(Problem::new("a range is needed"));
    }
    Ok(Ranges(ranges))
}
