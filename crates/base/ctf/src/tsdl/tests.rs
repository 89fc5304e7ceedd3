//! Tests of small TSDL texts and their schemas, in a short notation made by [`show`]. `u8` is an
//! integer, `@16` its alignment unless it is 8, and `be` its byte order unless it is the trace's
//! little-endian. `x`, `o` or `b` is its base unless it is 10, `{A=0..3}` its labels, `#0` its
//! clock and `!Magic` its roles. [`parse_and_write`] also writes each parsed schema, and checks
//! that the written text parses to an equal schema.

mod blocks;
mod fields;
mod real;
mod references;
mod writing;

use super::{parse, write};
use crate::metadata::MetadataError;
use crate::schema::{
    Base, Bits, ByteOrder, FieldClass, FieldRef, IntKind, Length, Mapping, Ranges, Roles, Schema,
};

const TRACE: &str = "trace { major = 1; minor = 8; byte_order = le; };";

/// Parses a text, and checks that the written schema parses to an equal one.
fn parse_and_write(text: &str) -> Result<Schema, MetadataError> {
    let schema = parse(text)?;
    let written = write(&schema).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match parse(&written) {
        Ok(again) => assert_eq!(again, schema, "written as {written}"),
        Err(error) => panic!("{error}\nin {written}"),
    }
    Ok(schema)
}

/// Returns the class of an event's payload in the notation of [`show`], or the error. `before` is
/// TSDL text before the event. The class `fields` starts on line 2.
fn payload(before: &str, fields: &str) -> Result<String, MetadataError> {
    let text = format!("{TRACE} {before} event {{ name = e; fields :=\n{fields}; }};");
    let schema = parse_and_write(&text)?;
    Ok(show(schema.streams[0].events[0].payload.as_ref().unwrap()))
}

/// Formats an error's message with line, column and hint.
fn located(error: MetadataError) -> String {
    let (line, column) = error.position.unwrap();
    let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{line}:{column} {}{hint}", error.message)
}

/// Checks the fields of a structure, each as `name: class`.
#[track_caller]
fn check_fields(fields: &str, expected: &str) {
    let found = payload("", &format!("struct {{\n{fields}\n}}")).unwrap();
    assert_eq!(found, format!("{{{expected}}}"));
}

/// Checks the error for a structure's fields, which are on line 3.
#[track_caller]
fn check_error(fields: &str, expected: &str) {
    assert_eq!(located(payload("", &format!("struct {{\n{fields}\n}}")).unwrap_err()), expected);
}

fn show(class: &FieldClass) -> String {
    match class {
        FieldClass::Int(int) => {
            let kind = match int.kind {
                IntKind::Unsigned => "u",
                IntKind::Signed => "i",
                other => panic!("{other:?} in CTF 1.8"),
            };
            let base = match int.base {
                Base::Binary => "b",
                Base::Octal => "o",
                Base::Decimal => "",
                Base::Hexadecimal => "x",
            };
            let labels = int.mappings.as_deref().map(show_mappings).unwrap_or_default();
            let clock = int.clock.map(|clock| format!("#{clock}")).unwrap_or_default();
            format!("{kind}{}{base}{labels}{clock}{}", show_bits(&int.bits), show_roles(int.roles))
        }
        FieldClass::Float(float) => {
            assert_eq!(float.bits.size, float.exponent + float.mantissa);
            format!("f{}({})", show_bits(&float.bits), float.exponent)
        }
        FieldClass::String(string) => format!("string({:?})", string.encoding),
        FieldClass::Text(text) => format!("[{}]{:?}", show_length(&text.length), text.encoding),
        FieldClass::Blob(blob) => {
            format!("[{}]byte{}", show_length(&blob.length), show_roles(blob.roles))
        }
        FieldClass::Struct(structure) => {
            let members = structure.members.iter();
            let members: Vec<String> =
                members.map(|member| format!("{}: {}", member.name, show(&member.class))).collect();
            let align = match structure.align {
                1 => String::new(),
                align => format!("@{align}"),
            };
            format!("{{{}}}{align}", members.join(", "))
        }
        FieldClass::Array(array) => {
            format!("[{}]{}", show_length(&array.length), show(&array.element))
        }
        FieldClass::Variant(variant) => {
            let options = variant.options.iter();
            let options: Vec<String> = options
                .map(|option| {
                    let name = option.name.as_deref().unwrap();
                    format!("{name}={}: {}", show_ranges(&option.ranges), show(&option.class))
                })
                .collect();
            format!("<{}>({})", show_field(&variant.selector), options.join(", "))
        }
        FieldClass::VarInt(_) | FieldClass::Optional(_) => panic!("{class:?} in CTF 1.8"),
    }
}

fn show_bits(bits: &Bits) -> String {
    assert_eq!(bits.bit_order, bits.byte_order.usual_bit_order());
    let order = if bits.byte_order == ByteOrder::Big { "be" } else { "" };
    match bits.align {
        8 => format!("{}{order}", bits.size),
        align => format!("{}@{align}{order}", bits.size),
    }
}

fn show_mappings(mappings: &[Mapping]) -> String {
    let labels = mappings.iter();
    let labels: Vec<String> = labels
        .map(|mapping| format!("{}={}", mapping.label, show_ranges(&mapping.ranges)))
        .collect();
    format!("{{{}}}", labels.join(" "))
}

fn show_ranges(ranges: &Ranges) -> String {
    let ranges = ranges.0.iter();
    let ranges: Vec<String> = ranges
        .map(|(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}..{high}"),
        })
        .collect();
    ranges.join("|")
}

fn show_length(length: &Length) -> String {
    match length {
        Length::Static(length) => length.to_string(),
        Length::Dynamic(field) => show_field(field),
    }
}

/// Formats a reference as two letters for its scope and the path, such as `ef.n`.
fn show_field(field: &FieldRef) -> String {
    let scope = ["ph", "pc", "eh", "ec", "es", "ef"][field.scope as usize];
    format!("{scope}.{}", field.path.join("."))
}

fn show_roles(roles: Roles) -> String {
    let names = format!("{roles:?}").replace(['{', '}'], "").replace(", ", "!");
    if names.is_empty() { names } else { format!("!{names}") }
}
