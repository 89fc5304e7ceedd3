//! Tests of reading and writing CTF 2's metadata. Each test file covers one subject; the helpers
//! here hide the API from the test cases.

mod classes;
mod fragments;
mod locations;
pub(crate) mod random;
mod round_trips;

use super::{parse, write};
use crate::metadata::MetadataError;
use crate::schema::*;

const PREAMBLE: &str = r#"{"type": "preamble", "version": 2}"#;
const STREAM: &str = r#"{"type": "data-stream-class"}"#;

/// Joins fragments to a JSON text sequence.
fn sequence(fragments: &[&str]) -> String {
    fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect()
}

fn parse_fragments(fragments: &[&str]) -> Result<Schema, MetadataError> {
    parse(&sequence(fragments))
}

/// Returns the message and the hint of the error that `fragments` cause.
fn error(fragments: &[&str]) -> String {
    match parse_fragments(fragments) {
        Ok(schema) => panic!("no error: {schema:?}"),
        Err(MetadataError { message, hint: Some(hint), .. }) => format!("{message} ({hint})"),
        Err(MetadataError { message, hint: None, .. }) => message,
    }
}

#[track_caller]
fn check_error(fragments: &[&str], expected: &str) {
    assert_eq!(error(fragments), expected);
}

/// Makes an event record class whose payload has `members` (JSON objects, with commas between
/// them).
fn event(members: &str) -> String {
    let payload = format!(r#"{{"type": "structure", "member-classes": [{members}]}}"#);
    format!(r#"{{"type": "event-record-class", "payload-field-class": {payload}}}"#)
}

/// Parses `members` as the payload of an event, and returns the members of the parsed payload.
fn payload(members: &str) -> Result<Vec<Member>, MetadataError> {
    let schema = parse_fragments(&[PREAMBLE, STREAM, &event(members)])?;
    match &schema.streams[0].events[0].payload {
        Some(FieldClass::Struct(structure)) => Ok(structure.members.clone()),
        other => panic!("not a structure: {other:?}"),
    }
}

fn member(name: &str, class: FieldClass) -> Member {
    Member { name: name.to_owned(), class }
}

fn bits(size: u32, align: u64, byte_order: ByteOrder) -> Bits {
    Bits { size, align, byte_order, bit_order: byte_order.usual_bit_order() }
}

/// Makes the class of a little-endian unsigned integer of `size` bits.
fn unsigned(size: u32) -> IntClass {
    IntClass {
        bits: bits(size, 1, ByteOrder::Little),
        kind: IntKind::Unsigned,
        base: Base::Decimal,
        mappings: None,
        roles: Roles::NONE,
        clock: None,
    }
}

fn int(int: IntClass) -> FieldClass {
    FieldClass::Int(int)
}

fn blob(length: Length) -> BlobClass {
    BlobClass { length, media_type: None, roles: Roles::NONE }
}

fn field_ref(scope: Scope, path: &str) -> FieldRef {
    FieldRef { scope, path: path.split('.').map(str::to_owned).collect() }
}

fn mapping(label: &str, ranges: &[(i128, i128)]) -> Mapping {
    Mapping { label: label.to_owned(), ranges: Ranges(ranges.to_vec()) }
}

fn structure(members: Vec<Member>) -> FieldClass {
    FieldClass::Struct(StructClass { members, align: 1 })
}

fn event_class(id: u64) -> EventClass {
    EventClass { id, ..EventClass::default() }
}

fn clock(name: &str) -> Clock {
    Clock { name: name.to_owned(), ..Clock::default() }
}
