//! Description of the visible fields for consumers. Each field has exactly one node, so consumers
//! can keep tables by node id.

use std::sync::Arc;

use crate::schema::{Base, Encoding, IntKind, Mapping, Scope};

/// A visible field of an event class or packet context.
#[derive(Debug)]
pub struct Node {
    /// Index of this node in [`super::Decoder::nodes`].
    pub id: u32,
    /// Name of the structure member or variant option; `None` for an option without a name,
    /// elements of arrays, contents of optionals, and scopes.
    pub name: Option<Box<str>>,
    /// Id of the enclosing node; `None` for a scope's structure.
    pub parent: Option<u32>,
    /// Part of the packet or event in which the field is.
    pub scope: Scope,
    /// True if the field is the first visible member of its structure.
    pub first: bool,
    /// Type of the field's value, with the properties for its display.
    pub kind: NodeKind,
}

/// Type of a field's value, with the properties for its display.
#[derive(Debug)]
pub enum NodeKind {
    /// A fixed-width integer, enumeration, boolean, bit array or bit map.
    Int {
        /// Interpretation of the bits: unsigned, signed, boolean, bit array or bit map.
        kind: IntKind,
        /// Width in bits.
        size: u32,
        /// Preferred base for the display of the value, from the metadata.
        base: Base,
        /// Labels of the values, or flags of a bit map; `None` if the class has none.
        labels: Option<NodeLabels>,
    },
    /// A variable-length integer; at most 64 significant bits.
    VarInt {
        /// True if the integer is signed (two's complement).
        signed: bool,
        /// Preferred base for the display of the value, from the metadata.
        base: Base,
        /// Labels of the values; `None` if the class has none.
        labels: Option<NodeLabels>,
    },
    /// A floating-point number of any width, which visitors receive as `f64`.
    Float,
    /// A string in this encoding: null-terminated, or with a length.
    String(Encoding),
    /// A string of bytes without further meaning.
    Blob,
    /// A structure; its visible members are child nodes.
    Struct,
    /// An array; its element is a child node.
    Array,
    /// An optional; its content, if visible, is a child node.
    Optional,
    /// A variant; all its options are child nodes, in the order of the schema.
    Variant {
        /// Names of the options, by index in the schema; `None` for an option without a name.
        options: Vec<Option<Box<str>>>,
    },
}

/// Labels of an enumeration by value, or flags of a bit map by bit index.
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
