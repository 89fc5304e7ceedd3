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
/// - integers of more than 64 bits become blobs, if length and alignment are multiples of 8 bits
///   (with an alignment of more than a byte, arrays of one blob); otherwise they are an error;
/// - environment integers beyond `i64` become text;
/// - fixed-length timestamps have the index of their stream's clock in [`IntClass::clock`];
/// - the schema's byte order is the magic number's, else the first fixed-length field's, else
///   little-endian.
///
/// An error in a fragment states the fragment's number (from 1), and after the parsing of its JSON
/// also the path to the faulty property.
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
///   identity, and is lost otherwise;
/// - the cycles of a clock's offset are reduced to a value from 0 to below the frequency, and its
///   seconds adjusted accordingly, unless the result exceeds 64 bits;
/// - a label that occurs several times becomes one label with all ranges;
/// - ranges are limited to 64 bits, and variant options to values that no earlier option has;
///   labels and options without such values are left out, and a variant or optional that cannot
///   have content becomes an empty structure;
/// - ASCII becomes UTF-8, and floating-point numbers in formats other than those of IEEE 754 become
///   bit arrays, blobs, or arrays of these;
/// - booleans, bit arrays and bit maps lose their preferred base, a bit map without flags becomes a
///   bit array, and a minimum alignment of 0 becomes 1;
/// - roles that CTF 2 does not allow are lost: timestamps without a clock or in event contexts and
///   payloads, a magic number that is not the first field or does not have 32 bits, a UUID field
///   without the trace's UUID;
/// - signed integers with a role become unsigned;
/// - the trace's byte order becomes that of the first fixed-length field, else little-endian.
///
/// Structures nested deeper than about 40 levels exceed the reader's JSON limit.
pub fn write(schema: &Schema) -> String {
    write::write(schema)
}
