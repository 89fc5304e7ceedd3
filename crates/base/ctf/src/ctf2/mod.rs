//! Parsing and writing of CTF 2's metadata language, a JSON text sequence.
//!
//! Start at `read` (fragments in sequence) and `classes` (field classes); `field_tree` resolves
//! field locations. The writers are `write` and `write_classes`.

mod classes;
mod clocks;
mod field_tree;
mod json;
mod object;
mod print;
mod properties;
mod range_set;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod value;
mod vocabulary;
mod write;
mod write_classes;

use crate::metadata::error::MetadataError;
use crate::schema::Schema;

/// Parses a JSON text sequence: fragments, each after a record separator (0x1E).
///
/// Follows CTF2-SPEC-2.0, and accepts the deviations of its release candidates. Ignores all parts
/// that the specification lets a consumer ignore (attributes except log levels and EMF URIs,
/// properties and roles without a meaning at their position). In addition:
///
/// - integers of more than 64 bits become blobs, if they are byte-aligned (with an alignment of
///   more than a byte, an array of one blob);
/// - environment integers beyond `i64` become text;
/// - fixed-length timestamps have the index of their stream's clock in [`IntClass::clock`];
/// - the schema's byte order is the magic number's, else the first fixed-length field's, else
///   little-endian.
///
/// Errors state their fragment (counted from 1) and the path to the property inside it.
///
/// [`IntClass::clock`]: crate::schema::IntClass::clock
pub fn parse(text: &str) -> Result<Schema, MetadataError> {
    read::parse(text)
}

/// Writes a schema as a JSON text sequence.
///
/// Parsing the text again yields an equal schema, except for the version and for properties that
/// CTF 2 cannot express:
///
/// - an integer's clock is lost, unless the integer is a timestamp of the stream's clock;
/// - a clock's UUID becomes the unique id next to the clock's name, if the clock has no other
///   identity;
/// - the cycles of a clock's offset are reduced to a value from 0 to below the frequency, and its
///   seconds adjusted accordingly;
/// - a label that occurs several times becomes one label with all ranges;
/// - ranges are limited to 64 bits, and variant options to values that no earlier option has;
///   options that cannot be selected are left out, and a variant or optional that cannot have
///   content becomes an empty structure;
/// - ASCII becomes UTF-8, and floating-point numbers in formats other than those of IEEE 754 become
///   bits;
/// - booleans, bit arrays and bit maps lose their preferred base, a bit map without flags becomes a
///   bit array, and a minimum alignment of 0 becomes 1;
/// - roles that CTF 2 does not allow are lost: timestamps without a clock, a magic number that is
///   not the first field or does not have 32 bits, a UUID field without the trace's UUID;
/// - signed integers with a role become unsigned;
/// - the trace's byte order is lost, if the fields have another one.
///
/// Structures nested deeper than about 40 levels exceed the reader's JSON limit.
pub fn write(schema: &Schema) -> String {
    write::write(schema)
}
