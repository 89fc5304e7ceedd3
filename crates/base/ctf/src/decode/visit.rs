//! The receiving end of a walk over fields.

use super::node::Node;
use crate::schema::Scope;

/// Receives the visible fields of an event or packet context, in order.
///
/// Every `begin_…` is followed by its `end_…`. Strings and blobs borrow the packet's bytes. What a
/// visitor has no method for, it ignores.
#[allow(unused_variables, reason = "the names are for whoever writes a visitor")]
pub trait Visitor {
    /// Whether values are wanted at all; without, whole runs of fields are skipped in one step.
    const WANTED: bool = true;

    /// The event is visited again from its first field, because not all of its bytes were at
    /// hand: forget what came since. Rare.
    fn restart(&mut self);
    /// A scope starts; `node` is its structure, whose members follow.
    fn begin_scope(&mut self, scope: Scope, node: &Node) {}
    /// The scope ends.
    fn end_scope(&mut self, scope: Scope) {}
    /// A structure's members follow.
    fn begin_struct(&mut self, node: &Node) {}
    /// The structure ends.
    fn end_struct(&mut self, node: &Node) {}
    /// `length` elements follow.
    fn begin_array(&mut self, node: &Node, length: u64) {}
    /// The array ends.
    fn end_array(&mut self, node: &Node) {}
    /// The content follows, if it is present.
    fn begin_optional(&mut self, node: &Node, present: bool) {}
    /// The optional ends.
    fn end_optional(&mut self, node: &Node) {}
    /// The option of index `option` follows.
    fn begin_variant(&mut self, node: &Node, option: usize) {}
    /// The variant ends.
    fn end_variant(&mut self, node: &Node) {}
    /// Any integer that is not signed: unsigned, boolean, bits.
    fn unsigned(&mut self, node: &Node, value: u64) {}
    /// A signed integer.
    fn signed(&mut self, node: &Node, value: i64) {}
    /// A floating-point number.
    fn float(&mut self, node: &Node, value: f64) {}
    /// A string in the node's encoding, without terminator; not checked for validity.
    fn string(&mut self, node: &Node, value: &[u8]) {}
    /// Bytes.
    fn blob(&mut self, node: &Node, value: &[u8]) {}
}

/// Wants nothing: used to find out where an event ends.
#[derive(Debug)]
pub struct Nothing;

impl Visitor for Nothing {
    const WANTED: bool = false;

    fn restart(&mut self) {}
}
