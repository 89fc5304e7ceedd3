//! Description of a field for consumers. A field has one node, so consumers can keep tables by node
//! id.

use std::sync::Arc;

use crate::schema::{Base, Encoding, IntKind, Mapping, Scope};

/// A visible field of an event class or packet context.
#[derive(Debug)]
pub struct Node {
    /// Index in [`super::Decoder::nodes`].
    pub id: u32,
    /// Name of the structure member or variant option; `None` for elements of arrays, contents of
    /// optionals, and scopes.
    pub name: Option<Box<str>>,
    /// Id of the enclosing node; `None` for a scope's structure.
    pub parent: Option<u32>,
    /// Scope of the field.
    pub scope: Scope,
    /// Whether the field is the first visible member of its structure.
    pub first: bool,
    /// Kind of the field.
    pub kind: NodeKind,
}

/// Kind of a field.
#[derive(Debug)]
pub enum NodeKind {
    /// A fixed-width integer.
    Int {
        /// Interpretation of the bits.
        kind: IntKind,
        /// Width in bits.
        size: u32,
        /// Preferred base.
        base: Base,
        /// Labels.
        labels: Option<NodeLabels>,
    },
    /// A variable-length integer; at most 64 significant bits.
    VarInt {
        /// Whether the integer is signed (two's complement).
        signed: bool,
        /// Preferred base.
        base: Base,
        /// Labels.
        labels: Option<NodeLabels>,
    },
    /// A floating-point number.
    Float,
    /// A string: null-terminated, or with a length.
    String(Encoding),
    /// A byte string.
    Blob,
    /// A structure; its members follow.
    Struct,
    /// An array; its elements follow.
    Array,
    /// An optional; its content follows, if present.
    Optional,
    /// A variant; its selected option follows.
    Variant {
        /// Names of the options, by index in the schema; `None` for an option without a name.
        options: Vec<Option<Box<str>>>,
    },
}

/// Labels of an enumeration, or flags of a bit map.
#[derive(Clone, Debug)]
pub struct NodeLabels {
    mappings: Arc<[Mapping]>,
}

impl NodeLabels {
    pub(super) fn new(mappings: Arc<[Mapping]>) -> NodeLabels {
        NodeLabels { mappings }
    }

    /// Returns the labels of `value`, in order of declaration.
    pub fn of(&self, value: i128) -> impl Iterator<Item = &str> {
        self.mappings
            .iter()
            .filter(move |mapping| mapping.ranges.contains(value))
            .map(|mapping| mapping.label.as_str())
    }

    /// Returns the flags that have a bit set in `value`, in order of declaration.
    pub fn flags(&self, value: u64) -> impl Iterator<Item = &str> {
        self.mappings
            .iter()
            .filter(move |mapping| {
                (0..64).any(|bit| value >> bit & 1 == 1 && mapping.ranges.contains(bit))
            })
            .map(|mapping| mapping.label.as_str())
    }
}
