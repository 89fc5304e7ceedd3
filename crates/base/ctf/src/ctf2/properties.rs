//! Reads those properties of field classes that need nothing from around them.

use super::json::{
    Object, Problem, Within, array, integer, object, optional, quote, required, string, unsigned,
};
use super::words::{BIT_ORDERS, BYTE_ORDERS, ENCODINGS, meaning};
use crate::schema::*;
use serde_json::Value;

pub(super) fn bits(object: &Object) -> Result<Bits, Problem> {
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

pub(super) fn alignment(object: &Object, key: &str) -> Result<u64, Problem> {
    let align = optional(object, key, |value| match unsigned(value)? {
        align if align.is_power_of_two() => Ok(align),
        align => Err(Problem::new(format!("{align} is not a power of two"))),
    })?;
    Ok(align.unwrap_or(1))
}

/// The class of byte-aligned bits that are too many for an integer.
pub(super) fn wide(bits: Bits) -> Option<FieldClass> {
    if !bits.size.is_multiple_of(8) || !bits.align.is_multiple_of(8) {
        return None;
    }
    let length = Length::Static(u64::from(bits.size / 8));
    let blob = FieldClass::Blob(BlobClass { length, media_type: None, roles: Roles::NONE });
    if bits.align == 8 {
        return Some(blob);
    }
    // A blob has no alignment of its own, but an array has.
    let array = ArrayClass { length: Length::Static(1), element: blob, align: bits.align };
    Some(FieldClass::Array(Box::new(array)))
}

pub(super) fn float(object: &Object) -> Result<FieldClass, Problem> {
    let bits = bits(object)?;
    let Some(exponent) = exponent_size(bits.size) else {
        let message = format!("no floating-point format has {} bits", bits.size);
        let hint = "16, 32, 64, 128 or a larger multiple of 32".to_owned();
        return Err(Problem::new(message).hint(Some(hint))).within("length");
    };
    Ok(FieldClass::Float(FloatClass { bits, exponent, mantissa: bits.size - exponent }))
}

/// Bits of the exponent in IEEE 754-2008's binary format (section 3.6) of a size.
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

pub(super) fn preferred_base(object: &Object) -> Result<Base, Problem> {
    let base = optional(object, "preferred-display-base", |value| match unsigned(value)? {
        2 => Ok(Base::Binary),
        8 => Ok(Base::Octal),
        10 => Ok(Base::Decimal),
        16 => Ok(Base::Hexadecimal),
        other => Err(Problem::new(format!("must be 2, 8, 10 or 16, not {other}"))),
    })?;
    Ok(base.unwrap_or_default())
}

pub(super) fn encoding(object: &Object) -> Result<Encoding, Problem> {
    let encoding = optional(object, "encoding", |value| meaning(string(value)?, &ENCODINGS))?;
    Ok(encoding.unwrap_or_default())
}

pub(super) fn mappings(value: &Value) -> Result<Vec<Mapping>, Problem> {
    let mapping = |(label, value): (&String, &Value)| {
        Ok(Mapping { label: label.clone(), ranges: ranges(value).within(quote(label))? })
    };
    object(value)?.iter().map(mapping).collect()
}

pub(super) fn ranges(value: &Value) -> Result<Ranges, Problem> {
    let range = |value: &Value| match array(value)? {
        [low, high] => match (integer(low)?, integer(high)?) {
            (low, high) if low <= high => Ok((low, high)),
            (low, high) => Err(Problem::new(format!("{low} is above {high}"))),
        },
        _ => Err(Problem::new("a range needs a lower and an upper bound")),
    };
    let ranges = array(value)?.iter().map(range).collect::<Result<Vec<_>, Problem>>()?;
    if ranges.is_empty() {
        return Err(Problem::new("a range is needed"));
    }
    Ok(Ranges(ranges))
}
