//! The position of a field in the schema that is being written: the compound classes around it.

use crate::schema::{StructClass, VariantClass};
use std::collections::HashMap;
use std::rc::Rc;

/// A structure or variant that is being written.
pub(super) enum Frame<'s> {
    Struct { class: &'s StructClass, names: Rc<Names>, index: usize },
    Variant { class: &'s VariantClass, index: usize },
}

impl Frame<'_> {
    /// Name that the current member adds to a path.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Frame::Struct { class, index, .. } => {
                class.members.get(*index).map(|member| member.name.as_str())
            }
            Frame::Variant { .. } => None,
        }
    }
}

/// The names of a structure's members.
pub(super) struct Names {
    /// Written names, in order.
    pub(super) written: Vec<String>,
    /// Index by written name.
    pub(super) by_written: HashMap<String, usize>,
    /// Index by display name.
    pub(super) by_display: HashMap<String, usize>,
}
