//! CTF 2's metadata language, a JSON text sequence, read into and written from a [`Schema`].
//!
//! Start at `read` (fragments, one after the other) and `classes` (field classes); `places`
//! resolves field locations. The way back is `write` and `write_classes`.

mod classes;
mod clocks;
mod json;
mod object;
mod places;
mod print;
mod properties;
mod ranges;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod value;
mod words;
mod write;
mod write_classes;

use crate::metadata::error::MetadataError;
use crate::schema::Schema;

/// Parses a JSON text sequence: fragments, each after a record separator (0x1E).
///
/// Follows CTF2-SPEC-2.0, and takes what its release candidates wrote differently. What the
/// specification lets a consumer ignore (attributes, properties and roles without a meaning where
/// they stand) is ignored. Also:
///
/// - integers of more than 64 bits become blobs, if they are byte-aligned (with an alignment of
///   more than a byte, an array of one blob);
/// - environment integers beyond `i64` become text;
/// - timestamps bear the index of their stream's clock in [`IntClass::clock`];
/// - the schema's byte order is the magic number's, else the first fixed-length field's.
///
/// Errors point at their fragment (counted from 1) and name the way to the property inside it.
///
/// [`IntClass::clock`]: crate::schema::IntClass::clock
pub fn parse(text: &str) -> Result<Schema, MetadataError> {
    read::parse(text)
}

/// Writes a schema as a JSON text sequence.
///
/// Reading it again gives an equal schema, but for the version and what CTF 2 cannot say:
///
/// - an integer's clock, unless it is a timestamp of the stream's clock; a clock's UUID (it
///   becomes the unique id beside the clock's name, where the clock has no other identity);
/// - the cycles of a clock's offset are brought below the frequency, its seconds take the rest;
/// - a label that maps twice becomes one label with all ranges; ranges are cut to what 64 bits
///   hold, and variant options to what no earlier option takes; options that cannot be chosen are
///   left out;
/// - ASCII becomes UTF-8, and floating-point numbers of other than IEEE 754's formats become bits;
/// - booleans, bit arrays and bit maps have no preferred base, and a minimum alignment of 0 is 1;
/// - roles that CTF 2 does not allow: timestamps without a clock, a magic number that does not
///   come first or has not 32 bits, a UUID field without the trace's UUID. Signed integers with a
///   role become unsigned;
/// - the trace's byte order, where its fields have another.
///
/// Structures nested deeper than about 40 levels are more than the reader's JSON limit.
pub fn write(schema: &Schema) -> String {
    write::write(schema)
}
