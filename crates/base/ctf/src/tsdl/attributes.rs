//! Reading of the attributes in the braces of `integer`, `floating_point` and `string`, and of the
//! values of attributes in general: numbers, strings, booleans and UUIDs.

use super::lexer::shortened;
use super::syntax::{Attribute, Value};
use super::types::{IntType, Type, bits};
use crate::metadata::budget::Budget;
use crate::metadata::error::MetadataError;
use crate::metadata::suggest::did_you_mean;
use crate::schema::{Base, ByteOrder, Encoding, FloatClass, IntKind, Uuid};
use std::collections::HashMap;

/// Reader of attributes, with the byte order and clocks to which they may refer.
pub(super) struct AttributeReader<'t> {
    pub(super) text: &'t str,
    pub(super) budget: &'t Budget,
    pub(super) byte_order: ByteOrder,
    /// Index of each clock in the schema, by name.
    pub(super) clocks: HashMap<String, usize>,
}

impl<'t> AttributeReader<'t> {
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> MetadataError {
        MetadataError::at(self.text, at, message)
    }

    /// Counts `bytes` against the memory budget. The schema or its decoder will own them. `at` is
    /// the offset for an error.
    pub(super) fn charge(&self, at: usize, bytes: usize) -> Result<(), MetadataError> {
        let error = |error| MetadataError::over_budget(self.text, at, error);
        self.budget.charge(bytes).map_err(error)
    }

    /// Counts temporary `bytes` against the memory budget; they are freed after the block, or after
    /// the whole text, has been read. `at` is the offset for an error.
    pub(super) fn charge_temporary(&self, at: usize, bytes: usize) -> Result<(), MetadataError> {
        let error = |error| MetadataError::over_budget(self.text, at, error);
        self.budget.charge_temporary(bytes).map_err(error)
    }

    /// Reads `integer { … }` at the offset `at`.
    pub(super) fn integer(
        &self,
        at: usize,
        attributes: &[Attribute<'_>],
    ) -> Result<Type<'t>, MetadataError> {
        let (mut size, mut align, mut signed, mut byte_order) = (None, None, None, None);
        let (mut base, mut encoding, mut clock) = (None, None, None);
        for attribute in attributes {
            match attribute.key.as_ref() {
                "size" => self.set_once(&mut size, attribute, self.size(attribute)?)?,
                "align" => self.set_once(&mut align, attribute, self.align(attribute)?)?,
                "signed" => self.set_once(&mut signed, attribute, self.truth(attribute)?)?,
                "byte_order" => {
                    self.set_once(&mut byte_order, attribute, self.byte_order(attribute)?)?
                }
                "base" => self.set_once(&mut base, attribute, self.base(attribute)?)?,
                "encoding" => self.set_once(&mut encoding, attribute, self.encoding(attribute)?)?,
                "map" => self.set_once(&mut clock, attribute, self.clock(attribute)?)?,
                _ => (),
            }
        }
        let Some(size) = size else {
            return Err(self.error(at, "integer without `size`"));
        };
        let align = align.unwrap_or(if size % 8 == 0 { 8 } else { 1 });
        if size > 64 {
            return match size % 8 == 0 && align == 8 {
                true => Ok(Type::WideInt(size / 8)),
                false => Err(self
                    .error(at, format!("integer of {size} bits, aligned on {align}"))
                    .hint("over 64 bits, only whole bytes aligned on 8 bits can be read")),
            };
        }
        Ok(Type::Int(IntType {
            bits: bits(size as u32, align, byte_order.unwrap_or(self.byte_order)),
            kind: if signed == Some(true) { IntKind::Signed } else { IntKind::Unsigned },
            base: base.unwrap_or_default(),
            encoding: encoding.flatten(),
            clock,
            enumeration: None,
        }))
    }

    /// Reads `floating_point { … }` at the offset `at`.
    pub(super) fn float(
        &self,
        at: usize,
        attributes: &[Attribute<'_>],
    ) -> Result<Type<'t>, MetadataError> {
        let (mut exponent, mut mantissa) = (None, None);
        let (mut align, mut byte_order) = (None, None);
        for attribute in attributes {
            match attribute.key.as_ref() {
                "exp_dig" => self.set_once(&mut exponent, attribute, self.size(attribute)?)?,
                "mant_dig" => self.set_once(&mut mantissa, attribute, self.size(attribute)?)?,
                "align" => self.set_once(&mut align, attribute, self.align(attribute)?)?,
                "byte_order" => {
                    self.set_once(&mut byte_order, attribute, self.byte_order(attribute)?)?
                }
                _ => (),
            }
        }
        let (Some(exponent), Some(mantissa)) = (exponent, mantissa) else {
            let missing = if exponent.is_none() { "exp_dig" } else { "mant_dig" };
            return Err(self.error(at, format!("floating point number without `{missing}`")));
        };
        let size = exponent.saturating_add(mantissa);
        if !matches!(size, 16 | 32 | 64 | 80 | 128) {
            return Err(self
                .error(at, format!("floating point number of {size} bits"))
                .hint("`exp_dig` and `mant_dig` add up to 16, 32, 64, 80 or 128"));
        }
        let byte_order = byte_order.unwrap_or(self.byte_order);
        Ok(Type::Float(FloatClass {
            bits: bits(size as u32, align.unwrap_or(8), byte_order),
            exponent: exponent as u32,
            mantissa: mantissa as u32,
        }))
    }

    /// Reads the attributes of `string { … }`.
    pub(super) fn string(&self, attributes: &[Attribute<'_>]) -> Result<Type<'t>, MetadataError> {
        let mut encoding = None;
        for attribute in attributes {
            if attribute.key == "encoding" {
                self.set_once(&mut encoding, attribute, self.encoding(attribute)?)?;
            }
        }
        Ok(Type::String(encoding.flatten().unwrap_or_default()))
    }

    /// Sets the value of an attribute; fails if the value is already set.
    pub(super) fn set_once<T>(
        &self,
        slot: &mut Option<T>,
        attribute: &Attribute<'_>,
        value: T,
    ) -> Result<(), MetadataError> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => {
                Err(self.error(attribute.at, format!("`{}` for the 2nd time", attribute.key)))
            }
        }
    }

    /// Reads a number from 0 to `u64::MAX`.
    pub(super) fn unsigned(&self, attribute: &Attribute<'_>) -> Result<u64, MetadataError> {
        match &attribute.value {
            Value::Integer(value) => u64::try_from(*value).ok(),
            Value::Text(_) => None,
        }
        .ok_or_else(|| self.bad_value(attribute, "an unsigned integer"))
    }

    /// Reads a number from -2⁶⁴+1 to 2⁶⁴-1.
    pub(super) fn signed(&self, attribute: &Attribute<'_>) -> Result<i128, MetadataError> {
        match attribute.value {
            Value::Integer(value) => Ok(value),
            Value::Text(_) => Err(self.bad_value(attribute, "an integer")),
        }
    }

    pub(super) fn string_value<'a>(
        &self,
        attribute: &'a Attribute<'_>,
    ) -> Result<&'a str, MetadataError> {
        match &attribute.value {
            Value::Text(text) => Ok(text),
            Value::Integer(_) => Err(self.bad_value(attribute, "a string")),
        }
    }

    pub(super) fn uuid(&self, attribute: &Attribute<'_>) -> Result<Uuid, MetadataError> {
        self.string_value(attribute)?
            .parse()
            .map_err(|()| self.bad_value(attribute, "a UUID such as \"2a6422d0-…-cb07d7b3a564\""))
    }

    pub(super) fn truth(&self, attribute: &Attribute<'_>) -> Result<bool, MetadataError> {
        match &attribute.value {
            Value::Integer(value) => Ok(*value != 0),
            Value::Text(text) => match text.as_ref() {
                "true" | "TRUE" => Ok(true),
                "false" | "FALSE" => Ok(false),
                _ => Err(self.bad_value(attribute, "true or false")),
            },
        }
    }

    /// Reads a byte order; `native` stands for the trace's byte order.
    fn byte_order(&self, attribute: &Attribute<'_>) -> Result<ByteOrder, MetadataError> {
        match named_byte_order(&attribute.value) {
            Some(byte_order) => Ok(byte_order),
            None if attribute.value == Value::Text("native".into()) => Ok(self.byte_order),
            None => Err(self.bad_value(attribute, "be, le, network or native")),
        }
    }

    fn size(&self, attribute: &Attribute<'_>) -> Result<u64, MetadataError> {
        match self.unsigned(attribute)? {
            0 => Err(self.bad_value(attribute, "a positive integer")),
            size => Ok(size),
        }
    }

    fn align(&self, attribute: &Attribute<'_>) -> Result<u64, MetadataError> {
        match self.unsigned(attribute)? {
            align if align.is_power_of_two() => Ok(align),
            _ => Err(self.bad_value(attribute, "a power of two")),
        }
    }

    fn base(&self, attribute: &Attribute<'_>) -> Result<Base, MetadataError> {
        Ok(match &attribute.value {
            Value::Integer(2) => Base::Binary,
            Value::Integer(8) => Base::Octal,
            Value::Integer(10) => Base::Decimal,
            Value::Integer(16) => Base::Hexadecimal,
            Value::Integer(_) => return Err(self.bad_value(attribute, "2, 8, 10 or 16")),
            Value::Text(text) => match text.as_ref() {
                "decimal" | "dec" | "d" | "i" | "u" => Base::Decimal,
                "hexadecimal" | "hex" | "x" | "X" | "p" => Base::Hexadecimal,
                "octal" | "oct" | "o" => Base::Octal,
                "binary" | "b" => Base::Binary,
                _ => return Err(self.bad_value(attribute, "decimal, hex, octal or binary")),
            },
        })
    }

    fn encoding(&self, attribute: &Attribute<'_>) -> Result<Option<Encoding>, MetadataError> {
        match self.string_value(attribute)? {
            "none" => Ok(None),
            "UTF8" | "utf8" | "UTF-8" | "utf-8" => Ok(Some(Encoding::Utf8)),
            "ASCII" | "ascii" => Ok(Some(Encoding::Ascii)),
            _ => Err(self.bad_value(attribute, "none, UTF8 or ASCII")),
        }
    }

    /// Returns the index of the clock that the attribute value `clock.NAME.value` names.
    fn clock(&self, attribute: &Attribute<'_>) -> Result<usize, MetadataError> {
        let path = self.string_value(attribute)?;
        let name = path.strip_prefix("clock.").and_then(|rest| rest.strip_suffix(".value"));
        let Some(name) = name else {
            return Err(self.bad_value(attribute, "clock.NAME.value"));
        };
        self.clocks.get(name).copied().ok_or_else(|| {
            let message = format!("there is no clock `{}`", shortened(name));
            let error = self.error(attribute.value_at, message);
            did_you_mean(error, name, self.clocks.keys().map(String::as_str))
        })
    }

    pub(super) fn bad_value(&self, attribute: &Attribute<'_>, expected: &str) -> MetadataError {
        let value = match &attribute.value {
            Value::Integer(value) => value.to_string(),
            Value::Text(text) => format!("`{}`", shortened(text)),
        };
        let key = &attribute.key;
        self.error(attribute.value_at, format!("`{key}` is {value}, expected {expected}"))
    }
}

/// Returns the byte order that a word such as `le` names; `None` for `native` and any other value.
pub(super) fn named_byte_order(value: &Value<'_>) -> Option<ByteOrder> {
    match value {
        Value::Text(text) => match text.as_ref() {
            "be" | "network" => Some(ByteOrder::Big),
            "le" => Some(ByteOrder::Little),
            _ => None,
        },
        Value::Integer(_) => None,
    }
}
