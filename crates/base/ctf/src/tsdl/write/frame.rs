//! The position of the writer in the schema: the stack of compound classes around the current
//! field.

use crate::schema::{StructClass, VariantClass};
use std::collections::HashMap;
use std::rc::Rc;

/// A structure or variant around the current field, with the index of its current member or option.
pub(super) enum Frame<'s> {
    Struct { class: &'s StructClass, names: Rc<Names>, index: usize },
    Variant { class: &'s VariantClass, index: usize },
}

impl Frame<'_> {
    /// Returns the display name that the current member adds to a path; `None` for a variant.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Frame::Struct { class, index, .. } => {
                class.members.get(*index).map(|member| member.name.as_str())
            }
            Frame::Variant { .. } => None,
        }
    }
}

/// The names of a structure's members, with their written and display forms.
pub(super) struct Names {
    /// Written names, in the order of the members.
    pub(super) written: Vec<String>,
    /// Index of each member, by written name.
    pub(super) by_written: HashMap<String, usize>,
    /// Index of each member, by display name.
    pub(super) by_display: HashMap<String, usize>,
}
