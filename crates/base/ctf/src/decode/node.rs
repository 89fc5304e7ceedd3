//! What a consumer may want to know about a field, beside its value: prepared once, so that
//! consumers can keep their own tables by node id.

use std::sync::Arc;

use crate::schema::{Base, Encoding, IntKind, Mapping, Scope};

/// A field of an event class or packet context, as compiled.
#[derive(Debug)]
pub struct Node {
    /// Index in [`super::Decoder::nodes`].
    pub id: u32,
    /// The structure member's or the variant option's name; none for elements of arrays, contents
    /// of optionals, and scopes.
    pub name: Option<Box<str>>,
    /// The node that holds it; none for a scope's structure.
    pub parent: Option<u32>,
    /// The scope that it is in.
    pub scope: Scope,
    /// Whether it is the first visible member of its structure.
    pub first: bool,
    /// What it is.
    pub kind: NodeKind,
}

/// What a field is.
#[derive(Debug)]
pub enum NodeKind {
    /// A fixed-width integer.
    Int {
        /// How its bits are taken.
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
        /// Two's complement.
        signed: bool,
        /// Preferred base.
        base: Base,
        /// Labels.
        labels: Option<NodeLabels>,
    },
    /// A floating-point number.
    Float,
    /// A string, terminated or counted.
    String(Encoding),
    /// Bytes.
    Blob,
    /// Members follow.
    Struct,
    /// Elements follow.
    Array,
    /// Content follows, or not.
    Optional,
    /// The chosen option follows.
    Variant {
        /// Names by index of option.
        options: Vec<Option<Box<str>>>,
    },
}

/// The labels of an enumeration or the flags of a bit map.
#[derive(Clone, Debug)]
pub struct NodeLabels {
    mappings: Arc<[Mapping]>,
}

impl NodeLabels {
    pub(super) fn new(mappings: Arc<[Mapping]>) -> NodeLabels {
        NodeLabels { mappings }
    }

    /// The labels that `value` bears, in order of declaration.
    pub fn of(&self, value: i128) -> impl Iterator<Item = &str> {
        self.mappings
            .iter()
            .filter(move |mapping| mapping.ranges.contains(value))
            .map(|mapping| mapping.label.as_str())
    }

    /// The flags of which a bit is set in `value`.
    pub fn flags(&self, value: u64) -> impl Iterator<Item = &str> {
        self.mappings
            .iter()
            .filter(move |mapping| {
                (0..64).any(|bit| value >> bit & 1 == 1 && mapping.ranges.contains(bit))
            })
            .map(|mapping| mapping.label.as_str())
    }
}
