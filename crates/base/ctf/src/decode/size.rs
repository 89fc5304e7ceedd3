//! What a schema takes in memory together with the decoder that is made of it, piece by piece and
//! at most: readers of metadata hold it against their [`crate::metadata::budget::Budget`] before
//! they make the piece.

use super::decoder::{Decoder, StreamDecoder};
use super::node::Node;
use super::op::{Branch, Op};
use super::program::Program;
use crate::metadata::budget::{allocation, table_entry};
use crate::schema::*;

/// A field class needs up to three ops: it is aligned, begins and ends. Where a program has a short
/// form there is no aligning, and that form takes less than the op would.
const OPS: usize = 3 * size_of::<Op>();

/// A field class, beside what follows.
pub(crate) const CLASS: usize = size_of::<FieldClass>() + size_of::<Node>() + OPS;

/// An array or optional, beside its own class and that of its content.
pub(crate) const BOX: usize = size_of::<OptionalClass>() - size_of::<FieldClass>() + 32;

/// A stream class, beside its classes and names. Few of them are real, so their price is high.
pub(crate) const STREAM: usize =
    size_of::<StreamClass>() + size_of::<StreamDecoder>() + size_of::<Decoder>() + 512;

/// An event class, beside its classes and names.
pub(crate) const EVENT: usize =
    size_of::<EventClass>() + size_of::<Program>() + 2 * table_entry::<u64, u32>();

/// A member beside its class.
pub(crate) fn member(name: &str) -> usize {
    size_of::<String>() + 2 * allocation(name.len())
}

/// A variant's option beside its class.
pub(crate) fn option(name: &str, ranges: &Ranges) -> usize {
    size_of::<(String, Ranges, Branch)>() + member(name) + 2 * self::ranges(ranges.0.len())
}

/// A label with its ranges.
pub(crate) fn mapping(label: &str, ranges: usize) -> usize {
    size_of::<Mapping>() + allocation(label.len()) + self::ranges(ranges)
}

/// Ranges of selectors or labels.
pub(crate) fn ranges(count: usize) -> usize {
    allocation(count * size_of::<(i128, i128)>())
}

/// A reference: it has names, and they make the key of a slot.
pub(crate) fn reference(field: &FieldRef) -> usize {
    let names = field.path.iter().map(|name| size_of::<String>() + 2 * allocation(name.len()));
    table_entry::<String, u64>() + names.sum::<usize>()
}

/// What the program of each event repeats of the common context.
pub(crate) fn common_context(class: &FieldClass) -> usize {
    match class {
        FieldClass::Struct(structure) => {
            let members = structure.members.iter();
            OPS + members.map(|member| common_context(&member.class)).sum::<usize>()
        }
        FieldClass::Array(array) => OPS + common_context(&array.element),
        FieldClass::Optional(optional) => {
            let count = optional.ranges.as_ref().map_or(1, |ranges| ranges.0.len());
            OPS + ranges(count) + common_context(&optional.content)
        }
        FieldClass::Variant(variant) => {
            let options = variant.options.iter().map(|option| {
                let branch = size_of::<Branch>() + ranges(option.ranges.0.len());
                branch + common_context(&option.class)
            });
            OPS + options.sum::<usize>()
        }
        _ => OPS,
    }
}
