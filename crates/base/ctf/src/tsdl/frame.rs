//! The position of a field during expansion: the stack of compound types around it.

use super::types::StructType;
use std::rc::Rc;

/// A compound type during its expansion, with the position in it.
pub(super) struct Frame<'t> {
    pub(super) level: Level<'t>,
    /// Index of the member or option under expansion; 0 in arrays.
    pub(super) index: usize,
}

pub(super) enum Level<'t> {
    Struct(Rc<StructType<'t>>),
    Variant,
    Array,
}

/// Purpose of a reference to a field: the length of an array, or the tag of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Length,
    Tag,
}

impl Purpose {
    pub(super) fn name(self) -> &'static str {
        match self {
            Purpose::Length => "length",
            Purpose::Tag => "tag",
        }
    }
}
