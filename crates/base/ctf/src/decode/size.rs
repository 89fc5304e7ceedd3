//! Upper bounds on the memory of a schema and the decoder compiled from it, piece by piece. Readers
//! of metadata count them against their [`crate::metadata::budget::Budget`] before they make a
//! piece.

use super::decoder::{Decoder, StreamDecoder};
use super::node::Node;
use super::op::{Branch, Op};
use super::program::Program;
use crate::metadata::budget::{allocation, table_entry};
use crate::schema::*;

/// A field class needs up to three ops: alignment, begin and end. A program with a plain form has
/// no alignment ops, and that form takes less memory than such an op.
const OPS: usize = 3 * size_of::<Op>();

/// A field class, without the parts counted below.
pub(crate) const CLASS: usize = size_of::<FieldClass>() + size_of::<Node>() + OPS;

/// An array or optional, apart from its own class and that of its content.
pub(crate) const BOX: usize = size_of::<OptionalClass>() - size_of::<FieldClass>() + 32;

/// A stream class, apart from its classes and names. Real traces have few, so the bound is
/// generous.
pub(crate) const STREAM: usize =
    size_of::<StreamClass>() + size_of::<StreamDecoder>() + size_of::<Decoder>() + 512;

/// An event class, apart from its classes and names.
pub(crate) const EVENT: usize =
    size_of::<EventClass>() + size_of::<Program>() + 2 * table_entry::<u64, u32>();

/// A member, apart from its class.
pub(crate) fn member(name: &str) -> usize {
    size_of::<String>() + 2 * allocation(name.len())
}

/// A variant's option, apart from its class.
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

/// A reference: its names, and the key of its slot, which repeats them.
pub(crate) fn reference(field: &FieldRef) -> usize {
    let names = field.path.iter().map(|name| size_of::<String>() + 2 * allocation(name.len()));
    table_entry::<String, u64>() + names.sum::<usize>()
}

/// The part of the common context that each event's program repeats.
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
