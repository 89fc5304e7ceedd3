//! Upper bounds on the memory of each part of a schema and of the decoder compiled from it. Readers
//! of metadata count a part against their [`crate::metadata::budget::Budget`] before they allocate
//! the part.

use super::decoder::{Decoder, StreamDecoder};
use super::node::Node;
use super::op::{Branch, Op};
use super::program::Program;
use crate::metadata::budget::{allocation, table_entry};
use crate::schema::*;

/// Memory of the ops of one field class, in bytes: up to three ops. A structure has alignment,
/// begin and end; an integer has alignment, run and the integer itself. The plain form of a program
/// needs no extra bytes: such a program has an alignment op at its start only, and a field's plain
/// form is smaller than an alignment op.
const OPS: usize = 3 * size_of::<Op>();

/// Memory of any field class in bytes, without members, options, labels and references.
pub(crate) const CLASS: usize = size_of::<FieldClass>() + size_of::<Node>() + OPS;

/// Additional memory of an array or optional, in bytes, apart from its own class and the class of
/// its content.
pub(crate) const BOX: usize = size_of::<OptionalClass>() - size_of::<FieldClass>() + 32;

/// Memory of a stream class in bytes, apart from its field classes and names. The bound is
/// generous, because real traces have few stream classes.
pub(crate) const STREAM: usize =
    size_of::<StreamClass>() + size_of::<StreamDecoder>() + size_of::<Decoder>() + 512;

/// Memory of an event class in bytes, apart from its field classes and names.
pub(crate) const EVENT: usize =
    size_of::<EventClass>() + size_of::<Program>() + 2 * table_entry::<u64, u32>();

/// Returns the memory of a structure member in bytes, apart from its class.
pub(crate) fn member(name: &str) -> usize {
    size_of::<String>() + 2 * allocation(name.len())
}

/// Returns the memory of a variant's option in bytes, apart from its class.
pub(crate) fn option(name: &str, ranges: &Ranges) -> usize {
    size_of::<(String, Ranges, Branch)>() + member(name) + 2 * self::ranges(ranges.0.len())
}

/// Returns the memory of a label with `ranges` ranges, in bytes.
pub(crate) fn mapping(label: &str, ranges: usize) -> usize {
    size_of::<Mapping>() + allocation(label.len()) + self::ranges(ranges)
}

/// Returns the memory of `count` ranges of a selector or label, in bytes.
pub(crate) fn ranges(count: usize) -> usize {
    allocation(count * size_of::<(i128, i128)>())
}

/// Returns the memory of a reference in bytes: its names, and the key of its slot, which repeats
/// the names.
pub(crate) fn reference(field: &FieldRef) -> usize {
    let names = field.path.iter().map(|name| size_of::<String>() + 2 * allocation(name.len()));
    table_entry::<String, u64>() + names.sum::<usize>()
}

/// Returns the memory of the common context's ops, in bytes. The program of each event class has a
/// copy of these ops.
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
